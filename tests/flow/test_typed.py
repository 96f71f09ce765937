"""Typed calls of the `kubernetes` package on the sandbox, and on the real API server where there is one."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from kubernetes.aio.client import (
    BatchV1Api,
    CoordinationV1Api,
    CoreV1Api,
    RbacAuthorizationV1Api,
    V1ConfigMap,
    V1DeleteOptions,
    V1Job,
    V1Lease,
    V1LeaseSpec,
    V1Namespace,
    V1ObjectMeta,
    V1PolicyRule,
    V1Preconditions,
    V1Role,
    V1Secret,
)

from actions.base.errors import ConflictError, MissingError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.auth.typed import TypedClient

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
"""Without a fraction of a second: an API server refuses a `MicroTime` that leaves out the zeros."""
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def client(session: KubeSession) -> TypedClient:
    return await session.typed_client()


@pytest.fixture
async def space(client: TypedClient) -> AsyncIterator[str]:
    """A namespace of its own."""
    core = CoreV1Api(client)
    name = f"typed-{secrets.token_hex(4)}"
    await core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)))
    yield name
    await core.delete_namespace(name)


def _lease(name: str, holder: str) -> V1Lease:
    spec = V1LeaseSpec(holder_identity=holder, lease_duration_seconds=15, lease_transitions=0, renew_time=NOON)
    return V1Lease(metadata=V1ObjectMeta(name=name, labels={"part": "lease"}), spec=spec)


async def test_a_lease_is_taken_by_one_of_two(client: TypedClient, space: str) -> None:
    leases = CoordinationV1Api(client)
    anna = await leases.create_namespaced_lease(space, _lease("run", "anna"), field_validation="Strict")
    assert anna.metadata is not None
    assert anna.spec is not None
    assert anna.spec.renew_time == NOON
    with pytest.raises(ConflictError, match="already exists"):
        await leases.create_namespaced_lease(space, _lease("run", "ben"))
    ben = await leases.read_namespaced_lease("run", space)
    assert ben.spec is not None
    ben.spec.holder_identity, ben.spec.lease_transitions = "ben", 1
    await leases.replace_namespaced_lease("run", space, ben)
    anna.spec.renew_time = NOON + timedelta(seconds=2)
    with pytest.raises(ConflictError, match="modified"):
        await leases.replace_namespaced_lease("run", space, anna)
    found = await leases.list_namespaced_lease(space, label_selector="part=lease")
    assert [(one.spec and one.spec.holder_identity) for one in found.items] == ["ben"]
    other = V1DeleteOptions(preconditions=V1Preconditions(uid="6b41c1b4-8e29-4e3b-a4bd-000000000000"))
    with pytest.raises(ConflictError):
        await leases.delete_namespaced_lease("run", space, body=other)
    await leases.delete_namespaced_lease(
        "run", space, body=V1DeleteOptions(preconditions=V1Preconditions(uid=anna.metadata.uid))
    )
    with pytest.raises(MissingError, match="not found"):
        await leases.read_namespaced_lease("run", space)


@pytest.mark.parametrize(
    "field", [{"renewTime": "2026-11-28T12:00:00Z"}, {"leaseTransitions": -1}, {"leaseDurationSeconds": 0}]
)
async def test_a_lease_that_no_server_keeps_is_refused(
    client: TypedClient, space: str, session: KubeSession, field: dict[str, object]
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases"
    lease = {"metadata": {"name": "run"}, "spec": field}
    with pytest.raises(RefusedError):
        await session.request("POST", path, body=json.dumps(lease).encode())
    assert not (await CoordinationV1Api(client).list_namespaced_lease(space)).items


async def test_secrets_and_config_maps_are_deleted_by_their_labels(client: TypedClient, space: str) -> None:
    core = CoreV1Api(client)
    for number in range(3):
        metadata = V1ObjectMeta(name=f"row-{number}", labels={"run": "a" if number else "b"})
        await core.create_namespaced_config_map(space, V1ConfigMap(metadata=metadata, data={"row": "x"}))
        await core.create_namespaced_secret(space, V1Secret(metadata=metadata, string_data={"row": "x"}))
    with pytest.raises(ConflictError):
        await core.create_namespaced_secret(space, V1Secret(metadata=V1ObjectMeta(name="row-0")))
    (secret, _) = (await core.list_namespaced_secret(space, label_selector="run=a")).items
    assert secret.data == {"row": "eA=="}
    first = await core.list_namespaced_config_map(space, label_selector="run", limit=2)
    assert len(first.items) == 2
    assert first.metadata is not None
    rest = await core.list_namespaced_config_map(
        space, label_selector="run", limit=2, _continue=first.metadata._continue
    )
    assert len(rest.items) == 1
    await core.delete_collection_namespaced_config_map(space, label_selector="run=a")
    await core.delete_collection_namespaced_secret(space, label_selector="run=a")
    maps = await core.list_namespaced_config_map(space, label_selector="run")
    held = await core.list_namespaced_secret(space, label_selector="run")
    for (one,) in (maps.items, held.items):
        assert one.metadata is not None
        assert one.metadata.name == "row-0"


async def test_an_applied_object_is_changed_by_the_next_apply(client: TypedClient, space: str) -> None:
    roles = RbacAuthorizationV1Api(client)
    for verb in ("get", "list"):
        rule = V1PolicyRule(api_groups=[""], resources=["pods"], verbs=[verb])
        role = V1Role(
            api_version="rbac.authorization.k8s.io/v1",
            kind="Role",
            metadata=V1ObjectMeta(name="watchdog"),
            rules=[rule],
        )
        await roles.patch_namespaced_role(
            "watchdog", space, role, field_manager="eksml-tui", field_validation="Strict", _content_type=APPLY
        )
    found = await roles.read_namespaced_role("watchdog", space)
    assert [one.verbs for one in found.rules or ()] == [["list"]]


async def test_a_job_that_is_refused_is_a_sentence_and_one_that_is_held_is_deleted(
    client: TypedClient, space: str
) -> None:
    jobs = BatchV1Api(client)
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/none"}]}
    document = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}
    job = V1Job.from_dict(document)
    assert job is not None
    await jobs.create_namespaced_job(space, job, field_validation="Strict")
    wrong = V1Job.from_dict({"metadata": {"name": "J"}, "spec": {"template": {"spec": pod}}})
    assert wrong is not None
    with pytest.raises(RefusedError, match=r"metadata\.name"):
        await jobs.create_namespaced_job(space, wrong)
    await jobs.delete_namespaced_job("j", space, body=V1DeleteOptions(propagation_policy="Foreground"))
