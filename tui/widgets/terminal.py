"""The terminal emulator for a remote program: a shell in a pod, neuron-top. The only user of pyte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeAlias

import pyte
from rich.color import Color, ColorParseError
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tui.widgets.base import LineWidget

_SEQUENCES = re.compile(rb"\x1b?[^\x1b]+|\x1b")
_MARKS_OF_PASTES = 2004 << 5
"""The private mode in which pastes have marks (xterm, `Bracketed Paste Mode`), as pyte keeps it."""
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow", "bfightmagenta": "bright_magenta"}


class TerminalScreen:
    """A grid of characters, fed with the bytes of a program that runs with `TERM=linux`.

    No input raises: a sequence on which pyte fails is skipped, with the text up to the next one.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def size(self) -> tuple[int, int]:
        """The number of columns and rows."""
        return self._screen.columns, self._screen.lines

    @property
    def cursor(self) -> tuple[int, int] | None:
        """The column and row of the cursor, or `None` while it is hidden."""
        cursor = self._screen.cursor
        return None if cursor.hidden else (cursor.x, cursor.y)

    @property
    def marks_pastes(self) -> bool:
        """True if the program has asked for marks around pastes."""
        return _MARKS_OF_PASTES in self._screen.mode

    def feed(self, data: bytes) -> set[int]:
        """Process output of the program.

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
        """Resize the grid; rows are dropped at the bottom, and at the top only if the cursor needs the room."""
        self._screen.shrink(rows)
        self._screen.resize(lines=rows, columns=columns)
        self._screen.dirty.clear()

    def segments(self, row: int) -> list[Segment]:
        """Return one row, neighbours of the same style joined, exactly as wide as the grid."""
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
        """Prepare for fewer rows: pyte would drop all of them at the top, where the text is."""
        excess = self.lines - rows
        if excess <= 0:
            return
        column, row = self.cursor.x, self.cursor.y
        needed = max(0, row - rows + 1)
        self.reset_mode(pyte.modes.DECOM)
        self.set_margins()
        if excess > needed:  # pyte reads 0 lines as 1
            self.cursor_position(1, 1)
            self.insert_lines(excess - needed)
        self.cursor.x, self.cursor.y = column, row - needed

    def select_graphic_rendition(self, *attrs: int, private: bool = False) -> None:
        """Ignore private forms of SGR, which have other meanings; pyte's own method raises on the argument."""
        if not private:
            super().select_graphic_rendition(*attrs)


Look: TypeAlias = tuple[str, str, bool, bool, bool, bool, bool, bool]
"""The style of a pyte character: foreground, background, bold, italic, underlined, struck, reversed, blinking."""


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


