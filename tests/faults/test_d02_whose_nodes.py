"""Nodes of a run are let go, and those kept on which others work, whatever labels their pods carry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.run.client import load_run
from actions.run.context.access import ClusterConnection
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.objects.inventory import inventory_of
from actions.run.objects.node_claims import NodeClaimRecorder
from actions.run.state.records import Owned
from actions.run.state.view import OwnedObject, RunView
from actions.run.teardown.drain import drain_nodes
from actions.sandbox.controllers.bootstrap import karpenter_definitions
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving
from tests.faults.small import BLUEPRINT, CONFIG_MAP
from tests.faults.somebody import Somebody
from tests.support.applying import apply_all
from tests.support.smallrun import Unheard, a_small_run, carry_out

CLOCK = SystemClock()


class Notebook(Unheard):
    """A stage's journal that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[OwnedObject] = []
        self.gone: list[str] = []

    def owned(self) -> tuple[OwnedObject, ...]:
        return tuple(self.made)

    async def own(self, item: OwnedObject) -> None:
        self.made.append(item)

    async def deleted(self, item: OwnedObject) -> None:
        self.gone.append(item.name)


class World:
    """An API server without controllers, with a run that has made one ConfigMap."""

    def __init__(self, folder: Path, somebody: Somebody, session: KubeSession) -> None:
        self.folder = folder
        self.somebody = somebody
        self.connection = ClusterConnection(session, Discovery(session))

    @property
    def view(self) -> RunView:
        return load_run(self.folder)

    @property
    def mine(self) -> dict[str, str]:
        """An owner reference to what the run has made."""
        (uid,) = self.view.made_uids - {item.uid for item in self.view.owned if item.kind == "NodeClaim"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": "made", "uid": uid}

    async def node(self, name: str, **pods: dict[str, Any]) -> str:
        """A NodeClaim with its node and these pods, by name and metadata. Returns the claim's uid."""
        claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}}
        uid = await self.somebody.put(claim)
        await self.connection.session.request(
            "PATCH",
            f"/apis/karpenter.sh/v1/nodeclaims/{name}/status",
            body=b'{"status": {"nodeName": "%s"}}' % name.encode(),
            content_type="application/merge-patch+json",
        )
        await self.somebody.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        for pod, metadata in pods.items():
            spec = {"nodeName": name, "containers": [{"name": "main", "image": "example.com/x"}]}
            named = {"name": pod, "namespace": "default", **metadata}
            await self.somebody.put({"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec})
        return uid

    async def drained(self) -> tuple[str, Notebook]:
        site, notebook = LiveBackend(self.folder, CLOCK), Notebook()
        try:
            work = site.context(self.view, self.view.stages[0], notebook)
            return await drain_nodes(work, is_own_cluster=False), notebook
        finally:
            await site.aclose()

    async def is_there(self, claim: str) -> bool:
        return await self.somebody.get(ObjectRef("karpenter.sh/v1", "NodeClaim", "", claim)) is not None

    def record(self, claim: str, uid: str) -> None:
        journal = Journal(journal_path(self.folder), CLOCK)
        owned = Owned(api_version="karpenter.sh/v1", object_kind="NodeClaim", name=claim, uid=uid)
        journal.append(owned, stage="objects", attempt=1)
        journal.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    kubelet = Kubelet(SandboxOptions(), CLOCK)
    async with serving(tmp_path, SandboxOptions(), SandboxParts(kubelet)) as server:
        session = await KubeSession.connect(ClusterTarget(server.kubeconfig))
        somebody = Somebody(session)
        for name in ("default", "kube-system"):
            await somebody.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await apply_all(session, Discovery(session), karpenter_definitions())
        files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": CONFIG_MAP.replace("NAME", "made")}
        folder = a_small_run(tmp_path, files, kubeconfig=server.kubeconfig)
        await carry_out(folder)
        yield World(folder, somebody, session)
        await session.aclose()


async def test_d02_a_node_with_a_foreign_pod_is_kept_though_the_pod_has_the_runs_label(world: World) -> None:
    label = {"labels": {"eksml.dev/run": world.view.id}}
    world.record("shared", await world.node("shared", theirs=label))
    world.record("ours", await world.node("ours", mine={"ownerReferences": [world.mine]}))
    said, notebook = await world.drained()
    assert said == "1 node drained. Left to Karpenter, as others use them: shared."
    assert (await world.is_there("shared"), await world.is_there("ours")) == (True, False)
    assert notebook.gone == ["ours"]


async def test_d02_a_foreign_claim_under_a_name_of_the_runs_is_left(world: World) -> None:
    await world.node("again")
    world.record("again", "the uid of one that is gone")
    said, _ = await world.drained()
    assert said == "No nodes to drain."
    assert await world.is_there("again")


async def test_d02_only_nodes_of_the_runs_own_pods_are_recorded(world: World) -> None:
    label = {"labels": {"eksml.dev/run": world.view.id}}
    await world.node("theirs", copied=label)
    await world.node("ours", mine={"ownerReferences": [world.mine], **label})
    site, notebook = LiveBackend(world.folder, CLOCK), Notebook()
    try:
        work = site.context(world.view, world.view.stages[0], notebook)
        pods = await world.connection.pods(namespace="default", label_selector=f"eksml.dev/run={world.view.id}")
        assert len(pods) == 2
        await NodeClaimRecorder(work).take(world.connection, pods)
        assert [item.name for item in notebook.made] == ["ours"]
        assert notebook.made[0].uid in inventory_of(work).uids
    finally:
        await site.aclose()


async def test_d02_a_cluster_without_karpenter_is_asked_once_about_a_node(world: World) -> None:
    asked: list[str] = []

    class Bare(ClusterConnection, frozen=True):
        async def list_objects(self, api_version: str, kind: str, **_: str) -> list[dict[str, Any]]:
            asked.append(kind)
            raise MissingError(f"The cluster does not serve {kind}.")

    site = LiveBackend(world.folder, CLOCK)
    try:
        recorder = NodeClaimRecorder(site.context(world.view, world.view.stages[0], Notebook()))
        bare = Bare(world.connection.session, world.connection.discovery)
        for node in ("first", "first", "second"):
            await recorder.take(bare, [{"spec": {"nodeName": node}}])
    finally:
        await site.aclose()
    assert asked == ["NodeClaim", "NodeClaim"]
