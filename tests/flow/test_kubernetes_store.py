"""The store in a cluster, beside the suite of all stores: rights, namespaces, and objects that others write there.

On the sandbox, and on the real API server where there is one.
"""

from __future__ import annotations

import base64
import gzip
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.errors import AccessError, FormatError, UnreachableError
from actions.base.files import asset
from actions.base.guard import FencedError, guarded_by
from actions.blueprint.render import STORED_RUN_LABEL
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import create
from actions.cluster.objects.client import Discovery, delete, merge_patch
from actions.cluster.objects.client import ref_of as ref_of_manifest
from actions.run.context.store_address import run_key
from actions.run.store.kubernetes import (
    KubernetesStore,
    choose_namespace,
    make_namespace,
    object_name,
    open_cluster_store,
)
from actions.run.store.lease import renew_lease, take_lease
from actions.run.store.lease_object import (
    DOCUMENT,
    LABELS,
    NAMESPACE,
    STOPPED_NOTE,
    STORE_LABEL,
    lease_name,
    leases_path,
    stopped_note,
)
from actions.run.store.listing import list_store
from tests.support.applying import apply_all
from tests.support.stores import ANNA, BEN

RBAC = "rbac.authorization.k8s.io"
ROLES = {one["metadata"]["name"]: one for one in yaml.safe_load_all(asset("rbac.yaml").read_text(encoding="utf-8"))}
RULES: list[dict[str, Any]] = ROLES["eksml-store"]["rules"]
RIGHTS = [(resource, verb) for rule in RULES for resource in rule["resources"] for verb in rule["verbs"]]
LEASE_VERSION = "coordination.k8s.io/v1"


@pytest.fixture
def run_id() -> str:
    return f"run-{secrets.token_hex(5)}"


@pytest.fixture
async def own(session: KubeSession) -> AsyncIterator[str]:
    """A namespace of somebody's own."""
    name, discovery = f"own-{secrets.token_hex(4)}", Discovery(session)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await create(session, discovery, space)
    yield name
    await delete(session, discovery, ref_of_manifest(space))


@asynccontextmanager
async def a_user(
    session: KubeSession, kubeconfig: Path, folder: Path, rules: Sequence[dict[str, Any]], namespace: str
) -> AsyncIterator[KubeSession]:
    """Somebody with these rights, in one namespace, or everywhere."""
    name = f"user-{secrets.token_hex(4)}"
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
    }
    discovery = Discovery(session)
    await apply_all(session, discovery, [role, binding])
    document = yaml.safe_load(kubeconfig.read_bytes())
    document["users"][0]["user"]["as"] = name
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    theirs = await KubeSession.connect(ClusterTarget(path))
    try:
        yield theirs
    finally:
        await theirs.aclose()
        for one in (role, binding):
            await delete(session, discovery, ref_of_manifest(one))


async def whole_life(session: KubeSession, run_id: str) -> None:
    """All that a runner does in its store, and who takes its run over."""
    store = KubernetesStore(session, NAMESPACE)
    lease = await take_lease(store, run_id, ANNA, after=None, holder="a")
    lease = await renew_lease(store, run_id, lease)
    for name in ("files/x", "terraform/network.tfstate"):
        made = await store.put_if_absent(run_key(run_id, name), b"1")
        await store.replace(run_key(run_id, name), b"2", etag=made.etag)
        assert await store.get(run_key(run_id, name))
        assert await store.objects(run_key(run_id, name.partition("/")[0] + "/"))
    assert await store.lease(run_id)
    assert await store.run_ids()
    await store.remove_run(run_id)


async def test_the_role_is_enough_and_each_of_its_rights_is_needed(
    kubeconfig: Path, session: KubeSession, tmp_path: Path, run_id: str
) -> None:
    await make_namespace(session)
    async with a_user(session, kubeconfig, tmp_path, RULES, NAMESPACE) as user:
        await whole_life(user, run_id)
        assert await KubernetesStore(session).lease(run_id) is None
    for number, (resource, verb) in enumerate(RIGHTS):
        rules = [
            {**rule, "resources": [one], "verbs": [each for each in rule["verbs"] if (one, each) != (resource, verb)]}
            for rule in RULES
            for one in rule["resources"]
        ]
        async with a_user(session, kubeconfig, tmp_path, rules, NAMESPACE) as user:
            with pytest.raises(AccessError, match=f'cannot {verb} resource "{resource}"'):
                await whole_life(user, f"{run_id}-{number}")
        await KubernetesStore(session).remove_run(f"{run_id}-{number}")


