"""A dry run before a launch, as a real API server's admission answers: quota, Pod Security, webhook, classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import AccessError, MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef, delete
from actions.fleet.instance_types import InstanceTable
from actions.run.checks.observation import Observation
from actions.run.context.access import ClusterConnection
from actions.run.doctor.objects import check_dry_run, check_namespace
from actions.run.doctor.room import look_for_room
from actions.run.state.records import CheckResult
from tests.flow.test_asked_first import CONTAINER, a_job, a_launch
from tests.realcluster.running import real_cluster

HOME = "asked-first"
SEEN_SECONDS = 60.0
"""Admission learns of a changed namespace, quota or webhook by a watch."""
HOOK = "asked-first.example.com"


@pytest.fixture
async def connection() -> AsyncIterator[ClusterConnection]:
    """The administrator's, with a namespace of the test's own."""
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    connection = ClusterConnection(session, Discovery(session))
    await connection.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    try:
        yield connection
    finally:
        for ref in (
            ObjectRef("v1", "Namespace", "", HOME),
            ObjectRef("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", HOOK),
            ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", HOME),
        ):
            await delete(session, connection.discovery, ref)
        async with asyncio.timeout(SEEN_SECONDS):
            while await connection.find(ObjectRef("v1", "Namespace", "", HOME)) is not None:
                pass
        await session.aclose()


async def answer(connection: ClusterConnection, folder: Path, said: str, job: dict[str, Any]) -> Observation:
    """The answer of the dry run, once it has the words, or at the end of the time for that."""
    launch, found = a_launch(folder, job, namespace=HOME), Observation(CheckResult.UNKNOWN, "")
    try:
        async with asyncio.timeout(SEEN_SECONDS):
            while said not in found.detail:
                found = await check_dry_run(connection, launch)
    except TimeoutError:
        pass
    return found


def quota(**hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": HOME},
        "spec": {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}},
    }


STRICT = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": HOME, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
}


def a_hook(side_effects: str) -> dict[str, Any]:
    """A webhook for pods of the namespace, which does not answer."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": HOOK},
        "webhooks": [
            {
                "name": HOOK,
                "clientConfig": {"url": "https://127.0.0.1:9/"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": HOME}},
                "failurePolicy": "Fail",
                "sideEffects": side_effects,
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }


@pytest.mark.parametrize(
    ("made", "job", "expected"),
    [
        (None, a_job(), (CheckResult.PASSED, "The cluster takes 2 objects, the pods included.")),
        (
            None,
            a_job(priorityClassName="no-such"),
            (CheckResult.FAILED, "no PriorityClass with name no-such was found"),
        ),
        (None, a_job(serviceAccountName="no-such"), (CheckResult.FAILED, 'serviceaccount "no-such" not found')),
        (quota(pods="0"), a_job(), (CheckResult.FAILED, "exceeded quota: few, requested: pods=1, used: pods=0")),
        (quota(requests_cpu="1"), a_job(), (CheckResult.FAILED, "failed quota: few: must specify requests.cpu")),
        (STRICT, a_job(hostNetwork=True), (CheckResult.FAILED, 'violates PodSecurity "baseline:latest"')),
        (a_hook("None"), a_job(), (CheckResult.UNKNOWN, "failed calling webhook")),
        (a_hook("NoneOnDryRun"), a_job(), (CheckResult.UNKNOWN, "failed calling webhook")),
    ],
    ids=[
        "taken",
        "priority class",
        "service account",
        "quota",
        "quota on requests",
        "Pod Security",
        "webhook",
        "again",
    ],
)
async def test_what_admission_would_refuse_is_known_before_a_run(
    made: dict[str, Any] | None,
    job: dict[str, Any],
    expected: tuple[CheckResult, str],
    connection: ClusterConnection,
    tmp_path: Path,
) -> None:
    if made is not None:
        await connection.apply(made)
    found = await answer(connection, tmp_path, expected[1], job)
    assert expected[1] in found.detail
    assert found.result is expected[0]
    with pytest.raises(MissingError):
        await connection.fetch(ObjectRef("batch/v1", "Job", HOME, "asked-first"))


async def test_without_rights_it_is_not_known(tmp_path: Path) -> None:
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().nobody)))
    try:
        nobody = ClusterConnection(session, Discovery(session))
        launch = a_launch(tmp_path, a_job())
        found = await check_dry_run(nobody, launch)
        assert found.result is CheckResult.UNKNOWN
        assert 'User "nobody" cannot create resource "jobs"' in found.detail
        with pytest.raises(AccessError, match='cannot get resource "namespaces"'):
            await check_namespace(nobody, launch)
    finally:
        await session.aclose()