_NAMED = {
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "backspace": b"\x7f",
    "escape": b"\x1b",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[1~",
    "insert": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "end": b"\x1b[4~",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    **{f"f{number}": b"\x1b[[" + bytes([64 + number]) for number in range(1, 6)},
    **{
        f"f{number}": f"\x1b[{code}~".encode()
        for number, code in zip(range(6, 13), (17, 18, 19, 20, 21, 23, 24), strict=True)
    },
    "ctrl+@": b"\x00",
    "ctrl+space": b"\x00",
    "ctrl+backslash": b"\x1c",
    "ctrl+right_square_bracket": b"\x1d",
    "ctrl+circumflex_accent": b"\x1e",
    "ctrl+underscore": b"\x1f",
}


def bytes_of(key: str, character: str | None) -> bytes:
    """Return the bytes to send for a key.

    Args:
        key: Textual's name of the key.
        character: Its character, if any.

    Returns:
        The bytes, or nothing for a key that such a terminal does not have.
    """
    if key in _NAMED:
        return _NAMED[key]
    modifier, _, letter = key.rpartition("+")
    if modifier == "ctrl" and len(letter) == 1 and "a" <= letter <= "z":
        return bytes([ord(letter) - 96])
    if modifier == "alt" and len(letter) == 1:
        return b"\x1b" + letter.encode()
    return character.encode() if character and character.isprintable() else b""


SLICE_BYTES = 8 * 1024
PAUSE_SECONDS = 0.02
"""A slice: eight kilobytes (8 ms of emulation), then twenty milliseconds for the rest of the console."""
PREFIX = "ctrl+right_square_bracket"
"""The prefix of keys that are not the program's, as telnet has it."""
ENVIRONMENT = {"TERM": "linux", "LC_ALL": "C.UTF-8"}
"""Environment for the program: other terminal types have sequences that the emulator does not support."""


class TerminalView(LineWidget, can_focus=True):
    """The screen of a remote program, which gets every key while the widget is focused.

    The prefix is ctrl+]: `q` after it leaves, a second ctrl+] is sent, any other key is dropped.

        async for data in session:            # an ExecSession, started with ENVIRONMENT
            await terminal.feed(data)         # returns when drawn: a flood waits in the program's own pipe
        @on(TerminalView.Typed)   → session.write(event.data)
        @on(TerminalView.Resized) → session.resize(event.columns, event.rows)
        @on(TerminalView.Left)    → close the session

    `Resized` comes once before anything can be typed, so that the session starts with the right size.
    """

    PARTS = ("terminal--cursor",)
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    TerminalView { width: 1fr; height: 1fr; }
    TerminalView > .terminal--cursor { text-style: reverse; }
    """

    @dataclass
    class Typed(Message):
        """Bytes for the program."""

        data: bytes

    @dataclass
    class Resized(Message):
        """The size of the terminal changed."""

        columns: int
        rows: int

    class Left(Message):
        """The operator pressed the prefix, and q."""

    @dataclass
    class Prefixed(Message):
        """The operator pressed the prefix, or the key after it."""

        is_open: bool

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._screen = TerminalScreen(80, 24)
        self._is_prefixed = False

    async def feed(self, data: bytes) -> None:
        """Process output of the program, in slices between which the console stays responsive."""
        for start in range(0, len(data), SLICE_BYTES):
            if start:
                await asyncio.sleep(PAUSE_SECONDS)
            before = self._screen.cursor
            changed = self._screen.feed(data[start : start + SLICE_BYTES])
            changed |= {at[1] for at in (before, self._screen.cursor) if at is not None}
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def on_key(self, event: events.Key) -> None:
        """Send the key, and stop it."""
        event.stop()
        event.prevent_default()
        if self._is_prefixed:
            self._mark(is_open=False)
            if event.key == "q":
                self.post_message(self.Left())
            if event.key != PREFIX:
                return
        elif event.key == PREFIX:
            self._mark(is_open=True)
            return
        if data := bytes_of(event.key, event.character):
            self.post_message(self.Typed(data))

    def _mark(self, *, is_open: bool) -> None:
        self._is_prefixed = is_open
        self.post_message(self.Prefixed(is_open))

    def on_paste(self, event: events.Paste) -> None:
        """Send pasted text as if typed, or between the marks of a paste if the program has asked for them."""
        event.stop()
        text = event.text.replace("\n", "\r")
        if self._screen.marks_pastes:
            text = f"\x1b[200~{text}\x1b[201~"
        self.post_message(self.Typed(text.encode()))

    def on_resize(self) -> None:
        """Resize the grid, and post the new size."""
        columns, rows = self.size
        if columns > 0 and rows > 0:
            self._screen.resize(columns, rows)
            self.post_message(self.Resized(columns, rows))
            self.refresh()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render one row of the program's screen."""
        width, base = self.size.width, self.resolved_styles.base
        if y >= self._screen.size[1]:
            return Strip.blank(width, base)
        segments = [Segment(text, base + style if style else base) for text, style, _ in self._screen.segments(y)]
        strip = Strip(segments).adjust_cell_length(width, base)
        cursor = self._screen.cursor
        if self.has_focus and cursor is not None and cursor[1] == y and cursor[0] < width:
            strip = _with_cursor(strip, cursor[0], self.resolved_styles.parts["terminal--cursor"])
        return strip


def _with_cursor(strip: Strip, column: int, style: Style) -> Strip:
    before, at, after = strip.divide([column, column + 1, strip.cell_length])
    return Strip.join([before, Strip([Segment(segment.text, style) for segment in at]), after])
