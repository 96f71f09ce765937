"""An object's ownership: by its uid in the journal, never by its label, its name or an owner that is not the run's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import FIELD_MANAGER, ApplyConflictError, apply
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.run.client import load_run, send_request
from actions.run.context.access import ClusterConnection
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.state.records import Owned, RequestKind
from actions.run.state.view import RunState, RunView, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import WORK, a_run
from tests.faults.somebody import Somebody
from tests.support.polling import until
from tests.support.smallrun import carry_out, own_name, torn_down

CLOCK = SystemClock()
SANDBOX_SPEED = 100.0

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
INSIDE = """---
apiVersion: apps/v1
kind: Deployment
metadata: {name: program, namespace: NAME}
spec:
  selector: {matchLabels: {app: program}}
  template:
    metadata: {labels: {app: program}}
    spec: {containers: [{name: main, image: example.com/program}]}
---
apiVersion: v1
kind: Service
metadata: {name: program, namespace: NAME}
spec: {selector: {app: program}, ports: [{port: 80}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/work}]}}}
"""


def config_map(name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": {"from": "somebody else"},
    }


def said(view: RunView, step: str = "objects") -> str:
    return next(one.message for one in view.teardown if one.id == step)


def intend(folder: Path, *, was_absent: bool, stage: str = "objects", name: str) -> None:
    """The journal of a run whose runner was killed between its announcement and what it announced."""
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(
        Owned(api_version="v1", object_kind="ConfigMap", namespace="default", name=name, was_absent=was_absent),
        stage=stage,
        attempt=1,
    )
    journal.close()


async def put_as_the_run(sandbox: RunningSandbox, manifest: dict[str, Any]) -> None:
    """Do what a runner does just before it is killed."""
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    try:
        await apply(session, Discovery(session), manifest, manager=FIELD_MANAGER)
    finally:
        await session.aclose()


async def test_d02_a_copied_label_makes_nothing_the_runs(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + INSIDE)
    run = await carry_out(folder)
    assert run.state is RunState.SUCCEEDED
    await somebody.put(config_map("somebody-elses", space, labels={"eksml.dev/run": run.id}))
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert "ConfigMap somebody-elses (it carries the run's label, but the run never recorded making it)" in said(view)
    assert await somebody.get(ObjectRef("v1", "ConfigMap", space, "somebody-elses")) is not None
    assert await somebody.get(ObjectRef("apps/v1", "Deployment", space, "program")) is not None, "half done"
    await somebody.remove(ObjectRef("v1", "ConfigMap", space, "somebody-elses"))
    send_request(folder, RequestKind.RETRY, start=False)
    view = await carry_out(folder)
    assert view.state is RunState.TORN_DOWN
    assert await somebody.get(ObjectRef("v1", "Namespace", "", space)) is None
    assert view.audit is not None
    assert view.audit.is_clean


async def test_d02_an_owner_that_is_not_the_runs_excuses_nothing(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE)
    await carry_out(folder)
    uid = await somebody.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": space}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": space, "uid": uid}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "foreign-data", "namespace": space, "ownerReferences": [owner]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await somebody.put(claim)
    view = await torn_down(folder)
    assert "it holds PersistentVolumeClaim foreign-data, not the run's" in said(view)
    assert await somebody.get(ObjectRef("v1", "PersistentVolumeClaim", space, "foreign-data")) is not None
    await somebody.remove(ObjectRef("v1", "PersistentVolumeClaim", space, "foreign-data"))
    await somebody.remove(ObjectRef("v1", "Node", "", space))


async def test_d02_what_the_runs_own_objects_own_goes_with_them(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    """A ReplicaSet's pods, and something that somebody gave such a pod."""
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + INSIDE)
    view = await carry_out(folder)
    deployment = next(item.uid for item in view.owned if item.kind == "Deployment")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "program", "uid": deployment}
    first = await somebody.put(config_map("child", space, ownerReferences=[owner]))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "child", "uid": first}
    await somebody.put(config_map("grandchild", space, ownerReferences=[owner]))
    assert (await torn_down(folder)).state is RunState.TORN_DOWN


