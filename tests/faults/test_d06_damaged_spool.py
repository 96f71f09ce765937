"""D6: a damaged spool fails no stage. What is whole is kept, what pods still have is read again, the rest is said."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.run.client import load_run
from actions.run.journal.folder import journal_path
from actions.run.repair import repair_run
from actions.run.spool.files import set_aside
from actions.run.spool.format import lines_file, points_file, sources_file
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill
from tests.faults.watched import (
    a_logged_run,
    begun,
    has_succeeded,
    markers,
    points,
    printed,
    printing,
    taken_down,
    texts,
)
from tests.support.leftover import processes_of
from tests.support.polling import wait
from tui.cli.main import main

SANDBOX_SPEED = 1.0
LINES = 28
Damage = Callable[[Path], None]


def garbage_line(folder: Path) -> None:
    with lines_file(folder, "work").open("ab") as file:
        file.write(b"\x00\xfe garbage\n")


def zero_block(folder: Path) -> None:
    path = lines_file(folder, "work")
    data = path.read_bytes()
    end = data.rfind(b"\n", 0, len(data) - 1)
    path.write_bytes(data[: end - 30] + bytes(60) + b"\n" + data[end + 1 :])


def no_sources(folder: Path) -> None:
    sources_file(folder, "work").unlink()


def no_sources_and_no_names(folder: Path) -> None:
    """As an earlier version left it: nothing in the lines says whose they are."""
    no_sources(folder)
    path = lines_file(folder, "work")
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(keepends=True) if line[:1] != b"S"))


def end_of_an_unknown_source(folder: Path) -> None:
    with sources_file(folder, "work").open("ab") as file:
        file.write(b'{"type":"end","number":7,"exit_code":0,"reason":"Completed"}\n')


def wrong_types(folder: Path) -> None:
    for path in (sources_file(folder, "work"), points_file(folder, "work")):
        with path.open("ab") as file:
            file.write(b'{"type":"source","number":"one"}\n[]\n\xff\xfe\n' + b"9" * 6000 + b"\n")


def no_lines(folder: Path) -> None:
    lines_file(folder, "work").unlink()


def zeroed_points(folder: Path) -> None:
    path = points_file(folder, "work")
    path.write_bytes(bytes(path.stat().st_size) + b"\n")


@pytest.mark.parametrize(
    "damage",
    [
        garbage_line,
        zero_block,
        no_sources,
        no_sources_and_no_names,
        end_of_an_unknown_source,
        wrong_types,
        no_lines,
        zeroed_points,
    ],
)
async def test_d06_a_damaged_spool_is_mended_and_the_stage_goes_on(
    tmp_path: Path, sandbox: RunningSandbox, damage: Damage
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    kill(begun(folder, lines=5))
    damage(folder)
    assert begin(folder) is not None
    has_succeeded(folder)
    assert sorted(texts(folder)) == sorted(printed(LINES))
    assert points(folder) == LINES
    assert "incomplete" not in load_run(folder).stage("work").message
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
    zero_block(folder)

    assert main(["runs", "logs", folder.name, "--stage", "work"]) == 0
    shown = capsys.readouterr().out
    left = [text for text in printed(LINES) if text in shown]
    assert len(left) == LINES - 1
    assert "bytes of this log are damaged: lines are missing here" in shown

    assert main(["runs", "repair", folder.name]) == 0
    said = capsys.readouterr().out
    assert "bytes of the log were removed" in said
    assert "Log incomplete" in said
    assert len(set_aside(lines_file(folder, "work"))) == 1
    assert texts(folder) == left
    assert any("lines are missing here" in text for text in markers(folder))
    assert [stage.done for stage in repair_run(folder).stages if stage.stage == "work"] == [()]


async def test_d06_a_spool_is_not_repaired_under_a_runner(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    begun(folder, lines=1)
    with pytest.raises(RefusedError, match="repairs its logs itself"):
        repair_run(folder)
    taken_down(folder)


async def test_d06_what_can_be_read_of_a_damaged_journal_is_copied(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(2))
    assert begin(folder) is not None
    has_succeeded(folder)
    taken_down(folder)
    records = load_run(folder).last_seq
    there = moved_home(folder, tmp_path / "home", monkeypatch)
    path = journal_path(there)
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER record_is_final")
    connection.execute("UPDATE record SET json = CAST(x'7bff7d' AS TEXT) WHERE seq = 4")
    connection.commit()
    connection.close()
    damaged = path.read_bytes()

    assert main(["runs", "repair", folder.name, "--output", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["whole"]) == ("eksml-repair/1", False)
    assert told["journal"]["damage"] != ""
    assert told["journal"]["records"] == records - 1
    assert path.read_bytes() == damaged
    copied = tmp_path / "copied" / folder.name
    copied.mkdir(parents=True)
    Path(told["journal"]["copy"]).rename(journal_path(copied))
    assert load_run(copied).last_seq == records - 1
