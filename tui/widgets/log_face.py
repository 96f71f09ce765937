"""How one line of a log looks: clock, source, text, marks."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.present.ansi import segments_of
from tui.present.names import short_names
from tui.present.times import clock_of
from tui.widgets.line_search import LineSearch
from tui.widgets.log_buffer import LogBuffer, LogRecord
from tui.widgets.log_rows import Row
from tui.widgets.stripes import StripWidget

SOURCE_COLORS = 6
SOURCE_WIDTH = 18
KEPT_LINES = 2_000


class LogOptions(msgspec.Struct, frozen=True):
    """What the operator switched."""

    wrap: bool = False
    has_clock: bool = False
    has_source: bool = True
    """Shown only while there is more than one source."""


class LogFace:
    """Lines as strips, kept until width, options, marks or styles change."""

    PARTS = (
        "log--clock",
        "log--marker",
        "log--match",
        "log--current",
        *(f"log--source-{index}" for index in range(SOURCE_COLORS)),
    )

    def __init__(self, buffer: LogBuffer) -> None:
        self.options = LogOptions()
        self._buffer = buffer
        self._width = 1
        self._left = 0
        self._search: LineSearch | None = None
        self._current: int | None = None
        self._names: dict[str, str] = {}
        self._strips: dict[int, list[Strip]] = {}

    @property
    def width(self) -> int:
        """Terminal columns of a row."""
        return self._width

    @width.setter
    def width(self, width: int) -> None:
        if width != self._width:
            self._width = width
            self.forget()
        if len(self._buffer.sources) != len(self._names):
            self._names = short_names(list(self._buffer.sources))
            self.forget()

    @property
    def left(self) -> int:
        """Columns of text that are scrolled out to the left; wrapped text has none."""
        return 0 if self.options.wrap else self._left

    @left.setter
    def left(self, left: int) -> None:
        self._left = left
        self.forget()

    def look_at(self, buffer: LogBuffer) -> None:
        """Draw the lines of another buffer."""
        self._buffer = buffer
        self._names = {}
        self._left = 0
        self.mark(None, None)

    def toggle(self, option: str) -> None:
        """Switch an option of `LogOptions` by name."""
        match option:
            case "wrap":
                self.options = replace(self.options, wrap=not self.options.wrap)
            case "has_clock":
                self.options = replace(self.options, has_clock=not self.options.has_clock)
            case _:
                self.options = replace(self.options, has_source=not self.options.has_source)
        self.forget()

    def mark(self, search: LineSearch | None, current: int | None) -> None:
        """Highlight matches."""
        self._search, self._current = search, current
        self.forget()

    def forget(self) -> None:
        """Drop finished lines."""
        self._strips.clear()

    def height_of(self, painter: StripWidget, line: int) -> int:
        """Rows that a line takes."""
        return len(self._lines(painter, line)) if self.options.wrap else 1

    def strip(self, painter: StripWidget, row: Row) -> Strip:
        """One row, exactly `width` wide."""
        parts = self._lines(painter, row.line)
        return parts[min(row.part, len(parts) - 1)]

    def _lines(self, painter: StripWidget, line: int) -> list[Strip]:
        known = self._strips.get(line)
        if known is None:
            if len(self._strips) > KEPT_LINES:
                self._strips.clear()
            known = self._strips[line] = self._draw(painter, line)
        return known

    def _draw(self, painter: StripWidget, line: int) -> list[Strip]:
        skin, record = painter.skin, self._buffer.line(line)
        prefix = self._prefix(painter, record)
        room = max(1, self._width - prefix.cell_length)
        body = self._body(painter, record, line)
        if not self.options.wrap:
            return [Strip.join([prefix, body.crop_extend(self.left, self.left + room, skin.base)])]
        cuts = [*range(room, body.cell_length, room), body.cell_length]
        pieces = body.divide(cuts) if body.cell_length > room else [body]
        indent = Strip.blank(prefix.cell_length, skin.base)
        return [
            Strip.join([indent if index else prefix, piece.adjust_cell_length(room, skin.base)])
            for index, piece in enumerate(pieces)
        ]

    def _prefix(self, painter: StripWidget, record: LogRecord) -> Strip:
        skin, segments = painter.skin, []
        if self.options.has_clock:
            segments.append(Segment(clock_of(record.at_ns) + " ", skin.parts["log--clock"]))
        if self.options.has_source and len(self._names) > 1:
            widest = min(SOURCE_WIDTH, max(map(cell_len, self._names.values())))
            name = set_cell_size(self._names.get(record.source, record.source), widest)
            color = self._buffer.source_id(record.source) % SOURCE_COLORS
            segments.append(Segment(name + " ", skin.parts[f"log--source-{color}"]))
        return Strip(segments)

    def _body(self, painter: StripWidget, record: LogRecord, line: int) -> Strip:
        skin = painter.skin
        if record.is_marker:
            return Strip([Segment(f"── {record.text} ──", skin.parts["log--marker"])])
        strip = Strip(
            [Segment(text, skin.base + style if style else skin.base) for text, style, _ in segments_of(record.text)]
        )
        if self._search is None or self._search.is_inverse:
            return strip
        return _marked(strip, self._search, skin.parts["log--current" if line == self._current else "log--match"])


def _marked(strip: Strip, search: LineSearch, style: Style) -> Strip:
    """`strip` with the matches of `search` on another ground."""
    text = strip.text
    spans = search.spans(text)
    if not spans:
        return strip
    cuts: list[int] = []
    for start, end in spans:
        cuts += cell_len(text[:start]), cell_len(text[:end])
    pieces = strip.divide([*cuts, strip.cell_length])
    return Strip.join(
        Strip([Segment(segment.text, style) for segment in piece]) if index % 2 else piece
        for index, piece in enumerate(pieces)
    )
