"""F3: a killed runner leaves its stage unknown and its work alone; the next one goes on with the same object."""

from __future__ import annotations

from pathlib import Path

from actions.cluster.objects.client import ObjectRef
from actions.run.client import list_runs, load_run
from actions.run.state.view import RunState, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill
from tests.faults.small import LOGGED, WORK, a_run, job_of
from tests.faults.somebody import Somebody
from tests.support.polling import until
from tests.support.smallrun import carry_out, own_name, torn_down

SANDBOX_SPEED = 1.0

JOB = job_of("echo begun; sleep 4; echo done")


async def test_f03_a_killed_runner_leaves_the_stage_unknown_and_destroys_nothing(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, WORK + LOGGED, job=JOB)
    runner = begin(folder)
    assert runner is not None
    await until(lambda: any(item.kind == "Job" and item.uid for item in load_run(folder).owned), "the job")
    uid = next(item.uid for item in load_run(folder).owned if item.kind == "Job")
    kill(runner)

    view = load_run(folder)
    assert (view.state, view.stage("work").state) == (RunState.UNKNOWN, StageState.UNKNOWN)
    (summary,) = list_runs(tmp_path / "runs")
    assert summary.is_interrupted
    job = await somebody.get(ObjectRef("batch/v1", "Job", "default", own_name(tmp_path)))
    assert job is not None
    assert job["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in job["metadata"]

    view = await carry_out(folder)
    assert (view.state, view.stage("work").attempt) == (RunState.SUCCEEDED, 1)
    assert {item.uid for item in view.owned if item.kind == "Job"} == {uid}
    await torn_down(folder)
