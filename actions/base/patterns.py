"""Regular expressions that people write, matched in time linear in the text, whatever the expression.

RE2's language, which is also that of Terraform and of Kubernetes' schemas: Python's without look-around and
back-references, with which a short text can take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

LONGEST_PATTERN: Final = 1000
"""Characters."""
LONGEST_TEXT: Final = 1 << 15
"""Characters of a text that are looked at: as many from its beginning as from its end."""
_MEMORY_BYTES: Final = 1 << 18
"""For one compiled pattern; it also bounds what compiling and each character of a text cost."""
_KEPT: Final = 512


class PatternError(ValueError):
    """A text is not a regular expression, or one that may take for ever. The message goes behind the pattern's name."""


class Pattern:
    """A regular expression. Made by `compile_pattern`."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATTERN:
            raise PatternError(f"it has more than {LONGEST_PATTERN} characters")
        self._compiled = _compiled(text)
        self.pattern = text

    def search(self, text: str) -> bool:
        """Return whether it matches anywhere."""
        if len(text) > LONGEST_TEXT:
            half = LONGEST_TEXT // 2
            text = f"{text[:half]}\n{text[-half:]}"
        return self._compiled.search(_encodable(text)) is not None

    def fullmatch(self, text: str) -> bool:
        """Return whether it matches the whole text; never, where that is longer than `LONGEST_TEXT`."""
        return len(text) <= LONGEST_TEXT and self._compiled.fullmatch(_encodable(text)) is not None


_WITHIN_A_LINE = re.compile(r"(?:[^\\(\[\n]|\((?!\?)|\\[dwbS]|\\[^\w\n])*")
"""Patterns that surely match no newline."""


class SearchPattern:
    """Return the expression that a person types to search in lines, or the literal text if it is not a valid one.

    Case matters only if it has a capital letter; `^` and `$` stand at the ends of lines.

    Args:
        text: At most `LONGEST_PATTERN` characters count.
    """

    def __init__(self, text: str) -> None:
        text = _encodable(text)[:LONGEST_PATTERN]
        flags = "(?m)" if text != text.lower() else "(?mi)"
        try:
            self._compiled = _compiled(flags + text)
            self._of_bytes = _compiled((flags + text).encode())
        except PatternError:
            text = re.escape(text)
            self._compiled, self._of_bytes = _compiled(flags + text), _compiled((flags + text).encode())
        self._run_of_bytes = None
        """Matches a line and those behind it at once, where that is known to be the same."""
        if _WITHIN_A_LINE.fullmatch(text):
            with suppress(PatternError):  # too large, with what is around it
                self._run_of_bytes = _compiled(f"{flags}(?:^[^\\n]*(?:{text})[^\\n]*\\n)+".encode())

    def runs(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where matching lines that follow each other begin and end: `(start, end)` in bytes, of whole lines.

        Args:
            data: Lines as UTF-8, each ended by a newline.
        """
        at = 0
        while at < len(data) and (found := self._of_bytes.search(data, at)) is not None and found.start() < len(data):
            begin = max(at, data.rfind(b"\n", at, found.start()) + 1)
            run = self._run_of_bytes.match(data, begin) if self._run_of_bytes is not None else None
            at = data.find(b"\n", found.start()) + 1 if run is None else int(run.end())
            yield begin, at

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Every match that is not empty: `(start, end)` in characters."""
        return [found.span() for found in self._compiled.finditer(_encodable(text)) if found.end() > found.start()]


@lru_cache(_KEPT)
def compile_pattern(text: str) -> Pattern:
    """Read a regular expression.

    Raises:
        PatternError: It is none, or one that is not allowed.
    """
    return Pattern(text)


def _compiled(text: str | bytes) -> Any:
    """RE2's own object, for texts of the pattern's type."""
    import re2  # not before a pattern is needed

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise PatternError(_reason(error)) from error
    except UnicodeEncodeError as error:
        raise PatternError("it is not text") from error


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if text.startswith("invalid perl operator"):
        return f"{text}; look-around is not allowed"
    return f"{text}; back-references are not allowed" if text.startswith("invalid escape sequence") else text


def _encodable(text: str) -> str:
    """The text without lone surrogates, which RE2 cannot take."""
    return text.encode("utf-8", "replace").decode()
