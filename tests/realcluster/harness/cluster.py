"""A whole cluster, from its certificates to its training-operator."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actions.base.clock import SystemClock
from actions.base.files import private_directory, write_private
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.options import SandboxOptions
from tests.realcluster.harness.containers import Containers
from tests.realcluster.harness.controlplane import control_plane
from tests.realcluster.harness.crds import install_definitions
from tests.realcluster.harness.execserver import answering_execs
from tests.realcluster.harness.kwok import kubelets
from tests.realcluster.harness.operator import training_operator
from tests.realcluster.harness.standins import show_operators
from tests.realcluster.harness.world import account, world

DESCRIPTION = "cluster.json"
OPTIONS = SandboxOptions(
    speed=6,
    node_boot_seconds=1.0,
    node_ready_seconds=0.5,
    empty_node_seconds=3.0,
    instance_end_seconds=0.5,
    restart_backoff_seconds=2.0,
)


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running cluster, with all that is needed to reach it."""

    server: str
    kubeconfig: str
    """Of somebody who may do everything."""
    nobody: str
    """The kubeconfig of a user without any rights."""
    aws_endpoint_url: str
    etcd: str
    audit_log: str
    homes: str
    """The folder of the homes of those who rehearse: pods find the recorded logs of their runs there."""
    speed: float
    """By how much what containers print is faster than life."""

    @classmethod
    def read(cls, folder: Path) -> RunningCluster:
        """The cluster whose folder this is."""
        return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=cls)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[RunningCluster]:
    """Run one until the context is left; its description stands in `folder` exactly while it can be used.

    Raises:
        ToolError: One of its programs ended.
        UnreachableError: One of them did not become ready.
    """
    clock = SystemClock()
    groups = NodeGroups.of(OPTIONS, clock)
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(control_plane(private_directory(folder)))
        session = await KubeSession.connect(ClusterTarget(plane.kubeconfig))
        stack.push_async_callback(session.aclose)
        await install_definitions(session)
        logs, homes = private_directory(folder / "containers"), private_directory(folder / "homes")
        containers = Containers(OPTIONS, clock, logs, homes)
        scratch = Path(tempfile.mkdtemp(prefix="realcluster-"))
        stack.callback(shutil.rmtree, scratch)
        socket = await stack.enter_async_context(answering_execs(containers, scratch))
        await stack.enter_async_context(kubelets(plane, logs=logs, socket=socket))
        await stack.enter_async_context(containers.serving(session))
        await stack.enter_async_context(world(session, OPTIONS, clock, groups))
        await show_operators(session)
        await stack.enter_async_context(training_operator(plane, session))
        authority = Path(plane.credentials.path("ca.crt")).read_bytes()
        endpoint = await stack.enter_async_context(account(session, OPTIONS, authority, groups))
        description = RunningCluster(
            server=plane.server,
            kubeconfig=str(plane.kubeconfig),
            nobody=str(plane.kubeconfig_of("nobody")),
            aws_endpoint_url=endpoint,
            etcd=plane.etcd,
            audit_log=str(folder / "audit.log"),
            homes=str(homes),
            speed=OPTIONS.speed,
        )
        write_private(folder / DESCRIPTION, msgspec.json.encode(description))
        stack.callback((folder / DESCRIPTION).unlink)
        yield description
