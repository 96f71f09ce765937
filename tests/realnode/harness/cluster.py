"""A control plane with real nodes: a core node, and two with accelerators."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actions.base.clock import SystemClock
from actions.base.errors import UnreachableError
from actions.base.files import private_directory, write_private
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.options import SandboxOptions
from tests.realcluster.harness.controlplane import Surroundings, control_plane
from tests.realcluster.harness.world import account
from tests.realnode.equipment import labels_of
from tests.realnode.harness.addons import addons
from tests.realnode.harness.contents import all_images, images_of_today
from tests.realnode.harness.imagestore import image_store, registry, with_more
from tests.realnode.harness.network import GATEWAY, Place, make_subnet
from tests.realnode.harness.node import NodePlan, node
from tests.realnode.harness.sources import fill_mirror
from tests.support.applying import apply_all

DESCRIPTION = "realnode.json"
PLACES = (Place(1), Place(2), Place(3), Place(4))
_TYPES = ("m5.2xlarge", "m5.2xlarge", "g5.12xlarge", "g5.12xlarge")
"""Of the instances that the nodes are at first."""
_CORE = (1, 2)
"""The numbers of the nodes that have no accelerators."""
OPTIONS = SandboxOptions()
"""Of the account: its region, and the name of its cluster."""
_READY_SECONDS = 240.0
_ON_EKS = {
    "eks.amazonaws.com/capacityType": "ON_DEMAND",
    "alpha.eksctl.io/cluster-name": OPTIONS.cluster_name,
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
    aws_endpoint_url: str
    """Of the account that has the cluster."""
    mirror: str
    """The folder with the releases of the operators."""
    volumes: str
    """The folder with a folder for each volume, by its handle."""
    audit_log: str
    logs: str
    """The folder of the control plane's logs, with `api-server.pid` and, to keep it from being started, `….down`."""
    has_images_of_today: bool
    """Those of operators that no blueprint installs."""

    @classmethod
    def read(cls, folder: Path) -> RunningNodes:
        """The cluster whose folder this is."""
        return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=cls)


@asynccontextmanager
async def cluster(folder: Path, *, today: bool = False) -> AsyncIterator[RunningNodes]:
    """Run one until the context is left; its description stands in `folder` exactly while it can be used.

    Args:
        folder: For its files and logs.
        today: Whether its nodes have the images of operators that no blueprint installs.

    Raises:
        ToolError: One of its programs ended.
        UnreachableError: One of them did not become ready.
    """
    make_subnet()
    _mount_volumes(private_directory(folder / "volumes"))
    async with AsyncExitStack() as stack:
        images = asyncio.create_task(_images(private_directory(folder / "images"), today=today))
        surroundings = Surroundings({place.name: place.address for place in PLACES}, GATEWAY)
        plane = await stack.enter_async_context(control_plane(folder, surroundings))
        session = await KubeSession.connect(ClusterTarget(plane.kubeconfig))
        stack.push_async_callback(session.aclose)
        await apply_all(session, Discovery(session), addons())
        folders = {place.name: private_directory(folder / f"node-{place.number}") for place in PLACES}
        store = await images
        await stack.enter_async_context(registry(private_directory(folder / "images")))
        for place, instance_type in zip(PLACES, _TYPES, strict=True):
            plan = _plan(place, instance_type)
            await stack.enter_async_context(node(plan, plane, folders[place.name], store, PLACES))
        await _ready(session, folders)
        authority = Path(plane.credentials.path("ca.crt")).read_bytes()
        groups = NodeGroups.of(OPTIONS, SystemClock())
        endpoint = await stack.enter_async_context(account(session, OPTIONS, authority, groups))
        fill_mirror(folder / "mirror")
        description = RunningNodes(
            kubeconfig=str(plane.kubeconfig),
            nobody=str(plane.kubeconfig_of("nobody")),
            nodes={name: str(path) for name, path in folders.items()},
            aws_endpoint_url=endpoint,
            mirror=str(folder / "mirror"),
            volumes=str(folder / "volumes"),
            audit_log=str(folder / "audit.log"),
            logs=str(folder / "logs"),
            has_images_of_today=today,
        )
        write_private(folder / DESCRIPTION, msgspec.json.encode(description))
        stack.callback((folder / DESCRIPTION).unlink)
        yield description


async def _images(folder: Path, *, today: bool) -> Path:
    root = await image_store(all_images(), folder)
    return await with_more(root, images_of_today(), folder) if today else root


def _mount_volumes(folder: Path) -> None:
    """Give volumes the size of a file system of FSx, of which nothing is used."""
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200g", "volumes", str(folder)], check=True)


def _plan(place: Place, instance_type: str) -> NodePlan:
    labels = {name: value for name, value in labels_of(instance_type).items() if value}
    group = {"NodeGroupType": "core", "eks.amazonaws.com/nodegroup": "core"} if place.number in _CORE else {}
    return NodePlan(place, labels | _ON_EKS | group, provider_id=f"aws:///us-west-2a/i-{place.number:017x}")


async def _ready(session: KubeSession, folders: Mapping[str, Path]) -> None:
    """Wait for the nodes.

    Raises:
        UnreachableError: One is not ready in time; its kubelet's last words are told.
    """
    waiting = set(folders)
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while waiting:
                waiting -= {
                    one["metadata"]["name"] for one in (await session.get("/api/v1/nodes"))["items"] if _is_ready(one)
                }
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        name = min(waiting)
        said = (folders[name] / "kubelet.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise UnreachableError(f"{name} is not ready after {_READY_SECONDS:.0f} s: {said}") from error


def _is_ready(node: dict[str, object]) -> bool:
    status = node["status"]
    assert isinstance(status, dict)
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
