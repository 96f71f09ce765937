"""The program as it is, with its event loop watched: `python -m tests.bench.probe FILE ARGUMENT…`.

On SIGUSR1 the longest stall since the last one goes to FILE as `WALL CPU` in seconds, and watching begins anew. A stall
is the time between two looks of the loop at its sockets; its share of processor time tells it from time that other
programs took from us.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Watch:
    """The longest time that the main thread spent between two `select` calls, by the clock and by the processor."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._wall = self._cpu = 0.0
        self._back_at: tuple[float, float] | None = None

    def install(self) -> None:
        """Look over the shoulder of every selector of the main thread."""
        original = selectors.DefaultSelector.select
        main = threading.main_thread().ident

        def select(selector: Any, timeout: float | None = None) -> Any:
            if threading.get_ident() != main:
                return original(selector, timeout)
            if self._back_at is not None:
                self._wall = max(self._wall, time.perf_counter() - self._back_at[0])
                self._cpu = max(self._cpu, time.thread_time() - self._back_at[1])
            ready = original(selector, timeout)
            self._back_at = time.perf_counter(), time.thread_time()
            return ready

        selectors.DefaultSelector.select = select  # type: ignore[method-assign, assignment]
        signal.signal(signal.SIGUSR1, lambda *_: self._report())

    def _report(self) -> None:
        whole = self._file.with_suffix(".new")
        whole.write_text(f"{self._wall:.6f} {self._cpu:.6f}\n")
        os.replace(whole, self._file)
        self._wall = self._cpu = 0.0


def main() -> int:
    """Run the program under the watch."""
    Watch(Path(sys.argv[1])).install()
    sys.argv[1:] = sys.argv[2:]
    from tui.cli import program

    return program()


if __name__ == "__main__":
    sys.exit(main())
