"""D7, F12: Terraform that is asked to stop is asked once, whoever the runner is: the second time it would forget.

With a program that counts what it is sent, and with runners that are killed at every moment around the signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.base.process import ProcessIdentity, is_alive
from actions.run.client import load_run, send_request, start_runner
from actions.run.stages import terraform_reconcile as reconcile
from actions.run.stages.terraform_reconcile import UNHEARD_SECONDS, may_interrupt
from actions.run.state.records import Interrupted, RequestKind
from actions.run.state.view import Interruption, RunState, TerraformMemory
from actions.terraform.plans import RunningOperation
from tests.faults import roots
from tests.faults.rehearsal import records_of, wait_for_run
from tests.faults.roots import finish, signals
from tests.support.account import an_account
from tests.support.crashing import CRASH_VARIABLE, RUNNER_MODULE
from tests.support.polling import until, wait
from tests.support.smallrun import carry_out

WAITS = "Waiting until Terraform"


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    with an_account() as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: str) -> Iterator[Path]:
    """A run whose apply waits for its end."""
    yield from roots.an_apply_that_waits(tmp_path, monkeypatch, account)


def at_work(folder: Path) -> ProcessIdentity:
    """Begin, and wait until the apply is at work."""
    runner = roots.begin(folder)
    wait(lambda: roots.is_running(folder, "apply_start"), "the apply")
    return runner


def is_waiting(folder: Path) -> bool:
    view = load_run(folder)
    return any(stage.message.startswith(WAITS) for stage in (*view.stages, *view.teardown))


def test_a_teardown_after_a_killed_cancel_does_not_ask_a_second_time(folder: Path) -> None:
    runner = at_work(folder)
    send_request(folder, RequestKind.CANCEL, environment=roots.CREDENTIALS)
    wait(lambda: signals(folder), "the interrupt")
    roots.kill(runner)

    send_request(folder, RequestKind.TEARDOWN, environment=roots.CREDENTIALS)
    wait(lambda: is_waiting(folder), "the teardown to wait for Terraform")
    assert len(signals(folder)) == 1
    finish(folder)
    view = wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")
    assert len(signals(folder)) == 1
    assert view.audit is not None
    assert view.audit.leftovers == ()
    assert any(step.message == "Destroyed." for step in view.teardown)  # it was in the state: it was not forgotten


def test_cancelled_twice_it_is_asked_once(folder: Path) -> None:
    runner = at_work(folder)
    send_request(folder, RequestKind.CANCEL, environment=roots.CREDENTIALS)
    with pytest.raises(RefusedError):
        send_request(folder, RequestKind.CANCEL, environment=roots.CREDENTIALS)
    wait(lambda: signals(folder), "the interrupt")
    send_request(folder, RequestKind.TEARDOWN, environment=roots.CREDENTIALS)  # the same runner, which is still waiting
    roots.kill(runner)
    for _ in range(2):
        again = start_runner(folder, environment=roots.CREDENTIALS)
        assert again is not None
        wait(lambda: is_waiting(folder), "a runner to wait for Terraform")
        roots.kill(again)
    finish(folder)
    roots.begin(folder)
    wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")
    assert len(signals(folder)) == 1


def test_a_cancel_after_the_runner_died_stops_the_apply_that_outlived_it(folder: Path) -> None:
    roots.kill(at_work(folder))
    send_request(folder, RequestKind.CANCEL, environment=roots.CREDENTIALS)
    wait(lambda: signals(folder), "the interrupt")
    finish(folder)
    wait_for_run(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert roots.running(folder) is None
    assert len(signals(folder)) == 1


def is_sent(folder: Path) -> list[bool]:
    """Of each record of an interrupt, whether it was written after the signal."""
    return [record.body.is_sent for record in records_of(folder) if isinstance(record.body, Interrupted)]


def crash_around_the_interrupt(folder: Path, *, record: int, side: str) -> None:
    """Cancel with a runner that is killed around the first or second of its records of the interrupt."""
    roots.kill(at_work(folder))
    send_request(folder, RequestKind.CANCEL, start=False)
    seq = load_run(folder).last_seq + 1 + record  # behind the intent of the next runner
    environment = {**roots.CREDENTIALS, CRASH_VARIABLE: f"{seq}:{side}"}
    runner = start_runner(folder, environment=environment, module=RUNNER_MODULE)
    assert runner is not None
    wait(lambda: not is_alive(runner), "the crash")


async def test_a_runner_killed_after_the_signal_and_before_its_record_sends_no_second(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_around_the_interrupt(folder, record=2, side="before")
    wait(lambda: roots.is_running(folder, "log"), "Terraform to tell of it")
    assert len(signals(folder)) == 1
    assert is_sent(folder) == [False]
    monkeypatch.setattr(reconcile, "UNHEARD_SECONDS", 0.0)
    monkeypatch.setattr(reconcile, "_ASK_SECONDS", 0.0)
    runner = roots.begin(folder)
    wait(lambda: is_waiting(folder), "the next runner to wait")
    roots.kill(runner)
    finish(folder)
    assert (await carry_out(folder)).state is RunState.CANCELLED
    assert len(signals(folder)) == 1


async def test_a_runner_killed_before_the_signal_is_made_good_by_the_next_once_it_is_certain(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_around_the_interrupt(folder, record=1, side="after")
    runner = roots.begin(folder)
    wait(lambda: is_waiting(folder), "the next runner to wait")
    assert signals(folder) == []  # it may only just have been sent: not certain yet
    roots.kill(runner)
    monkeypatch.setattr(reconcile, "UNHEARD_SECONDS", 0.0)
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: signals(folder), "the interrupt")
    finish(folder)
    assert (await carrying).state is RunState.CANCELLED
    assert len(signals(folder)) == 1
    assert is_sent(folder) == [False, False, True]


def test_an_interrupt_that_a_halted_terraform_has_not_taken_yet_counts(folder: Path) -> None:
    runner = at_work(folder)
    process = roots.running(folder)
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        send_request(folder, RequestKind.CANCEL, environment=roots.CREDENTIALS)
        wait(lambda: is_sent(folder), "the record")
        wait(lambda: is_waiting(folder), "the runner to wait")
        roots.kill(runner)
        roots.begin(folder)
        wait(lambda: is_waiting(folder), "the next runner to wait")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    wait(lambda: signals(folder), "the interrupt")
    finish(folder)
    wait_for_run(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert len(signals(folder)) == 1


PROCESS = ProcessIdentity(7, 70, "boot")
OTHER = ProcessIdentity(7, 71, "boot")


def memory(*items: tuple[ProcessIdentity, float, bool]) -> TerraformMemory:
    return TerraformMemory(interrupts=tuple(Interruption(who, at, is_sent) for who, at, is_sent in items))


@pytest.mark.parametrize(
    ("has_heard", "would_have_heard", "asked", "expected"),
    [
        (False, True, memory(), True),
        (False, False, memory(), True),
        (True, True, memory(), False),  # somebody else did, by hand
        (False, True, memory((PROCESS, 0.0, True)), False),
        (False, True, memory((OTHER, 0.0, True)), True),
        (False, True, memory((PROCESS, 0.0, False)), True),  # long ago, and it would have told
        (False, False, memory((PROCESS, 0.0, False)), False),  # it may not have come to telling
        (True, True, memory((PROCESS, 0.0, False)), False),
        (False, True, memory((PROCESS, 1000.0 - UNHEARD_SECONDS / 2, False)), False),
        (False, True, memory((PROCESS, 0.0, False), (PROCESS, 999.0, False)), False),
        (False, True, memory((PROCESS, 0.0, False), (PROCESS, 1.0, True)), False),
    ],
)
def test_it_is_asked_only_if_it_has_certainly_not_been(
    has_heard: bool, would_have_heard: bool, asked: TerraformMemory, expected: bool
) -> None:
    running = RunningOperation("apply", PROCESS, has_heard=has_heard, would_have_heard=would_have_heard)
    assert may_interrupt(running, asked, now=1000.0) is expected
