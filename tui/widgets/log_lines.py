"""The lines of a log view: painting, scrolling, following."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tui.widgets.line_search import LineSearch
from tui.widgets.log_buffer import LogBuffer
from tui.widgets.log_face import LogFace, LogOptions
from tui.widgets.log_rows import Row, moved, rows_before, rows_from
from tui.widgets.log_window import AllLines, LogWindow, MatchingLines
from tui.widgets.steering import SteeredWidget

COLUMN_STEP = 16


class LogLines(SteeredWidget, can_focus=True):
    """A window on a `LogBuffer`.

    It follows the end until the operator moves up; then the same lines stay in place whatever is appended or
    forgotten, and moving to the end follows again. Appending costs nothing here: `pull` paints what is visible if
    the buffer moved. Normally used through `LogView`.

    Args:
        buffer: Whose lines.
        moved: Called when what is shown changed by the operator's hand, so that both are painted together.
    """

    PARTS = (*SteeredWidget.PARTS, *LogFace.PARTS)
    COMPONENT_CLASSES: ClassVar[set[str]] = set(LogFace.PARTS)
    DEFAULT_CSS = """
    LogLines { width: 1fr; height: 1fr; }
    LogLines > .log--clock { color: $foreground 45%; }
    LogLines > .log--marker { color: $text-warning; text-style: italic; }
    LogLines > .log--match { background: $warning 45%; text-style: bold; }
    LogLines > .log--current { background: $warning; color: $background; text-style: bold; }
    LogLines > .log--source-0 { color: $text-primary; }
    LogLines > .log--source-1 { color: $text-success; }
    LogLines > .log--source-2 { color: $text-accent; }
    LogLines > .log--source-3 { color: $text-secondary; }
    LogLines > .log--source-4 { color: $text-warning; }
    LogLines > .log--source-5 { color: $text-error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "toggle_follow", "follow", id="log.follow"),
        Binding("W", "switch('wrap')", "wrap", id="log.wrap"),
        Binding("T", "switch('has_clock')", "time", id="log.clock"),
        Binding("P", "switch('has_source')", "source", id="log.source"),
        Binding("right,l", "shift(1)", "right", id="log.right", show=False),
        Binding("left,h", "shift(-1)", "left", id="log.left", show=False),
    ]

    def __init__(self, buffer: LogBuffer, *, moved: Callable[[], None]) -> None:
        super().__init__()
        self._tell_moved = moved
        self._buffer = buffer
        self._window: LogWindow = AllLines(buffer)
        self._face = LogFace(buffer)
        self._is_following = True
        self._anchor = Row(0, 0)
        self._rows: list[Row] = []
        self._seen_end = -1
        self._paused_rank = 0

    @property
    def options(self) -> LogOptions:
        """Wrap, clock, source."""
        return self._face.options

    @property
    def is_following(self) -> bool:
        """Whether new lines come into view by themselves."""
        return self._is_following

    @property
    def unseen(self) -> int:
        """Lines that came since following stopped."""
        return 0 if self._is_following else max(0, self._rank_of_end() - self._paused_rank)

    @property
    def top_line(self) -> int:
        """Number of the line at the top."""
        return self._anchor.line

    @property
    def page_lines(self) -> int:
        """Rows on the screen."""
        return max(1, self.size.height)

    def show(self, buffer: LogBuffer) -> None:
        """Look at another buffer, from its end."""
        self._buffer = buffer
        self._window = AllLines(buffer)
        self._face.look_at(buffer)
        self._is_following = True
        self.lay_rows()

    def narrow(self, search: LineSearch | None) -> None:
        """Show only what `search` finds; `None` shows everything."""
        self._window = AllLines(self._buffer) if search is None else MatchingLines(search)
        self._paused_rank = self._rank_of_end()
        self.lay_rows()

    def highlight(self, search: LineSearch | None, *, current: int | None = None) -> None:
        """Mark what `search` finds; `current` is the line that n and N came to."""
        self._face.mark(search, current)
        self.refresh()

    def reveal(self, line: int) -> None:
        """Stop following, and bring a line to a third of the screen if it is not visible."""
        self._pause()
        if all(row.line != line for row in self._rows):
            self._anchor = moved(self._window, self._height_of, Row(line, 0), -(self.page_lines // 3))
        self.lay_rows()

    def pull(self) -> None:
        """Paint if the buffer moved."""
        if self._buffer.end != self._seen_end:
            self.lay_rows()

    def lay_rows(self) -> None:
        """Decide which rows are on the screen, and paint them."""
        self._face.width = max(1, self.size.width - 1)
        self._seen_end = self._buffer.end
        height = self.page_lines
        if not self._is_following:
            self._rows = rows_from(self._window, self._height_of, self._anchor, height)
        if self._is_following or len(self._rows) < height:
            self._rows = rows_before(self._window, self._height_of, Row(self._buffer.end, 0), height)
        self._anchor = self._rows[0] if self._rows else Row(self._buffer.start, 0)
        self.refresh()

    def step(self, lines: int) -> None:
        """Move the view by rows; at the end it follows again."""
        if lines < 0:
            self._pause()
        self._anchor = moved(self._window, self._height_of, self._anchor, lines)
        self.lay_rows()
        if lines > 0 and self._is_at_end():
            self._is_following = True
        self._tell_moved()

    def jump(self, *, to_end: bool) -> None:
        """Go to the oldest line, or to the newest and follow."""
        if to_end:
            self._is_following = True
        else:
            self._pause()
            self._anchor = Row(self._buffer.start, 0)
        self.lay_rows()
        self._tell_moved()

    def action_toggle_follow(self) -> None:
        """Follow, or stay where the view is."""
        if self._is_following:
            self._pause()
            self._tell_moved()
        else:
            self.jump(to_end=True)

    def action_switch(self, option: str) -> None:
        """Switch `wrap`, `has_clock` or `has_source`."""
        self._face.toggle(option)
        self._anchor = Row(self._anchor.line, 0)
        self.lay_rows()
        self._tell_moved()

    def action_shift(self, steps: int) -> None:
        """Move sideways over lines that do not fit."""
        self._face.left = max(0, self._face.left + steps * COLUMN_STEP)
        self.refresh()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.lay_rows()

    def restyled(self) -> None:
        """Forget finished lines."""
        self._face.forget()

    def render_line(self, y: int) -> Strip:
        """One row and its cell of the scrollbar."""
        width, height = self.size
        top = self._window.rank(self._anchor.line)
        rail = self.rail_segment(y, top=top, count=self._window.count, height=height)
        if y >= len(self._rows) or self._rows[y].line < self._buffer.start:
            return Strip([Segment(" " * (width - 1), self.skin.base), rail], width)
        return Strip([*self._face.row(self, self._rows[y]), rail], width)

    def _height_of(self, line: int) -> int:
        return self._face.height_of(self, line)

    def _rank_of_end(self) -> int:
        return self._window.rank(self._buffer.end)

    def _is_at_end(self) -> bool:
        last = self._window.before(self._buffer.end)
        return not self._rows or last is None or self._rows[-1] == Row(last, self._height_of(last) - 1)

    def _pause(self) -> None:
        if self._is_following:
            self._is_following = False
            self._paused_rank = self._rank_of_end()
