"""The row above a lone pane that names the panes behind it."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.present.cells import Span, Tone, width_of
from tui.widgets.stripes import StripWidget


class SplitTabs(StripWidget):
    """Names of panes; the visible one in brackets, so that it shows without colour."""

    DEFAULT_CSS = "SplitTabs { height: 1; width: 1fr; }"

    @dataclass
    class Chosen(Message):
        """A name was clicked."""

        key: str

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[tuple[str, Span]] = []

    def show(self, keys: tuple[str, ...], current: str, *, is_zoomed: bool) -> None:
        """Name `keys`; the row ends with how to get the others back when zoomed."""
        self._spans = [
            (key, Span(f"[{key}]", Tone.ACCENT) if key == current else Span(f" {key} ", Tone.MUTED)) for key in keys
        ]
        if is_zoomed:
            self._spans.append(("", Span("  zoomed", Tone.MUTED)))
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Say which name was clicked."""
        left = 0
        for key, span in self._spans:
            left += width_of(span)
            if event.x < left:
                if key:
                    self.post_message(self.Chosen(key))
                return

    def render_line(self, y: int) -> Strip:
        """The names."""
        return self.paint(tuple(span for _, span in self._spans), self.size.width)
