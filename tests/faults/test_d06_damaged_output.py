"""D6: damaged output fails no stage. What is whole is kept, the rest is counted and said.

Other damages are in `tests/unit/run/test_output_damage.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.run.client import load_run
from actions.run.output import segments
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import stream_path
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill
from tests.faults.watched import (
    a_logged_run,
    begun,
    has_succeeded,
    points,
    printed,
    printing,
    taken_down,
    texts,
)
from tests.support.leftover import processes_of
from tests.support.polling import wait
from tests.support.streams import append_raw, bytes_of, segments_of, tail_of
from tui.cli.main import main

SANDBOX_SPEED = 1.0
LINES = 28
PAUSE_SECONDS = 0.8
"""Between two lines. The runner has to be killed before the last: a log read to its end is not read again."""
Damage = Callable[[Path], None]


def garbage_in_the_tail(folder: Path) -> None:
    append_raw(folder, "work", "lines", b"\xfe garbage\n")


def no_sources(folder: Path) -> None:
    tail_of(folder, "work", "sources").unlink()


@pytest.mark.parametrize("damage", [garbage_in_the_tail, no_sources])
async def test_d06_a_stage_goes_on_whatever_became_of_its_output(
    tmp_path: Path, sandbox: RunningSandbox, damage: Damage
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=PAUSE_SECONDS))
    runner = begun(folder, lines=5)
    wait(lambda: points(folder) >= 3, "points of a curve")
    kill(runner)
    damage(folder)
    assert begin(folder) is not None
    has_succeeded(folder)
    assert texts(folder) == printed(LINES)
    assert points(folder) == LINES
    is_said = damage is garbage_in_the_tail
    assert ("bytes of it are damaged" in load_run(folder).stage("work").message) is is_said
    taken_down(folder)


def moved_home(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run where the program looks for runs, once its runner has gone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    wait(lambda: not list(processes_of(folder)), "the runner's end")  # not that of its lease: it closes its files later
    there = home / "eksml-tui" / "runs" / folder.name
    there.parent.mkdir(parents=True)
    return folder.rename(there)


async def test_d06_lines_of_pods_that_are_gone_are_said_to_be_missing(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    assert begin(folder) is not None
    has_succeeded(folder)
    taken_down(folder)
    folder = moved_home(folder, tmp_path / "home", monkeypatch)
    data = bytes_of(folder, "work", "lines")
    shutil.rmtree(stream_path(folder, "work", "lines"))
    writer = StreamWriter(stream_path(folder, "work", "lines"))
    with monkeypatch.context() as patch:
        patch.setattr(segments, "SEAL_BYTES", 1500)
        for line in data.splitlines(keepends=True):
            writer.append(line)
    writer.close()
    hurt = segments_of(folder, "work", "lines")[1]
    hurt.write_bytes(hurt.read_bytes()[:-1])

    assert main(["runs", "logs", folder.name, "--stage", "work"]) == 0
    shown = capsys.readouterr().out
    left = [text for text in printed(LINES) if text in shown]
    assert LINES - 9 < len(left) < LINES
    assert "bytes of this log are damaged: lines are missing here" in shown
    assert texts(folder) == left
    assert hurt.exists()
