"""The real program on a pseudo-terminal of our own: raw bytes, a line that hangs up, a reader that stalls."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.terminal import SHOWS_STACKS

_CONTROLS = re.compile(rb"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[P_^][^\x1b]*\x1b\\|.)")
_KEPT_BYTES = 1 << 18
_PAUSE_SECONDS = 0.01
"""Between two pieces of one frame, which a terminal passes on in pieces of 4 KiB."""
_USUAL_SECONDS = 120.0
_STACKS_SECONDS = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?2004l")
"""Written when the terminal is given back: the first screen, the cursor, pastes as they were."""


class OnPty:
    """A child that leads a session on a terminal; what it writes is read by whoever waits, and by nobody else.

    Args:
        argv: What to run.
        environment: Its whole environment.
        size: Columns and rows.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, size: tuple[int, int] = (100, 30)
    ) -> None:
        self._tail = b""
        self._status: int | None = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.execvpe(argv[0], list(argv), {**environment, **SHOWS_STACKS})
        os.set_blocking(self.master, False)
        self._is_open = True

    def __enter__(self) -> OnPty:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.hang_up()

    @property
    def text(self) -> str:
        """The text that was written lately, without controls."""
        return _CONTROLS.sub(b"", self._tail).decode(errors="replace")

    @property
    def raw(self) -> bytes:
        """The bytes that were written lately."""
        return self._tail

    def read(self, seconds: float) -> None:
        """Take what is written within this time, or until there is a pause after the first bytes."""
        if not self._is_open:
            time.sleep(seconds)
            return
        until, taken = time.monotonic() + seconds, bytearray()
        while len(taken) < _KEPT_BYTES and select.select([self.master], [], [], seconds)[0]:
            try:
                taken += os.read(self.master, 1 << 16)
            except OSError:  # nobody has the other side open
                if not taken:
                    time.sleep(min(seconds, 0.02))
                break
            seconds = min(_PAUSE_SECONDS, max(0.0, until - time.monotonic()))
        if taken:
            self._tail = (self._tail + taken)[-_KEPT_BYTES:]

    def type(self, data: bytes, *, seconds: float = _USUAL_SECONDS) -> None:
        """Send bytes, reading what is written meanwhile."""
        rest, until = memoryview(data), time.monotonic() + seconds
        while rest:
            assert time.monotonic() < until, f"{len(rest)} bytes were not read within {seconds:.0f} s"
            self.read(0)
            if select.select([], [self.master], [], 0.05)[1]:
                rest = rest[os.write(self.master, rest[:1024]) :]

    def type_unread(self, data: bytes) -> None:
        """Send a few bytes without reading what is written."""
        os.write(self.master, data)

    def forget(self) -> None:
        """Look only at what comes from here on."""
        self._tail = b""

    def wait(self, pattern: str, *, seconds: float = _USUAL_SECONDS) -> None:
        """Until the text written since `forget` matches."""
        if not self.sees(pattern, seconds=seconds):
            said = f"; it has ended: {self._status}" if self.has_ended() else ""
            last = self.text[-2000:]
            pytest.fail(f"no {pattern!r} within {seconds:.0f} s{said}; the last text was:\n{last}{self._stacks()}")

    def _stacks(self) -> str:
        """End a program that hangs, and return what its threads were doing."""
        if not self.has_ended():
            self.forget()
            os.kill(self.pid, signal.SIGABRT)
            until = time.monotonic() + _STACKS_SECONDS
            while not self.has_ended() and time.monotonic() < until:
                self.read(0.2)
        return f"\nat the end:\n{self.text}"

    def sees(self, pattern: str, *, seconds: float) -> bool:
        """Return whether the text written since `forget` matches within this time, and before the program ends."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.text, re.DOTALL):
            if time.monotonic() > until or self.has_ended():
                return False
            self.read(0.2)
        return True

    def wait_raw(self, sequence: bytes, *, seconds: float = _USUAL_SECONDS) -> None:
        """Until these bytes were written since `forget`."""
        until = time.monotonic() + seconds
        while sequence not in self._tail:
            assert time.monotonic() < until, f"no {sequence!r} within {seconds:.0f} s"
            self.read(0.2)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the line."""
        if self._is_open:
            self._is_open = False
            os.close(self.master)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def has_ended(self) -> bool:
        """Return whether the program is gone."""
        if self._status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if done else None
        return self._status is not None

    def wait_stopped(self, *, seconds: float = _USUAL_SECONDS) -> None:
        """Until the program is stopped by a signal."""
        stat, until = Path(f"/proc/{self.pid}/stat"), time.monotonic() + seconds
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until, f"it was not stopped within {seconds:.0f} s"
            self.read(0.05)

    def wait_ended(self, *, seconds: float = _USUAL_SECONDS, is_read: bool = True) -> int:
        """Until the program is gone; its exit code.

        Args:
            seconds: How long.
            is_read: Whether what it writes is taken.
        """
        until = time.monotonic() + seconds
        while not self.has_ended():
            assert time.monotonic() < until, (
                f"it did not end within {seconds:.0f} s; the last text:\n{self.text[-1500:]}"
            )
            if is_read:
                self.read(0.02)
            else:
                time.sleep(0.02)
        while is_read and self._is_open and select.select([self.master], [], [], 0)[0]:
            before = self._tail
            self.read(0)
            if self._tail == before:
                break
        return os.waitstatus_to_exitcode(self._status or 0)

    def cpu_seconds(self) -> float:
        """Used so far by all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def megabytes(self) -> float:
        """Resident memory."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def threads(self) -> int:
        """Return the number of the program's threads."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def is_echoing(self) -> bool:
        """Return whether the terminal is as a shell has it: what is typed is echoed, lines are edited."""
        flags = termios.tcgetattr(self.master)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON and flags & termios.ISIG)
