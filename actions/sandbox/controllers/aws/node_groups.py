"""The life of a managed node group: instances launched, nodes registered and ready; and back again, drained."""

from __future__ import annotations

import re
import zlib

from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.fleet.instance_types import InstanceTable
from actions.fleet.placement import is_ready
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import NODES, PODS, Document
from actions.sandbox.controllers.aws.machines import (
    DRAIN_POLL_SECONDS,
    Machine,
    drain_node,
    mark_ready,
    node_document,
    register_node,
)
from actions.sandbox.model.account import GroupStatus, Issue, NodeGroup, NodeGroups
from actions.sandbox.model.options import SandboxOptions

NODE_GROUP = "eks.amazonaws.com/nodegroup"
_SOURCE = "eks-nodegroup"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_RESERVATION_TAG = "capacity-reservation-id"
_RESERVATION = re.compile(r"cr-[0-9a-f]{17}")
EFA_TAG = "efa"
"""The tag of a group whose instances have EFA interfaces; of a real one the launch template has them."""
_LAUNCH_FAILED = "AsgInstanceLaunchFailures"


class NodeGroupController(Controller):
    """Acts as EKS, the autoscaling group and the kubelets of new nodes for every node group."""

    def __init__(
        self, client: ApiClient, caches: Caches, groups: NodeGroups, types: InstanceTable, options: SandboxOptions
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._groups = groups
        self._types = types
        self._options = options
        self._since: dict[tuple[str, str], float] = {}
        """Group and step → since when the step has been under way (monotonic)."""
        groups.listen(self.wake)
        caches[NODES].listen(self._on_node)
        caches[PODS].listen(self._on_pod)

    def _on_node(self, node: Document) -> None:
        self._wake_for(node["metadata"]["name"])

    def _on_pod(self, pod: Document) -> None:
        self._wake_for(pod["spec"].get("nodeName", ""))

    def _wake_for(self, node: str) -> None:
        for group in self._groups:
            if node in group.nodes and group.status is not GroupStatus.ACTIVE:
                self.wake(group.key)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step of the group's life."""
        group = self._groups.get(key)
        if group is None:
            self._since = {step: since for step, since in self._since.items() if step[0] != key}
            return None
        match group.status:
            case GroupStatus.CREATING:
                return await self._create(group)
            case GroupStatus.DELETING:
                return await self._delete(group)
            case _:
                return None

    async def _create(self, group: NodeGroup) -> float | None:
        left = self._left(group, "boot", self._options.node_boot_seconds)
        if left > 0:
            return left
        issue = self._obstacle(group)
        if issue is not None:
            self._groups.move(group.key, GroupStatus.CREATE_FAILED, issue)
            return None
        machines = machines_of(group, self._types, self._options.region)
        if not group.nodes:
            group = replace(group, nodes=tuple(machine.name for machine in machines))
            self._groups.put(group)
        for machine in machines:
            if self._caches[NODES].get(machine.name) is None:
                await register_node(self._client, machine, node_document(machine, self._options.region))
        left = self._left(group, "ready", self._options.node_ready_seconds)
        if left > 0:
            return left
        nodes = [self._caches[NODES].get(machine.name) for machine in machines]
        for machine, node in zip(machines, nodes, strict=True):
            if node is not None and not is_ready(node):
                await mark_ready(self._client, machine, node)
        if all(node is not None and is_ready(node) for node in nodes):
            self._groups.move(group.key, GroupStatus.ACTIVE)
        return None

    def _obstacle(self, group: NodeGroup) -> Issue | None:
        """Return the reason why EC2 does not launch the group's instances."""
        market = {"SPOT": "Spot", "CAPACITY_BLOCK": "Capacity Block"}.get(group.capacity_type, "On-Demand")
        reservation = group.tags.get(_RESERVATION_TAG, "")
        if reservation and not _RESERVATION.fullmatch(reservation):
            text = f"InvalidCapacityReservationId.NotFound - The capacity reservation '{reservation}' does not exist"
        elif self._launched(group.instance_type, but=group.key) + group.size > self._options.instances_of_a_type:
            text = (
                f"InsufficientInstanceCapacity - We currently do not have sufficient {group.instance_type} capacity in "
                f"the Availability Zone you requested ({self._options.region}a). Our system will be working on "
                "provisioning additional capacity"
            )
        else:
            return None
        return Issue(_LAUNCH_FAILED, f"Could not launch {market} Instances. {text}. Launching EC2 instance failed.")

    def _launched(self, instance_type: str, *, but: str) -> int:
        return sum(len(one.nodes) for one in self._groups if one.instance_type == instance_type and one.key != but)

    async def _delete(self, group: NodeGroup) -> float | None:
        """Cordon and drain all nodes, end the instances, forget the group."""
        nodes = [node for name in group.nodes if (node := self._caches[NODES].get(name)) is not None]
        if nodes:
            for node in nodes:
                if not node["spec"].get("unschedulable"):
                    await self._client.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": True}})
            names = [node["metadata"]["name"] for node in nodes]
            if any([await drain_node(self._client, self._caches, name, source=_SOURCE) for name in names]):
                return DRAIN_POLL_SECONDS
            left = self._left(group, "end", self._options.instance_end_seconds)
            if left > 0:
                return left
            for name in names:
                await self._client.delete(NODES, name)
            return None
        self._groups.remove(group.key)
        return None

    def _left(self, group: NodeGroup, step: str, seconds: float) -> float:
        now = self._client.clock.monotonic()
        return self._since.setdefault((group.key, step), now) + seconds - now


def machines_of(group: NodeGroup, types: InstanceTable, region: str) -> list[Machine]:
    """The group's instances: names, addresses and ids follow from cluster, group and number."""
    kind = types.find(group.instance_type)
    if kind is None:
        raise MissingError(f"The instance type '{group.instance_type}' is not known.")
    labels = {
        **(group.asked.get("labels") or {}),
        NODE_GROUP: group.name,
        "eks.amazonaws.com/capacityType": group.capacity_type,
        "eks.amazonaws.com/nodegroup-image": "ami-0a1b2c3d4e5f60718",
        "k8s.io/cloud-provider-aws": f"{zlib.crc32(group.cluster.encode()):08x}",
    }
    taints = tuple(
        (taint["key"], taint.get("value", ""), _EFFECTS[taint["effect"]]) for taint in group.asked.get("taints") or ()
    )
    first = zlib.crc32(group.key.encode())
    return [
        Machine(
            name=f"ip-10-1-{number // 250 % 250}-{4 + number % 250}.{region}.compute.internal",
            instance_id=f"i-0{number:08x}{number ^ 0x5F3759DF:08x}",
            address=f"10.1.{number // 250 % 250}.{4 + number % 250}",
            type=replace(kind, name=group.instance_type),
            zone=f"{region}a",
            labels=labels,
            taints=taints,
            has_efa=group.tags.get(EFA_TAG) == "true",
            is_managed=True,
        )
        for number in range(first, first + group.size)
    ]
