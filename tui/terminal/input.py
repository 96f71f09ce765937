"""The bytes of a terminal as Textual's messages. No bytes end the program, and none grow without bound."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

MOST_PASTED = 1 << 20
"""Characters of one paste that are taken; the rest of it is dropped."""
_FARTHEST = 10_000
"""Columns or lines: no terminal is so large, and a picture of one would take all memory."""
_ESCAPE = "\x1b"
_LONGEST_SEQUENCE = 40
"""Characters; Textual's parser looks at 32."""
_OF_THE_PARSER = (ArithmeticError, LookupError, RuntimeError, ValueError, ParseError)
"""Errors of Textual's parser on sequences that no terminal sends: `chr` and `int` of what stands in them."""


class PasteLimit:
    """Lets a bracketed paste through up to a length, and everything else as it is.

    Args:
        most: Characters.
    """

    def __init__(self, most: int = MOST_PASTED) -> None:
        self._most = most
        self._pasted: int | None = None
        self._seen = ""

    @property
    def is_open(self) -> bool:
        """True if a paste has begun and not ended."""
        return self._pasted is not None

    def let_through(self, text: str) -> str:
        """The part of `text` that is to be taken; markers may be cut anywhere between two calls."""
        passed: list[str] = []
        while text:
            if self._pasted is None:
                part, text = self._until(BRACKETED_PASTE_START, text)
                passed.append(part)
                self._pasted = 0 if self._seen.endswith(BRACKETED_PASTE_START) else None
                continue
            is_over = self._pasted >= self._most
            part, text = self._until(BRACKETED_PASTE_END, text)
            passed.append("" if is_over else part)
            self._pasted += len(part)
            if self._seen.endswith(BRACKETED_PASTE_END):
                passed.append(BRACKETED_PASTE_END if is_over else "")
                self._pasted = None
        return "".join(passed)

    def _until(self, marker: str, text: str) -> tuple[str, str]:
        """`text` up to the end of `marker`, whose beginning may have been seen before, and the rest."""
        before = self._seen[-(len(marker) - 1) :]
        at = (before + text).find(marker)
        end = len(text) if at < 0 else at + len(marker) - len(before)
        self._seen = (before + text[:end])[-len(marker) :]
        return text[:end], text[end:]


class TerminalInput:
    """Bytes of a terminal as messages: keys, the mouse, pastes.

    Bytes that are not UTF-8 are dropped where they are typed, and U+FFFD in a paste; so is a sequence that the parser
    fails on.

    Args:
        tells_size: Whether the terminal was asked to tell its size in this way.
    """

    def __init__(self, tells_size: Callable[[], bool] = lambda: False) -> None:
        self._tells_size = tells_size
        self.forget()

    @property
    def is_pasting(self) -> bool:
        """True if a paste has begun and not ended."""
        return self._paste.is_open

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that `data` completes."""
        for part in _parts(self._paste.let_through(self._decode(data))):
            yield from self._guarded(self._parser.feed(part))

    def tick(self) -> Iterator[Message]:
        """The messages that time completes: an escape alone is a key a tenth of a second later."""
        yield from self._guarded(self._parser.tick())

    def end_paste(self) -> Iterator[Message]:
        """The message of a paste whose end does not come."""
        yield from self.feed(BRACKETED_PASTE_END.encode())

    def forget(self) -> None:
        """Begin anew, in the middle of whatever it is."""
        self._paste = PasteLimit()
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode
        self._parser = XTermParser()

    def _guarded(self, messages: Iterable[Message]) -> Iterator[Message]:
        try:
            yield from (message for message in messages if self._is_meant(message))
        except _OF_THE_PARSER:
            self._parser = XTermParser()

    def _is_meant(self, message: Message) -> bool:
        """Return whether a terminal and a hand can have meant it."""
        match message:
            case events.Key(character=str(character)):
                return character != "\ufffd" and not "\ud800" <= character <= "\udfff"
            case events.MouseEvent(x=x, y=y):
                return x < _FARTHEST and y < _FARTHEST
            case events.Resize(size=size):
                is_meant = self._tells_size() and 0 < size.width < _FARTHEST and 0 < size.height < _FARTHEST
                if not is_meant:
                    self._parser.mouse_pixels = False  # else it would count the mouse's cells by that size
                return is_meant
            case _:
                return True


def _parts(text: str) -> Iterator[str]:
    """`text` cut behind every character of what may be a sequence, so that a bad one takes nothing else with it."""
    first, *rest = text.split(_ESCAPE)
    if first:
        yield first
    for part in rest:
        yield from (_ESCAPE, *part[:_LONGEST_SEQUENCE])
        if len(part) > _LONGEST_SEQUENCE:
            yield part[_LONGEST_SEQUENCE:]
