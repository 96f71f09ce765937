"""F27: an object of the same name with another uid is another object: not followed, and not deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actions.cluster.objects.client import ObjectRef
from actions.run.client import load_run
from actions.run.state.view import RunState, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import CONFIG_MAP, WORK, a_run, job_of
from tests.faults.somebody import Somebody
from tests.support.polling import until
from tests.support.smallrun import carry_out, own_name, torn_down

SANDBOX_SPEED = 1.0

JOB = job_of("sleep 600")


def a_job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/theirs", "command": ["sh", "-c", "exit 0"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


async def test_f27_a_job_of_the_same_name_by_another_client_is_not_taken_for_the_runs(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    name = own_name(tmp_path)
    job, settings = ObjectRef("batch/v1", "Job", "default", name), ObjectRef("v1", "ConfigMap", "default", name)
    folder = a_run(tmp_path, sandbox, WORK, job=JOB, objects=CONFIG_MAP)
    runner = asyncio.create_task(carry_out(folder))
    await until(lambda: any(item.kind == "Job" and item.uid for item in load_run(folder).owned), "the job")
    for ref in (job, settings):
        await somebody.remove(ref)
    await somebody.put(a_job(name))
    await somebody.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})

    view = await runner
    assert view.stage("work").state is StageState.FAILED  # theirs ends well, and is not ours
    assert "is gone" in view.stage("work").message

    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    for ref in (job, settings):
        left = await somebody.get(ref)
        assert left is not None
        assert "deletionTimestamp" not in left["metadata"]
