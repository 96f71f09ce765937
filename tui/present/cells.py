"""Text with a tone: what present functions hand to widgets, free of colours and of Textual.

A tone names a meaning; the theme gives it a colour. A tone never stands alone: whatever it says, a glyph or a
word says too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size


class Tone(StrEnum):
    """What a piece of text means."""

    PLAIN = "plain"
    MUTED = "muted"
    STRONG = "strong"
    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    ACCENT = "accent"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text with one tone. The text is plain: no markup, no controls."""

    text: str
    tone: Tone = Tone.PLAIN


Cells: TypeAlias = tuple[Span, ...]
"""A short line of toned text, left to right."""

CellValue: TypeAlias = str | Span | Cells
"""What a column's function may return."""


def cells_of(value: CellValue) -> Cells:
    """Normalise what a column's function returned."""
    match value:
        case str():
            return (Span(value),)
        case Span():
            return (value,)
        case _:
            return value


def text_of(value: CellValue) -> str:
    """The characters of `value`, without their tones."""
    return value if isinstance(value, str) else "".join(span.text for span in cells_of(value))


def width_of(value: CellValue) -> int:
    """Terminal columns that `value` takes."""
    return cell_len(text_of(value))


def fit(value: CellValue, width: int, *, align_right: bool = False) -> Cells:
    """Cut or pad `value` to exactly `width` terminal columns; what was cut ends in `…`."""
    cells = cells_of(value)
    missing = width - width_of(cells)
    if missing > 0:
        pad = (Span(" " * missing),)
        return pad + cells if align_right else cells + pad
    return cells if missing == 0 else _cut(cells, width)


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
