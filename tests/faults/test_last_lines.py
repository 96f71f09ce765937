"""The last lines of a stage, on the sandbox: kept also when the stage has ended before its pods were looked for."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.blueprint.render import RUN_LABEL
from actions.cluster.objects.client import ObjectRef
from actions.run.client import load_run, send_request
from actions.run.context.protocols import Performed, StageJournal
from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner import Runner
from actions.run.journal.folder import journal_path, output_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.output.reader import OutputReader
from actions.run.output.streams import stored_losses
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Action, Operator, Outcome, RequestKind, Result, TakenOver
from actions.run.state.view import RunState, RunView, StageState, StageView
from actions.run.takeover.arrival import arrival_records
from actions.sandbox.locate import RunningSandbox
from actions.telemetry.points import Point
from tests.faults.small import LOGGED, WORK, a_run, job_of
from tests.faults.somebody import Somebody
from tests.support.polling import until
from tests.support.smallrun import Unheard, carry_out, own_name, torn_down

SANDBOX_SPEED = 20.0

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example.com/work, command: [sh, -c, "echo one; echo two; echo three"]}]
"""


STOPPED = "the stage was stopped before the log was read to its end"


def pod(folder: Path, name: str, command: str) -> dict[str, Any]:
    """One that the watch of `WORK` finds, of no controller."""
    labels = {RUN_LABEL: load_run(folder).id, "batch.kubernetes.io/job-name": name}
    container = {"name": "main", "image": "example.com/work", "command": ["sh", "-c", command]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def lines_of(folder: Path) -> list[str]:
    return [line.text for line in OutputReader(folder, "work").lines()[0]]


async def watch(folder: Path) -> None:
    """Watch the stage until the task is cancelled."""
    view = load_run(folder)
    site = LiveBackend(folder, SystemClock())
    try:
        async with site.watching(view, view.stage("work"), Unheard()):
            await asyncio.Event().wait()
    finally:
        await site.aclose()


@asynccontextmanager
async def watched(folder: Path, line: str) -> AsyncIterator[None]:
    """The stage, watched; the first `line` has been read when the context is entered."""
    watching = asyncio.create_task(watch(folder))
    try:
        await until(lambda: line in lines_of(folder), f"the line {line!r}")
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def test_a_stage_that_is_stopped_marks_where_reading_ended(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder, name = a_run(tmp_path, sandbox, WORK + LOGGED, job=JOB), own_name(tmp_path)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    await somebody.put(pod(folder, name, "echo begun; sleep 600; echo ended"))
    async with watched(folder, "begun"):
        pass
    assert lines_of(folder) == ["one", "two", "three", "begun", f"-- {STOPPED} --"]
    async with watched(folder, "-- the log goes on from where it stopped --"):
        pass
    assert lines_of(folder)[-1] == f"-- {STOPPED} --"
    await torn_down(folder)


async def test_a_runner_that_finds_its_stage_done_still_keeps_the_log(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=JOB)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED

    shutil.rmtree(output_path(folder, "work"))  # as if its runner had died with the first line
    view = load_run(folder)
    site = LiveBackend(folder, SystemClock())
    async with site.watching(view, view.stage("work"), Unheard()):
        pass
    await site.aclose()
    assert [line.text for line in OutputReader(folder, "work").lines()[0]] == ["one", "two", "three"]
    await torn_down(folder)


class Killed(BaseException):
    """The end of a runner in the middle of a stage."""


class Unwatching(LiveBackend):
    """A backend whose runner dies while the job is at work: what the job prints afterwards is read by nobody."""

    def __init__(self, folder: Path, until_then: Callable[[], Awaitable[object]] | None) -> None:
        super().__init__(folder, SystemClock())
        self._until_then = until_then

    @asynccontextmanager
    async def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AsyncIterator[None]:
        if stage.id == "work" and self._until_then is not None:
            working = asyncio.create_task(self.handler(view, stage, journal).perform())
            await self._until_then()
            working.cancel()
            await asyncio.wait({working})
            raise Killed
        yield

    async def with_warnings(self, stage: StageView, done: Performed) -> Performed:
        if stage.id == "work":
            raise Killed
        return done


async def carry_out_unwatched(folder: Path, until_then: Callable[[], Awaitable[object]] | None = None) -> None:
    """Begin the job with a runner that dies once it has ended, or after `until_then`."""
    clock, site = SystemClock(), Unwatching(folder, until_then)
    lease = take_runner_lease(journal_path(folder), clock)
    journal = Journal(journal_path(folder), clock, fence=lease.token)
    runner_journal = RunnerJournal(journal, lease, clock)
    try:
        await Runner(runner_journal, site, clock, lambda _: None).run()
    except Killed:
        view = await runner_journal.view()
        assert await runner_journal.release(view.last_seq)  # the pid of this process lives on
    finally:
        await site.aclose()
        journal.close()
    assert load_run(folder).stage("work").state is StageState.UNKNOWN


STEPS = [f"step {step}/3 loss {4 - step}.0" for step in range(1, 4)]


@pytest.mark.parametrize("kind", [RequestKind.PARK, RequestKind.TEARDOWN])
async def test_a_job_that_ended_unwatched_is_read_before_it_is_removed(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, kind: RequestKind
) -> None:
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=job_of("; ".join(f"echo {line}" for line in STEPS)))
    await carry_out_unwatched(folder)
    send_request(folder, kind, start=False)
    await carry_out(folder)
    assert await somebody.get(ObjectRef("batch/v1", "Job", "default", own_name(tmp_path))) is None
    assert lines_of(folder) == STEPS
    assert values_of(folder) == [3.0, 2.0, 1.0]
    assert stored_losses(folder, "work") == ()
    if kind is not RequestKind.TEARDOWN:
        await torn_down(folder)


async def test_a_job_that_ended_unwatched_and_has_lost_its_pods_leaves_a_gap(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=JOB)
    await carry_out_unwatched(folder)
    await remove_pods(folder, somebody)
    send_request(folder, RequestKind.CANCEL, start=False)
    view = await carry_out(folder)
    loss = "Log incomplete: its pods were gone before any of their logs was read."
    assert stored_losses(folder, "work") == (loss,)
    assert view.stage("work").message.endswith(f"removed. {loss}")
    await torn_down(folder)


@pytest.mark.parametrize("has_pods", [True, False])
async def test_a_job_that_failed_unwatched_is_read_before_a_retry_removes_it(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, has_pods: bool
) -> None:
    command = "; ".join([*(f"echo {line}" for line in STEPS), "exit 1"])
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=job_of(command))
    ref = ObjectRef("batch/v1", "Job", "default", own_name(tmp_path))

    async def has_failed() -> bool:
        job = await somebody.get(ref)
        return bool(((job or {}).get("status") or {}).get("failed"))

    await carry_out_unwatched(folder, lambda: until(has_failed, "its end"))
    if not has_pods:
        await remove_pods(folder, somebody)
    send_request(folder, RequestKind.CANCEL, start=False)
    with arrival_records(folder, SystemClock()) as records:  # and its runner dies before it removes the job
        records.write(Outcome(Action.PERFORM, Result.CANCELLED, "Interrupted."), stage="work", attempt=1)
    send_request(folder, RequestKind.RETRY, start=False)
    view = await carry_out(folder)
    assert view.stage("work").state is StageState.FAILED
    loss = "its pods were gone before any of their logs was read"
    assert lines_of(folder) == ([*STEPS, *STEPS] if has_pods else [f"-- {loss} --", *STEPS])
    assert stored_losses(folder, "work") == (() if has_pods else (f"Log incomplete: {loss}.",))
    await torn_down(folder)


