"""The row under a log that says what is shown of it."""

from __future__ import annotations

from textual.strip import Strip

from tui.present.cells import Cells, Span, Tone, fit, width_of
from tui.widgets.line_search import LineSearch
from tui.widgets.log_buffer import LogBuffer
from tui.widgets.log_face import LogOptions
from tui.widgets.log_lines import LogLines
from tui.widgets.stripes import StripWidget


class LogStatus(StripWidget):
    """One row: what is shown on the left, what is held on the right."""

    DEFAULT_CSS = "LogStatus { height: 1; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._left: Cells = ()
        self._right: Cells = ()

    def show(self, left: Cells, right: Cells) -> None:
        """Draw other text, if it is another one."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Left and right; the right part is cut first when it is narrow."""
        room = self.size.width - width_of(self._left) - 2
        right = fit(self._right, room, align_right=True) if room > 0 else ()
        return self.paint((*self._left, Span("  "), *right), self.size.width)


def movement_of(lines: LogLines) -> Cells:
    """Whether the end is followed, and what came since it is not."""
    if lines.is_following:
        return (Span("● following", Tone.GOOD),)
    if lines.unseen:
        return (Span(f"‖ paused · +{lines.unseen:,} new lines (G)", Tone.WARN),)
    return (Span("‖ paused", Tone.WARN),)


def finds_of(search: LineSearch | None, narrowed: LineSearch | None, current: int | None) -> Cells:
    """What is searched and filtered, with counts; `…` while the buffer is not looked through."""
    cells: list[Span] = []
    if search is not None:
        place = "" if current is None else f"{search.rank(current) + 1:,}/"
        cells.append(Span(f"  /{search.pattern} {place}{len(search.matches):,}{_more(search)}", Tone.ACCENT))
    if narrowed is not None:
        cells.append(Span(f"  &{narrowed.pattern} {len(narrowed.matches):,}{_more(narrowed)}", Tone.ACCENT))
    return tuple(cells)


def holdings_of(buffer: LogBuffer, options: LogOptions) -> Cells:
    """How much is held, what was dropped, which options are on."""
    dropped = f"{buffer.evicted:,} older dropped · " if buffer.evicted else ""
    wrap = " · wrap" if options.wrap else ""
    return (Span(f"{dropped}{buffer.end - buffer.start:,} lines{wrap}", Tone.MUTED),)


def _more(search: LineSearch) -> str:
    return "" if search.is_complete else "…"
