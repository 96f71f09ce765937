"""Cells and bars: text with tones, as present functions give it to widgets; free of colours and of Textual."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeAlias

import msgspec
from rich.cells import cell_len, set_cell_size


class Tone(StrEnum):
    """The meaning of a piece of text; the style sheet gives it a colour."""

    PLAIN = "plain"
    MUTED = "muted"
    STRONG = "strong"
    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    ACCENT = "accent"


class Span(msgspec.Struct, frozen=True, gc=False):
    """A piece of text with one tone. The text is plain: no markup, no controls."""

    text: str
    tone: Tone = Tone.PLAIN


class Link(Span, frozen=True, gc=False):
    """A piece of text that can be clicked.

    Args:
        line: The command line that a click starts, as typed after `:`.
        key: The key that a click presses, if there is no line: Textual's name, or the character.
    """

    line: str = ""
    key: str = ""


Cells: TypeAlias = tuple[Span, ...]
"""A short line of toned text, left to right."""

CellValue: TypeAlias = str | Span | Cells
"""The return type of a column's function."""

_WORDS = re.compile(r"\s*\S+\s?")
_INDENT = 2
_LEAST_ENDS = 9
"""Below this width, text is cut at its end, not in the middle."""


def cells_of(value: CellValue) -> Cells:
    """Normalize the return value of a column's function."""
    match value:
        case str():
            return (Span(value),)
        case Span():
            return (value,)
        case _:
            return value


def text_of(value: CellValue) -> str:
    """Return the characters of `value`, without their tones."""
    return value if isinstance(value, str) else "".join(span.text for span in cells_of(value))


def merged(cells: Iterable[Span]) -> list[tuple[str, Tone]]:
    """Join neighbours of one tone into as few spans as possible: every span costs on its way to the terminal.

    Blanks look the same in every tone, so they join the span before them.
    """
    runs: list[tuple[str, Tone]] = []
    parts: list[str] = []
    current = Tone.PLAIN
    for span in cells:
        if span.tone is not current and not span.text.isspace():
            if parts:
                runs.append(("".join(parts), current))
                parts = []
            current = span.tone
        parts.append(span.text)
    if parts:
        runs.append(("".join(parts), current))
    return runs


def width_of(value: CellValue) -> int:
    """Return the width of `value` in terminal columns."""
    text = text_of(value)
    return len(text) if text.isascii() else cell_len(text)


def wrapped(cells: Cells, width: int) -> list[Cells]:
    """Break a line between words into lines of at most `width` terminal columns; a longer word is cut by the widget.

    Args:
        cells: The line.
        width: Terminal columns; 0 breaks nothing. Lines after the first one are indented by two.
    """
    if width <= 0 or width_of(cells) <= width:
        return [cells]
    lines: list[list[Span]] = [[]]
    room = width
    for span in cells:
        for word in _WORDS.findall(span.text):
            if width_of(word.rstrip()) > room and room < width - _INDENT:
                lines.append([Span(" " * _INDENT)])
                room = width - _INDENT
                word = word.lstrip()  # noqa: PLW2901 - its gap was in the line before
            lines[-1].append(msgspec.structs.replace(span, text=word))
            room -= width_of(word)
    return [tuple(line) for line in lines]


def link_at(cells: Cells, x: int) -> Link | None:
    """Return the link in a terminal column of a line, if there is one."""
    for span in cells:
        x -= width_of(span)
        if x < 0:
            return span if isinstance(span, Link) else None
    return None


def fit(value: CellValue, width: int, *, align_right: bool = False) -> Cells:
    """Cut or pad `value` to exactly `width` terminal columns; a cut text ends in `…`."""
    if isinstance(value, str):
        value = Span(value)
    if isinstance(value, Span) and value.text.isascii() and len(value.text) <= width:
        text = value.text.rjust(width) if align_right else value.text.ljust(width)
        return (Span(text, value.tone),)
    cells = cells_of(value)
    missing = width - width_of(cells)
    if missing > 0:
        pad = (Span(" " * missing),)
        return pad + cells if align_right else cells + pad
    return cells if missing == 0 else _cut(cells, width)


def fit_ends(value: str | Span, width: int) -> Cells:
    """Cut in the middle, or pad, to exactly `width` terminal columns: pod names differ at their end."""
    text, tone = (value, Tone.PLAIN) if isinstance(value, str) else (value.text, value.tone)
    over = cell_len(text) - width
    if over <= 0 or width < _LEAST_ENDS:
        return fit(value, width)
    head = set_cell_size(text, (width - 1) // 2)
    tail = text[len(text) - (width - 1 - (width - 1) // 2) :]
    return fit(Span(f"{head}…{tail}", tone), width)


def _cut(cells: Cells, width: int) -> Cells:
    if width <= 0:
        return ()
    kept: list[Span] = []
    room = width - 1
    for span in cells:
        length = cell_len(span.text)
        if length > room:
            kept.append(Span(set_cell_size(span.text, room) + "…", span.tone))
            break
        kept.append(span)
        room -= length
    return tuple(kept)


_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int) -> str:
    """Draw the filled part of a bar.

    Args:
        share: 0 to 1, clamped. Anything above 0 shows at least a sliver, and only 1 fills the bar.
        width: Terminal columns of the whole bar.

    Returns:
        At most `width` characters, without padding.
    """
    if width <= 0 or not share > 0:
        return ""
    if share >= 1:
        return "█" * width
    eighths = min(width * 8 - 1, max(1, round(share * width * 8)))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def meter(part: float, whole: float, *, cells: int = 5) -> Cells:
    """Draw a bar of `cells` columns, full at `part` ≥ `whole`; its tone marks more than the whole."""
    filled = bar(part / whole if whole > 0 else 0.0, cells)
    tone = Tone.WARN if part > whole else Tone.GOOD if part == whole else Tone.BUSY
    return (Span(filled, tone), Span("·" * (cells - len(filled)), Tone.MUTED))
