"""What a program has drawn on its terminal. The only user of pyte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import pyte
from rich.color import Color, ColorParseError
from rich.segment import Segment
from rich.style import Style

_SEQUENCES = re.compile(rb"\x1b?[^\x1b]+|\x1b")
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow", "bfightmagenta": "bright_magenta"}


class TerminalScreen:
    """A grid of characters, fed with the bytes of a program that believes in `TERM=linux`.

    Whatever comes is survived: pyte raises on some sequences; such a one is skipped, with the text up to the next.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._screen.columns, self._screen.lines

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Column and row of the cursor, or `None` while it is hidden."""
        cursor = self._screen.cursor
        return None if cursor.hidden else (cursor.x, cursor.y)

    def feed(self, data: bytes) -> set[int]:
        """Draw what the program wrote.

        Returns:
            The rows that changed.
        """
        for piece in _SEQUENCES.findall(data):
            try:
                self._stream.feed(piece)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError):
                self._stream = pyte.ByteStream(self._screen)
        changed = set(self._screen.dirty)
        self._screen.dirty.clear()
        return changed

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the grid; rows go at the top only as far as the cursor needs room, else at the bottom."""
        self._screen.shrink(rows)
        self._screen.resize(lines=rows, columns=columns)
        self._screen.dirty.clear()

    def segments(self, row: int) -> list[Segment]:
        """One row, neighbours of the same style joined; exactly as wide as the grid."""
        return list(self._runs(row))

    def _runs(self, row: int) -> Iterator[Segment]:
        line, text, style = self._screen.buffer[row], "", Style.null()
        for column in range(self._screen.columns):
            char = line[column]
            this = _style_of(tuple(char)[1:])
            if this != style and text:
                yield Segment(text, style)
                text = ""
            style = this
            text += char.data
        if text:
            yield Segment(text, style)


class _Screen(pyte.Screen):  # type: ignore[misc]  # mypy takes pyte as untyped
    def shrink(self, rows: int) -> None:
        """Prepare for fewer rows: pyte drops all of them at the top, where the text is, whatever stands below."""
        excess = self.lines - rows
        if excess <= 0:
            return
        column, row = self.cursor.x, self.cursor.y
        needed = max(0, row - rows + 1)
        self.reset_mode(pyte.modes.DECOM)
        self.set_margins()
        if excess > needed:  # pyte takes 0 lines for 1
            self.cursor_position(1, 1)
            self.insert_lines(excess - needed)
        self.cursor.x, self.cursor.y = column, row - needed

    def select_graphic_rendition(self, *attrs: int, private: bool = False) -> None:
        """Private forms of SGR mean something else; pyte's own method refuses the argument."""
        if not private:
            super().select_graphic_rendition(*attrs)


Look: TypeAlias = tuple[str, str, bool, bool, bool, bool, bool, bool]
"""Foreground, background, bold, italic, underlined, struck, reversed, blinking: a pyte character without its text."""


@lru_cache(2048)
def _style_of(look: Look) -> Style:
    foreground, background, bold, italic, underline, struck, reverse, _ = look
    return Style(
        color=_color(foreground),
        bgcolor=_color(background),
        bold=bold or None,
        italic=italic or None,
        underline=underline or None,
        strike=struck or None,
        reverse=reverse or None,
    )


def _color(name: str) -> Color | None:
    if name == "default":
        return None
    name = _NAMES.get(name, name)
    if name.startswith("bright") and not name.startswith("bright_"):
        name = f"bright_{name[6:]}"
    try:
        return Color.parse(f"#{name}" if len(name) == 6 and all(c in "0123456789abcdef" for c in name) else name)
    except ColorParseError:
        return None
