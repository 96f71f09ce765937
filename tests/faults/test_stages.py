"""Stages in a cluster that others use too: what is not the run's is left alone, and what is gone is explained."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actions.base.clock import SystemClock
from actions.cluster.objects.client import ObjectRef
from actions.run.client import load_run, send_request
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.state.records import Output, RequestKind
from actions.run.state.view import RunState, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import LOGGED, WORK, a_run
from tests.faults.somebody import Somebody
from tests.support.journals import age_lease
from tests.support.polling import until
from tests.support.smallrun import carry_out, own_name, torn_down

CLOCK = SystemClock()

SANDBOX_SPEED = 100.0

JOB_STAGE = WORK + "    gone_is_success: true\n" + LOGGED

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: TTL
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: example.com/work, command: [sh, -c, "COMMAND"]}
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.tests.eksml.dev}
spec:
  group: tests.eksml.dev
  scope: Namespaced
  names: {kind: Toy, listKind: ToyList, plural: toys, singular: toy}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def config_map(name: str, namespace: str = "default") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{from: run}}\n"


def someones(name: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"from": "somebody else"},
    }


async def test_what_was_there_before_is_used_as_it_is_and_never_deleted(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    await somebody.put(someones("was-there"))
    folder = a_run(tmp_path, sandbox, objects=config_map("was-there") + "---\n" + config_map("is-ours"))
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    view = await torn_down(folder)
    left = await somebody.get(ObjectRef("v1", "ConfigMap", "default", "was-there"))
    assert left is not None
    assert left["data"] == {"from": "somebody else"}
    assert await somebody.get(ObjectRef("v1", "ConfigMap", "default", "is-ours")) is None
    assert view.audit is not None
    assert view.audit.retained == (
        "ConfigMap default/was-there: was there before the run; remove: kubectl delete configmap was-there -n default",
    )
    assert view.audit.leftovers == ()


async def test_a_namespace_that_others_use_is_kept_until_they_have_left(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, objects="apiVersion: v1\nkind: Namespace\nmetadata: {name: shared-by-tests}\n")
    await carry_out(folder)
    await somebody.put(someones("precious", "shared-by-tests"))
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert "ConfigMap precious, not the run's" in next(step.message for step in view.teardown if step.id == "objects")
    await somebody.remove(ObjectRef("v1", "ConfigMap", "shared-by-tests", "precious"))
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.TORN_DOWN
    assert await somebody.get(ObjectRef("v1", "Namespace", "", "shared-by-tests")) is None


async def test_a_definition_with_instances_of_others_is_kept(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, objects=DEFINITION)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    toy = ObjectRef("tests.eksml.dev/v1", "Toy", "default", "theirs")
    await somebody.put(
        {"apiVersion": toy.api_version, "kind": "Toy", "metadata": {"name": "theirs", "namespace": "default"}}
    )
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert await somebody.get(toy) is not None
    await somebody.remove(toy)
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.TORN_DOWN


async def test_a_changed_cluster_stops_the_run(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox, objects=config_map("never-made"))
    await carry_out(folder)
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(Output({"cluster_uid": "of-another-cluster"}), stage="access")
    journal.close()
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert any("another cluster" in step.message for step in view.teardown)


async def test_a_foreign_job_of_the_same_name_is_refused_and_left_alone(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    job = JOB.replace("TTL", "600").replace("COMMAND", "sleep 1")
    folder = a_run(tmp_path, sandbox, JOB_STAGE, objects=config_map("beside-a-job"), job=job)
    name = own_name(tmp_path)
    theirs = ObjectRef("batch/v1", "Job", "default", name)
    container = {"name": "main", "image": "example.com/theirs"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "default"}
    await somebody.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    view = await carry_out(folder)
    assert view.stage("work").message.startswith(f"Job default/{name} is there already.")
    await torn_down(folder)
    assert await somebody.get(theirs) is not None


async def test_a_failed_job_says_which_pod_and_how_and_a_retry_begins_it_again(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    job = JOB.replace("TTL", "600").replace("COMMAND", "exit 3")
    folder = a_run(tmp_path, sandbox, JOB_STAGE, objects=config_map("of-a-failure"), job=job)
    view = await carry_out(folder)
    assert view.stage("work").state is StageState.FAILED
    assert "ended with 3" in view.stage("work").message
    first = next(item.uid for item in view.owned if item.kind == "Job")
    send_request(folder, RequestKind.RETRY, start=False)
    again = await carry_out(folder)
    assert again.stage("work").attempt == 2
    assert next(item.uid for item in again.owned if item.kind == "Job") != first


async def test_a_job_that_removed_itself_while_no_runner_watched_is_not_begun_again(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    job = JOB.replace("TTL", "1").replace("COMMAND", "echo begun; sleep 2; echo done")
    folder = a_run(tmp_path, sandbox, JOB_STAGE, objects=config_map("of-a-short-life"), job=job)
    runner = asyncio.create_task(carry_out(folder))

    async def is_made() -> bool:
        return any(item.kind == "Job" and item.uid for item in load_run(folder).owned)

    await until(is_made, "the objects")
    runner.cancel()
    await asyncio.gather(runner, return_exceptions=True)
    made = next(item for item in load_run(folder).owned if item.kind == "Job")

    async def is_gone() -> bool:
        return await somebody.get(ObjectRef("batch/v1", "Job", "default", made.name)) is None

    await until(is_gone, "the end of them")
    age_lease(folder)
    view = await carry_out(folder)
    assert (view.stage("work").state, view.state) == (StageState.SUCCEEDED, RunState.SUCCEEDED)
    assert await is_gone()
