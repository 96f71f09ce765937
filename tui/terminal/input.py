"""The bytes of a terminal as Textual's messages. No input ends the program or grows without bound."""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from actions.base.untrusted import plain_text

MOST_PASTED = 1 << 20
"""Maximum characters of one paste; the rest is dropped."""
LOST_PASTE_SECONDS = 5.0
"""A paste that pauses for this long is over: its end was lost, and every key would be taken for a part of it."""
_PAUSE_SECONDS = 0.09
"""A pause in what the terminal sends; a little less than the driver waits for input."""
_HELD_SECONDS = 0.3
"""The longest time that keys behind a paste wait for a pause."""
_MOST_TYPED = 4
"""Maximum characters that a person types without such a pause."""
_LONGEST_KEY = 16
"""Maximum bytes of one key."""
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


class Pastes:
    """A filter that makes each bracketed paste plain text, and passes everything else unchanged.

    Textual's parser takes a paste for keys once there is an escape in it, and tmux and xterm.js leave escapes in. A
    paste may also hold the mark of its own end: what follows an end without a pause is held, and is pasted too if
    another end comes.

    Args:
        most: Maximum characters of a paste; the rest is dropped.
    """

    def __init__(self, most: int = MOST_PASTED) -> None:
        self._most = most
        self._passed = ""
        """The last characters passed on, in which a mark may have begun."""
        self._held: str | None = None
        """The text of a paste, or what follows one without a pause; `None` while keys are passed on."""
        self.is_open = False
        """A paste has begun and not ended."""
        self._is_lost = False
        """The last paste was ended by time: what comes may be the rest of it."""

    @property
    def holds(self) -> bool:
        """True if something that follows a paste is held."""
        return bool(self._held) and not self.is_open

    def let_through(self, text: str) -> str:
        """Return what to pass on now; marks may be split between two calls."""
        passed = ""
        while text:
            if self._held is None:
                part, text = self._until_start(text)
                passed += part
                continue
            held, self._held = self._held + text, ""
            ends = (BRACKETED_PASTE_END,) if self.is_open else (BRACKETED_PASTE_START, BRACKETED_PASTE_END)
            at, mark = min(((held.find(mark), mark) for mark in ends if mark in held), default=(-1, ""))
            if not mark:
                self._held = self._bounded(held)
                break
            content, text = held[:at], held[at + len(mark) :]
            if mark == BRACKETED_PASTE_START:
                passed += content + mark
                self.is_open = True
            else:
                passed += self._pasted(content)
                self.is_open = self._is_lost = False
        return passed

    def settle(self) -> str:
        """Return what was typed behind a paste; to be called after a pause."""
        if self._held is None or self.is_open or (self._is_lost and not self._held):
            return ""
        held, self._held = self._held, None
        if self._is_lost and len(plain_text(held)) > _MOST_TYPED:
            self._held = ""
            return self._pasted(held)
        self._is_lost = False
        return held

    def lose(self) -> str:
        """Return the end of a paste whose mark was lost."""
        content, self._held = self._held or "", ""
        pasted, self.is_open, self._is_lost = self._pasted(content), False, True
        return pasted

    def _until_start(self, text: str) -> tuple[str, str]:
        """Split `text` behind a mark of a start, which may have begun in an earlier call."""
        before = self._passed
        at = (before + text).find(BRACKETED_PASTE_START)
        if at < 0:
            self._passed = (before + text)[1 - len(BRACKETED_PASTE_START) :]
            return text, ""
        end = at + len(BRACKETED_PASTE_START) - len(before)
        self._passed, self._held, self.is_open = "", "", True
        return text[:end], text[end:]

    def _pasted(self, content: str) -> str:
        """Return what the parser makes one paste of."""
        text = "\r".join(map(plain_text, content[: self._most].replace("\r\n", "\r").split("\r")))
        return f"{'' if self.is_open else BRACKETED_PASTE_START}{text}{BRACKETED_PASTE_END}"

    def _bounded(self, held: str) -> str:
        """Return `held` without what is too much, but with its last characters, in which a mark may have begun."""
        rest = held[self._most :]
        # A NUL, which is removed later, so that no mark appears where the rest was cut off.
        return held[: self._most] + (f"\0{rest[1 - len(BRACKETED_PASTE_END) :]}" if rest else "")


class TerminalInput:
    """A parser of a terminal's bytes into messages: keys, mouse, pastes.

    Bytes that are not UTF-8 are dropped in typed input, and become U+FFFD in a paste. A sequence on which Textual's
    parser fails is dropped.

    Args:
        tells_size: Returns whether the terminal was asked to report its size in band.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, tells_size: Callable[[], bool] = lambda: False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tells_size = tells_size
        self._clock = clock
        self.forget()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Return the messages that `data` completes."""
        if not self._paste.is_open or len(data) > _LONGEST_KEY:  # keys do not make a lost paste last longer
            self._fed_at = self._clock()
        yield from self._parsed(self._paste.let_through(self._decode(data)))
        if not self._paste.holds:
            self._held_at = self._clock()
        elif self._clock() - self._held_at > _HELD_SECONDS:
            yield from self._parsed(self._paste.settle())

    def tick(self) -> Iterator[Message]:
        """Return the messages completed by time: a lone escape is a key after a tenth of a second."""
        paused = self._clock() - self._fed_at
        if self._paste.is_open and paused > LOST_PASTE_SECONDS:
            yield from self._parsed(self._paste.lose())
        elif paused >= _PAUSE_SECONDS:
            yield from self._parsed(self._paste.settle())
        yield from self._guarded(self._parser.tick())

    def forget(self) -> None:
        """Reset the parser, dropping any incomplete sequence."""
        self._paste = Pastes()
        self._fed_at = self._held_at = self._clock()
        self._decode: Callable[[bytes], str] = getincrementaldecoder("utf-8")(errors="replace").decode
        self._parser = KeyParser()

    def _parsed(self, text: str) -> Iterator[Message]:
        for part in _parts(text):
            yield from self._guarded(self._parser.feed(part))

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
