"""F12 at the console: ^C reaches no Terraform; a cancel that is asked for again and again is one interrupt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.process import is_alive
from actions.run.client import load_run
from actions.run.state.view import RunState
from tests.faults import roots
from tests.faults.rehearsal import wait_for_run
from tests.faults.roots import signals
from tests.support.account import an_account
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.ptys import OnPty

CTRL_C = b"\x03"


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    with an_account() as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: str) -> Iterator[Path]:
    """A run whose apply waits for its end."""
    yield from roots.an_apply_that_waits(tmp_path, monkeypatch, account)


def test_f12_no_ctrl_c_reaches_terraform_and_a_cancel_asked_for_twice_is_one_interrupt(
    folder: Path, tmp_path: Path
) -> None:
    runner = roots.begin(folder)
    wait(lambda: roots.is_running(folder, "apply_start"), "the apply")
    program = Program(tmp_path)
    program.state.mkdir(parents=True)
    (program.state / "runs").symlink_to(folder.parent)
    variables = {**os.environ, **program.environment, "PATH": os.environ["PATH"]}
    with OnPty(program.argv("--run", folder.name), variables, size=(140, 40)) as console:
        console.wait(r"▶ ")
        console.type(CTRL_C * 20)
        console.type(b"4")
        console.forget()
        console.type(b"C")
        console.wait(r"Cancel")
        assert signals(folder) == []
        assert is_alive(runner)

        console.type(b"yCyCyC" + CTRL_C * 5 + b"\x1b[27u")
        wait(lambda: signals(folder), "the interrupt")
        console.type(b":cancel\r")
        console.wait(r"cancel")
        console.hang_up()
        assert console.wait_ended() == 129, console.text[-3000:]
    assert is_alive(runner)
    (roots.work_folder(folder) / "finish").touch()
    wait_for_run(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert len(signals(folder)) == 1
    assert load_run(folder).state is RunState.CANCELLED
