"""All actors, started together and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from actions.base.clock import Clock, SystemClock
from actions.cluster.session import KubeSession
from actions.fleet.instances import InstanceTable
from actions.sandbox.actors.claims import ClaimController, VolumeController
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.daemonset import DaemonSetController
from actions.sandbox.actors.deployment import DeploymentController
from actions.sandbox.actors.job import JobController
from actions.sandbox.actors.karpenter import EmptinessController, PoolController, Provisioner
from actions.sandbox.actors.kinds import (
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODE_CLAIMS,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    PODS,
    PYTORCH_JOBS,
    REPLICA_SETS,
    SERVICES,
    VOLUMES,
)
from actions.sandbox.actors.nodeclaim import NodeClaimController
from actions.sandbox.actors.nodegroup import NodeGroupController
from actions.sandbox.actors.plugins import DevicePlugins
from actions.sandbox.actors.podcollector import PodCollector
from actions.sandbox.actors.pytorchjob import PyTorchJobController
from actions.sandbox.actors.replicas import ReplicaSetController
from actions.sandbox.actors.scheduler import Scheduler
from actions.sandbox.actors.watching import Caches, watching
from actions.sandbox.actors.world import seed
from actions.sandbox.nodegroups import NodeGroups
from actions.sandbox.options import SandboxOptions

_WATCHED = (
    PODS, NODES, SERVICES, CLAIMS, VOLUMES, DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS, JOBS, PYTORCH_JOBS, NODE_POOLS,
    NODE_CLAIMS, NODE_CLASSES,
)  # fmt: skip


class NodeAgent(Protocol):
    """What runs the pods: the sandbox's kubelet, or whatever a real control plane brings."""

    def serving(self, session: KubeSession) -> AbstractAsyncContextManager[None]:
        """Run pods until the context is left."""
        ...


@asynccontextmanager
async def start(
    session: KubeSession,
    kubelet: NodeAgent,
    options: SandboxOptions,
    clock: Clock | None = None,
    *,
    groups: NodeGroups | None = None,
) -> AsyncIterator[None]:
    """Seed the initial cluster and run the kubelet and every controller until the context is left.

    Args:
        session: With the API that they are clients of.
        kubelet: Runs what is bound to nodes.
        options: Delays and names.
        clock: Wall time.
        groups: The account's node groups, for which nodes are started and ended.

    Raises:
        UnreachableError: The API does not answer while the cluster is seeded.
    """
    time = clock or SystemClock()
    client, types = ApiClient(session, time), InstanceTable.load()
    groups = groups if groups is not None else NodeGroups.of(options, time)
    await seed(client, types, options, groups)
    async with kubelet.serving(session), watching(session, _WATCHED, time) as caches:
        tasks = [
            asyncio.create_task(controller.run(), name=type(controller).__name__)
            for controller in _controllers(client, caches, types, options, groups)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _controllers(
    client: ApiClient, caches: Caches, types: InstanceTable, options: SandboxOptions, groups: NodeGroups
) -> list[Controller]:
    return [
        Scheduler(client, caches),
        ReplicaSetController(client, caches),
        DeploymentController(client, caches),
        DaemonSetController(client, caches),
        JobController(client, caches),
        ClaimController(client, caches),
        VolumeController(client, caches),
        PyTorchJobController(client, caches),
        PoolController(client, caches),
        Provisioner(client, caches, list(types)),
        EmptinessController(client, caches, options),
        NodeClaimController(client, caches, types, options),
        NodeGroupController(client, caches, groups, types, options),
        DevicePlugins(client, caches, types),
        PodCollector(client, caches),
    ]