async def test_who_may_look_sees_all_but_the_states(
    kubeconfig: Path, session: KubeSession, tmp_path: Path, run_id: str
) -> None:
    store = KubernetesStore(session)
    await take_lease(store, run_id, ANNA, after=None)
    for name in ("files/x", "terraform/network.tfstate"):
        await store.put_if_absent(run_key(run_id, name), b"1")
    async with a_user(session, kubeconfig, tmp_path, ROLES["eksml-look"]["rules"], "") as user:
        reader = await open_cluster_store(user)
        assert run_id in await reader.run_ids()
        assert [item.key for item in await reader.objects(run_key(run_id))] == [run_key(run_id, "files/x")]
        assert await reader.get(run_key(run_id, "files/x"))
        with pytest.raises(AccessError, match="secrets"):
            await reader.objects(run_key(run_id, "terraform/"))
        with pytest.raises(AccessError, match="secrets"):
            await reader.get(run_key(run_id, "terraform/network.tfstate"))
        with pytest.raises(AccessError, match="patch"):
            await take_lease(reader, run_id, BEN, after=await reader.lease(run_id))
    async with a_user(session, kubeconfig, tmp_path, [], "") as nobody:
        for ask in (reader_of(nobody).lease(run_id), reader_of(nobody).run_ids()):
            with pytest.raises(AccessError):
                await ask
    await store.remove_run(run_id)


def reader_of(session: KubeSession) -> KubernetesStore:
    return KubernetesStore(session, NAMESPACE, "default")


async def test_who_has_one_namespace_keeps_runs_there_and_readers_find_them(
    kubeconfig: Path, session: KubeSession, tmp_path: Path, run_id: str, own: str
) -> None:
    assert await choose_namespace(session, own) == NAMESPACE
    async with a_user(session, kubeconfig, tmp_path, RULES, own) as user:
        assert await choose_namespace(user, own) == own
        store = KubernetesStore(user, own)
        assert own in store.address
        await take_lease(store, run_id, ANNA, after=None)
        await store.put_if_absent(run_key(run_id, "files/x"), b"1")
        for each in (session, user):  # also who may not look into the other namespace
            reader = await open_cluster_store(each, own)
            assert run_id in await reader.run_ids()
            reader = await open_cluster_store(each, own)
            assert [item.key for item in await reader.objects(run_key(run_id))] == [run_key(run_id, "files/x")]
            assert (await reader.run_ids()).count(run_id) == 1
        with pytest.raises(AccessError):  # it may be in the other one
            await (await open_cluster_store(user, own)).lease(f"{run_id}-other")
        taken = await take_lease(reader, run_id, BEN, after=await reader.lease(run_id))
        assert taken.epoch == 2
        await store.remove_run(run_id)


async def test_the_namespace_is_made_with_the_first_object_and_no_other_is(session: KubeSession, run_id: str) -> None:
    nowhere = KubernetesStore(session, "no-such-namespace")
    assert await nowhere.lease(run_id) is None
    assert await nowhere.run_ids() == []
    with pytest.raises(UnreachableError, match=r"does not take the store's objects at present"):
        await take_lease(nowhere, run_id, ANNA, after=None)
    store = KubernetesStore(session)
    await store.put_if_absent(run_key(run_id, "files/x"), b"1")
    assert (await session.get(f"/api/v1/namespaces/{NAMESPACE}"))["metadata"]["name"] == NAMESPACE
    await store.remove_run(run_id)


async def test_a_lease_reads_well_and_keeps_the_note_of_the_watchdog(session: KubeSession, run_id: str) -> None:
    store, discovery = KubernetesStore(session), Discovery(session)
    lease = await take_lease(store, run_id, ANNA, after=None, holder="anna@bastion-1/0123456789abcdef")
    path = f"{leases_path(NAMESPACE)}/{lease_name(run_id)}"
    spec = (await session.get(path))["spec"]
    assert spec["holderIdentity"] == "anna@bastion-1/0123456789abcdef"
    assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (1, 30)
    ref = ref_of_manifest(
        {"apiVersion": LEASE_VERSION, "kind": "Lease", "metadata": {"name": lease_name(run_id), "namespace": NAMESPACE}}
    )
    await merge_patch(session, discovery, ref, {"metadata": {"annotations": {STOPPED_NOTE: "it was silent"}}})
    lease = await renew_lease(store, run_id, lease)  # the note has changed its version, and is no other machine
    assert stopped_note(await session.get(path)) == "it was silent"
    await renew_lease(store, run_id, lease, seconds=0.0)
    assert (await session.get(path))["spec"]["holderIdentity"] == "anna@bastion-1"
    await store.remove_run(run_id)


