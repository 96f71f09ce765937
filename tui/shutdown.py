"""A process whose work is over is gone within two seconds, whatever its threads and its loop do."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

ORDERLY_SECONDS = 1.5
"""For an app to close after it was asked to end; then the process ends without it."""
_THREADS_SECONDS = 1.0
"""For threads that still work when everything else has ended."""


class ExitDeadline:
    """Ends the process if it does not end by itself.

    An app closes in an order: its widgets, the connections behind them, the loop, the threads of its pools, and then
    the interpreter waits for every other thread. A server that answers nothing, a name that is being looked up, or a
    terminal that nobody reads can hold up each of these for as long as it likes.

    Args:
        seconds: How long the orderly way may take.
        leave: Ends the process with a code.
    """

    def __init__(self, seconds: float = ORDERLY_SECONDS, leave: Callable[[int], object] = os._exit) -> None:
        self._seconds = seconds
        self._leave = leave
        self._asked: SimpleQueue[tuple[int, Callable[[], None]]] = SimpleQueue()
        threading.Thread(target=self._end, name="ending", daemon=True).start()

    def begin(self, code: int, restore: Callable[[], None]) -> None:
        """Count from now; only the first call counts. For any thread, and for handlers of signals.

        Args:
            code: The exit code.
            restore: Gives the terminal back; must not block.
        """
        self._asked.put((code, restore))

    def _end(self) -> None:
        code, restore = self._asked.get()
        threading.Event().wait(self._seconds)
        restore()
        self._leave(code)


def leave(code: int) -> int:
    """Wait a second for threads that still work, and end the process if they do not.

    Returns:
        The code, for `sys.exit`, when there are none.
    """
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
    """Threads that the interpreter would wait for."""
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
