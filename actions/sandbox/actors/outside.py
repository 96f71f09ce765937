"""The controllers that a control plane does not bring with it: operators, Karpenter, and what AWS does for nodes."""

from __future__ import annotations

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.account import NodeGroups
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.fsxprovisioner import FsxProvisioner
from actions.sandbox.actors.karpenter import EmptinessController, PoolController, Provisioner
from actions.sandbox.actors.kinds import (
    CLAIMS,
    COMMANDS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    MPI_JOBS,
    NODE_CLAIMS,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RAY_CLUSTERS,
    RAY_JOBS,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUMES,
)
from actions.sandbox.actors.mpijob import MPIJobController
from actions.sandbox.actors.nodeclaim import NodeClaimController
from actions.sandbox.actors.nodegroup import NodeGroupController
from actions.sandbox.actors.plugins import DevicePlugins
from actions.sandbox.actors.ray_dashboard import PodDashboard
from actions.sandbox.actors.raycluster import RayClusterController
from actions.sandbox.actors.rayjob import RayJobController
from actions.sandbox.actors.volcano import VolcanoScheduler
from actions.sandbox.actors.volcano_queue import VolcanoQueueController
from actions.sandbox.actors.watching import Caches
from actions.sandbox.options import SandboxOptions

OUTSIDE_WATCHED = (
    PODS, NODES, SERVICES, CONFIG_MAPS, SECRETS, CLAIMS, DEPLOYMENTS, JOBS, MPI_JOBS, RAY_CLUSTERS, RAY_JOBS,
    POD_GROUPS, QUEUES, COMMANDS, NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, VOLUMES, STORAGE_CLASSES,
)  # fmt: skip
"""The kinds whose caches they read."""


def outside_controllers(
    client: ApiClient, caches: Caches, types: InstanceTable, options: SandboxOptions, groups: NodeGroups
) -> list[Controller]:
    """All of them but the training-operator, which also exists as a program of its own."""
    return [
        MPIJobController(client, caches),
        RayClusterController(client, caches),
        RayJobController(client, caches, PodDashboard(client.session)),
        VolcanoQueueController(client, caches),
        VolcanoScheduler(client, caches),
        PoolController(client, caches),
        Provisioner(client, caches, list(types)),
        EmptinessController(client, caches, options),
        NodeClaimController(client, caches, types, options),
        NodeGroupController(client, caches, groups, types, options),
        DevicePlugins(client, caches, types),
        FsxProvisioner(client, caches, options),
    ]