def lease_object(run_id: str, text: object, epoch: int = 1) -> dict[str, Any]:
    metadata = {
        "name": lease_name(run_id),
        "namespace": NAMESPACE,
        "labels": {**LABELS, STORED_RUN_LABEL: run_id},
        "annotations": {DOCUMENT: text if isinstance(text, str) else json.dumps(text)},
    }
    spec = {"leaseTransitions": epoch}
    return {"apiVersion": LEASE_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}


async def test_leases_of_others_are_named_and_hide_none(session: KubeSession, run_id: str) -> None:
    store, discovery = KubernetesStore(session), Discovery(session)
    lease = await take_lease(store, run_id, ANNA, after=None)
    good = json.loads(json.dumps({"epoch": 1, "owner": {"user": "u", "host": "h"}, "holder": "", "renewed_at": "",
                                  "seconds": 30, "nonce": ""}))  # fmt: skip
    texts: list[tuple[object, int]] = [
        ("", 1), ("[]", 1), ("[" * 50_000, 1), ("x" * 100_000, 1), (good, 2), ({**good, "epoch": "1"}, 1),
        ({**good, "epoch": 10**30}, 1),
    ]  # fmt: skip
    bad = [f"{run_id}-{number}" for number in range(len(texts))]
    for name, (text, epoch) in zip(bad, texts, strict=True):
        await create(session, discovery, lease_object(name, text, epoch))
    runs = {run.id: run for run in await list_store(store)}
    found = runs[run_id].lease
    assert found is not None
    assert found.document == lease.document
    assert all(0 < len(runs[name].error) < 500 for name in bad)
    for name in bad:
        with pytest.raises(FormatError):
            await store.lease(name)
    for name in (*bad, run_id):
        await store.remove_run(name)


async def test_objects_of_others_are_left_out_or_refused(session: KubeSession, run_id: str) -> None:
    store, discovery = KubernetesStore(session), Discovery(session)
    name = run_key(run_id, "files/x")
    labels = {**LABELS, STORE_LABEL: "object", STORED_RUN_LABEL: run_id}
    packed = base64.b64encode(gzip.compress(b"x" * 50_000_000)).decode()

    async def put(place: str, notes: dict[str, str], content: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": place, "namespace": NAMESPACE, "labels": labels, "annotations": notes}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
        await create(session, discovery, made)
        return made

    for number, notes in enumerate(
        ({}, {"eksml.dev/name": "runs/other/files/x", "eksml.dev/size": "1"}, {"eksml.dev/name": name},
         {"eksml.dev/name": name, "eksml.dev/size": "-1"}, {"eksml.dev/name": f"{name}\n", "eksml.dev/size": "1"})
    ):  # fmt: skip
        await put(f"{lease_name(run_id)}.{number}", notes, {"data": {"text": "x"}})
    assert await store.objects(run_key(run_id)) == []
    given: tuple[tuple[dict[str, str], dict[str, Any], str], ...] = (
        ({}, {"data": {"text": "x"}}, "is another object"),
        ({"eksml.dev/name": name}, {"binaryData": {"gzip": packed}}, "has more than 33554432 bytes"),
        ({"eksml.dev/name": name}, {"binaryData": {"gzip": "AAAA"}}, "is damaged"),
        ({"eksml.dev/name": name}, {"binaryData": {"gzip": packed[:4000]}}, "ends in the middle"),
        ({"eksml.dev/name": name}, {}, "is damaged"),
    )
    for notes, content, reason in given:
        made = await put(object_name(name), notes, content)
        with pytest.raises(FormatError, match=reason):
            await store.get(name)
        await delete(session, discovery, ref_of_manifest(made))
    await store.remove_run(run_id)
    maps = await session.get(
        f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"labelSelector": f"{STORED_RUN_LABEL}={run_id}"}
    )
    assert maps["items"] == []


class _Lost:
    """The guard of a runner whose run another machine has taken over."""

    async def require(self, deed: str, **_: bool) -> None:
        raise FencedError(f"Not done: {deed}.")

    def dismiss(self, place: str) -> None:
        del place


async def test_a_runner_that_has_lost_its_run_writes_nothing(session: KubeSession, run_id: str) -> None:
    store, name = KubernetesStore(session), run_key(run_id, "files/x")
    made = await store.put_if_absent(name, b"1")
    with guarded_by(_Lost()):
        for write in (
            store.put_if_absent(run_key(run_id, "files/y"), b"1"),
            store.replace(name, b"2", etag=made.etag),
            store.delete(name),
            store.remove_run(run_id),
        ):
            with pytest.raises(FencedError):
                await write
    found = await store.get(name)
    assert found is not None
    assert found.body == b"1"
    await store.remove_run(run_id)
