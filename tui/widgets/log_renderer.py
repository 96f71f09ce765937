"""The rows of a log view: the lines that pass the filter, the rows they wrap to, and their drawing; and its status."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from actions.base.wording import listed
from actions.telemetry.json_lines import JsonLine, read_json_line
from tui.present.ansi import segments_of, visible_text
from tui.present.cells import Cells, Span, Tone
from tui.present.text import clock_of, short_names
from tui.widgets.base import LineWidget
from tui.widgets.line_level import (
    LOOK_BACK,
    HeadPart,
    LineLevel,
    head_length,
    head_parts,
    is_of_traceback,
    severity_at,
    severity_of,
)
from tui.widgets.log_buffer import BufferedLine, Finds, LineMarks, LineSearch, LogBuffer


class LogWindow(Protocol):
    """A sequence of line numbers; `None` means that there is no such line."""

    @property
    def count(self) -> int:
        """The number of lines."""
        ...

    def at_or_after(self, number: int) -> int | None:
        """Return the first line that is not before `number`."""
        ...

    def before(self, number: int) -> int | None:
        """Return the last line before `number`; with the buffer's `end`, the last of all."""
        ...

    def rank(self, number: int) -> int:
        """Return the number of lines before `number`."""
        ...


class AllLines:
    """Every line that the buffer holds."""

    def __init__(self, buffer: LogBuffer) -> None:
        self._buffer = buffer

    @property
    def count(self) -> int:
        """The number of lines held."""
        return self._buffer.end - self._buffer.start

    def at_or_after(self, number: int) -> int | None:
        """Return the line itself, or the oldest one."""
        number = max(number, self._buffer.start)
        return number if number < self._buffer.end else None

    def before(self, number: int) -> int | None:
        """Return the line before it, or the newest one."""
        number = min(number, self._buffer.end) - 1
        return number if number >= self._buffer.start else None

    def rank(self, number: int) -> int:
        """Return its distance from the oldest line."""
        return max(0, min(number, self._buffer.end) - self._buffer.start)


class MatchingLines:
    """The lines that a search has found so far."""

    def __init__(self, search: LineSearch) -> None:
        self._search = search

    @property
    def count(self) -> int:
        """The number of matches so far."""
        return len(self._search.matches)

    def at_or_after(self, number: int) -> int | None:
        """Return the match at `number`, or the next one."""
        return self._search.after(number - 1)

    def before(self, number: int) -> int | None:
        """Return the previous match."""
        return self._search.before(number)

    def rank(self, number: int) -> int:
        """Return the number of matches before it."""
        return self._search.rank(number)


class ScreenRow(NamedTuple):
    """A row on the screen: part `part` of line `line`; parts are the pieces of a wrapped line."""

    line: int
    part: int


HeightOf = Callable[[int], int]
"""A function that returns the number of rows of a line, at least 1."""


def rows_from(window: LogWindow, height_of: HeightOf, anchor: ScreenRow, count: int) -> list[ScreenRow]:
    """Return up to `count` rows from `anchor` downwards; if its line is not shown, from the next one."""
    rows: list[ScreenRow] = []
    line = window.at_or_after(anchor.line)
    part = anchor.part if line == anchor.line else 0
    while line is not None and len(rows) < count:
        rows += (ScreenRow(line, index) for index in range(min(part, height_of(line) - 1), height_of(line)))
        line, part = window.at_or_after(line + 1), 0
    return rows[:count]


def rows_before(window: LogWindow, height_of: HeightOf, anchor: ScreenRow, count: int) -> list[ScreenRow]:
    """Return up to `count` rows directly above `anchor`, top one first."""
    rows = [ScreenRow(anchor.line, index) for index in reversed(range(anchor.part))]
    line = window.before(anchor.line)
    while line is not None and len(rows) < count:
        rows += (ScreenRow(line, index) for index in reversed(range(height_of(line))))
        line = window.before(line)
    return rows[:count][::-1]


def moved(window: LogWindow, height_of: HeightOf, anchor: ScreenRow, rows: int) -> ScreenRow:
    """Return the anchor moved `rows` down, or up if negative; it stops at the ends."""
    if rows < 0:
        above = rows_before(window, height_of, anchor, -rows)
        return above[0] if above else anchor
    below = rows_from(window, height_of, anchor, rows + 1)
    return below[-1] if below else anchor


