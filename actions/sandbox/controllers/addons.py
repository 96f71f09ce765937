"""The controllers that a control plane does not bring with it: operators, Karpenter, and what AWS does for nodes."""

from __future__ import annotations

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOB_SETS,
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
    TRAIN_JOBS,
    VOLUMES,
)
from actions.sandbox.controllers.aws.device_plugins import DevicePluginController
from actions.sandbox.controllers.aws.fsx import FsxProvisioner
from actions.sandbox.controllers.aws.node_groups import NodeGroupController
from actions.sandbox.controllers.karpenter.node_claims import NodeClaimController
from actions.sandbox.controllers.karpenter.pools import EmptinessController, PoolController, Provisioner
from actions.sandbox.controllers.kubeflow.mpi_job import MPIJobController
from actions.sandbox.controllers.ray.ray_cluster import RayClusterController
from actions.sandbox.controllers.ray.ray_job import RayJobController
from actions.sandbox.controllers.ray.submission import PodDashboard
from actions.sandbox.controllers.replica_groups import REPLICA_GROUPS, ReplicaGroupsController
from actions.sandbox.controllers.trainer.job_set import JobSetController
from actions.sandbox.controllers.trainer.train_job import TrainJobController
from actions.sandbox.controllers.volcano.scheduler import VolcanoQueueController, VolcanoScheduler
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.options import SandboxOptions

ADDON_KINDS = (
    PODS, NODES, SERVICES, CONFIG_MAPS, SECRETS, CLAIMS, DEPLOYMENTS, JOBS, MPI_JOBS, RAY_CLUSTERS, RAY_JOBS,
    JOB_SETS, TRAIN_JOBS, POD_GROUPS, QUEUES, NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, VOLUMES, STORAGE_CLASSES,
    *(groups.kind for groups in REPLICA_GROUPS),
)  # fmt: skip
"""The kinds whose caches they read."""


def addon_controllers(
    client: ApiClient, caches: Caches, types: InstanceTable, options: SandboxOptions, groups: NodeGroups
) -> list[Controller]:
    """All of them but the training-operator, which also exists as a program of its own."""
    return [
        MPIJobController(client, caches),
        RayClusterController(client, caches),
        RayJobController(client, caches, PodDashboard(client.session)),
        JobSetController(client, caches),
        TrainJobController(client, caches),
        *(ReplicaGroupsController(client, caches, groups) for groups in REPLICA_GROUPS),
        VolcanoQueueController(client, caches),
        VolcanoScheduler(client, caches),
        PoolController(client, caches),
        Provisioner(client, caches, list(types)),
        EmptinessController(client, caches, options),
        NodeClaimController(client, caches, types, options),
        NodeGroupController(client, caches, groups, types, options),
        DevicePluginController(client, caches, types),
        FsxProvisioner(client, caches, options),
    ]