async def test_d02_a_namespace_that_was_there_stays_with_all_that_is_in_it(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    await somebody.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + INSIDE)
    await carry_out(folder)
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    command = f"kubectl delete namespace {space}"
    assert view.audit.retained == (f"Namespace {space}: was there before the run; remove: {command}",)
    assert await somebody.get(ObjectRef("v1", "Namespace", "", space)) is not None
    assert await somebody.get(ObjectRef("apps/v1", "Deployment", space, "program")) is None


async def test_d02_a_namespace_that_was_made_anew_by_others_is_theirs(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE)
    run = await carry_out(folder)
    await somebody.remove(ObjectRef("v1", "Namespace", "", space))
    labels = {"eksml.dev/run": run.id}
    await somebody.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}})
    view = await torn_down(folder)
    assert await somebody.get(ObjectRef("v1", "Namespace", "", space)) is not None
    assert view.stage("objects").message == (
        f"0 objects removed. Left alone: Namespace {space}, which is not the run's."
    )
    assert view.audit is not None
    assert view.audit.leftovers == (
        f"Namespace {space}: carries the run's label, but the run never recorded making it; "
        f"remove: kubectl delete namespace {space}",
    )


async def test_d02_a_foreign_object_outside_namespaces_is_shown_and_left(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    name = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox)
    run = await carry_out(folder)
    await somebody.put(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "labels": {"eksml.dev/run": run.id}},
            "value": 1,
        }
    )
    view = await torn_down(folder)
    assert view.audit is not None
    assert view.audit.leftovers == (
        f"PriorityClass {name}: carries the run's label, but the run never recorded making it; "
        f"remove: kubectl delete priorityclass.scheduling.k8s.io {name}",
    )
    assert await somebody.get(ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name)) is not None


