"""The log view: lines with scrolling, search and filter, and a status row."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.strip import Strip
from textual.timer import Timer

from tui.present.cells import Cells, Span, Tone, fit, width_of
from tui.widgets.base import LineWidget, NavigableWidget
from tui.widgets.log_buffer import LineSearch, LogBuffer
from tui.widgets.log_renderer import (
    AllLines,
    LogOptions,
    LogRenderer,
    LogWindow,
    MatchingLines,
    ScreenRow,
    moved,
    rows_before,
    rows_from,
)
from tui.widgets.prompt import PromptLine

COLUMN_STEP = 16


class LogLines(NavigableWidget, can_focus=True):
    """A scrolling view of a `LogBuffer`.

    It follows the end until the operator moves up; then the same lines stay in place, whatever is appended or
    evicted, and moving to the end follows again. Appending costs nothing here: `refresh_data` paints the visible lines
    if the buffer changed. Normally used through `LogView`.

    Args:
        buffer: The lines.
        moved: Called when the operator moved the view, so that lines and status are painted together.
    """

    PARTS = (*NavigableWidget.PARTS, *LogRenderer.PARTS)
    COMPONENT_CLASSES: ClassVar[set[str]] = set(LogRenderer.PARTS)
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
        self._renderer = LogRenderer(buffer)
        self._is_following = True
        self._anchor = ScreenRow(0, 0)
        self._rows: list[ScreenRow] = []
        self._seen_end = -1
        self._paused_rank = 0

    @property
    def options(self) -> LogOptions:
        """The options: wrap, clock, source."""
        return self._renderer.options

    @property
    def is_following(self) -> bool:
        """True if the view follows new lines."""
        return self._is_following

    @property
    def unseen(self) -> int:
        """The number of lines that came since following stopped."""
        return 0 if self._is_following else max(0, self._rank_of_end() - self._paused_rank)

    @property
    def top_line(self) -> int:
        """The number of the top line."""
        return self._anchor.line

    @property
    def page_lines(self) -> int:
        """The number of rows on the screen."""
        return max(1, self.size.height)

    def show(self, buffer: LogBuffer) -> None:
        """Show another buffer, from its end."""
        self._buffer = buffer
        self._window = AllLines(buffer)
        self._renderer.look_at(buffer)
        self._is_following = True
        self.lay_rows()

    def filter(self, search: LineSearch | None) -> None:
        """Show only what `search` finds; `None` shows everything."""
        self._window = AllLines(self._buffer) if search is None else MatchingLines(search)
        self._paused_rank = self._rank_of_end()
        self.lay_rows()

    def highlight(self, search: LineSearch | None, *, current: int | None = None) -> None:
        """Mark the matches of `search`; `current` is the line reached by n and N."""
        self._renderer.mark(search, current)
        self.refresh()

    def reveal(self, line: int) -> None:
        """Stop following, and scroll a line to a third of the screen if it is not visible."""
        self._pause()
        if all(row.line != line for row in self._rows):
            self._anchor = moved(self._window, self._height_of, ScreenRow(line, 0), -(self.page_lines // 3))
        self.lay_rows()

    def refresh_data(self) -> None:
        """Paint if the buffer changed."""
        if self._buffer.end != self._seen_end:
            self.lay_rows()

    def lay_rows(self) -> None:
        """Compute the rows on the screen, and paint them."""
        self._renderer.width = max(1, self.size.width - 1)
        self._seen_end = self._buffer.end
        height = self.page_lines
        if not self._is_following:
            self._rows = rows_from(self._window, self._height_of, self._anchor, height)
        if self._is_following or len(self._rows) < height:
            self._rows = rows_before(self._window, self._height_of, ScreenRow(self._buffer.end, 0), height)
        self._anchor = self._rows[0] if self._rows else ScreenRow(self._buffer.start, 0)
        self.refresh()

    def step(self, lines: int) -> None:
        """Move the view by rows; at the end, follow again."""
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
            self._anchor = ScreenRow(self._buffer.start, 0)
        self.lay_rows()
        self._tell_moved()

    def action_toggle_follow(self) -> None:
        """Switch following on or off."""
        if self._is_following:
            self._pause()
            self._tell_moved()
        else:
            self.jump(to_end=True)

    def action_switch(self, option: str) -> None:
        """Switch `wrap`, `has_clock` or `has_source`."""
        self._renderer.toggle(option)
        self._anchor = ScreenRow(self._anchor.line, 0)
        self.lay_rows()
        self._tell_moved()

    def action_shift(self, steps: int) -> None:
        """Scroll sideways over lines that do not fit."""
        self._renderer.left = max(0, self._renderer.left + steps * COLUMN_STEP)
        self.refresh()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.lay_rows()

    def restyled(self) -> None:
        """Drop finished lines."""
        self._renderer.forget()

    def render_line(self, y: int) -> Strip:
        """Render one row with its cell of the scrollbar."""
        width, height = self.size
        top = self._window.rank(self._anchor.line)
        rail = self.rail_segment(y, top=top, count=self._window.count, height=height)
        if y >= len(self._rows) or self._rows[y].line < self._buffer.start:
            return Strip([Segment(" " * (width - 1), self.resolved_styles.base), rail], width)
        return Strip([*self._renderer.row(self, self._rows[y]), rail], width)

    def _height_of(self, line: int) -> int:
        return self._renderer.height_of(self, line)

    def _rank_of_end(self) -> int:
        return self._window.rank(self._buffer.end)

    def _is_at_end(self) -> bool:
        last = self._window.before(self._buffer.end)
        return not self._rows or last is None or self._rows[-1] == ScreenRow(last, self._height_of(last) - 1)

    def _pause(self) -> None:
        if self._is_following:
            self._is_following = False
            self._paused_rank = self._rank_of_end()


class LogStatus(LineWidget):
    """The status row: position and matches on the left, contents of the buffer on the right."""

    DEFAULT_CSS = "LogStatus { height: 1; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._left: Cells = ()
        self._right: Cells = ()

    def show(self, left: Cells, right: Cells) -> None:
        """Replace the text, if it changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render both parts; the right one is cut first."""
        room = self.size.width - width_of(self._left) - 2
        right = fit(self._right, room, align_right=True) if room > 0 else ()
        return self.paint((*self._left, Span("  "), *right), self.size.width)


def movement_of(lines: LogLines) -> Cells:
    """Return whether the end is followed, and how many lines came since it is not."""
    if lines.is_following:
        return (Span("● following", Tone.GOOD),)
    if lines.unseen:
        return (Span(f"‖ paused · +{lines.unseen:,} new lines (G)", Tone.WARN),)
    return (Span("‖ paused", Tone.WARN),)


def finds_of(search: LineSearch | None, narrowed: LineSearch | None, current: int | None) -> Cells:
    """Return search and filter with their counts; `…` while the scan is incomplete."""
    cells: list[Span] = []
    if search is not None:
        place = "" if current is None else f"{search.rank(current) + 1:,}/"
        cells.append(Span(f"  /{search.pattern} {place}{len(search.matches):,}{_more(search)}", Tone.ACCENT))
    if narrowed is not None:
        cells.append(Span(f"  &{narrowed.pattern} {len(narrowed.matches):,}{_more(narrowed)}", Tone.ACCENT))
    return tuple(cells)


def holdings_of(buffer: LogBuffer, options: LogOptions) -> Cells:
    """Return the number of lines held and dropped, and the active options."""
    dropped = f"{buffer.evicted:,} older dropped · " if buffer.evicted else ""
    wrap = " · wrap" if options.wrap else ""
    return (Span(f"{dropped}{buffer.end - buffer.start:,} lines{wrap}", Tone.MUTED),)


def _more(search: LineSearch) -> str:
    return "" if search.is_complete else "…"


SCAN_PAUSE_SECONDS = 0.005


class LogView(Vertical):
    """A log view with search and filter over a `LogBuffer`, which may be extended at any time:

        buffer = LogBuffer()
        view = LogView(buffer)
        buffer.extend(BufferedLine(line.text, source=pod, at_ns=line.at_ns) for line in lines)
        view.refresh_data()              # from the ticker, while visible

    `/` searches the whole buffer and highlights (n, N), `&` shows only matching lines (`!word`: only others), both by
    regular expressions, which ignore case unless they contain a capital. Scrolling up pauses; no line is lost.
    """

    DEFAULT_CSS = "LogView { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('/')", "search", id="log.search"),
        Binding("ampersand", "ask('&')", "only matching", id="log.filter"),
        Binding("n", "next_match", "next match", id="log.next", show=False),
        Binding("N", "previous_match", "previous match", id="log.previous", show=False),
        Binding("escape", "clear", "clear search", id="log.clear", show=False),
    ]

    def __init__(self, buffer: LogBuffer, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._buffer = buffer
        self._lines = LogLines(buffer, moved=self._tell)
        self._status = LogStatus()
        self._prompt = PromptLine("/", hint="regular expression")
        self._asked = "/"
        self._search: LineSearch | None = None
        self._filter: LineSearch | None = None
        self._current: int | None = None
        self._wants_first_match = False
        self._scan_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Yield lines, status and prompt."""
        yield self._lines
        yield self._prompt
        yield self._status

    @property
    def lines(self) -> LogLines:
        """The widget of the lines: following, options, position."""
        return self._lines

    @property
    def buffer(self) -> LogBuffer:
        """The buffer on view."""
        return self._buffer

    def focus(self, scroll_visible: bool = True) -> LogView:
        """Focus the lines."""
        self._lines.focus(scroll_visible)
        return self

    def show(self, buffer: LogBuffer) -> None:
        """Show another buffer; search and filter stay and start anew."""
        self._buffer = buffer
        self._lines.show(buffer)
        self.search(self._search.pattern if self._search else "")
        self.filter(self._filter.pattern if self._filter else "")

    def refresh_data(self) -> None:
        """Show new lines of the buffer; costs nothing if there are none."""
        self._scan()
        self._lines.refresh_data()
        self._tell()

    def search(self, pattern: str) -> None:
        """Highlight matches; go to the last one if following, else to the next below the top. Empty clears."""
        self._search = LineSearch(self._buffer, pattern) if pattern else None
        self._current = None
        self._wants_first_match = bool(pattern)
        self._lines.highlight(self._search)
        self._scan()

    def filter(self, pattern: str) -> None:
        """Show only matching lines; empty shows all."""
        self._filter = LineSearch(self._buffer, pattern) if pattern else None
        self._lines.filter(self._filter)
        self._scan()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable escape when there is nothing to clear, so that it bubbles."""
        return action != "clear" or self._search is not None or self._filter is not None

    def action_ask(self, sign: str) -> None:
        """Open the prompt for a search or a filter."""
        self._asked = sign
        present = self._search if sign == "/" else self._filter
        self._prompt.open(present.pattern if present else "", sign=sign)

    def action_next_match(self) -> None:
        """Go down to the next match; from the last one to the first."""
        if self._search:
            at = self._lines.top_line - 1 if self._current is None else self._current
            after = self._search.after(at)
            self._go_to(self._search.after(-1) if after is None else after)

    def action_previous_match(self) -> None:
        """Go up to the previous match; from the first one to the last."""
        if self._search:
            at = self._lines.top_line if self._current is None else self._current
            before = self._search.before(at)
            self._go_to(self._search.before(self._buffer.end) if before is None else before)

    def action_clear(self) -> None:
        """Clear the search, then the filter."""
        if self._search:
            self.search("")
        else:
            self.filter("")

    @on(PromptLine.Submitted)
    def _submitted(self, event: PromptLine.Submitted) -> None:
        event.stop()
        self._lines.focus()
        (self.search if self._asked == "/" else self.filter)(event.text)

    @on(PromptLine.Cancelled)
    def _cancelled(self, event: PromptLine.Cancelled) -> None:
        event.stop()
        self._lines.focus()

    @on(PromptLine.Changed)
    def _typed(self, event: PromptLine.Changed) -> None:
        event.stop()

    def _scan(self) -> None:
        """Scan one slice for search and filter, and schedule the next if there is more."""
        if self._scan_timer is not None:
            return
        pending = [search for search in (self._search, self._filter) if search is not None and not search.is_complete]
        for search in pending:
            search.advance()
        if self._filter in pending:
            self._lines.lay_rows()
        if any(not search.is_complete for search in pending):
            self._scan_timer = self.set_timer(SCAN_PAUSE_SECONDS, self._scan_on)
        elif self._wants_first_match and self._search is not None:
            self._wants_first_match = False
            self._first_match(self._search)
        self._tell()

    def _scan_on(self) -> None:
        self._scan_timer = None
        self._scan()

    def _first_match(self, search: LineSearch) -> None:
        after = None if self._lines.is_following else search.after(self._lines.top_line - 1)
        self._go_to(search.before(self._buffer.end) if after is None else after)

    def _go_to(self, line: int | None) -> None:
        if line is not None:
            self._current = line
            self._lines.highlight(self._search, current=line)
            self._lines.reveal(line)
        self._tell()

    def _tell(self) -> None:
        lines = self._lines
        self._status.show(
            (*movement_of(lines), *finds_of(self._search, self._filter, self._current)),
            holdings_of(self._buffer, lines.options),
        )
