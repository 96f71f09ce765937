"""Keys in every pane of the console, while the curves of a run with a long past grow.

python -m tests.bench.panes [--steps N]            the figures as JSON, on a synthetic fleet of 500 / 5,000
python -m tests.bench.panes train FOLDER STEP      in the place of the run's runner: its training goes on
"""

from __future__ import annotations

import math
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from actions.base.clock import SystemClock
from actions.cluster.logs.lines import LogLine
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import Heartbeat, take_runner_lease
from actions.run.journal.store import Journal, create_journal
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Action, ClusterName, Created, Intent, StageOutline
from tests.bench.measure import Figures, keys_in_order
from tests.bench.program import Program, environment, load
from tests.bench.target import Target

_ROOT = Path(__file__).parents[2]
RUN = "bench-1128-a2b3c4d5e6f7g"
STEPS = 400_000
_STAGE = "train"
_BATCH = 500
_STEP_SECONDS = 0.1
_PRESSES = 30
_PANES = {
    "home": b"H",
    "nodes": b"1",
    "pods": b"2",
    "blueprints": b"3",
    "run": b"4",
    "logs": b"5",
    "accelerators": b"6",
    "charts": b"7",
    "events": b"8",
    "cost": b"9",
    "objects": b"K",
    "runs": b"0",
}
_ESCAPE = b"\x1b"


def a_run(folder: Path, steps: int) -> None:
    """Write the journal of a run in training, and so many steps of its log."""
    folder.mkdir(parents=True, mode=0o700)
    stage = StageOutline(_STAGE, "job", "Training", (), 60.0, 600.0, charts=("train_loss", "grad_norm"))
    created = Created(RUN, "bench", "A long training", "", {}, ClusterName("bench", "us-west-2"), (stage,))
    create_journal(journal_path(folder), created, SystemClock())
    journal = Journal(journal_path(folder), SystemClock())
    journal.append(Intent(Action.PERFORM), stage=_STAGE, attempt=1)
    journal.close()
    writer = OutputWriter(folder, _STAGE)
    source = writer.source("bench", "train-0", "main", "uid-0")
    begun = time.time() - steps * _STEP_SECONDS
    for first in range(0, steps, _BATCH):
        numbers = range(first, min(first + _BATCH, steps))
        writer.write_lines(source, [_line(number, begun + number * _STEP_SECONDS) for number in numbers])
    writer.close()


def _line(step: int, at: float) -> LogLine:
    """One step of a training whose loss is noisy."""
    noise = random.Random(step).gauss(0.0, 0.4)
    loss = 2.0 + 3.0 * math.exp(-step / 60_000) + noise
    others = f'"grad_norm": {abs(noise) + 0.5:.5f}, "learning_rate": {1e-4 * math.exp(-step / 1e5):.3e}'
    return LogLine(int(at * 1e9), f'{{"step": {step}, "loss": {loss:.5f}, {others}}}')


def train(folder: Path, step: int) -> None:
    """Hold the run as its runner does; its training goes on, ten steps a second, once stdin has ended."""
    clock = SystemClock()
    lease = take_runner_lease(journal_path(folder), clock)
    heartbeat = Heartbeat(folder, lease.holder, clock)
    writer = OutputWriter(folder, _STAGE)
    source = writer.source("bench", "train-0", "main", "uid-0")
    is_training = False
    due = time.monotonic()
    while True:
        heartbeat.beat()
        if is_training:
            writer.write_lines(source, [_line(step, time.time())])
            step += 1
        due += _STEP_SECONDS
        if select.select([] if is_training else [sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            is_training = True


@contextmanager
def _runner(folder: Path, step: int) -> Iterator[Callable[[], None]]:
    """Have the run held. Yields what lets its training go on."""
    argv = [sys.executable, "-m", "tests.bench.panes", "train", str(folder), str(step)]
    with subprocess.Popen(argv, cwd=_ROOT, stdin=subprocess.PIPE, text=True) as process:

        def go_on() -> None:
            if process.stdin is not None:
                process.stdin.close()

        try:
            yield go_on
        finally:
            process.terminate()


def measure_panes(target: Target, folder: Path, *, steps: int = STEPS) -> Figures:
    """Milliseconds from `:` to the command line on the terminal in each pane, alone on the screen, and longest stalls.

    Of the charts the figures are taken at rest, while the curves grow, and for `L`, which draws them on another axis.
    """
    run = folder / "state" / "eksml-tui" / "runs" / RUN
    a_run(run, steps)
    argv = [sys.executable, "-m", "tests.bench.probe", str(folder / "stall"), "--run", RUN]
    variables = environment(folder, target.kubeconfig) | {"PYTHONPATH": str(_ROOT)}
    found: Figures = {"steps": steps}
    with _runner(run, steps) as go_on, Program(argv, variables, stall_file=folder / "stall") as program:
        program.wait(rb"\$[\d,]+\.\d\d/h")
        program.drain(6.0)
        program.type(b"7")
        found["chart_complete_seconds"] = round(_complete(program), 1)
        found["charts_at_rest"] = _pressed(program, "charts")
        found["charts_other_axis"] = _axes(program)
        go_on()
        program.drain(3.0)
        found["charts_live"] = load(program, 10.0)
        program.type(b"M")
        program.drain(1.0)
        found["several_charts_live"] = load(program, 10.0) | {"keys": _pressed(program, "")}
        program.type(b"M")
        for pane in _PANES:
            found[pane] = _pressed(program, pane)
        program.type(b"7")
        program.drain(1.0)
        found["charts_other_axis_live"] = _axes(program)
    return found


def _complete(program: Program) -> float:
    """Wait until the curve is read: the console is at rest."""
    began = time.perf_counter()
    while True:
        cpu = program.cpu_seconds()
        program.drain(2.0)
        if program.cpu_seconds() - cpu < 0.1:
            return time.perf_counter() - began - 2.0


def _pressed(program: Program, pane: str) -> Figures:
    program.type(_PANES.get(pane, b""))
    program.drain(2.0)
    program.longest_stall_ms()
    times = []
    for _ in range(_PRESSES):
        program.forget()
        began = time.perf_counter()
        program.type(b":")
        times.append((program.wait(rb"command", seconds=10) - began) * 1000)
        program.drain(0.23)
        program.type(_ESCAPE)
        program.drain(0.31)
    wall, busy = program.longest_stall_ms()
    return {**keys_in_order(times), "longest_stall_ms": wall, "longest_stall_cpu_ms": busy}


def _axes(program: Program) -> Figures:
    program.longest_stall_ms()
    times = []
    for _ in range(_PRESSES // 2):
        program.forget()
        began = time.perf_counter()
        program.type(b"L")
        times.append((program.wait(rb"\(log\)", seconds=10) - began) * 1000)
        program.drain(0.23)
        program.type(b"L")
        program.drain(0.31)
    wall, busy = program.longest_stall_ms()
    return {**keys_in_order(times), "longest_stall_ms": wall, "longest_stall_cpu_ms": busy}


if __name__ == "__main__":
    train(Path(sys.argv[2]), int(sys.argv[3]))
