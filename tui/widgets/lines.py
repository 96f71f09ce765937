"""A few lines of toned text: header, hints, totals."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.strip import Strip

from tui.present.cells import Cells
from tui.widgets.stripes import StripWidget


class Lines(StripWidget):
    """Shows what it was given last; lines beyond its height are not seen. The height comes from the style sheet."""

    DEFAULT_CSS = "Lines { width: 1fr; height: 1; }"

    def __init__(self, lines: Sequence[Cells] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines = tuple(lines)

    def show(self, lines: Sequence[Cells]) -> None:
        """Replace the lines; equal ones cost nothing."""
        new = tuple(lines)
        if new != self._lines:
            is_as_high = len(new) == len(self._lines)
            self._lines = new
            self.refresh(layout=not is_as_high)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as there are lines, where the style sheet says `height: auto`."""
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """One of the lines, or a blank one."""
        return self.paint(self._lines[y] if y < len(self._lines) else (), self.size.width)
