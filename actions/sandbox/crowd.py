"""A crowd: thousands of nodes and pods that are only there to be many, for how a console bears a big cluster.

No actor looks after them. They are as large as real ones, managed fields included, and cost next to nothing until
somebody looks: a list of 50,000 pods is written as it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConfigError, InputError
from actions.fleet.instance_types import InstanceTable, InstanceType
from actions.sandbox.actors.kinds import CROWD, GPU
from actions.sandbox.actors.machines import Machine, node_document, node_status
from actions.sandbox.api.builtin import builtin_types
from actions.sandbox.api.codec import Object
from actions.sandbox.api.drawn import Drawn, Template, Words, gap
from actions.sandbox.api.options import WriteOptions
from actions.sandbox.api.resources import GroupResource, Registry
from actions.sandbox.api.store import FIRST_VERSION, Store
from actions.sandbox.api.writes import Writer

NAMESPACE = "crowd"
MOST_NODES, MOST_PODS = 60_000, 600_000
_TYPES = ("p5.48xlarge", "g5.48xlarge", "trn1.32xlarge", "m5.4xlarge")
_NODES, _PODS = GroupResource("", "nodes"), GroupResource("", "pods")
_POD_UIDS = 1 << 40
_OLDEST = FIRST_VERSION + 100
"""Resource version of the first of them."""
_ENVIRONMENT = (
    "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "NCCL_PROTO", "MASTER_PORT",
    "PET_NNODES", "PET_NPROC_PER_NODE", "LOGLEVEL", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "HF_HOME", "OMP_NUM_THREADS",
)  # fmt: skip


class CrowdSize(msgspec.Struct, frozen=True):
    """How many."""

    nodes: int = 0
    pods: int = 0


def read_size(text: str) -> CrowdSize:
    """Read `nodes=5000,pods=50000`; what is not named is 0, and so is all of an empty text.

    Raises:
        InputError: It is not written so, or it is too many.
    """
    counts = {"nodes": 0, "pods": 0}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        if name not in counts or not number.isdigit():
            raise InputError(f"'{part}' is no part of a scale.", hint="Write nodes=5000,pods=50000.")
        counts[name] = int(number)
    if counts["nodes"] > MOST_NODES or counts["pods"] > MOST_PODS:
        raise InputError(f"A scale has at most {MOST_NODES} nodes and {MOST_PODS} pods.")
    if counts["pods"] and not counts["nodes"]:
        raise InputError("Pods need nodes.", hint="Write nodes=5000,pods=50000.")
    return CrowdSize(**counts)


def crowded_store(size: CrowdSize, *, clock: Clock, region: str) -> Store:
    """A store with a crowd in it.

    Args:
        size: How many.
        clock: For the objects' times.
        region: Of the nodes.

    Raises:
        ConfigError: The instance table lacks a type.
    """
    store = Store()
    if size.nodes:
        _Painter(clock, region).fill(store, size)
    return store


class _Painter:
    """Makes one object of each look with the server's own write path, and gaps in it."""

    def __init__(self, clock: Clock, region: str) -> None:
        self._now = format_rfc3339(clock.now())
        self._region = region
        self._registry = Registry(builtin_types())
        self._writer = Writer(Store(), self._registry, clock)
        self._painted = 0

    def fill(self, store: Store, size: CrowdSize) -> None:
        """Put the crowd and its namespace in."""
        space = self._registry.find("", "v1", "namespaces")
        if space is not None:
            home: Object = {"metadata": {"name": NAMESPACE}}
            made = self._writer.create(space, "", home, WriteOptions())
            store.put(made.key, "", NAMESPACE, {**made.body})
        store.load(self._nodes(size.nodes))
        store.load(self._pods(size))

    def _nodes(self, count: int) -> Iterator[Drawn]:
        templates = [Template(self._node(kind), self._node_words()) for kind in _instance_types()]
        return (Drawn(_NODES, templates[number % len(templates)], number) for number in range(count))

    def _pods(self, size: CrowdSize) -> Iterator[Drawn]:
        words = self._pod_words(size.nodes)
        looks = [Template(self._pod(kind), words) for kind in _instance_types()]
        helper = Template(self._pod(None), words)
        return (
            Drawn(_PODS, helper if number >= size.nodes else looks[number % len(looks)], number)
            for number in range(size.pods)
        )

    def _node(self, kind: InstanceType) -> Object:
        machine = Machine(gap("name"), gap("instance"), gap("address"), kind, f"{self._region}a", {CROWD: "true"})
        document = node_document(machine, self._region)
        status = node_status(machine, is_ready=True, now=self._now)
        for part in ("capacity", "allocatable"):
            status[part] |= {GPU: str(kind.gpus)} if kind.gpus else {}
        return self._stored("nodes", "", document, status)

    def _pod(self, kind: InstanceType | None) -> Object:
        """A worker that has a machine's GPUs for itself, or a small helper beside it."""
        amounts = {"cpu": "8", "memory": "64Gi", GPU: str(kind.gpus)} if kind and kind.gpus else {"cpu": "250m"}
        container: Object = {
            "name": "pytorch",
            "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/trainer:2.3",
            "command": ["torchrun", "--nproc_per_node=8", "train.py"],
            "env": [{"name": name, "value": "1"} for name in _ENVIRONMENT],
            "resources": {"limits": amounts, "requests": amounts},
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - a path in a container
        }
        labels = {CROWD: "true", "app": "crowd", "training.kubeflow.org/replica-index": gap("index")}
        spec: Object = {
            "nodeName": gap("node"),
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "tolerations": [{"operator": "Exists"}],
        }
        names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        state = {
            "name": "pytorch", "image": container["image"], "imageID": f"{container['image']}@sha256:0", "ready": True,
            "started": True, "restartCount": 0, "containerID": "containerd://" + gap("uid"), "lastState": {},
            "state": {"running": {"startedAt": self._now}},
        }  # fmt: skip
        status = {
            "phase": "Running",
            "conditions": [{"type": name, "status": "True", "lastTransitionTime": self._now} for name in names],
            "hostIP": gap("address"),
            "podIP": gap("ip"),
            "podIPs": [{"ip": gap("ip")}],
            "startTime": self._now,
            "containerStatuses": [state],
            "qosClass": "Burstable",
        }
        return self._stored("pods", NAMESPACE, {"metadata": {"name": "x", "labels": labels}, "spec": spec}, status)

    def _stored(self, plural: str, namespace: str, body: Object, status: Object) -> Object:
        """The object as the server would store it, with gaps for what tells it from others."""
        resource = self._registry.find("", "v1", plural)
        if resource is None:
            raise ConfigError(f"The sandbox serves no {plural}.")
        self._painted += 1
        name = body["metadata"]["name"] = f"model-{self._painted}"
        self._writer.create(resource, namespace, body, WriteOptions(manager="kubelet"))
        options = WriteOptions(manager="kubelet", subresource="status")
        whole = self._writer.change(resource, namespace, name, lambda one: one | {"status": status}, options).body
        gaps = {"name": gap("name"), "uid": gap("uid"), "resourceVersion": gap("version")}
        return {**whole, "metadata": whole["metadata"] | gaps}

    def _node_words(self) -> Words:
        return {
            "name": self._node_name,
            "uid": _uid,
            "version": lambda number: str(_OLDEST + number),
            "instance": lambda number: f"i-{number:017x}",
            "address": _address,
        }

    def _pod_words(self, nodes: int) -> Words:
        return {
            "name": lambda number: f"crowd-{number:06d}",
            "namespace": lambda _: NAMESPACE,
            "uid": lambda number: _uid(_POD_UIDS + number),
            "version": lambda number: str(_OLDEST + nodes + number),
            "index": str,
            "node": lambda number: self._node_name(number % nodes),
            "address": lambda number: _address(number % nodes),
            "ip": lambda number: f"10.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",
        }

    def _node_name(self, number: int) -> str:
        return f"ip-{_address(number).replace('.', '-')}.{self._region}.compute.internal"


def _instance_types() -> list[InstanceType]:
    table = InstanceTable.load()
    found = [table.find(name) for name in _TYPES]
    if None in found:
        raise ConfigError(f"The instance table lacks one of {', '.join(_TYPES)}.")
    return [kind for kind in found if kind is not None]


def _address(number: int) -> str:
    return f"100.65.{number >> 8 & 255}.{number & 255}"


def _uid(number: int) -> str:
    return f"c0ffee00-0000-4000-8000-{number:012x}"