@pytest.mark.parametrize("has_output", [False, True])
async def test_a_log_that_has_not_come_is_read_again_before_its_pods_are_removed(
    tmp_path: Path, sandbox: RunningSandbox, has_output: bool
) -> None:
    folder = await a_taken_over_run(tmp_path, sandbox, has_output=has_output)
    view = await torn_down(folder)
    assert values_of(folder) == [3.0, 2.0, 1.0]
    assert lines_of(folder) == STEPS
    assert stored_losses(folder, "work") == ()
    assert "incomplete" not in view.stage("work").message


async def test_a_log_that_has_not_come_and_whose_pods_are_gone_has_a_gap(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = await a_taken_over_run(tmp_path, sandbox, has_output=False)
    await remove_pods(folder, somebody)
    view = await torn_down(folder)
    loss = "its pods were gone before any of their logs was read"
    assert stored_losses(folder, "work") == (f"Log incomplete: {loss}.",)
    assert lines_of(folder) == [f"-- {loss} --"]
    assert loss in view.stage("work").message


async def test_a_pod_that_is_known_without_a_line_and_gone_has_a_gap(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    """The lines have not left the machine that is lost: of the log the store had the name and no more."""
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=JOB)
    await carry_out_unwatched(folder)
    (found,) = await pods_in(folder)
    metadata, writer = found["metadata"], OutputWriter(folder, "work", clock=SystemClock())
    writer.source("default", metadata["name"], "main", metadata["uid"])
    writer.close()
    await somebody.remove(ObjectRef("batch/v1", "Job", "default", own_name(tmp_path)))

    async def is_gone() -> bool:
        return not await pods_in(folder)

    await until(is_gone, "the end of its pod")
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED
    (loss,) = stored_losses(folder, "work")
    assert "its pod was gone before the log was read to its end" in loss
    await torn_down(folder)


async def a_taken_over_run(tmp_path: Path, sandbox: RunningSandbox, *, has_output: bool) -> Path:
    """A run that has succeeded on another machine, as it has come from there."""
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=job_of("; ".join(f"echo {line}" for line in STEPS)))
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    if not has_output:
        shutil.rmtree(output_path(folder, "work"))
    with arrival_records(folder, SystemClock()) as records:
        records.write(TakenOver(Operator("ben", "bastion-2"), 2, Operator("anna", "bastion-1")))
    return folder


