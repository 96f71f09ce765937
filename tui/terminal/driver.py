"""The driver of the console's terminal, which survives invalid input, a hangup, and a terminal that is not read.

Textual's driver decodes input strictly and stops at the first invalid byte; its thread spins on a closed terminal, and
the interpreter waits for that thread for ever; its writer blocks the event loop if the terminal is not read. This
driver has its own input and output. It uses private names of textual 8.2.8; `tests/contract/test_driver.py` holds
Textual to what it relies on.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import termios
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol, cast

from textual import events
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.terminal.input import TerminalInput
from tui.terminal.output import TerminalOutput

MOST_WAITING = 256
"""Maximum number of keys that wait for those before them; then reading stops."""
FLOOD_SECONDS = 5.0
"""Seconds for which reading may stop. Input after that is not typing, and is dropped until there is a pause."""
_READ_BYTES = 4096
_TICK_SECONDS = 0.1
_STOP_SECONDS = 0.5
_IN_STEP = 64
"""Keys sent to the loop before checking that it has taken them."""
_RESTORE = "\x18\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""CAN ends a cut sequence. Pastes, mouse, kitty's keys, alternate screen, focus: off; wrap and cursor: on."""


_SOUNDS = ("\x07", "\x1b]9;", "\x1b]777;", "\x1bPtmux;")
"""The bell, and desktop notifications, also wrapped for tmux."""


class TerminalApp(Protocol):
    """The methods of the app that the driver calls, from threads of its own."""

    def hung_up(self) -> None:
        """Handle the end of the terminal."""

    def keys_waiting(self) -> int:
        """Return the number of keys that are not handled yet."""

    def keys_dropped(self) -> None:
        """Report that keys were dropped."""