SOURCE_COLORS = 6
SOURCE_WIDTH = 18
MARK_SIGN = "▌"
"""Before each marked line; other lines have a blank there while there is a mark."""
KEPT_LINES = 256
"""More than a screen; the garbage collector would visit thousands of them again and again."""


class Wrap(StrEnum):
    """The lines that are wrapped instead of cut, in the order in which a key switches them."""

    TRACEBACKS = "tracebacks"
    ALL = "all"
    NONE = "none"


_NEXT_WRAP = {Wrap.TRACEBACKS: Wrap.ALL, Wrap.ALL: Wrap.NONE, Wrap.NONE: Wrap.TRACEBACKS}
_WRAPPED_ROWS = 12
"""The most rows of a line that is wrapped unasked: a message of the length of a page may not take the screen."""


class LogOptions(msgspec.Struct, frozen=True):
    """The options that the operator can switch."""

    wrap: Wrap = Wrap.TRACEBACKS
    has_clock: bool = False
    has_source: bool = True
    """Shown only while there is more than one source."""
    lays_json: bool = True
    """Lines that are JSON objects are shown as level, message and fields."""


class LogRenderer:
    """The drawing of lines as segments, cached until width, options, marks or styles change."""

    PARTS = (
        "log--clock",
        "log--marker",
        "log--match",
        "log--current",
        "log--reached",
        "log--key",
        "log--sign",
        *(f"log--{severity}" for severity in LineLevel if severity is not LineLevel.PLAIN),
        *(f"log--source-{index}" for index in range(SOURCE_COLORS)),
    )

    def __init__(self, buffer: LogBuffer) -> None:
        self.options = LogOptions()
        self.marks = LineMarks()
        self._buffer = buffer
        self._width = 1
        self._left = 0
        self._search: LineSearch | None = None
        self._current: int | None = None
        self._names: dict[str, str] = {}
        self._name_width = 0
        self._drawn: dict[int, list[list[Segment]]] = {}
        self._heads: dict[int, tuple[HeadPart, ...]] = {}

    @property
    def width(self) -> int:
        """The width of a row in terminal columns."""
        return self._width

    @width.setter
    def width(self, width: int) -> None:
        if width != self._width:
            self._width = width
            self.forget()
        if len(self._buffer.sources) != len(self._names):
            self._names = short_names(list(self._buffer.sources))
            self._name_width = min(SOURCE_WIDTH, max(map(cell_len, self._names.values()), default=0))
            self.forget()

    @property
    def left(self) -> int:
        """The columns scrolled out to the left; -1: lines have their heads, which are left out else; 0 if wrapped."""
        return 0 if self.options.wrap is Wrap.ALL else self._left

    @left.setter
    def left(self, left: int) -> None:
        self._left = left
        self.forget()

    def use(self, buffer: LogBuffer, shift: int | None = None) -> None:
        """Draw the lines of another buffer.

        Args:
            buffer: The lines.
            shift: The number by which those of the present one are later in it; `None`: they are other lines.
        """
        self._buffer = buffer
        self._names = {}
        if shift is None:
            self._left = 0
            self.marks = LineMarks()
        else:
            self.marks.numbers = [number + shift for number in self.marks.numbers]
            self.marks.at = None if self.marks.at is None else self.marks.at + shift
        self.mark(None, None)

    def toggle(self, option: str) -> None:
        """Switch an option of `LogOptions` by name."""
        match option:
            case "wrap":
                self.options = replace(self.options, wrap=_NEXT_WRAP[self.options.wrap])
            case "has_clock":
                self.options = replace(self.options, has_clock=not self.options.has_clock)
            case "lays_json":
                self.options = replace(self.options, lays_json=not self.options.lays_json)
            case _:
                self.options = replace(self.options, has_source=not self.options.has_source)
        self.forget()

    def mark(self, search: LineSearch | None, current: int | None) -> None:
        """Highlight the matches of a search."""
        self._search, self._current = search, current
        self.forget()

    def forget(self) -> None:
        """Drop finished lines."""
        self._drawn.clear()
        self._heads.clear()

    def height_of(self, painter: LineWidget, line: int) -> int:
        """Return the number of rows of a line."""
        return 1 if self.options.wrap is Wrap.NONE else len(self._lines(painter, line))

    def row(self, painter: LineWidget, row: ScreenRow) -> list[Segment]:
        """Return one row, exactly `width` wide."""
        parts = self._lines(painter, row.line)
        return parts[min(row.part, len(parts) - 1)]

    def _lines(self, painter: LineWidget, line: int) -> list[list[Segment]]:
        known = self._drawn.get(line)
        if known is None:
            while len(self._drawn) >= KEPT_LINES:
                del self._drawn[next(iter(self._drawn))]
            known = self._drawn[line] = self._draw(painter, line)
        return known

    def _draw(self, painter: LineWidget, line: int) -> list[list[Segment]]:
        base, record = painter.resolved_styles.base, self._buffer.line(line)
        prefix, body = self._prefix(painter, record, line), self._body(painter, record, line)
        room = max(1, self._width - _width_of(prefix))
        spare = room - _width_of(body)
        if spare >= 0 and self.left <= 0:
            return [[*prefix, *body, Segment(" " * spare, base)]]
        left = max(0, self.left)
        if not self._is_wrapped(record, body) or left:
            return [[*prefix, *Strip(body).crop_extend(left, left + room, base)]]
        cuts = [*range(room, room - spare, room), room - spare]
        pieces = Strip(body).divide(cuts if self.options.wrap is Wrap.ALL else cuts[:_WRAPPED_ROWS])
        indent = [Segment(" " * (self._width - room), base)]
        return [
            [*(indent if index else prefix), *piece.adjust_cell_length(room, base)]
            for index, piece in enumerate(pieces)
        ]

    def _is_wrapped(self, record: BufferedLine, body: list[Segment]) -> bool:
        if self.options.wrap is Wrap.TRACEBACKS:
            return not record.is_marker and is_of_traceback("".join(text for text, _, _ in body))
        return self.options.wrap is Wrap.ALL

    def _prefix(self, painter: LineWidget, record: BufferedLine, line: int) -> list[Segment]:
        resolved_styles, segments = painter.resolved_styles, []
        if self.marks.numbers:
            sign = MARK_SIGN if line in self.marks.numbers else " "
            segments.append(Segment(f"{sign} ", resolved_styles.parts["log--sign"]))
        if self.options.has_clock:
            segments.append(Segment(clock_of(record.at_ns) + " ", resolved_styles.parts["log--clock"]))
        if self.options.has_source and len(self._names) > 1:
            name = set_cell_size(self._names.get(record.source, record.source), self._name_width)
            color = self._buffer.source_id(record.source) % SOURCE_COLORS
            segments.append(Segment(name + " ", resolved_styles.parts[f"log--source-{color}"]))
        return segments

    def _body(self, painter: LineWidget, record: BufferedLine, line: int) -> list[Segment]:
        resolved_styles = painter.resolved_styles
        if record.is_marker:
            text = record.text.removeprefix("-- ").removesuffix(" --")  # as an output and a pipe have it
            return [Segment(f"── {text} ──", resolved_styles.parts["log--marker"])]
        plain = segments_of(record.text)
        text = "".join(part for part, _, _ in plain)
        laid = read_json_line(text) if self.options.lays_json and self._may_lay(text) else None
        severity = severity_of(text) if laid is None else severity_at(laid.level, text)
        base = resolved_styles.base if severity is LineLevel.PLAIN else resolved_styles.parts[f"log--{severity}"]
        dim = resolved_styles.parts["log--key"]
        if line == self._current:
            base, dim = base + resolved_styles.parts["log--reached"], dim + resolved_styles.parts["log--reached"]
        if laid is None:
            segments = [Segment(part, base + style if style else base) for part, style, _ in plain]
        else:
            segments = _laid_out(laid, base, dim)
        if self._search is None or self._search.is_inverse:
            return segments if laid is not None else self._without_head(segments, text, line, dim)
        style = resolved_styles.parts["log--current" if line == self._current else "log--match"]
        marked = _marked(Strip(segments), self._search, style)
        if marked is None and laid is not None and self._search.spans(text):
            # what was found stands between what is laid out: an object's quotes, a time's own name
            marked = _marked(Strip([Segment(text, base)]), self._search, style)
        if marked is None:
            return segments if laid is not None else self._without_head(segments, text, line, dim)
        return marked

    def _without_head(self, segments: list[Segment], text: str, line: int, dim: Style) -> list[Segment]:
        """Leave out what lines before it begin with, too, unless the view is scrolled to the left of that."""
        if self.left < 0 or self.options.wrap is Wrap.ALL or not (parts := head_parts(text)):
            return segments
        length = head_length(parts, (self._head_of(other) for other in range(line - LOOK_BACK, line)))
        if not length or length >= len(text):
            return segments
        return [Segment("…", dim), *Strip(segments).crop(cell_len(text[:length]), None)]

    def _head_of(self, line: int) -> tuple[HeadPart, ...]:
        """Return what may be the head of a line; nothing of one that the buffer does not hold."""
        known = self._heads.get(line)
        if known is None:
            is_held = self._buffer.start <= line < self._buffer.end
            known = head_parts(visible_text(self._buffer.line(line).text)) if is_held else ()
            while len(self._heads) >= KEPT_LINES:
                del self._heads[next(iter(self._heads))]
            self._heads[line] = known
        return known

    def _may_lay(self, text: str) -> bool:
        return text.endswith(("}", "} ")) and "{" in text[:_LONGEST_PREFIX]


