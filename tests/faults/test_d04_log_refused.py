"""D4, F20, F25: a log that is refused is asked for again; what is missing in the end is said in the stage's outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actions.run.limits.idle import load_in
from actions.run.output import collector as watcher
from actions.run.output.reader import OutputReader
from actions.run.state.records import CheckResult
from actions.run.state.view import RunState
from actions.sandbox.faults.client import control_faults
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import WORK, a_run, job_of
from tests.faults.watched import (
    a_logged_run,
    begun,
    fault,
    has_succeeded,
    markers,
    points,
    printed,
    printing,
    resumed_after_a_kill,
    taken_down,
    texts,
    wait_for_note,
    work_of,
)
from tests.support.polling import until
from tests.support.smallrun import carry_out

SANDBOX_SPEED = 1.0
LINES = 40
QUIET_SECONDS = 15.0
"""For which an error of a server is no warning; three refusals may take a busy machine longer."""
OF_A_FILE = "    watch: {logs: {file: /data/log, pod: batch.kubernetes.io/job-name=NAME}}\n"
COUNTED = "    watch: {accelerator: nvidia-smi, logs: {pods: batch.kubernetes.io/job-name=NAME}}\n"


@contextmanager
def refused_streams(sandbox: RunningSandbox, kind: str) -> Iterator[None]:
    """Logs are refused from now on, and those that are open break."""
    with fault(sandbox, kind, "verbs=log"):
        control_faults(sandbox.kubeconfig, ["kind=cut", "verbs=log", "after-bytes=0", "name=cut"])
        control_faults(sandbox.kubeconfig, ["clear", "cut"])
        yield


def refusals(sandbox: RunningSandbox) -> int:
    """Return how often the server has refused a log."""
    return next(report.hits for report in control_faults(sandbox.kubeconfig, []) if report.name == "test")


@pytest.mark.parametrize("kind", ["kind=forbidden", "kind=unauthorized"])
async def test_d04_a_log_is_followed_again_after_a_refusal(tmp_path: Path, sandbox: RunningSandbox, kind: str) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    begun(folder)
    with refused_streams(sandbox, kind):
        wait_for_note(folder, "Logs cannot be read: ")
    await until(lambda: "Logs cannot be read" not in work_of(folder).message, "the end of the warning")
    view = has_succeeded(folder)
    assert texts(folder) == printed(LINES)
    assert points(folder) == LINES
    first, second = markers(folder)
    assert "the log cannot be read: " in first
    assert "the log goes on from where it stopped" in second
    assert "incomplete" not in view.stage("work").message
    taken_down(folder)


@pytest.mark.parametrize("kind", ["kind=broken", "kind=throttled"])
async def test_d04_a_log_is_followed_again_after_an_error_of_the_server(
    tmp_path: Path, sandbox: RunningSandbox, kind: str
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    begun(folder)
    began = time.monotonic()
    with refused_streams(sandbox, kind):
        # Lines that were on their way when the stream broke are kept before the log is asked for again.
        await until(lambda: refusals(sandbox) > 0, "the log to be asked for again")
        known = len(texts(folder))
        await until(lambda: refusals(sandbox) > 2, "the log to be asked for again and again")
        assert len(texts(folder)) == known
        said = work_of(folder).message
        if time.monotonic() - began < QUIET_SECONDS:
            assert "Logs cannot be read" not in said, "of errors that pass soon, nothing is said"
    has_succeeded(folder)
    assert texts(folder) == printed(LINES)
    taken_down(folder)


async def test_d04_a_refusal_outlives_a_runner(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    runner = begun(folder)
    with refused_streams(sandbox, "kind=forbidden"):
        wait_for_note(folder, "Logs cannot be read: ")
        resumed_after_a_kill(folder, runner)
        wait_for_note(folder, "Logs cannot be read: ")
    view = has_succeeded(folder)
    assert texts(folder) == printed(LINES)
    assert "incomplete" not in view.stage("work").message
    taken_down(folder)


async def test_d04_a_log_that_stays_refused_is_said_in_the_outcome(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LONGEST_LAST_LINES_SECONDS", 3.0)
    folder = a_logged_run(tmp_path, sandbox, printing(20))  # it still prints when its log is refused
    runner = asyncio.create_task(carry_out(folder))
    await until(lambda: len(texts(folder)) >= 2, "two lines")
    with refused_streams(sandbox, "kind=forbidden"):
        view = await runner
    assert view.state is RunState.SUCCEEDED
    stage = view.stage("work")
    assert "Log of pod " in stage.message
    assert "incomplete, it could not be read: Not allowed: " in stage.message
    assert [(one.result, one.subject) for one in stage.findings] == [(CheckResult.UNKNOWN, "log")]
    assert "the log cannot be read: Not allowed" in markers(folder)[-1]
    taken_down(folder)


async def test_d04_a_log_file_is_read_on_after_a_refusal(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"{'; sleep 0.4; '.join(f'echo {line} >> /data/log' for line in printed(20))}; sleep 600"
    job = job_of(command).replace("command:", "volumeMounts: [{name: data, mountPath: /data}], command:")
    job = job.rstrip() + "\n      volumes: [{name: data, emptyDir: {}}]\n"
    folder = a_run(tmp_path, sandbox, WORK + OF_A_FILE, job=job)
    begun(folder)
    with fault(sandbox, "kind=forbidden", "verbs=exec"):
        control_faults(sandbox.kubeconfig, ["kind=cut", "verbs=exec", "after-bytes=0", "name=cut"])
        control_faults(sandbox.kubeconfig, ["clear", "cut"])
        wait_for_note(folder, "Logs cannot be read: ")
    await until(lambda: len(texts(folder)) >= 20, "all lines")
    assert texts(folder) == printed(20)
    taken_down(folder)


async def test_d04_who_may_not_ask_for_accelerators_is_told(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox, WORK + COUNTED, job=job_of(printing(4, behind="; sleep 600")))
    with fault(sandbox, "kind=forbidden", "verbs=exec"):
        begun(folder)
        wait_for_note(folder, "The accelerators cannot be read: ")
        (refused,) = OutputReader(folder, "work").accelerators().values()
        assert load_in(refused.text, refused.at).loads == (), "a pod that may not be asked is not idle"
        assert "forbidden" in load_in(refused.text, refused.at).error
    await until(lambda: "cannot be read" not in work_of(folder).message, "the end of the warning")
    taken_down(folder)
