"""The last lines of a stage, on the sandbox: kept also when the stage has ended before its pods were looked for."""

from __future__ import annotations

import shutil
from pathlib import Path

from actions.base.clock import SystemClock
from actions.run.client import load_run
from actions.run.engine.backend import LiveBackend
from actions.run.journal.folder import logs_path
from actions.run.spool.reader import SpoolReader
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import LOGGED, WORK, a_run
from tests.support.smallrun import Unheard, carry_out, torn_down

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