def values_of(folder: Path) -> list[float]:
    found = OutputReader(folder, "work").values()[0]
    return [item.value.value for item in found if isinstance(item.value, Point)]


async def pods_in(folder: Path) -> list[dict[str, Any]]:
    site = LiveBackend(folder, SystemClock())
    connection = await site.cluster_of(load_run(folder))
    assert connection is not None
    pods = await connection.pods(namespace="default", label_selector=f"{RUN_LABEL}={load_run(folder).id}")
    await site.aclose()
    return pods


async def remove_pods(folder: Path, somebody: Somebody) -> None:
    pods = await pods_in(folder)
    assert pods
    for found in pods:
        await somebody.remove(ObjectRef("v1", "Pod", "default", found["metadata"]["name"]))


async def test_a_job_that_works_on_unwatched_is_read_up_to_its_removal(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=job_of("echo begun; sleep 600; echo ended"))
    ref = ObjectRef("batch/v1", "Job", "default", own_name(tmp_path))

    async def is_ready() -> bool:
        job = await somebody.get(ref)
        return job is not None and bool((job.get("status") or {}).get("ready"))

    await carry_out_unwatched(folder, lambda: until(is_ready, "its pod"))
    send_request(folder, RequestKind.TEARDOWN, start=False)
    await carry_out(folder)
    assert lines_of(folder) == ["begun", f"-- {STOPPED} --"]
    (loss,) = stored_losses(folder, "work")
    assert f"incomplete, {STOPPED}" in loss


async def test_a_job_that_is_cancelled_before_it_has_a_pod_has_no_gap(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    job = job_of("echo begun").replace("spec:\n  backoffLimit", "spec:\n  suspend: true\n  backoffLimit")
    folder, ref = (
        a_run(tmp_path, sandbox, WORK + LOGGED, job=job),
        ObjectRef("batch/v1", "Job", "default", own_name(tmp_path)),
    )

    async def is_made() -> bool:
        return await somebody.get(ref) is not None and any(
            item.uid for item in load_run(folder).owned if item.kind == "Job"
        )

    await carry_out_unwatched(folder, lambda: until(is_made, "the job"))
    send_request(folder, RequestKind.TEARDOWN, start=False)
    await carry_out(folder)
    assert stored_losses(folder, "work") == ()
