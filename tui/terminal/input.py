"""The bytes of a terminal as Textual's messages. No input ends the program or grows without bound."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

MOST_PASTED = 1 << 20
"""Maximum characters of one paste; the rest is dropped."""
_FARTHEST = 10_000
"""Maximum columns or lines: no terminal is larger, and a screen of such a size would take all memory."""
_ESCAPE = "\x1b"
_LONGEST_SEQUENCE = 40
"""Maximum characters of a sequence; Textual's parser reads 32."""
_OF_THE_PARSER = (ArithmeticError, LookupError, RuntimeError, ValueError, ParseError)
"""Errors of Textual's parser on sequences that no terminal sends: `chr` and `int` of their parts."""


_INTRODUCERS = "[]\\_^"
"""Characters that begin a control sequence behind an escape (ECMA-48: CSI, OSC, ST, APC, PM), and letters besides."""


class KeyParser(XTermParser):
    """Textual's parser, with the Escape key kept in front of a key that a slow line delivers together with it.

    Textual takes both for one key with Alt, and drops that Alt from all but letters and digits: an Escape before `:`,
    `/` or Enter would be lost.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if alt and not sequence.isalnum() and sequence not in _INTRODUCERS:
            yield events.Key("escape", _ESCAPE)
        yield from super()._sequence_to_key_events(sequence, alt)


class PasteLimit:
    """A filter that limits the length of bracketed pastes, and passes everything else unchanged.

    Args:
        most: Maximum characters of a paste.
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
        """Return the part of `text` to keep; markers may be split between two calls."""
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
        """Split `text` at the end of `marker`, whose beginning may have been in an earlier call."""
        before = self._seen[-(len(marker) - 1) :]
        at = (before + text).find(marker)
        end = len(text) if at < 0 else at + len(marker) - len(before)
        self._seen = (before + text[:end])[-len(marker) :]
        return text[:end], text[end:]


class TerminalInput:
    """A parser of a terminal's bytes into messages: keys, mouse, pastes.

    Bytes that are not UTF-8 are dropped in typed input, and become U+FFFD in a paste. A sequence on which Textual's
    parser fails is dropped.

    Args:
        tells_size: Returns whether the terminal was asked to report its size in band.
    """

    def __init__(self, tells_size: Callable[[], bool] = lambda: False) -> None:
        self._tells_size = tells_size
        self.forget()

    @property
    def is_pasting(self) -> bool:
        """True if a paste has begun and not ended."""
        return self._paste.is_open

    def feed(self, data: bytes) -> Iterator[Message]:
        """Return the messages that `data` completes."""
        for part in _parts(self._paste.let_through(self._decode(data))):
            yield from self._guarded(self._parser.feed(part))

    def tick(self) -> Iterator[Message]:
        """Return the messages completed by time: a lone escape is a key after a tenth of a second."""
        yield from self._guarded(self._parser.tick())

    def end_paste(self) -> Iterator[Message]:
        """Return the message of a paste whose end was lost."""
        yield from self.feed(BRACKETED_PASTE_END.encode())

    def forget(self) -> None:
        """Reset the parser, dropping any incomplete sequence."""
        self._paste = PasteLimit()
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode
        self._parser = KeyParser()

    def _guarded(self, messages: Iterable[Message]) -> Iterator[Message]:
        try:
            yield from (message for message in messages if self._is_meant(message))
        except _OF_THE_PARSER:
            self._parser = KeyParser()

    def _is_meant(self, message: Message) -> bool:
        """Return whether a message is one that a terminal or a person can have sent."""
        match message:
            case events.Key(character=str(character)):
                return character != "\ufffd" and not "\ud800" <= character <= "\udfff"
            case events.MouseEvent(x=x, y=y):
                return x < _FARTHEST and y < _FARTHEST
            case events.Resize(size=size):
                is_meant = self._tells_size() and 0 < size.width < _FARTHEST and 0 < size.height < _FARTHEST
                if not is_meant:
                    self._parser.mouse_pixels = False  # else it would compute the mouse's cell from that size
                return is_meant
            case _:
                return True


def _parts(text: str) -> Iterator[str]:
    """Split `text` after every character of a possible sequence, so that a bad one loses nothing else."""
    first, *rest = text.split(_ESCAPE)
    if first:
        yield first
    for part in rest:
        yield from (_ESCAPE, *part[:_LONGEST_SEQUENCE])
        if len(part) > _LONGEST_SEQUENCE:
            yield part[_LONGEST_SEQUENCE:]