async def test_d02_two_runs_in_one_namespace_leave_each_others_objects(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    inside = f"---\n{MAP.replace('NAME}', 'of-one, namespace: SPACE}')}".replace("SPACE", space)
    first = a_run(one, sandbox, objects=NAMESPACE.replace("NAME", space) + inside)
    await carry_out(first)
    theirs = NAMESPACE.replace("NAME", space) + inside.replace("of-one", "of-two")
    second = a_run(two, sandbox, objects=theirs)
    assert (await carry_out(second)).state is RunState.SUCCEEDED
    view = await torn_down(first)
    assert f"ConfigMap of-two (of the run {second.name}), not the run's" in said(view)
    assert (await torn_down(second)).state is RunState.TORN_DOWN
    assert await somebody.get(ObjectRef("v1", "ConfigMap", space, "of-one")) is not None
    send_request(first, RequestKind.RETRY, start=False)
    assert (await carry_out(first)).state is RunState.TORN_DOWN
    assert await somebody.get(ObjectRef("v1", "Namespace", "", space)) is None


async def test_d02_an_object_that_is_replaced_between_look_and_delete_stays(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = own_name(tmp_path)
    ref = ObjectRef("v1", "ConfigMap", "default", name)
    folder = a_run(tmp_path, sandbox)
    run = await carry_out(folder)
    really_delete = ClusterConnection.delete

    async def too_late(self: ClusterConnection, which: ObjectRef, *, uid: str, version: str) -> bool:
        if which == ref:
            await somebody.remove(ref)
            await somebody.put(config_map(name, labels={"eksml.dev/run": run.id}))
        return await really_delete(self, which, uid=uid, version=version)

    monkeypatch.setattr(ClusterConnection, "delete", too_late)
    await torn_down(folder)
    left = await somebody.get(ref)
    assert left is not None
    assert left["data"] == {"from": "somebody else"}


async def test_d02_an_object_that_is_changed_between_look_and_delete_is_looked_at_again(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = ObjectRef("v1", "ConfigMap", "default", own_name(tmp_path))
    folder = a_run(tmp_path, sandbox)
    await carry_out(folder)
    really_delete = ClusterConnection.delete
    versions: list[str] = []

    async def after_a_change(self: ClusterConnection, which: ObjectRef, *, uid: str, version: str) -> bool:
        if which == ref and not versions:
            await somebody.put(config_map(ref.name))
        versions.append(version)
        return await really_delete(self, which, uid=uid, version=version)

    monkeypatch.setattr(ClusterConnection, "delete", after_a_change)
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert len(set(versions)) == 2
    assert await somebody.get(ref) is None


async def test_d02_something_put_into_a_namespace_during_its_teardown_is_kept(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + INSIDE)
    await carry_out(folder)
    really_delete = ClusterConnection.delete

    async def just_before(self: ClusterConnection, which: ObjectRef, *, uid: str, version: str) -> bool:
        if which.kind == "Service":
            await somebody.put(config_map("late", space))
        return await really_delete(self, which, uid=uid, version=version)

    monkeypatch.setattr(ClusterConnection, "delete", just_before)
    view = await torn_down(folder)
    assert f"Namespace {space} was not removed: it holds ConfigMap late, not the run's" in said(view)
    assert await somebody.get(ObjectRef("v1", "ConfigMap", space, "late")) is not None


async def test_d02_what_a_dead_runner_made_is_adopted_by_evidence(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder, name = a_run(tmp_path, sandbox), own_name(tmp_path) + "-adopted"
    run = await carry_out(folder)
    intend(folder, was_absent=True, name=name)
    await put_as_the_run(sandbox, config_map(name, labels={"eksml.dev/run": run.id}))
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert await somebody.get(ObjectRef("v1", "ConfigMap", "default", name)) is None
    adopted = next(item for item in view.owned if item.name == name)
    assert adopted.is_deleted
    assert adopted.uid in view.made_uids
    assert view.audit is not None
    assert view.audit.is_clean


@pytest.mark.parametrize("lacks", ["absence", "label", "manager"])
async def test_d02_without_evidence_it_is_left_and_reported(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, lacks: str
) -> None:
    folder, name = a_run(tmp_path, sandbox), own_name(tmp_path) + "-doubted"
    run = await carry_out(folder)
    intend(folder, was_absent=lacks != "absence", name=name)
    made = config_map(name, labels={} if lacks == "label" else {"eksml.dev/run": run.id})
    await (somebody.put(made) if lacks == "manager" else put_as_the_run(sandbox, made))
    view = await torn_down(folder)
    assert await somebody.get(ObjectRef("v1", "ConfigMap", "default", name)) is not None
    assert f"ConfigMap default/{name}" in view.stage("objects").message
    assert view.audit is not None
    assert bool(view.audit.leftovers) is (lacks != "label"), "without the label nothing speaks for it"


def first(put: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let something happen between a runner's look for an object and its request to create it, once."""
    really_create = ClusterConnection.create
    waiting = [put]

    async def create(self: ClusterConnection, manifest: dict[str, Any]) -> dict[str, Any]:
        if manifest["metadata"]["name"] == name and waiting:
            await waiting.pop()()
        return await really_create(self, manifest)

    monkeypatch.setattr(ClusterConnection, "create", create)


async def test_d02_an_object_that_appears_while_ours_is_made_stays_as_it_is(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = ObjectRef("v1", "ConfigMap", "default", own_name(tmp_path))
    folder = a_run(tmp_path, sandbox)
    theirs = config_map(ref.name)
    first(lambda: somebody.put(theirs), monkeypatch, ref.name)
    run = await carry_out(folder)
    assert run.state is RunState.SUCCEEDED
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert not view.audit.leftovers
    found = await somebody.get(ref)
    assert found is not None
    assert found["data"] == theirs["data"]
    assert not found["metadata"].get("labels")


async def test_d02_of_two_runs_that_launch_at_once_one_has_the_objects(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two machines do, neither of which has seen anything of the other's run when it looked."""
    name = own_name(tmp_path)
    one, two = (
        a_run(tmp_path / each, sandbox, WORK, job=JOB, objects=MAP.replace("NAME", f"{name}-{each}"), name=name)
        for each in ("one", "two")
    )
    first(lambda: carry_out(one), monkeypatch, name)
    refused = (await carry_out(two)).stage("work")
    assert refused.state is StageState.FAILED
    assert f"Job default/{name} is there already, of the run {one.name}" in refused.message
    ref = ObjectRef("batch/v1", "Job", "default", name)
    before = await somebody.get(ref)
    await torn_down(two)
    after = await somebody.get(ref)
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"]["eksml.dev/run"] == one.name
    assert (await torn_down(one)).state is RunState.TORN_DOWN
    assert await somebody.get(ref) is None


async def test_d02_an_object_whose_creation_was_not_answered_is_ours(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = ObjectRef("v1", "ConfigMap", "default", own_name(tmp_path))
    folder = a_run(tmp_path, sandbox)
    really_create = ClusterConnection.create
    lost: list[str] = []

    async def create(self: ClusterConnection, manifest: dict[str, Any]) -> dict[str, Any]:
        made = await really_create(self, manifest)
        if manifest["metadata"]["name"] == ref.name and not lost:
            lost.append(made["metadata"]["uid"])
            raise UnreachableError("The connection ended before the answer.")
        return made

    monkeypatch.setattr(ClusterConnection, "create", create)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    found = await somebody.get(ref)
    assert found is not None
    assert [found["metadata"]["uid"]] == lost
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert await somebody.get(ref) is None


async def test_d02_what_the_program_created_it_may_change_and_what_others_set_it_may_not(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    """Two stages may have the same Secret, with their own labels: what is created counts as another manager's."""
    name = own_name(tmp_path)

    def labelled(stage: str, colour: str) -> dict[str, Any]:
        return {**config_map(name, labels={"eksml.dev/stage": stage}), "data": {"colour": colour}}

    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    try:
        connection = ClusterConnection(session, Discovery(session))
        await connection.create(labelled("data", "red"))
        changed = await connection.apply(labelled("train", "blue"))
        assert changed["metadata"]["labels"]["eksml.dev/stage"] == "train"
        assert changed["data"] == {"colour": "blue"}
        theirs = config_map(name, labels={"eksml.dev/stage": "train", "theirs": "yes"})
        await somebody.put({**theirs, "data": {"size": "large"}})
        with pytest.raises(ApplyConflictError, match=r"\.data\.size belongs to somebody-else"):
            await connection.apply({**labelled("eval", "green"), "data": {"size": "small"}})
        assert (await connection.fetch(ObjectRef("v1", "ConfigMap", "default", name)))["data"]["size"] == "large"
        await somebody.remove(ObjectRef("v1", "ConfigMap", "default", name))
    finally:
        await session.aclose()


async def test_d02_a_job_with_a_copied_label_is_not_the_runs(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    name = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, WORK, job=JOB)
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"eksml.dev/run": folder.name}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x.io/y"}]}}},
    }
    await somebody.put(theirs)
    view = await carry_out(folder)
    assert view.stage("work").state is StageState.FAILED
    assert "with the run's label, but the run never recorded making it" in view.stage("work").message
    await torn_down(folder)
    assert await somebody.get(ObjectRef("batch/v1", "Job", "default", name)) is not None


async def test_d02_a_look_with_a_copied_label_is_not_removed(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox)
    run = await carry_out(folder)
    name = own_name(tmp_path)
    labels = {"eksml.dev/run": run.id, "eksml.dev/stage": "errand.look"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x.io/y"}]}}
    job = {"name": name, "namespace": "default", "labels": labels}
    await somebody.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": job, "spec": {"template": pod}})
    view = await torn_down(folder)
    assert await somebody.get(ObjectRef("batch/v1", "Job", "default", name)) is not None
    assert view.audit is not None
    assert [line for line in view.audit.leftovers if line.startswith(f"Job default/{name}: carries")]


async def test_f28_a_namespace_that_is_stuck_says_what_holds_it(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    inside = f"---\n{MAP.replace('NAME}', 'parent, namespace: NAME}')}"
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + inside)
    view = await carry_out(folder)
    parent = next(item.uid for item in view.owned if item.name == "parent")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent}
    await somebody.put(config_map("child", space, ownerReferences=[owner], finalizers=["acme.io/hold"]))
    runner = asyncio.create_task(torn_down(folder))
    expected = (
        f"Namespace {space} is being deleted: Some resources are remaining: configmaps. has 1 resource instances. "
        "Some content in the namespace has finalizers remaining: acme.io/hold in 1 resource instances."
    )
    await until(lambda: expected in {one.message for one in load_run(folder).teardown}, "what holds the namespace")
    await somebody.put(config_map("child", space))
    assert (await runner).state is RunState.TORN_DOWN
