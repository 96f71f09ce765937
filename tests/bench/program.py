"""One program in a pseudo-terminal: what it writes, what it costs, how long its loop stalls."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

_CONTROLS = re.compile(rb"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[P_^][^\x1b]*\x1b\\|.)")
_BEGUN = re.compile(rb"\x1b(?:\[[0-9;:?<=>]*[ -/]*|\][^\x07\x1b]*|[P_^][^\x1b]*\x1b?)?\Z")
"""A control whose end has not been read."""
_TICKS = os.sysconf("SC_CLK_TCK")
_KEPT_BYTES = 1 << 18
COLUMNS, ROWS = 220, 50
FRAME = b"\x1b[?2026h"
"""Written before each frame, to a terminal that says that it knows what frames are."""
_ASKS_FOR_FRAMES, _HAS_FRAMES = b"\x1b[?2026$p", b"\x1b[?2026;2$y"


class Program:
    """A child on a terminal of 220 by 50, its output read by whoever waits.

    Args:
        argv: What to run.
        environment: Its whole environment.
        stall_file: Where its probe writes, if it has one.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], *, stall_file: Path | None = None) -> None:
        self.began_at = time.perf_counter()
        self.bytes_read = self.frames = 0
        self._stall_file = stall_file
        self._tail = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], list(argv), dict(environment))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.kill(self.pid, signal.SIGTERM)
        until = time.perf_counter() + 5
        while time.perf_counter() < until:
            self.read(0.05)
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)

    def read(self, seconds: float) -> bytes:
        """Return the bytes that it writes within this time; return at the first of them."""
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other side is closed: Linux's way to say the end
            return b""
        self.bytes_read += len(data)
        self.frames += data.count(FRAME)
        if _ASKS_FOR_FRAMES in data:
            os.write(self._master, _HAS_FRAMES)
        self._tail = (self._tail + data)[-_KEPT_BYTES:]
        return data

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def forget(self) -> None:
        """Look only at what comes from here on."""
        self._tail = b""

    def wait(self, pattern: bytes, *, seconds: float = 60.0) -> float:
        """Until the text written since `forget` matches; the moment at which it did.

        Raises:
            TimeoutError: It does not.
        """
        until = time.perf_counter() + seconds
        wanted = re.compile(pattern, re.DOTALL)
        text, rest = b"", self._tail
        while (now := time.perf_counter()) < until:
            begun = _BEGUN.search(rest, max(0, rest.rfind(b"\x1b")))
            end = begun.start() if begun else len(rest)
            text, rest = (text + _CONTROLS.sub(b"", rest[:end]))[-_KEPT_BYTES:], rest[end:]
            if wanted.search(text):
                return now
            if data := self.read(min(1.0, until - now)):
                rest += data
            else:
                self.require_alive()
        last = text[-400:].decode(errors="replace")
        raise TimeoutError(f"{pattern!r} did not come within {seconds:.0f} s; the last that did: {last}")

    def require_alive(self) -> None:
        """Do nothing.

        Raises:
            ChildProcessError: It has ended.
        """
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            last = _CONTROLS.sub(b"", self._tail)[-400:].decode(errors="replace").strip()
            raise ChildProcessError(f"It ended; the last that it wrote: {last}")

    def drain(self, seconds: float) -> None:
        """Let time go by, reading."""
        until = time.perf_counter() + seconds
        while (now := time.perf_counter()) < until:
            self.read(until - now)

    def cpu_seconds(self) -> float:
        """Used so far by all its threads."""
        return cpu_seconds_of(self.pid)

    def memory_megabytes(self) -> tuple[float, float]:
        """Resident now, and at most so far."""
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":" in line
        )
        return tuple(int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]

    def longest_stall_ms(self) -> tuple[float, float]:
        """Since the last time this was asked: by the clock, and what it cost of the processor."""
        if self._stall_file is None:
            return 0.0, 0.0
        self._stall_file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        until = time.perf_counter() + 5
        while not self._stall_file.exists() and time.perf_counter() < until:
            self.read(0.02)
        wall, cpu = self._stall_file.read_text().split()
        return round(float(wall) * 1000, 1), round(float(cpu) * 1000, 1)


def attempt(measure: Callable[[], Mapping[str, object]]) -> dict[str, object]:
    """Return what a part measures; of one that fails the reason, so that the other parts are kept."""
    try:
        return dict(measure())
    except Exception as error:  # noqa: BLE001 - what is raised is the result
        return {"failed": f"{type(error).__name__}: {error}"}


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def load(program: Program, seconds: float) -> dict[str, float]:
    """Return the program's cost while time goes by: share of a core in percent, KB/s to the terminal, longest stall."""
    program.longest_stall_ms()
    cpu, written, began = program.cpu_seconds(), program.bytes_read, time.perf_counter()
    program.drain(seconds)
    took = time.perf_counter() - began
    used, sent = program.cpu_seconds() - cpu, program.bytes_read - written
    wall, busy = program.longest_stall_ms()
    return {
        "cpu_percent": round(used / took * 100, 2),
        "terminal_kb_per_second": round(sent / took / 1024, 1),
        "longest_stall_ms": wall,
        "longest_stall_cpu_ms": busy,
    }


def environment(home: Path, kubeconfig: str) -> dict[str, str]:
    """A small clean environment, so that nothing of this machine's configuration is measured."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "KUBECONFIG": kubeconfig,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
