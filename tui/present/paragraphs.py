"""Plain text in as many columns as there are: long lines go on below, under where their text began."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from rich.cells import cell_len, chop_cells

_WORDS = re.compile(r"\S+\s*")
_LABEL = re.compile(r" *\S+(?: \S+)*  +")
"""What stands before two blanks: a key, a name, a column."""


class Row(msgspec.Struct, frozen=True):
    """One row of the screen.

    Args:
        text: What it shows.
        line: Index of the line that it is a part of.
    """

    text: str
    line: int


def rows_of(lines: Iterable[str], width: int) -> list[Row]:
    """Every line as the rows it takes in `width` terminal columns; a width of 0 wraps nothing."""
    return [Row(text, index) for index, line in enumerate(lines) for text in _wrapped(line, width)]


def _wrapped(line: str, width: int) -> Iterator[str]:
    if width <= 0 or cell_len(line) <= width:
        yield line
        return
    indent = " " * _indent(line, width)
    shown = line[: len(line) - len(line.lstrip(" "))]
    is_empty = True
    for word in _WORDS.findall(line.lstrip(" ")):
        if not is_empty and cell_len(shown) + cell_len(word.rstrip()) > width:
            yield shown.rstrip()
            shown, is_empty = indent, True
        rest = word
        while cell_len(shown) + cell_len(rest.rstrip()) > width:
            head = chop_cells(rest, max(2, width - cell_len(shown)))[0]
            yield shown + head
            rest, shown = rest[len(head) :], indent
        shown, is_empty = shown + rest, False
    yield shown.rstrip()


def _indent(line: str, width: int) -> int:
    """Where rows after the first begin: under the text behind a label, else two columns in."""
    label = _LABEL.match(line)
    if label is not None and label.end() <= width // 2:
        return label.end()
    return min(len(line) - len(line.lstrip(" ")) + 2, width // 2)
