"""The verbs that only change what is on screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.modals.viewer import Viewer
from tui.present.help import help_page
from tui.screens.carrier import Verb
from tui.screens.hands import ScreenHands
from tui.screens.workspace import Workspace


class ViewVerbs:
    """Panes, filters, layouts, help.

    Args:
        workspace: The panes.
        desk: What they look at.
        hands: The app's doing.
    """

    def __init__(self, workspace: Workspace, desk: Desk, hands: ScreenHands) -> None:
        self._workspace = workspace
        self._desk = desk
        self._hands = hands

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {
            "open": self._open,
            "filter": self._filter,
            "sort": self._sort,
            "layout": self._layout,
            "chart": self._chart,
            "zoom": _plain(self._workspace.zoom),
            "focus": self._focus,
            "screenshot": self._screenshot,
            "back": _plain(self._back),
            "help": self._help,
            "quit": _plain(self._hands.leave),
        }

    async def _open(self, arguments: registry.Open) -> None:
        self._workspace.open(arguments.pane, arguments.of)

    async def _filter(self, arguments: registry.Filter) -> None:
        self._workspace.current.narrow(arguments.text)

    async def _sort(self, arguments: registry.Sort) -> None:
        self._workspace.current.order(arguments.column, descending=arguments.descending)

    async def _chart(self, arguments: registry.Chart) -> None:
        from tui.panes.charts import ChartsPane

        pane = self._workspace.pane("charts")
        if isinstance(pane, ChartsPane):
            pane.choose(arguments.metric)

    async def _layout(self, arguments: registry.Layout) -> None:
        self._workspace.arrange(arguments.name)

    async def _focus(self, arguments: registry.Focus) -> None:
        self._workspace.focus(arguments.pane)

    async def _screenshot(self, arguments: registry.Screenshot) -> None:
        self._hands.save(Path(arguments.file))
        self._hands.say(f"Saved {arguments.file}.")

    async def _help(self, _arguments: registry.Nothing) -> None:
        self._hands.show(Viewer("help", help_page(self._workspace.current.CONTEXT, self._desk.settings.keymap)))

    def _back(self) -> None:
        if not self._hands.leave_front():
            self._workspace.back()


def _plain(act: Callable[[], object]) -> Callable[[registry.Nothing], Awaitable[None]]:
    async def verb(_arguments: registry.Nothing) -> None:
        act()

    return verb
