"""A console that is killed takes nothing with it: the run goes on, and the next console shows all of it."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.process import identity_of, is_alive
from actions.run.client import load_run
from actions.run.output.reader import OutputLine, OutputReader
from actions.run.state.view import RunState, StageState
from actions.telemetry.points import Point
from tests.support.consoles import RUN, a_console, approve_each_plan, launch_the_rehearsal
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux

pytestmark = [pytest.mark.kill, pytest.mark.terminal, needs_tmux]

TRAINING = r"▶ Pre-training .* 8 of 8"


def kill(terminal: Terminal) -> None:
    """End the console in a way that it cannot notice."""
    console = identity_of(terminal.pid())
    assert console is not None
    os.kill(console.pid, signal.SIGKILL)
    wait(lambda: not is_alive(console), "end of the console")


def the_run_goes_on(program: Program, size: Callable[[], int]) -> None:
    """The runner lives and its files grow without any console."""
    runner = program.runner(only_run(program))
    assert runner is not None
    assert is_alive(runner)
    before = size()
    wait(lambda: size() > before, "growth of what the runner writes")


def only_run(program: Program) -> Path:
    (folder,) = program.run_folders()
    return folder


def stored_output(folder: Path, stage: str) -> list[OutputLine]:
    """Every line of a stage, in the order of their time."""
    reader, offset = OutputReader(folder, stage), 0
    lines: list[OutputLine] = []
    while True:
        more, offset = reader.lines(offset)
        if not more:
            return sorted(lines, key=lambda line: line.at_ns)
        lines += more


def losses(folder: Path, stage: str) -> list[float]:
    """Every finite value of a loss that the runner read in the log of a stage."""
    findings, _ = OutputReader(folder, stage).values(limit_bytes=1 << 26)
    points = [item.value for item in findings if isinstance(item.value, Point)]
    return [point.value for point in points if point.metric.endswith("_loss") and math.isfinite(point.value)]


def sees_the_whole_log(terminal: Terminal, folder: Path) -> None:
    lines = stored_output(folder, "train")
    terminal.press("5")
    terminal.wait(rf"─ log of {RUN}/train ")
    terminal.wait(rf"at the end +{len(lines):,} lines")
    terminal.wait(re.escape(lines[-1].text[:40]))
    terminal.press("g")
    terminal.wait(re.escape(lines[0].text[:40]))


def sees_the_whole_curve(terminal: Terminal, folder: Path) -> None:
    values = losses(folder, "train")
    terminal.press("7")
    terminal.wait(rf" of {RUN}/train ")
    shown = terminal.wait(r"min (\d+\.\d+) · max (\d+\.\d+) · over step")
    assert [float(text) for text in shown.groups()] == pytest.approx([min(values), max(values)], abs=0.01)


def test_a_run_outlives_its_consoles_and_the_next_one_shows_all_of_it(program: Program) -> None:
    with a_console(program) as launched:
        launch_the_rehearsal(launched)
        kill(launched)
    folder = only_run(program)

    with a_console(program) as second, a_console(program) as third:
        second.wait(r"4 run◆")
        second.press("4")
        third.press("4")
        approve_each_plan(second)
        third.wait(r"✔ File system ")
        second.wait(TRAINING, seconds=90)
        third.wait(TRAINING)
        kill(second)
        kill(third)
        the_run_goes_on(program, lambda: len(stored_output(folder, "train")))

    with a_console(program) as fourth:
        fourth.press("4")
        fourth.wait(r"[▶✔] Pre-training ")
        fourth.wait(r"^│ succeeded ", seconds=90)
        assert load_run(folder).stage("train").state is StageState.SUCCEEDED
        sees_the_whole_log(fourth, folder)
        sees_the_whole_curve(fourth, folder)

    program.run("runs", "teardown", folder.name, "--confirm", "bionemo-on-eks", "--delete-data", seconds=240)
    with a_console(program, "--run", folder.name) as last:
        last.until(lambda: load_run(folder).state is RunState.TORN_DOWN, "end of the teardown", seconds=240)
        last.wait(r"^│ torn down[ ,]")
        last.press("2")
        last.wait(r"coredns")
        last.wait_gone(r"esm1nv-pretraining")
        sees_the_whole_log(last, folder)
        sees_the_whole_curve(last, folder)
