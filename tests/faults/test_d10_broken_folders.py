"""D10: a run's folder that cannot be used, in whatever way, is listed with its reason and hides nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.run.client import list_runs, load_run
from actions.run.journal.journal_file import HEAD
from tests.faults.disks import as_an_ordinary_user
from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux
from tests.unit.run.world import make_run

CLOCK = SystemClock()


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").mkdir()


def _pipe(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "journal.jsonl")


def _dangling_journal(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").symlink_to("journal.jsonl")


def _garbage(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").write_bytes(b"garbage" * 4000)


def _empty(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").touch()


def _sparse(path: Path) -> None:
    path.mkdir()
    with (path / "journal.jsonl").open("wb") as file:
        file.truncate(1 << 40)


def _other_version(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").write_text('{"journal":9}\n')


def _no_records(path: Path) -> None:
    path.mkdir()
    (path / "journal.jsonl").write_bytes(HEAD)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no-journal": (lambda path: path.mkdir(), "journal.jsonl does not exist"),
    "a-file": (lambda path: path.write_text("x"), "is not a folder"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "cannot be read"),
    "directory": (_directory, "is not a file"),
    "pipe": (_pipe, "is not a file"),
    "dangling-journal": (_dangling_journal, "journal.jsonl does not exist"),
    "loop": (_loop, "cannot be read"),
    "garbage": (_garbage, "is damaged"),
    "empty": (_empty, "is damaged: it is empty"),
    "sparse": (_sparse, "it is not a journal"),
    "other-version": (_other_version, "has version 9"),
    "no-records": (_no_records, "it has no records"),
    os.fsdecode(b"not-utf8-\xff"): (lambda path: path.mkdir(), "does not exist"),
    "escape-\x1b]52;c;x\x07": (lambda path: path.mkdir(), "does not exist"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A good run among all kinds of broken ones."""
    make_run(tmp_path, CLOCK)
    for name, (make, _) in BROKEN.items():
        make(tmp_path / "runs" / name)
    return tmp_path / "runs"


def test_each_broken_folder_is_listed_with_its_reason(home: Path) -> None:
    listed = {run.folder.name: run for run in list_runs(home)}
    assert listed.keys() == {"fake-1121-0001", *BROKEN}
    assert listed["fake-1121-0001"].error == ""
    for name, (_, reason) in BROKEN.items():
        assert reason in listed[name].error, name
        assert listed[name].id.isprintable()
        assert listed[name].error.isprintable()


def test_every_command_goes_on_beside_them(program: Program) -> None:
    program.state.mkdir(parents=True)
    folder = make_run(program.state, CLOCK)
    for name, (make, _) in BROKEN.items():
        make(program.state / "runs" / name)
    done = program.command("runs", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert folder.name in done.stdout
    assert "\x1b" not in done.stdout
    assert len(json.loads(program.command("runs", "list", "--output", "json").stdout)) == 1 + len(BROKEN)
    for verb in ("show", "logs"):
        assert program.command("runs", verb, folder.name).returncode == 0, verb
        assert program.command("runs", verb, "latest").returncode == 0, verb
    for name in ("pipe", "directory", "garbage"):
        done = program.command("runs", "show", name)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
    script = program.home / "look.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: runs}, {wait: {text: unreadable, within: 60s}}]\n")
    done = program.command("--demo", "--script", str(script))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_tmux
@pytest.mark.terminal
def test_the_console_shows_them_and_goes_on(program: Program) -> None:
    program.state.mkdir(parents=True)
    make_run(program.state, CLOCK)
    for name, (make, _) in BROKEN.items():
        make(program.state / "runs" / name)
    terminal = Terminal(program.argv("--demo"), environment=program.environment, size=(120, 40), directory=program.home)
    try:
        terminal.wait("nodes", seconds=90)
        terminal.press("0")
        terminal.wait("unreadable")
        terminal.wait("fake-1121-0001")
        terminal.press("4")
        terminal.wait("A pretend run")
    finally:
        terminal.close()


def test_a_folder_that_may_not_be_entered_hides_nothing(program: Program) -> None:
    folder = make_run(program.state, CLOCK)
    closed = program.state / "runs" / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        done = as_an_ordinary_user(program, "runs", "list")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{closed} cannot be entered" in done.stdout
        assert folder.name in done.stdout
        assert as_an_ordinary_user(program, "runs", "show", folder.name).returncode == 0
        refused = as_an_ordinary_user(program, "runs", "show", "closed")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
    finally:
        closed.chmod(0o700)


def test_a_good_run_is_read_while_all_others_are_broken(home: Path) -> None:
    assert load_run(home / "fake-1121-0001").title == "A pretend run"
