"""A terminal for a program elsewhere: a shell in a pod, neuron-top."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tui.widgets.stripes import StripWidget
from tui.widgets.terminal_keys import bytes_of
from tui.widgets.terminal_screen import TerminalScreen

SLICE_BYTES = 8 * 1024
PAUSE_SECONDS = 0.02
"""Eight kilobytes (8 ms of emulation), then twenty milliseconds for everybody else."""
LEAVE_SECONDS = 0.5
ENVIRONMENT = {"TERM": "linux", "LC_ALL": "C.UTF-8"}
"""What the program must be started with: other terminals have sequences that are not understood here."""


class TerminalView(StripWidget, can_focus=True):
    """Shows what a program draws, and sends it every key while it has the focus; esc twice leaves.

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
        """The terminal has another size."""

        columns: int
        rows: int

    class Left(Message):
        """The operator pressed esc twice."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._screen = TerminalScreen(80, 24)
        self._escaped_at = float("-inf")

    async def feed(self, data: bytes) -> None:
        """Draw what the program wrote, in slices between which the console stays responsive."""
        for start in range(0, len(data), SLICE_BYTES):
            if start:
                await asyncio.sleep(PAUSE_SECONDS)
            before = self._screen.cursor
            changed = self._screen.feed(data[start : start + SLICE_BYTES])
            changed |= {at[1] for at in (before, self._screen.cursor) if at is not None}
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def on_key(self, event: events.Key) -> None:
        """Send the key; nobody else gets it."""
        event.stop()
        event.prevent_default()
        now = asyncio.get_running_loop().time()
        if event.key == "escape":
            if now - self._escaped_at < LEAVE_SECONDS:
                self.post_message(self.Left())
                return
            self._escaped_at = now
        else:
            self._escaped_at = float("-inf")
        if data := bytes_of(event.key, event.character):
            self.post_message(self.Typed(data))

    def on_paste(self, event: events.Paste) -> None:
        """Send pasted text as if it were typed."""
        event.stop()
        self.post_message(self.Typed(event.text.replace("\n", "\r").encode()))

    def on_resize(self) -> None:
        """Tell the program its new size."""
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
        """One row of the program's screen."""
        width, base = self.size.width, self.skin.base
        if y >= self._screen.size[1]:
            return Strip.blank(width, base)
        segments = [Segment(text, base + style if style else base) for text, style, _ in self._screen.segments(y)]
        strip = Strip(segments).adjust_cell_length(width, base)
        cursor = self._screen.cursor
        if self.has_focus and cursor is not None and cursor[1] == y and cursor[0] < width:
            strip = _with_cursor(strip, cursor[0], self.skin.parts["terminal--cursor"])
        return strip


def _with_cursor(strip: Strip, column: int, style: Style) -> Strip:
    before, at, after = strip.divide([column, column + 1, strip.cell_length])
    return Strip.join([before, Strip([Segment(segment.text, style) for segment in at]), after])
