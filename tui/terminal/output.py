"""Writing to a terminal that may not read: bounded, given up on demand, and never a reason to fail."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

_CHUNK_BYTES = 1 << 14
_LOOK_MILLISECONDS = 50


class TerminalOutput:
    """A text file on a terminal, for the one thread that writes the frames.

    It waits for a terminal that does not read, as long as nobody has said `finish_within`; what is not taken then, or
    cannot be, as the terminal is gone, is dropped. A slow terminal gets everything. The terminal is opened once more,
    so that it can be written to without blocking while the shell's own descriptor stays as it is.

    Args:
        descriptor: Of the terminal.
        gone: Called, by the thread that writes, when there is nobody to write to any more.
        clock: Seconds that only grow.
    """

    def __init__(
        self, descriptor: int, gone: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._descriptor = _opened_again(descriptor)
        self._tell_gone = gone
        self._clock = clock
        self._is_gone = False
        self._patience: float | None = None
        self._moved_at = 0.0

    def finish_within(self, seconds: float) -> None:
        """From here on, wait no longer than that for a terminal that takes nothing.

        May be called by any thread, and by a signal's handler.
        """
        self._moved_at = self._clock()
        self._patience = seconds

    def begin(self) -> None:
        """Wait for the terminal again, after `finish_within`."""
        self._patience = None

    def write(self, text: str) -> None:
        """Write all of it, or drop what nobody takes."""
        rest = memoryview(text.encode("utf-8", errors="replace"))
        while rest and not self._is_given_up():
            if taken := self._take(rest[:_CHUNK_BYTES], _LOOK_MILLISECONDS):
                rest, self._moved_at = rest[taken:], self._clock()

    def write_at_once(self, text: str) -> None:
        """Write what the terminal takes at this moment."""
        self._take(memoryview(text.encode()), 0)

    def flush(self) -> None:
        """Nothing is kept back."""

    def fileno(self) -> int:
        """The descriptor that is written to."""
        return self._descriptor

    def isatty(self) -> bool:
        """It is a terminal."""
        return True

    def _is_given_up(self) -> bool:
        return self._is_gone or (self._patience is not None and self._clock() - self._moved_at >= self._patience)

    def _take(self, data: memoryview, milliseconds: int) -> int:
        """Write once, if the terminal is ready within that time; how many bytes it took."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        try:
            return os.write(self._descriptor, data) if ready.poll(milliseconds) else 0
        except BlockingIOError:
            return 0
        except OSError:  # closed on the other side
            if not self._is_gone:
                self._is_gone = True
                self._tell_gone()
            return 0


def _opened_again(descriptor: int) -> int:
    """The same terminal, not blocking; the descriptor itself, doubled, where its name cannot be opened."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.dup(descriptor)
