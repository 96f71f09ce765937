"""The last lines of a stage, on the sandbox: kept also when the stage has ended before its pods were looked for."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from actions.base.clock import SystemClock
from actions.blueprint.render import RUN_LABEL
from actions.run.client import load_run
from actions.run.engine.backend import LiveBackend
from actions.run.journal.folder import logs_path
from actions.run.spool.reader import SpoolReader
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import LOGGED, WORK, a_run
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
    return [line.text for line in SpoolReader(folder, "work").lines()[0]]


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

    shutil.rmtree(logs_path(folder, "work"))  # as if its runner had died with the first line
    view = load_run(folder)
    site = LiveBackend(folder, SystemClock())
    async with site.watching(view, view.stage("work"), Unheard()):
        pass
    await site.aclose()
    assert [line.text for line in SpoolReader(folder, "work").lines()[0]] == ["one", "two", "three"]
    await torn_down(folder)
