"""Output to a terminal that may not be read: bounded in time on demand, and without errors."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

_CHUNK_BYTES = 1 << 14
_LOOK_MILLISECONDS = 50


class TerminalOutput:
    """A text file on a terminal, for the one thread that writes the frames.

    It waits for a terminal that does not read until `finish_within` is called; what is not accepted by then, or the
    terminal being gone, is dropped. A slow terminal gets everything. The terminal is opened a second time, so that it
    can be written to without blocking while the shell's own descriptor stays blocking.

    Args:
        descriptor: Descriptor of the terminal.
        gone: Called, by the writing thread, when the terminal is gone.
        clock: Monotonic seconds.
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
        """Limit, from now on, the wait for a terminal that accepts nothing.

        May be called by any thread and by signal handlers.
        """
        self._moved_at = self._clock()
        self._patience = seconds

    def begin(self) -> None:
        """Wait without limit again, after `finish_within`."""
        self._patience = None

    def write(self, text: str) -> None:
        """Write all of it; drop what the terminal does not accept in time.

        One more try follows when the time is over, as a busy machine may have spent it elsewhere.
        """
        rest = memoryview(text.encode("utf-8", errors="replace"))
        while rest and not self._is_gone:
            is_late = self._is_late()
            if taken := self._take(rest[:_CHUNK_BYTES], 0 if is_late else _LOOK_MILLISECONDS):
                rest, self._moved_at = rest[taken:], self._clock()
            elif is_late:
                return

    def write_at_once(self, text: str) -> None:
        """Write what the terminal accepts without waiting."""
        self._take(memoryview(text.encode()), 0)

    def flush(self) -> None:
        """Do nothing: output is not buffered."""

    def fileno(self) -> int:
        """Return the descriptor of the output."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return true."""
        return True

    def _is_late(self) -> bool:
        return self._patience is not None and self._clock() - self._moved_at >= self._patience

    def _take(self, data: memoryview, milliseconds: int) -> int:
        """Write once, if the terminal is ready within that time; return the number of bytes written."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        try:
            return os.write(self._descriptor, data) if ready.poll(milliseconds) else 0
        except BlockingIOError:
            return 0
        except OSError:  # closed by the other side
            if not self._is_gone:
                self._is_gone = True
                self._tell_gone()
            return 0


def _opened_again(descriptor: int) -> int:
    """Open the same terminal again, non-blocking; if its name cannot be opened, duplicate the descriptor."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.dup(descriptor)