class TerminalDriver(LinuxDriver):
    """A driver for Linux terminals, whose threads always end."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._told = cast(TerminalApp, app)
        self._output = TerminalOutput(_terminal_descriptor(), self._told.hung_up)
        self._file = self._output  # type: ignore[assignment]  # it writes, and that is all that is asked of it
        self._reader: threading.Thread | None = None
        self._wants_end = threading.Event()
        self._sent = 0
        self._last: Future[bool] | None = None
        self._held_back = 0.0
        self._is_flooded = False
        self._is_lent = False
        """Another program has the terminal."""

    def start_application_mode(self) -> None:
        """Set the terminal up; again, if SIGCONT comes to a console that was not suspended."""
        if self._reader is not None:
            self.suspend_application_mode()
        self._is_lent = False
        self._output.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's

    def _sigtstp_application(self, *_: object) -> None:
        """Suspend from the loop: the signal may interrupt this thread while it holds the lock of the writer's queue."""
        with suppress(RuntimeError):  # the loop has ended, and so will the process
            self._loop.call_soon_threadsafe(super()._sigtstp_application)

    def _sigcont_application(self, *_: object) -> None:
        """Resume, from the loop."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(super()._sigcont_application)

    def stop_application_mode(self) -> None:
        """Restore the terminal, as far as it accepts output."""
        self.finish_within(_STOP_SECONDS)
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Leave the terminal to another program, until it is set up again; what is written meanwhile is dropped."""
        super().suspend_application_mode()
        self._is_lent = True

    def write(self, data: str) -> None:
        """Write to the terminal; while another program has it, only the sequences of alarms, which change no picture.

        The writer is gone then, and its queue would hold the loop once it is full.
        """
        if not self._is_lent:
            super().write(data)
        elif data.startswith(_SOUNDS):
            self._output.write_at_once(data)

    def finish_within(self, seconds: float) -> None:
        """Limit the wait for a terminal that accepts no output. May be called by any thread and by signal handlers."""
        self._output.finish_within(seconds)

    def restore(self, said: str) -> None:
        """Restore the terminal at once, even if a thread is blocked on it, and write a text."""
        if self.attrs_before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        self._output.finish_within(0.0)
        self._output.write_at_once(_RESTORE + "".join(f"{line}\r\n" for line in said.splitlines()))

    def disable_input(self) -> None:
        """Stop reading keys."""
        if self._key_thread is not None:
            self._key_thread.join()
        if self._reader is None:
            return
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        self._disable_mouse_support()
        self._wants_end.set()
        self._reader.join(_STOP_SECONDS)
        self._reader = None
        with suppress(termios.error):
            termios.tcflush(self.fileno, termios.TCIFLUSH)

    def send_message(self, message: Message) -> None:
        """Pass a message to the app, keys no faster than they are handled."""
        if isinstance(message, events.Key) and not self._has_room():
            return
        posted = self._app._post_message(message)  # noqa: SLF001 - as Textual's driver does
        self._last = asyncio.run_coroutine_threadsafe(posted, loop=self._loop)

    def _run_input_thread(self) -> None:
        """Start a daemon thread that reads, as the interpreter would wait for Textual's input thread, and return."""
        self._wants_end = threading.Event()
        self._reader = threading.Thread(target=self._read_on, args=(self._wants_end,), name="terminal", daemon=True)
        self._reader.start()

    def _read_on(self, wants_end: threading.Event) -> None:
        """Read until the driver stops or the terminal is gone."""
        parser, ready = TerminalInput(lambda: self._in_band_window_resize), select.poll()
        ready.register(self.fileno, select.POLLIN)
        while not wants_end.is_set():
            if not ready.poll(_TICK_SECONDS * 1000):
                self._rest(parser)
                continue
            data = self._read()
            if not data:
                if self.input_tty and not wants_end.is_set():
                    self._told.hung_up()
                return
            self._take(data, parser)

    def _take(self, data: bytes, parser: TerminalInput) -> None:
        """Pass on what was read; in a flood drop it, with any sequence it is a part of."""
        for message in () if self._is_flooded else parser.feed(data):
            self.process_message(message)
        if self._is_flooded:
            parser.forget()

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:  # the line was hung up
            return b""

    def _rest(self, parser: TerminalInput) -> None:
        """Handle a pause in typing."""
        for message in parser.tick():
            self.process_message(message)
        self._held_back = 0.0
        if self._is_flooded:
            self._is_flooded = False
            self._told.keys_dropped()

    def _has_room(self) -> bool:
        """Wait until the app has handled most keys; return false in a flood."""
        self._sent += 1
        if self._sent % _IN_STEP == 0 and self._last is not None:
            self._wait_for(self._last)
        while self._told.keys_waiting() >= MOST_WAITING and not self._is_flooded and not self._wants_end.is_set():
            self._wants_end.wait(_TICK_SECONDS / 2)
            self._hold_back(_TICK_SECONDS / 2)
        return not self._is_flooded and not self._wants_end.is_set()

    def _wait_for(self, sent: Future[bool]) -> None:
        while not sent.done() and not self._is_flooded and not self._wants_end.is_set():
            with suppress(TimeoutError):
                sent.exception(_TICK_SECONDS / 2)
                return
            self._hold_back(_TICK_SECONDS / 2)

    def _hold_back(self, seconds: float) -> None:
        self._held_back += seconds
        self._is_flooded = self._is_flooded or self._held_back >= FLOOD_SECONDS


def browser_driver() -> type[Driver]:
    """Return Textual's driver for a console in a browser, with our input: xterm.js leaves escapes in what is pasted."""
    from textual.drivers._byte_stream import ByteStream
    from textual.drivers.web_driver import WebDriver, _ExitInput

    class BrowserDriver(WebDriver):
        def run_input_thread(self) -> None:
            """Read until the server ends this console."""
            parser, stream = TerminalInput(), ByteStream()
            with suppress(_ExitInput):
                for data in self._input_reader:
                    for kind, payload in stream.feed(data) if data else ():
                        if kind == "D":
                            self._pass_on(parser.feed(payload))
                        else:
                            self._on_meta(kind, payload)
                    self._pass_on(parser.tick())
            self._input_reader.close()

        def _pass_on(self, messages: Iterable[Message]) -> None:
            for message in messages:
                self.process_message(message)

    return BrowserDriver


def _terminal_descriptor() -> int:
    """Return the descriptor of the terminal: stderr, as in Textual, unless that is redirected."""
    return next((descriptor for descriptor in (2, 1, 0) if os.isatty(descriptor)), 2)
