"""The log pane under a burst: output grows by 50,000 lines a second, the pane takes them, keys are pressed meanwhile.

    python -m tests.bench.logpane write FOLDER LINES RATE     output of forty pods grows
    python -m tests.bench.logpane show FOLDER STALL_FILE      the pane alone on a terminal

`measure_log_pane` runs both. The lines are on disk before the pane has them, as those of a run are.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from textual.app import ComposeResult
from textual.screen import Screen

from actions.base.clock import SystemClock
from actions.cluster.logs.batch import tag_of
from actions.cluster.logs.lines import stamp_of
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import LINES, stream_path
from actions.run.output.writer import OutputWriter
from tests.bench.loglines import log_line
from tests.bench.probe import Watch
from tests.bench.program import Program, environment
from tui.base_app import TypeAheadApp
from tui.feeds.logs import PAUSE_SECONDS, LogPump
from tui.feeds.output import OutputLogFeed
from tui.feeds.ticker import PAINT_INTERVAL_SECONDS
from tui.gc_tuning import freeze_startup_objects
from tui.screens.live_screen import LiveScreen
from tui.widgets.log import LogView
from tui.widgets.log_buffer import LogBuffer

_ROOT = Path(__file__).parents[2]
_LINES = 1_000_000
_RATE = 50_000
_BATCH = 500
"""Lines that are written at once, all of one pod."""
_PODS = 40
_KEYS = 100
_STAGE = "train"
_BEGAN_NS = 1_790_000_000_000_000_000


class Alone(LiveScreen[None]):
    """A log view, painted as the console's panes are."""

    def __init__(self, view: LogView) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        """The view alone."""
        yield self._view

    def refresh_data(self) -> None:
        """Show what the buffer got."""
        self._view.refresh_data()


class Burst(TypeAheadApp[None]):
    """A log view that takes what output gets, as the log pane does, and keys as the console does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        buffer = LogBuffer()
        self._view = LogView(buffer)
        self._intake = LogPump(OutputLogFeed(folder, _STAGE), buffer.extend_tagged, clock=SystemClock())
        self._is_taking = False

    def get_default_screen(self) -> Screen[None]:
        """The view alone."""
        return Alone(self._view)

    def on_mount(self) -> None:
        """Begin when there is a screen."""
        self.set_interval(PAINT_INTERVAL_SECONDS, self._pull)
        self.call_after_refresh(freeze_startup_objects)  # as the console does after its first frame
        self.call_after_refresh(self._view.focus)

    def _pull(self) -> None:
        if not self._is_taking:
            self._take_in()
        self._view.refresh_data()

    def _take_in(self) -> None:
        self._is_taking = self._intake.drain()
        if self._is_taking:
            self.set_timer(PAUSE_SECONDS, self._take_in)


def write(folder: Path, lines: int, rate: int) -> None:
    """Let output grow, and tell in how many seconds it did."""
    writer = OutputWriter(folder, _STAGE)
    tags = [tag_of(writer.source("bench", f"pod-{pod}", "main", str(pod)).line.number) for pod in range(_PODS)]
    texts = [log_line(number)[1].encode() for number in range(10_000)]
    began = time.perf_counter()
    stream = StreamWriter(stream_path(folder, _STAGE, LINES))
    for first in range(0, lines, _BATCH):
        time.sleep(max(0.0, began + first / rate - time.perf_counter()))
        tag, step = tags[first // _BATCH % _PODS], 1_000_000_000 // rate
        batch = range(first, min(first + _BATCH, lines))
        stream.append(
            b"".join(b"%s%s %s\n" % (tag, stamp_of(_BEGAN_NS + n * step), texts[n % len(texts)]) for n in batch)
        )
    stream.close()
    sys.stdout.write(f"{time.perf_counter() - began:.2f}\n")


def measure_log_pane(folder: Path) -> dict[str, object]:
    """Keys while a million lines come, and the memory that they take."""
    stall_file, output = folder / "stall", folder / "burst"
    OutputWriter(output, _STAGE).close()
    module = [sys.executable, "-m", "tests.bench.logpane"]
    surroundings = environment(folder, "") | {"PYTHONPATH": str(_ROOT)}
    argv = [*module, "show", str(output), str(stall_file)]
    with Program(argv, surroundings, stall_file=stall_file) as program:
        program.wait(rb"[\d,]+ lines")
        program.drain(1.0)
        before, cpu = program.memory_megabytes()[0], program.cpu_seconds()
        program.longest_stall_ms()
        began = time.perf_counter()
        argv = [*module, "write", str(output), str(_LINES), str(_RATE)]
        with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE) as writing:
            times = _key_times(program)
            program.forget()
            program.type(b"k")  # so that the count is drawn once more, were it complete already
            program.wait(b"%s lines" % f"{_LINES:,}".encode(), seconds=300)
            took, used = time.perf_counter() - began, program.cpu_seconds() - cpu
            written = float(writing.communicate()[0])
        wall, busy = program.longest_stall_ms()
        after = program.memory_megabytes()[0]
    ordered = sorted(times)
    return {
        "lines": _LINES,
        "written_per_second": round(_LINES / written),
        "shown_per_second": round(_LINES / took),
        "cpu_us_per_line": round(used / _LINES * 1e6, 2),
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
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        Watch(Path(sys.argv[3])).install()
        Burst(Path(sys.argv[2])).run()
