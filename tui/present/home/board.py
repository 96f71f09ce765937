"""A board: sections of lines in bands below each other, laid out for a width and a height; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tui.present.cells import Cells, Span, Tone, fit, width_of
from tui.present.subject import Subject

GAP = 2
"""Blank columns between two sections side by side."""


class BoardEntry(msgspec.Struct, frozen=True):
    """A line of a section that the cursor can be on.

    Args:
        key: Its identity.
        line: The command line of enter; empty if it opens nothing.
        subject: The object that other commands mean, if it is one.
        weight: The cursor begins at the heaviest entry.
    """

    key: str
    line: str = ""
    subject: Subject | None = None
    weight: int = 0


class BoardRow(msgspec.Struct, frozen=True):
    """A line of a section, and what is shown below it where there is room.

    Args:
        cells: The line.
        entry: What the cursor can be on; `None` for text alone.
        details: Further lines.
    """

    cells: Cells
    entry: BoardEntry | None = None
    details: tuple[Cells, ...] = ()


class Section(msgspec.Struct, frozen=True):
    """A heading with rows.

    Args:
        title: The heading.
        rows: Its lines.
        hint: What can be done here, at the end of the heading.
        more: Opens all rows, where only some of them have room.
        note: Behind the title: a count, a state.
    """

    title: str
    rows: tuple[BoardRow, ...]
    hint: str = ""
    more: BoardEntry | None = None
    note: Cells = ()


_LEAST_FILLING = 3
"""Rows of a section that only fills."""

SectionMaker = Callable[[int], Section]
"""Makes a section for a width in columns."""


class Block(msgspec.Struct, frozen=True):
    """A part of a line of the screen: `cells` in `width` columns from `x` on; `key` of its entry, or empty."""

    x: int
    width: int
    cells: Cells
    key: str = ""


class Board(msgspec.Struct, frozen=True):
    """The lines of the screen from top to bottom, and the entries in the order of the cursor.

    Args:
        lines: Blocks from left to right.
        entries: All entries.
        firsts: Indices of the first entry of each section that has one.
    """

    lines: tuple[tuple[Block, ...], ...] = ()
    entries: tuple[BoardEntry, ...] = ()
    firsts: tuple[int, ...] = ()

    def line_of(self, key: str) -> int:
        """Return the index of the first line of an entry; 0 if there is none."""
        return next((y for y, line in enumerate(self.lines) if any(block.key == key for block in line)), 0)


class _Placed(msgspec.Struct):
    """A section with its place in a band, and the lines that it gets."""

    section: Section
    x: int
    width: int
    lines: int = 0
    has_details: bool = False

    @property
    def wanted(self) -> int:
        rows = self.section.rows
        return len(rows) + (sum(len(row.details) for row in rows) if self.has_details else 0)


def board_of(
    bands: Sequence[Sequence[tuple[SectionMaker, float]]],
    width: int,
    height: int,
    *,
    order: Sequence[int] = (),
    filler: SectionMaker | None = None,
) -> Board:
    """Lay sections out. All are shown, each with at least one row; a section with too little room ends in `+3 more`.

    Args:
        bands: From top to bottom; in each, sections from left to right with their shares of the width.
        width: Terminal columns.
        height: Terminal lines; with too few of them the board is higher, and has to be scrolled.
        order: Indices of bands, the most important first: they get lines before others. All of them by default.
        filler: Makes a section for the lines that the others leave at the bottom, if those are worth it.
    """
    placed = [_place(band, width) for band in bands]
    spare = height - len(placed)
    for band in placed:
        for one in band:
            one.lines = min(1, one.wanted)
    spare -= sum(_lines_of(band) for band in placed)
    spare = _deal(placed, [*order] or [*range(len(placed))], spare)
    spare = _detail(placed, spare)
    has_gaps = spare >= len(placed) - 1
    if filler is not None and has_gaps:
        placed += _filled(filler, width, spare - (len(placed) - 1))
    lines: list[tuple[Block, ...]] = []
    entries: list[BoardEntry] = []
    firsts: list[int] = []
    for index, band in enumerate(placed):
        if index and has_gaps:
            lines.append(())
        columns = [_column(one, entries, firsts) for one in band]
        longest = max(map(len, columns))
        lines += [tuple(column[y] for column in columns if y < len(column)) for y in range(longest)]
    return Board(tuple(lines), tuple(entries), tuple(firsts))


def _place(band: Sequence[tuple[SectionMaker, float]], width: int) -> list[_Placed]:
    room = width - GAP * (len(band) - 1)
    placed: list[_Placed] = []
    x = 0
    for index, (make, share) in enumerate(band):
        own = width - x if index == len(band) - 1 else int(room * share)
        placed.append(_Placed(make(own), x, own))
        x += own + GAP
    return placed


def _lines_of(band: Sequence[_Placed]) -> int:
    return max(one.lines for one in band)


def _deal(placed: list[list[_Placed]], order: Sequence[int], spare: int) -> int:
    """Give each band one line after the other until all rows are shown or no line is left; return what is left."""
    is_growing = True
    while spare > 0 and is_growing:
        is_growing = False
        for index in order:
            band = placed[index]
            if spare > 0 and any(one.lines < one.wanted for one in band):
                highest = _lines_of(band) + 1
                for one in band:
                    one.lines = min(one.wanted, highest)
                spare -= 1
                is_growing = True
    return spare


def _detail(placed: list[list[_Placed]], spare: int) -> int:
    """Show the details of sections for which there is room, from the top; return the lines that are left."""
    for band in placed:
        before = _lines_of(band)
        for one in band:
            one.has_details = True
            if max(before, one.wanted) - before > spare or any(other.lines < len(other.section.rows) for other in band):
                one.has_details = False
        if any(one.has_details for one in band):
            for one in band:
                one.lines = one.wanted
            spare -= _lines_of(band) - before
    return spare


def _filled(filler: SectionMaker, width: int, spare: int) -> list[list[_Placed]]:
    """Return a band for the lines that are left, which has a gap above it and ends with them."""
    section = filler(width)
    lines = min(len(section.rows), spare - 2)
    return [[_Placed(section, 0, width, lines)]] if lines >= min(_LEAST_FILLING, len(section.rows)) > 0 else []


def _column(one: _Placed, entries: list[BoardEntry], firsts: list[int]) -> list[Block]:
    """Return the lines of a section, and append its entries to those of the board."""
    blocks = [Block(one.x, one.width, _heading(one.section, one.width))]
    begin = len(entries)
    rows = one.section.rows
    hidden = len(rows) - one.lines
    if hidden > 0 and one.section.more is not None and one.lines > 1:
        more = one.section.more
        text = (Span(f"  +{hidden + 1} more", Tone.ACCENT),)
        rows = (*rows[: one.lines - 1], BoardRow(text, more))
    elif hidden > 0:
        rows = rows[: one.lines]
    for row in rows:
        key = row.entry.key if row.entry else ""
        if row.entry is not None:
            entries.append(row.entry)
        blocks.append(Block(one.x, one.width, _cut(row.cells, one.width), key))
        blocks += [Block(one.x, one.width, line) for line in (row.details if one.has_details else ())]
    if len(entries) > begin:
        firsts.append(begin)
    return blocks


def _cut(cells: Cells, width: int) -> Cells:
    return cells if width_of(cells) <= width else fit(cells, width)


def _heading(section: Section, width: int) -> Cells:
    title: Cells = (Span(section.title, Tone.STRONG), *((Span("  "), *section.note) if section.note else ()), Span(" "))
    hint: Cells = (Span(f" {section.hint}", Tone.MUTED),) if section.hint else ()
    rule = width - width_of(title) - width_of(hint)
    if rule < 2:
        hint, rule = (), width - width_of(title)
    return fit((*title, Span("─" * max(0, rule), Tone.MUTED), *hint), width)
