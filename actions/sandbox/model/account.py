"""The state of the sandbox's AWS account: its managed node groups, and the images that its registries have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.sandbox.model.options import SandboxOptions

_MISSING = "missing"


def has_tag(tag: str) -> bool:
    """Return whether a repository has this tag."""
    return not tag.startswith(_MISSING)


def pull_error_of(image: str) -> str:
    """Return why an image cannot be pulled, in containerd's words; empty if it can.

    Source: containerd 1.7 `remotes/docker/resolver.go`, as kubelet 1.32 passes it on.
    """
    name, _, digest = image.partition("@")
    tag = name.rpartition(":")[2]
    if digest or "/" in tag or has_tag(tag):
        return ""
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to resolve reference '
        f'"{image}": {image}: not found'
    )


CORE_GROUP = "core-node-group"
CORE_TYPE = "m5.xlarge"
CORE_NODES = 2


class GroupStatus(StrEnum):
    """The status of a group, in the words of EKS."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    DELETING = "DELETING"
    CREATE_FAILED = "CREATE_FAILED"


class Issue(msgspec.Struct, frozen=True):
    """A problem of a group: a code of EKS, and a sentence."""

    code: str
    message: str


class NodeGroup(msgspec.Struct, frozen=True):
    """The state of a node group."""

    cluster: str
    name: str
    asked: dict[str, Any]
    """The body of CreateNodegroup."""
    created_at: float
    """Seconds since the epoch."""
    status: GroupStatus = GroupStatus.CREATING
    issues: tuple[Issue, ...] = ()
    nodes: tuple[str, ...] = ()
    """Names of its nodes, from the moment that their instances are launched."""

    @property
    def key(self) -> str:
        """`cluster/name`."""
        return f"{self.cluster}/{self.name}"

    @property
    def size(self) -> int:
        """The number of nodes that it is to have."""
        return int(self.asked["scalingConfig"]["desiredSize"])

    @property
    def instance_type(self) -> str:
        """The first of its instance types, which is the one that is launched."""
        return str(self.asked["instanceTypes"][0])

    @property
    def capacity_type(self) -> str:
        """ON_DEMAND, SPOT or CAPACITY_BLOCK."""
        return str(self.asked.get("capacityType") or "ON_DEMAND")

    @property
    def tags(self) -> dict[str, str]:
        """AWS tags; those of the rehearsal's Terraform also hold what a launch template would."""
        return self.asked.get("tags") or {}


class NodeGroups(msgspec.Struct):
    """All groups of the account. Listeners are called with the group's key at every change."""

    _groups: dict[str, NodeGroup] = msgspec.field(default_factory=dict)
    _listeners: list[Callable[[str], None]] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, options: SandboxOptions, clock: Clock) -> NodeGroups:
        """Make the groups of an account in which only the core nodes run."""
        groups = cls()
        groups.put(core_group(options, clock.now().timestamp()))
        return groups

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with a group's key from now on, and at once for those that are there."""
        self._listeners.append(listener)
        for key in list(self._groups):
            listener(key)

    def __iter__(self) -> Iterator[NodeGroup]:
        return iter(list(self._groups.values()))

    def get(self, key: str) -> NodeGroup | None:
        """The group of that key."""
        return self._groups.get(key)

    def put(self, group: NodeGroup) -> None:
        """Take in a group, or another state of it."""
        self._groups[group.key] = group
        self._tell(group.key)

    def move(self, key: str, status: GroupStatus, *issues: Issue) -> None:
        """Give a group another status; do nothing if it is gone."""
        group = self._groups.get(key)
        if group is not None and (group.status, group.issues) != (status, issues):
            self.put(replace(group, status=status, issues=issues))

    def remove(self, key: str) -> None:
        """Forget a group."""
        if self._groups.pop(key, None) is not None:
            self._tell(key)

    def _tell(self, key: str) -> None:
        for listener in self._listeners:
            listener(key)


def core_group(options: SandboxOptions, created_at: float) -> NodeGroup:
    """Return the group of the nodes that the sandbox begins with; their maker fills in `nodes`."""
    asked = {
        "nodegroupName": CORE_GROUP,
        "scalingConfig": {"minSize": CORE_NODES, "maxSize": 8, "desiredSize": CORE_NODES},
        "instanceTypes": [CORE_TYPE],
        "amiType": "AL2023_x86_64_STANDARD",
        "capacityType": "ON_DEMAND",
        "subnets": ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"],
        "nodeRole": f"arn:aws:iam::{options.account}:role/{options.cluster_name}-core",
        "labels": {"WorkerType": "ON_DEMAND", "NodeGroupType": "core"},
    }
    return NodeGroup(options.cluster_name, CORE_GROUP, asked, created_at, GroupStatus.ACTIVE)
