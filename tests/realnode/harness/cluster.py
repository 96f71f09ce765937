"""A control plane with real nodes: a core node, and two with accelerators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actions.base.files import private_directory, write_private
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.realcluster.harness.controlplane import Surroundings, control_plane
from tests.realcluster.harness.parts import BUILD
from tests.realnode.harness.addons import addons
from tests.realnode.harness.images import Image, layer_of
from tests.realnode.harness.imagestore import image_store
from tests.realnode.harness.network import GATEWAY, Place, make_subnet
from tests.realnode.harness.node import PAUSE, NodePlan, node
from tests.support.applying import apply_all

DESCRIPTION = "realnode.json"
PLACES = (Place(1), Place(2), Place(3))
_READY_SECONDS = 90.0
_ZONE = {
    "topology.kubernetes.io/region": "us-west-2",
    "topology.kubernetes.io/zone": "us-west-2a",
}


@dataclass(frozen=True, slots=True)
class RunningNodes:
    """A running cluster with real nodes, with all that is needed to reach it."""

    kubeconfig: str
    nobody: str
    """The kubeconfig of a user without any rights."""
    nodes: dict[str, str]
    """The folder of each node, by name: logs, `PROGRAM.pid`, and `PROGRAM.down` to keep one from being started."""
    audit_log: str

    @classmethod
    def read(cls, folder: Path) -> RunningNodes:
        """The cluster whose folder this is."""
        return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=cls)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[RunningNodes]:
    """Run one until the context is left; its description stands in `folder` exactly while it can be used.

    Raises:
        ToolError: One of its programs ended.
        UnreachableError: One of them did not become ready.
    """
    make_subnet()
    async with AsyncExitStack() as stack:
        images = asyncio.create_task(image_store(_images(), private_directory(folder / "images")))
        surroundings = Surroundings({place.name: place.address for place in PLACES}, GATEWAY)
        plane = await stack.enter_async_context(control_plane(folder, surroundings))
        session = await KubeSession.connect(ClusterTarget(plane.kubeconfig))
        stack.push_async_callback(session.aclose)
        await apply_all(session, Discovery(session), addons())
        folders = {place.name: private_directory(folder / f"node-{place.number}") for place in PLACES}
        store = await images
        for place in PLACES:
            plan = _plan(place)
            await stack.enter_async_context(node(plan, plane, folders[place.name], store, PLACES))
        await _ready(session, PLACES)
        description = RunningNodes(
            kubeconfig=str(plane.kubeconfig),
            nobody=str(plane.kubeconfig_of("nobody")),
            nodes={name: str(path) for name, path in folders.items()},
            audit_log=str(folder / "audit.log"),
        )
        write_private(folder / DESCRIPTION, msgspec.json.encode(description))
        stack.callback((folder / DESCRIPTION).unlink)
        yield description


def _plan(place: Place) -> NodePlan:
    kind = "m5.2xlarge" if place.number == 1 else "g5.12xlarge"
    labels = {"node.kubernetes.io/instance-type": kind, **_ZONE}
    return NodePlan(place, labels, provider_id=f"aws:///us-west-2a/i-{place.number:017x}")


def _images() -> Sequence[Image]:
    folder = private_directory(BUILD / "layers")
    busybox = layer_of(
        {"/bin/busybox": Path("/bin/busybox")},
        folder / "busybox.tar",
        links={"/bin/sh": "busybox", "/bin/sleep": "busybox"},
    )
    return [Image((PAUSE, "docker.io/library/busybox:latest"), (busybox,), ("/bin/sleep", "infinity"))]


async def _ready(session: KubeSession, places: Sequence[Place]) -> None:
    async with asyncio.timeout(_READY_SECONDS):
        while True:
            nodes = (await session.get("/api/v1/nodes"))["items"]
            if sum(_is_ready(one) for one in nodes) == len(places):
                return
            await asyncio.sleep(0.2)


def _is_ready(node: dict[str, object]) -> bool:
    status = node["status"]
    assert isinstance(status, dict)
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
