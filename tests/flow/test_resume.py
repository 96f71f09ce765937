"""The next start takes up what a killed runner leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from actions.base.process import is_alive
from actions.run.client import load_run
from actions.run.state.view import RunState
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux

LAUNCH = """\
eksml-script: 1
deadline: 3m
steps:
  - launch: {blueprint: bionemo-esm1nv, auto_approve: true, set: {workers: 2}}
  - wait: {stage: data, is: running, within: 2m}
"""

pytestmark = [needs_tmux, pytest.mark.terminal, pytest.mark.kill]


def test_a_console_goes_on_with_a_run_whose_runner_was_killed(program: Program, tmp_path: Path) -> None:
    script = tmp_path / "launch.yaml"
    script.write_text(LAUNCH)
    done = program.run("--demo", "--speed", "20", "--script", str(script), seconds=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = program.run_folders()
    killed = program.runner(folder)
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    wait(lambda: not is_alive(killed), "the runner's end")
    assert load_run(folder).state is RunState.UNKNOWN

    terminal = Terminal(program.argv("--demo"), environment=program.environment, size=(120, 30), directory=program.home)
    try:
        terminal.wait("interrupted")
        wait(lambda: load_run(folder).state is RunState.SUCCEEDED, "the run's success", deadline_seconds=400)
        owned = load_run(folder).owned
        assert len({(item.kind, item.namespace, item.name) for item in owned}) == len(owned)
        assert len({item.uid for item in owned if item.uid}) == len(owned)
    finally:
        terminal.close()