_LONGEST_PREFIX = 60
_LEVEL_WIDTH = 5


def _laid_out(line: JsonLine, base: Style, dim: Style) -> list[Segment]:
    """Return `LEVEL message key=value …`."""
    head = f"{line.prefix}{line.level.ljust(_LEVEL_WIDTH) + ' ' if line.level else ''}{line.message}"
    segments = [Segment(head, base)] if head else []
    for name, value in line.fields:
        gap = " " if segments else ""
        segments += [Segment(f"{gap}{name}=", dim), Segment(value, base)]
    return [Segment(_printable(text), style) for text, style, _ in segments if text]


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(part for part, _, _ in segments_of(text))


def _width_of(segments: list[Segment]) -> int:
    return sum(cell_len(text) for text, _, _ in segments)


def _marked(strip: Strip, search: LineSearch, style: Style) -> list[Segment] | None:
    """Return the segments of `strip`, with the matches of `search` in `style`; `None` if there are none."""
    text = strip.text
    spans = search.spans(text)
    if not spans:
        return None
    cuts: list[int] = []
    for start, end in spans:
        cuts += cell_len(text[:start]), cell_len(text[:end])
    pieces = strip.divide([*cuts, strip.cell_length])
    return [
        Segment(segment.text, style) if index % 2 else segment
        for index, piece in enumerate(pieces)
        for segment in piece
    ]