def selected(scope: str, operator: str, values: list[str] | None = None) -> dict[str, Any]:
    expression = {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}
    return {"matchExpressions": [expression]}


CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": HOME},
    "value": 1,
}
TYPES = InstanceTable.load()
SCOPES: dict[str, dict[str, Any]] = {
    "best effort": {"scopes": ["BestEffort"]},
    "not best effort": {"scopes": ["NotBestEffort"]},
    "terminating": {"scopes": ["Terminating"]},
    "not terminating and best effort": {"scopes": ["NotTerminating", "BestEffort"]},
    "any class": {"scopes": ["PriorityClass"]},
    "one class": {"scopeSelector": selected("PriorityClass", "In", [HOME])},
    "other classes": {"scopeSelector": selected("PriorityClass", "NotIn", [HOME])},
    "no class": {"scopeSelector": selected("PriorityClass", "DoesNotExist")},
    "across": {"scopeSelector": selected("CrossNamespacePodAffinity", "Exists")},
    "all": {},
}
ACROSS = [{"topologyKey": "zone", "labelSelector": {}, "namespaces": ["default"]}]
NEAR = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}}]
PODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "GPU": {"containers": [CONTAINER | {"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    "CPU": {"containers": [CONTAINER | {"resources": {"requests": {"cpu": "1"}}}]},
    "first memory": {"initContainers": [CONTAINER | {"name": "a", "resources": {"limits": {"memory": "1Gi"}}}]},
    "ends": {"activeDeadlineSeconds": 60},
    "class": {"priorityClassName": HOME},
    "across": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ACROSS}}},
    "near": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": NEAR}}},
}
LIMIT_RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "usual", "namespace": HOME},
    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]},
}


async def refused_pods(connection: ClusterConnection, quota: str) -> set[str] | None:
    """The pods that the API server refuses for a quota; `None` while it judges by another one, or has not counted."""
    messages = {}
    for name, spec in PODS.items():
        metadata = {"name": "tried", "namespace": HOME}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **a_job(**spec)["spec"]["template"]}
        try:
            await connection.create(pod, dry_run=True)
        except AccessError as error:
            messages[name] = error.message
    return {*messages} if all(f"exceeded quota: {quota}," in text for text in messages.values()) else None


async def test_a_quota_of_some_pods_counts_those_that_the_api_server_counts(
    connection: ClusterConnection, tmp_path: Path
) -> None:
    await connection.apply(CLASS)
    launches = {}
    for pod, spec in PODS.items():
        (folder := tmp_path / pod).mkdir()
        launches[pod] = a_launch(folder, a_job(**spec), namespace=HOME)
    seen = {}
    for number, (scope, spec) in enumerate(SCOPES.items()):
        made, name = quota(pods="0"), f"scoped-{number}"
        await connection.create(made | {"metadata": {"name": name, "namespace": HOME}, "spec": made["spec"] | spec})
        async with asyncio.timeout(SEEN_SECONDS):
            while not (refused := await refused_pods(connection, name)):
                pass
            while refused != (again := await refused_pods(connection, name)):  # it was seen in the midst of a pass
                refused = again
        rooms = {pod: await look_for_room(connection, launch, TYPES) for pod, launch in launches.items()}
        assert {pod for pod, room in rooms.items() if f"ResourceQuota {name} " in room.found.detail} == refused, scope
        seen[scope] = refused
        await delete(connection.session, connection.discovery, ObjectRef("v1", "ResourceQuota", HOME, name))
    assert seen["all"] == {*PODS}
    assert seen["best effort"] == {*PODS} - {"CPU", "first memory"}
    assert seen["across"] == {"across", "near"}


async def test_a_quota_counts_pods_with_what_a_limit_range_adds_to_them(
    connection: ClusterConnection, tmp_path: Path
) -> None:
    await connection.apply(LIMIT_RANGE)
    made, two = quota(pods="1"), a_job()
    await connection.apply(made | {"spec": made["spec"] | {"scopes": ["NotBestEffort"]}})
    two["spec"] |= {"parallelism": 2, "completions": 2}
    launch, pod = a_launch(tmp_path, two, namespace=HOME), a_job()["spec"]["template"]
    taken, refused = nullcontext(), pytest.raises(AccessError, match="exceeded quota: few")
    async with asyncio.timeout(SEEN_SECONDS):
        while "ResourceQuota few (NotBestEffort) allows pods 1" not in (
            (await look_for_room(connection, launch, TYPES)).found.detail
        ):
            pass
        for name, refusal in (("first", taken), ("second", refused)):
            metadata = {"name": name, "namespace": HOME}
            with refusal:
                await connection.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **pod})
