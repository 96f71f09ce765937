"""One line of text while it is edited: the text and where the cursor stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

_WORD_BEFORE = re.compile(r"\S*\s*$")
_WORD_AFTER = re.compile(r"\s*\S*")


class LineEdit(msgspec.Struct, frozen=True):
    """Text under a cursor.

    Args:
        text: What stands there.
        cursor: Characters before the cursor.
        is_marked: The whole text is marked, as when one has just come to it: what is typed takes its place.
    """

    text: str
    cursor: int
    is_marked: bool = False

    @classmethod
    def of(cls, text: str) -> LineEdit:
        """A text that one has just come to."""
        return cls(text, len(text), is_marked=bool(text))

    def typed(self, text: str) -> LineEdit:
        """With `text` at the cursor; line ends in it are blanks."""
        text = " ".join(text.splitlines())
        if self.is_marked:
            return LineEdit(text, len(text))
        before, after = self._halves
        return LineEdit(before + text + after, self.cursor + len(text))

    def at(self, cursor: int) -> LineEdit:
        """With the cursor elsewhere, within the text; nothing is marked."""
        return LineEdit(self.text, max(0, min(cursor, len(self.text))))

    def without(self, start: int, end: int) -> LineEdit:
        """Without the characters from `start` up to `end`, or without all of a marked text."""
        if self.is_marked:
            return LineEdit("", 0)
        start, end = max(0, start), min(end, len(self.text))
        return LineEdit(self.text[:start] + self.text[end:], start)

    @property
    def word_start(self) -> int:
        """Where the word before the cursor begins."""
        found = _WORD_BEFORE.search(self._halves[0])
        return found.start() if found else 0

    @property
    def word_end(self) -> int:
        """Where the word after the cursor ends."""
        found = _WORD_AFTER.match(self.text, self.cursor)
        return found.end() if found else len(self.text)

    @property
    def _halves(self) -> tuple[str, str]:
        return self.text[: self.cursor], self.text[self.cursor :]


EDITS: Mapping[str, Callable[[LineEdit], LineEdit]] = {
    "left": lambda line: line.at(line.cursor - 1),
    "right": lambda line: line.at(line.cursor + 1),
    "home": lambda line: line.at(0),
    "end": lambda line: line.at(len(line.text)),
    "word_left": lambda line: line.at(line.word_start),
    "word_right": lambda line: line.at(line.word_end),
    "backspace": lambda line: line.without(line.cursor - 1, line.cursor),
    "delete": lambda line: LineEdit.at(line.without(line.cursor, line.cursor + 1), line.cursor),
    "delete_word": lambda line: line.without(line.word_start, line.cursor),
    "delete_to_start": lambda line: line.without(0, line.cursor),
    "delete_to_end": lambda line: line.without(line.cursor, len(line.text)),
}
"""What editing keys do, by name."""