def finds_of(finds: Finds, current: int | None) -> Cells:
    """Return errors, search and filter with their counts; `…` while the scan is incomplete."""
    cells: list[Span] = []
    search, narrowed, errors = finds
    if errors is not None:
        place = f"{errors.rank(current) + 1:,}/" if current is not None and search is None else ""
        is_clean = not errors.matches and not _more(errors)
        count = f"  ✘ error {place}{len(errors.matches):,}{_more(errors)}"
        cells.append(Span("  no error", Tone.MUTED) if is_clean else Span(count, Tone.BAD))
    if search is not None:
        place = "" if current is None else f"{search.rank(current) + 1:,}/"
        cells.append(Span(f"  /{search.pattern} {place}{len(search.matches):,}{_more(search)}", Tone.ACCENT))
    if narrowed is not None:
        only = f"only {listed(sorted(narrowed.only), 1)} " if narrowed.only else ""
        sign = f"&{narrowed.pattern} " if narrowed.pattern else ""
        cells.append(Span(f"  {only}{sign}{len(narrowed.matches):,}{_more(narrowed)}", Tone.ACCENT))
    return tuple(cells)


def holdings_of(buffer: LogBuffer, options: LogOptions) -> Cells:
    """Return the number of lines held and dropped, and the active options."""
    dropped = f"{buffer.evicted:,} older dropped · " if buffer.evicted else ""
    wrap = {Wrap.TRACEBACKS: "", Wrap.ALL: " · wrap", Wrap.NONE: " · cut"}[options.wrap]
    raw = "" if options.lays_json else " · JSON raw"
    held = buffer.end - buffer.start
    return (Span(f"{dropped}{held:,} line{'s' * (held != 1)}{wrap}{raw}", Tone.MUTED),)


def _more(search: LineSearch) -> str:
    return "" if search.is_complete else "…"
