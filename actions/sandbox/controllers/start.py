"""All controllers, started together and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from actions.base.clock import Clock, SystemClock
from actions.cluster.auth.session import KubeSession
from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.sandbox.clientkit.cache import Caches, watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import BUDGETS, DAEMON_SETS, NODES, PYTORCH_JOBS, REPLICA_SETS, labels_of
from actions.sandbox.controllers.addons import ADDON_KINDS, addon_controllers
from actions.sandbox.controllers.aws.device_plugins import offers_devices
from actions.sandbox.controllers.bootstrap import bootstrap_cluster
from actions.sandbox.controllers.core.claims import ClaimController, VolumeController
from actions.sandbox.controllers.core.daemon_sets import DaemonSetController
from actions.sandbox.controllers.core.deployments import DeploymentController, ReplicaSetController
from actions.sandbox.controllers.core.disruptions import DisruptionController
from actions.sandbox.controllers.core.jobs import JobController
from actions.sandbox.controllers.core.pods import PodGarbageCollector
from actions.sandbox.controllers.core.scheduler import Scheduler
from actions.sandbox.controllers.kubeflow.pytorch_job import PyTorchJobController
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.options import SandboxOptions

_OFFER_SECONDS, _LOOK_SECONDS = 10.0, 0.1
_WATCHED = (*ADDON_KINDS, REPLICA_SETS, DAEMON_SETS, BUDGETS, PYTORCH_JOBS)


class NodeAgent(Protocol):
    """The part that runs the pods: the sandbox's kubelet, or whatever a real control plane brings."""

    def serving(self, session: KubeSession) -> AbstractAsyncContextManager[None]:
        """Run pods until the context is left."""
        ...


@asynccontextmanager
async def start_controllers(
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
    await bootstrap_cluster(client, types, options, groups)
    async with kubelet.serving(session), watching(session, _WATCHED, time) as caches:
        tasks = [
            asyncio.create_task(controller.run(), name=type(controller).__name__)
            for controller in _controllers(client, caches, types, options, groups)
        ]
        try:
            await _until_offered(caches, types, time)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _until_offered(caches: Caches, types: InstanceTable, clock: Clock) -> None:
    """Wait until plugins offer the devices of the nodes that are there from the beginning, or for some seconds."""
    for _ in range(round(_OFFER_SECONDS / _LOOK_SECONDS)):
        kinds = [(node, types.find(labels_of(node).get(INSTANCE_TYPE, ""))) for node in caches[NODES].objects.values()]
        if all(offers_devices(node, kind) for node, kind in kinds if kind is not None):
            return
        await clock.sleep(_LOOK_SECONDS)


def _controllers(
    client: ApiClient, caches: Caches, types: InstanceTable, options: SandboxOptions, groups: NodeGroups
) -> list[Controller]:
    return [
        Scheduler(client, caches),
        ReplicaSetController(client, caches),
        DeploymentController(client, caches),
        DaemonSetController(client, caches),
        JobController(client, caches),
        DisruptionController(client, caches),
        ClaimController(client, caches),
        VolumeController(client, caches),
        PyTorchJobController(client, caches),
        PodGarbageCollector(client, caches),
        *addon_controllers(client, caches, types, options, groups),
    ]
