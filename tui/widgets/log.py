"""The log view: lines with scrolling, search and filter, and a status row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from actions.base.wording import counted, folded
from tui.present.cells import Cells, Span, Tone, fit, width_of
from tui.widgets.base import LineWidget, NavigableWidget, ResolvedStyles
from tui.widgets.line_level import ERRORS
from tui.widgets.log_buffer import Finds, LineMarks, LineSearch, LogBuffer, common_line
from tui.widgets.log_renderer import (
    MARK_SIGN,
    AllLines,
    LogOptions,
    LogRenderer,
    LogWindow,
    MatchingLines,
    ScreenRow,
    finds_of,
    holdings_of,
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
    LogLines > .log--reached { background: $foreground 15%; }
    LogLines > .log--error { color: $text-error; }
    LogLines > .log--warning { color: $text-warning; }
    LogLines > .log--detail { color: $foreground 60%; }
    LogLines > .log--key { color: $foreground 60%; }
    LogLines > .log--sign { color: $text-accent; text-style: bold; }
    LogLines > .log--source-0 { color: $text-primary; }
    LogLines > .log--source-1 { color: $text-success; }
    LogLines > .log--source-2 { color: $text-accent; }
    LogLines > .log--source-3 { color: $text-secondary; }
    LogLines > .log--source-4 { color: $text-warning; }
    LogLines > .log--source-5 { color: $text-error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("F", "toggle_follow", "follow", id="log.follow"),
        Binding("W", "switch('wrap')", "wrap", id="log.wrap"),
        Binding("t", "switch('has_clock')", "time", id="log.clock"),
        Binding("S", "switch('has_source')", "source", id="log.source"),
        Binding("J", "switch('lays_json')", "json", id="log.json"),
        Binding("right,l", "shift(1)", "right", id="log.right", show=False),
        Binding("left,h", "shift(-1)", "left", id="log.left", show=False),
    ]

    hint: reactive[str] = reactive("")
    """The text that stands in the place of an empty log."""

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
        self._paused_at = 0
        self._stays: LineSearch | None = None
        """The filter of a longer buffer: until it has come to the lines on screen, their place is kept."""

    @property
    def options(self) -> LogOptions:
        """The options: wrap, clock, source, JSON."""
        return self._renderer.options

    @property
    def marks(self) -> LineMarks:
        """The marks on lines; `highlight` paints them after a change."""
        return self._renderer.marks

    @property
    def is_following(self) -> bool:
        """True if the view follows new lines."""
        return self._is_following

    @property
    def unseen(self) -> int:
        """The number of lines that came since following stopped, of those that are shown."""
        if self._is_following:
            return 0
        return max(0, self._window.rank(self._buffer.end) - self._window.rank(self._paused_at))

    @property
    def top_line(self) -> int:
        """The number of the top line."""
        return self._anchor.line

    @property
    def page_lines(self) -> int:
        """The number of rows on the screen."""
        return max(1, self.size.height)

    @property
    def window(self) -> LogWindow:
        """The lines that the filter shows."""
        return self._window

    @property
    def visible_lines(self) -> list[int]:
        """The numbers of the lines on the screen, each once."""
        return list(dict.fromkeys(row.line for row in self._rows if row.line >= self._buffer.start))

    def show(self, buffer: LogBuffer, shift: int | None = None, search: LineSearch | None = None) -> None:
        """Show another buffer from its end; or, filtered, one that has these lines `shift` numbers later: they stay."""
        self._buffer = buffer
        self._renderer.use(buffer, shift)
        if shift is None:
            self._is_following = True
        else:
            self._anchor = ScreenRow(max(self._anchor.line + shift, buffer.start), self._anchor.part)
            self._paused_at += shift
        self._stays = search
        self.filter(search)

    def filter(self, search: LineSearch | None) -> None:
        """Show only what `search` finds; `None` shows everything."""
        self._window = AllLines(self._buffer) if search is None else MatchingLines(search)
        self.lay_rows()

    def highlight(self, search: LineSearch | None, *, current: int | None = None) -> None:
        """Paint the matches of `search`, and the marks; `current` is the line reached by n and N."""
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
        if self._stays is None or self._stays.is_complete:
            self._stays = None
            self._anchor = self._rows[0] if self._rows else ScreenRow(self._buffer.start, 0)
        self.refresh()

    def step(self, lines: int) -> None:
        """Move the view by rows; at the end, follow again."""
        if lines < 0:
            self._pause()
        self._anchor = moved(self._window, self._height_of, self._anchor, lines)
        self.lay_rows()
        last = self._window.before(self._buffer.end)
        shows_end = not self._rows or last is None or self._rows[-1] == ScreenRow(last, self._height_of(last) - 1)
        if lines > 0 and shows_end:
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
        """Switch `wrap`, `has_clock`, `has_source` or `lays_json`."""
        self._renderer.toggle(option)
        self._anchor = ScreenRow(self._anchor.line, 0)
        self.lay_rows()
        self._tell_moved()

    def action_shift(self, steps: int) -> None:
        """Scroll sideways over lines that do not fit; left of their beginning are the heads that are left out."""
        at = self._renderer.left
        self._renderer.left = 0 if at < 0 < steps else max(-1, at + steps * COLUMN_STEP)
        self.refresh()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.lay_rows()

    def restyled(self, before: ResolvedStyles | None) -> None:
        """Drop finished lines."""
        self._renderer.forget()

    def render_line(self, y: int) -> Strip:
        """Render one row with its cell of the scrollbar."""
        width, height = self.size
        top = self._window.rank(self._anchor.line)
        rail = self.rail_segment(y, top=top, count=self._window.count, height=height)
        if y >= len(self._rows) or self._rows[y].line < self._buffer.start:
            told = folded(self.hint, max(1, width - 1)) if self._buffer.end == self._buffer.start else []
            text = told[y] if y < len(told) else ""
            return Strip([Segment(text.ljust(width - 1), self.resolved_styles.base), rail], width)
        return Strip([*self._renderer.row(self, self._rows[y]), rail], width)

    def _height_of(self, line: int) -> int:
        return self._renderer.height_of(self, line)

    def _pause(self) -> None:
        if self._is_following:
            self._is_following = False
            self._paused_at = self._buffer.end


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


def movement_of(lines: LogLines, *, has_ended: bool = False) -> Cells:
    """Return whether the end is followed, and how many lines came since it is not; of a log that has ended, where."""
    if has_ended:
        return (Span("at the end" if lines.is_following else "above the end", Tone.MUTED),)
    if lines.is_following:
        return (Span("● following", Tone.GOOD),)
    if lines.unseen:
        return (Span(f"‖ paused · +{lines.unseen:,} new line{'s' * (lines.unseen > 1)} (G)", Tone.WARN),)
    return (Span("‖ paused", Tone.WARN),)


def marked_range(lines: LogLines, reached: int | None) -> tuple[int, int] | None:
    """Return the first and the last line from the mark to the line reached, else to the end of the screen that is away
    from it; `None` without a mark.
    """
    mark, visible = lines.marks.at, lines.visible_lines
    if mark is None or not visible:
        return None
    other = reached if reached in visible and reached != mark else None
    if other is None:
        other = visible[0] if mark > visible[-1] else visible[-1]
    return min(mark, other), max(mark, other)


def marks_of(lines: LogLines, reached: int | None) -> Cells:
    """Return the number of marks, and what a copy would take."""
    marked = marked_range(lines, reached)
    if marked is None:
        return ()
    marks, window = lines.marks, lines.window
    place = f"{marks.numbers.index(marks.at) + 1}/" if marks.at in marks.numbers else ""
    count = counted(window.rank(marked[1] + 1) - window.rank(marked[0]), "line")
    return (Span(f"  {MARK_SIGN} mark {place}{len(marks.numbers)}, {count} to copy", Tone.ACCENT),)


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

    DEFAULT_CSS = "LogView { width: 1fr; height: 1fr; layers: lines prompt; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('/')", "search", id="log.search"),
        Binding("ampersand", "ask('&')", "only matching", id="log.filter"),
        Binding("n", "next_match(True)", "next match", id="log.next", show=False),
        Binding("N", "next_match(False)", "previous match", id="log.previous", show=False),
        Binding("b", "next_error(True)", "next error", id="log.error", show=False),
        Binding("B", "next_error(False)", "previous error", id="log.error_before", show=False),
        Binding("space", "mark", "mark", id="log.mark", show=False),
        Binding("apostrophe", "next_mark(True)", "next mark", id="log.next_mark", show=False),
        Binding("quotation_mark", "next_mark(False)", "previous mark", id="log.previous_mark", show=False),
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
        self._errors: LineSearch | None = None
        self._current: int | None = None
        self._wants_first_match = False
        self._wants_error: bool | None = None
        """The direction of an error that is requested while the scan goes on: down, up, or not at all."""
        self._scan_timer: Timer | None = None
        self.has_ended = False
        """No line comes any more."""

    def compose(self) -> ComposeResult:
        """Yield the prompt, which lies over the status, lines and status."""
        yield self._prompt
        yield self._lines
        yield self._status

    @property
    def lines(self) -> LogLines:
        """The widget of the lines: following, options, position."""
        return self._lines

    @property
    def only(self) -> frozenset[str]:
        """The sources whose lines are shown; empty for all."""
        return frozenset() if self._filter is None else self._filter.only

    @property
    def buffer(self) -> LogBuffer:
        """The buffer on view."""
        return self._buffer

    def focus(self, scroll_visible: bool = True) -> LogView:
        """Focus the lines."""
        self._lines.focus(scroll_visible)
        return self

    def show(self, buffer: LogBuffer, *, is_longer: bool = False) -> None:
        """Show another buffer; search and filter stay and start anew.

        Args:
            buffer: The lines.
            is_longer: It has the same newest lines, and others before them. What is on screen stays in place.
        """
        shift, self._buffer = buffer.end - self._buffer.end, buffer
        if is_longer:
            self._current = None if self._current is None else self._current + shift
            self._search, self._filter, self._errors = (
                LineSearch(buffer, one.pattern, one.only) if one is not None else None
                for one in (self._search, self._filter, self._errors)
            )
            self._lines.show(buffer, shift, self._filter)
            self._lines.highlight(self._search, current=self._current)
            self._scan()
            return
        self._lines.show(buffer)
        self._errors = self._wants_error = None
        self.search(self._search.pattern if self._search else "")
        self.filter(self._filter.pattern if self._filter else "", only=())

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

    def filter(self, pattern: str | None = None, *, only: Collection[str] | None = None) -> None:
        """Show only matching lines; empty shows all.

        Args:
            pattern: Of the lines. `None` leaves it as it is.
            only: Sources whose lines are shown; all if empty. `None` leaves them as they are.
        """
        sources = self.only if only is None else only
        if pattern is None:
            pattern = self._filter.pattern if self._filter else ""
        self._filter = LineSearch(self._buffer, pattern, sources) if pattern or sources else None
        self._lines.filter(self._filter)
        self._scan()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable escape when there is nothing to clear, so that it bubbles."""
        finds = Finds(self._search, self._filter, self._errors)
        return action != "clear" or finds != Finds() or bool(self._lines.marks.numbers)

    def action_ask(self, sign: str) -> None:
        """Open the prompt for a search or a filter."""
        self._asked = sign
        searched = self._search.pattern if self._search else ""
        filtered = self._filter.pattern if self._filter else ""
        self._prompt.open(searched if sign == "/" else filtered, sign=sign)

    def action_next_match(self, down: bool) -> None:
        """Go to the next match, or the one before; at the end round to the other one."""
        if self._search:
            above = self._lines.top_line - 1 if down else self._lines.top_line
            at = above if self._current is None else self._current
            step, far = (LineSearch.after, -1) if down else (LineSearch.before, self._buffer.end)
            found = step(self._search, at)
            self.go_to(step(self._search, far) if found is None else found)

    def action_next_error(self, down: bool) -> None:
        """Go to the next error, or the one before; while the end is followed, to the last one."""
        if self._errors is None:
            self._errors = LineSearch(self._buffer, ERRORS)
        self._wants_error = down
        self._scan()

    def action_mark(self, *, clears: bool = False) -> None:
        """Mark the line reached, else the newest one while the end is followed, else the top one; or drop its mark.

        Args:
            clears: Drop all marks instead.
        """
        lines = self._lines
        visible = lines.visible_lines
        if clears:
            lines.marks.clear()
        elif visible:
            line = visible[-1] if lines.is_following else visible[0]
            lines.marks.toggle(self._current if self._current in visible else line)
        lines.highlight(self._search, current=self._current)
        lines.lay_rows()
        self._tell()

    def action_next_mark(self, down: bool) -> None:
        """Go to the next mark, or the one before; from the last one to the first."""
        marks, window = self._lines.marks, self._lines.window
        at = self._lines.top_line - 1 if self._current is None else self._current
        self.go_to(marks.reach(at, down=down, is_shown=lambda number: window.at_or_after(number) == number))

    def lines_to_copy(self, *, is_range: bool = True) -> list[int]:
        """Return the lines from the mark on; without one, the line reached if it is on screen, else all on screen.

        Args:
            is_range: Take the lines from the mark on, if there is one.
        """
        marked = marked_range(self._lines, self._current) if is_range else None
        if marked is None:
            visible = self._lines.visible_lines
            return [self._current] if self._current in visible else visible
        numbers, window = list[int](), self._lines.window
        number = window.at_or_after(marked[0])
        while number is not None and number <= marked[1]:
            numbers.append(number)
            number = window.at_or_after(number + 1)
        return numbers

    def action_clear(self) -> None:
        """Clear the search, then the count of errors, then the filter, then the marks."""
        if self._search:
            self.search("")
        elif self._errors:
            self._errors = self._wants_error = self._current = None
            self._lines.highlight(None)
            self._tell()
        elif self._filter:
            self.filter("", only=())
        else:
            self._current = None
            self.action_mark(clears=True)

    @on(PromptLine.Submitted)
    def _submitted(self, event: PromptLine.Submitted) -> None:
        event.stop()
        self._lines.focus()
        (self.search if self._asked == "/" else self.filter)(event.text)

    @on(PromptLine.Cancelled)
    @on(PromptLine.Changed)
    def _not_submitted(self, event: PromptLine.Cancelled | PromptLine.Changed) -> None:
        event.stop()
        if isinstance(event, PromptLine.Cancelled):
            self._lines.focus()

    def _scan(self) -> None:
        """Scan one slice for search and filter, and schedule the next if there is more."""
        if self._scan_timer is not None:
            return
        pending = Finds(self._search, self._filter, self._errors).pending
        for search in pending:
            search.advance()
        if self._filter in pending:
            self._lines.lay_rows()
        if any(not search.is_complete for search in pending):
            self._scan_timer = self.set_timer(SCAN_PAUSE_SECONDS, self._scan_on)
        else:
            self._reach_wanted()
        self._tell()

    def _reach_wanted(self) -> None:
        """Go to the match or the error that was asked for, once everything is scanned."""
        lines, end = self._lines, self._buffer.end
        if self._wants_first_match and self._search is not None:
            self._wants_first_match = False
            after = None if lines.is_following else self._search.after(lines.top_line - 1)
            self.go_to(self._search.before(end) if after is None else after)
        if self._wants_error is not None and self._errors is not None:
            down, self._wants_error = self._wants_error, None
            if lines.is_following:
                self.go_to(common_line(self._errors, self._filter, end, down=False))
                return
            above = lines.top_line - 1 if down else lines.top_line
            at = above if self._current is None else self._current
            found = common_line(self._errors, self._filter, at, down=down)
            around = common_line(self._errors, self._filter, -1 if down else end, down=down)
            self.go_to(around if found is None else found)

    def _scan_on(self) -> None:
        self._scan_timer = None
        self._scan()

    def go_to(self, line: int | None) -> None:
        """Scroll to a line, and mark it; `None` only shows the counts anew."""
        if line is not None:
            self._current = line
            self._lines.highlight(self._search, current=line)
            self._lines.reveal(line)
        self._tell()

    def _tell(self) -> None:
        lines = self._lines
        lines.marks.forget_before(self._buffer.start)
        finds = finds_of(Finds(self._search, self._filter, self._errors), self._current)
        self._status.show(
            (*movement_of(lines, has_ended=self.has_ended), *marks_of(lines, self._current), *finds),
            holdings_of(self._buffer, lines.options),
        )
