"""The log pane under a burst: `python -m tests.bench.logpane FILE LINES RATE` shows LINES lines at RATE a second.

The program below is the pane alone on a terminal; `measure_log_pane` runs it there and presses keys meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from textual.app import App, ComposeResult

from actions.base.untrusted import clean_text
from tests.bench.loglines import log_line
from tests.bench.probe import Watch
from tests.bench.program import Program, environment
from tui.live.ticker import PAINT_INTERVAL_SECONDS
from tui.widgets.log_buffer import LogBuffer, LogRecord
from tui.widgets.log_view import LogView

_LINES = 1_000_000
_RATE = 50_000
_TICK_SECONDS = 0.02
_BATCH = 500
"""Lines that are taken at once: as many as a follower delivers."""
_PODS = 40
_KEYS = 60


class Burst(App[None]):
    """A log view whose buffer is filled at a rate."""

    def __init__(self, lines: int, rate: int) -> None:
        super().__init__()
        self._total = lines
        self._rate = rate
        self._buffer = LogBuffer()

    def compose(self) -> ComposeResult:
        """The view alone."""
        yield LogView(self._buffer)

    def on_mount(self) -> None:
        """Begin when there is a screen."""
        self.set_interval(PAINT_INTERVAL_SECONDS, self.query_one(LogView).pull)
        self.query_one(LogView).focus()
        self.run_worker(self._fill())

    async def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        began, done = loop.time(), 0
        while done < self._total:
            due = min(self._total, int((loop.time() - began) * self._rate))
            await asyncio.sleep(0 if due - done > _BATCH else _TICK_SECONDS)
            due = min(due, done + _BATCH)
            self._buffer.extend(
                LogRecord(clean_text(log_line(number % 10_000)[1]), f"pod-{number % _PODS}", number)
                for number in range(done, due)
            )
            done = due
        self.query_one(LogView).pull()


def measure_log_pane(folder: Path) -> dict[str, object]:
    """Keys while a million lines come, and the memory that they take."""
    stall_file = folder / "stall"
    argv = [sys.executable, "-m", "tests.bench.logpane", str(stall_file), str(_LINES), str(_RATE)]
    root = Path(__file__).parents[2]
    with Program(argv, environment(folder, "") | {"PYTHONPATH": str(root)}, stall_file=stall_file) as program:
        program.wait(rb"[\d,]+ lines")
        began, before = time.perf_counter(), program.memory_megabytes()[0]
        program.longest_stall_ms()
        times = _key_times(program)
        program.wait(b"%s lines" % f"{_LINES:,}".encode(), seconds=300)
        took = time.perf_counter() - began
        wall, busy = program.longest_stall_ms()
        after = program.memory_megabytes()[0]
    ordered = sorted(times)
    return {
        "lines": _LINES,
        "lines_per_second": round(_LINES / took),
        "key_p50_ms": round(ordered[len(ordered) // 2], 1),
        "key_p99_ms": round(ordered[int(len(ordered) * 0.99) - 1], 1),
        "longest_stall_ms": wall,
        "longest_stall_cpu_ms": busy,
        "rss_growth_mb": round(after - before, 1),
    }


def _key_times(program: Program) -> list[float]:
    """Milliseconds from a key to what it changes on the terminal: pause, follow, pause…"""
    times = []
    for number in range(_KEYS):
        key, shown = (b"k", rb"paused") if number % 2 == 0 else (b"G", rb"following")
        program.forget()
        began = time.perf_counter()
        program.type(key)
        times.append((program.wait(shown, seconds=10) - began) * 1000)
        program.drain(0.13)
    return times


if __name__ == "__main__":
    Watch(Path(sys.argv[1])).install()
    Burst(int(sys.argv[2]), int(sys.argv[3])).run()
