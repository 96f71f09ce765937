"""One pane in an app of its own."""

from __future__ import annotations

from textual.app import App, ComposeResult

from tests.support.waiting import settle
from tui.panes.base import Pane
from tui.textual_private import screen_text

WIDE = (200, 20)


class PaneApp(App[None]):
    """One pane alone."""

    def __init__(self, pane: Pane) -> None:
        super().__init__()
        self.pane = pane
        self.entered: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_pane_entered(self, event: Pane.Entered) -> None:
        self.entered.append(event.line)


async def text_of(pane: Pane, *, size: tuple[int, int] = WIDE, points_at: str = "") -> str:
    """Return the text that a pane shows when it has looked at its sources, or at what it is pointed at."""
    app = PaneApp(pane)
    async with app.run_test(size=size) as pilot:
        if points_at:
            pane.show_target(points_at)
        else:
            pane.refresh_data()
        await settle(pilot)
        return screen_text(app)
