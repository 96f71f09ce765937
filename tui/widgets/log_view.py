"""A pane of log lines with search, filter and a line that says what is shown."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer

from tui.widgets.line_search import LineSearch
from tui.widgets.log_buffer import LogBuffer
from tui.widgets.log_lines import LogLines
from tui.widgets.log_status import LogStatus, finds_of, holdings_of, movement_of
from tui.widgets.prompt import PromptLine

SCAN_PAUSE_SECONDS = 0.005


class LogView(Vertical):
    """Logs over a `LogBuffer`, which anybody may extend at any time:

        buffer = LogBuffer()
        view = LogView(buffer)
        buffer.extend(LogRecord(line.text, source=pod, at_ns=line.at_ns) for line in lines)
        view.pull()                      # from the ticker, while visible

    `/` searches the whole buffer and highlights (n, N), `&` shows only matching lines (`!word`: only others), both as
    regular expressions without case unless a capital is typed. Scrolling up pauses, nothing is lost meanwhile.
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
        """Lines, what is shown, prompt."""
        yield self._lines
        yield self._prompt
        yield self._status

    @property
    def lines(self) -> LogLines:
        """The lines: following, options, position."""
        return self._lines

    @property
    def buffer(self) -> LogBuffer:
        """What is looked at."""
        return self._buffer

    def focus(self, scroll_visible: bool = True) -> LogView:
        """Give the focus to the lines."""
        self._lines.focus(scroll_visible)
        return self

    def show(self, buffer: LogBuffer) -> None:
        """Look at another buffer; search and filter stay and start anew."""
        self._buffer = buffer
        self._lines.show(buffer)
        self.search(self._search.pattern if self._search else "")
        self.filter(self._filter.pattern if self._filter else "")

    def pull(self) -> None:
        """Take up what the buffer got. Costs nothing if it did not move."""
        self._scan()
        self._lines.pull()
        self._tell()

    def search(self, pattern: str) -> None:
        """Highlight matches and go to the last one above the end, or to the next one below the top; empty clears."""
        self._search = LineSearch(self._buffer, pattern) if pattern else None
        self._current = None
        self._wants_first_match = bool(pattern)
        self._lines.highlight(self._search)
        self._scan()

    def filter(self, pattern: str) -> None:
        """Show only matching lines; empty shows all."""
        self._filter = LineSearch(self._buffer, pattern) if pattern else None
        self._lines.narrow(self._filter)
        self._scan()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape belongs to others when nothing is to be cleared."""
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
        """Go up to the match before; from the first one to the last."""
        if self._search:
            at = self._lines.top_line if self._current is None else self._current
            before = self._search.before(at)
            self._go_to(self._search.before(self._buffer.end) if before is None else before)

    def action_clear(self) -> None:
        """Drop the search, then the filter."""
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
        """Look at one slice for search and filter, and come back soon if that was not all."""
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
