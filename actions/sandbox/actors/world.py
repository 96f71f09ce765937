"""The cluster as Terraform leaves it: what is there before anybody launches anything."""

from __future__ import annotations

from msgspec.structs import replace

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.account import CORE_GROUP, CORE_NODES, CORE_TYPE, NodeGroups
from actions.sandbox.actors.addons import addon_documents
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.definitions import karpenter_definitions
from actions.sandbox.actors.kinds import NAMESPACES, NODES, STORAGE_CLASSES, Document, kind_named
from actions.sandbox.actors.machines import Machine, node_document, node_status
from actions.sandbox.actors.viewer import viewer_documents
from actions.sandbox.options import SandboxOptions

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "karpenter", "nvidia-device-plugin")


async def seed(client: ApiClient, types: InstanceTable, options: SandboxOptions, groups: NodeGroups) -> None:
    """Make what is missing of the initial cluster, and say which nodes the core group has; what is there stays.

    Raises:
        UnreachableError: The API does not answer.
    """
    for name in _NAMESPACES:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    for document in karpenter_definitions():
        await client.create(kind_named(document["kind"]), document)
    await client.create(STORAGE_CLASSES, _storage_class())
    for document in viewer_documents():
        await client.create(kind_named(document["kind"]), document)
    machines = core_machines(types, options)
    core = groups.get(f"{options.cluster_name}/{CORE_GROUP}")
    if core is not None:
        groups.put(replace(core, nodes=tuple(machine.name for machine in machines)))
    for machine in machines:
        node = await client.create(NODES, node_document(machine, options.region))
        if node is not None:
            await client.patch_status(NODES, node, node_status(machine, is_ready=True, now=client.timestamp()))
    for document in addon_documents(types):
        await client.create(kind_named(document["kind"]), document)


def core_machines(types: InstanceTable, options: SandboxOptions) -> list[Machine]:
    """The managed node group that runs the add-ons."""
    kind = types.find(CORE_TYPE)
    if kind is None:
        return []
    return [
        Machine(
            name=f"ip-100-64-{128 * index}-{21 + index}.{options.region}.compute.internal",
            instance_id=f"i-0c0de{index:012x}",
            address=f"100.64.{128 * index}.{21 + index}",
            type=kind,
            zone=f"{options.region}{'ab'[index]}",
            labels={
                "WorkerType": "ON_DEMAND",
                "NodeGroupType": "core",
                "eks.amazonaws.com/capacityType": "ON_DEMAND",
                "eks.amazonaws.com/nodegroup": CORE_GROUP,
                "alpha.eksctl.io/cluster-name": options.cluster_name,
            },
        )
        for index in range(CORE_NODES)
    ]


def _storage_class() -> Document:
    return {
        "metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
