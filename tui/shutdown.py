"""The end of the process, within two seconds, even if threads or the event loop are stuck."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

ORDERLY_SECONDS = 1.5
"""Time for an app to close in order; after it, the process is ended."""
_THREADS_SECONDS = 1.0
"""Time for threads that still work when everything else has ended."""


class ExitDeadline:
    """A deadline after which the process is ended if it has not ended by itself.

    An app closes in order: its widgets, the connections behind them, the loop, the threads of its pools, and then
    the interpreter waits for every other thread. A silent server, a pending name lookup, or a terminal that is not
    read can block each of these steps without end.

    Args:
        seconds: Time for an orderly end.
        leave: Function that ends the process with an exit code.
    """

    def __init__(self, seconds: float = ORDERLY_SECONDS, leave: Callable[[int], object] = os._exit) -> None:
        self._seconds = seconds
        self._leave = leave
        self._asked: SimpleQueue[tuple[int, Callable[[], None]]] = SimpleQueue()
        threading.Thread(target=self._end, name="ending", daemon=True).start()

    def begin(self, code: int, restore: Callable[[], None]) -> None:
        """Start the deadline; only the first call counts. May be called by any thread and by signal handlers.

        Args:
            code: The exit code.
            restore: Function that restores the terminal; must not block.
        """
        self._asked.put((code, restore))

    def _end(self) -> None:
        code, restore = self._asked.get()
        threading.Event().wait(self._seconds)
        restore()
        self._leave(code)


def leave(code: int) -> int:
    """Wait a second for threads that still work; if some remain, end the process at once.

    A terminal that was closed may send its signal only now; it does not change the code any more.

    Returns:
        The code, for `sys.exit`, when no thread is left.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    until = time.monotonic() + _THREADS_SECONDS
    for thread in _working():
        thread.join(max(0.0, until - time.monotonic()))
    if _working():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def _working() -> list[threading.Thread]:
    """Return the threads that the interpreter would wait for at exit."""
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
