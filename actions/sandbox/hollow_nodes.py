"""Hollow nodes: thousands of nodes and pods that exist in the store alone, to load a console as a big cluster does.

No controller acts on them. They are as large as real ones, managed fields included, and cost next to nothing until
they are read: each is a template and a number, and a list of 50,000 pods is rendered as it is sent. Kubemark's hollow
nodes register with a real API server; these are put into the store before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConfigError, InputError
from actions.fleet.instance_types import InstanceTable, InstanceType
from actions.sandbox.apiserver.storage.codec import Object, decode, encode
from actions.sandbox.apiserver.storage.resources import GroupResource, Registry, builtin_types
from actions.sandbox.apiserver.storage.store import FIRST_VERSION, Store, Stored
from actions.sandbox.apiserver.writes.options import WriteOptions
from actions.sandbox.apiserver.writes.writer import Writer
from actions.sandbox.clientkit.kinds import GPU, HOLLOW
from actions.sandbox.controllers.aws.machines import Machine, node_document, node_status

TemplateValues: TypeAlias = Mapping[str, Callable[[int], str]]
"""For each gap, a function from an object's number to the text in it. Only what JSON writes unchanged."""

_PLACEHOLDER = re.compile(rb"xx-(\w+?)-xx")
_SELECTED = {"metadata": ("name", "namespace", "labels"), "spec": ("nodeName", "unschedulable"), "status": ("phase",)}
"""The parts of an object that selectors read."""


def placeholder(word: str) -> str:
    """Return the gap for a word, of letters that are allowed in names, labels and addresses."""
    return f"xx-{word}-xx"


class _CompiledTemplate:
    """JSON with gaps, cut once."""

    def __init__(self, body: Object, words: TemplateValues) -> None:
        self._pieces: list[bytes] = _PLACEHOLDER.split(encode(body))
        self._gaps = [(place, words[self._pieces[place].decode()]) for place in range(1, len(self._pieces), 2)]

    def render(self, number: int) -> bytes:
        pieces = self._pieces.copy()
        for place, word in self._gaps:
            pieces[place] = word(number).encode()
        return b"".join(pieces)


class ObjectTemplate:
    """An object with gaps.

    Args:
        body: The object; `placeholder(word)` anywhere in its texts is one.
        words: What stands in the gaps; `name`, `namespace` if it has one, `uid` and `version` among them.
    """

    def __init__(self, body: Object, words: TemplateValues) -> None:
        self.api_version = str(body["apiVersion"])
        self.words = words
        parts = ((part, body.get(part) or {}, names) for part, names in _SELECTED.items())
        outline = {part: {name: whole[name] for name in names if name in whole} for part, whole, names in parts}
        self._whole, self._outline = _CompiledTemplate(body, words), _CompiledTemplate(outline, words)

    def render(self, number: int) -> bytes:
        """Return the object of that number as JSON."""
        return self._whole.render(number)

    def outline(self, number: int) -> Object:
        """Return the part of it that selectors read."""
        outline: Object = decode(self._outline.render(number))
        return outline


class RenderedObject(Stored):
    """A stored object that consists of a template and a number.

    Args:
        key: Its type.
        template: The object with gaps.
        number: Fills the gaps.
    """

    __slots__ = ("_number", "_template")
    _number: int
    _template: ObjectTemplate

    def __init__(self, key: GroupResource, template: ObjectTemplate, number: int) -> None:
        words = template.words
        namespace = words["namespace"](number) if "namespace" in words else ""
        place = {"namespace": namespace, "name": words["name"](number), "version": int(words["version"](number))}
        for field, value in (place | {"key": key, "_template": template, "_number": number}).items():
            object.__setattr__(self, field, value)

    @property
    def raw(self) -> bytes:
        return self._template.render(self._number)

    @property
    def body(self) -> Object:
        decoded: Object = decode(self.raw)
        return decoded

    @property
    def outline(self) -> Object:
        return self._template.outline(self._number)

    @property
    def uid(self) -> str:
        return self._template.words["uid"](self._number)

    @property
    def api_version(self) -> str:
        return self._template.api_version

    @property
    def owner_uids(self) -> list[str]:
        return []


NAMESPACE = "hollow"
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


class HollowCount(msgspec.Struct, frozen=True):
    """The number of hollow nodes and pods."""

    nodes: int = 0
    pods: int = 0


def parse_hollow_count(text: str) -> HollowCount:
    """Read `nodes=5000,pods=50000`; what is not named is 0, and so is all of an empty text.

    Raises:
        InputError: It is not written so, or it is too many.
    """
    counts = {"nodes": 0, "pods": 0}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        if name not in counts or not number.isdigit():
            raise InputError(f"'{part}' is not part of a scale.", hint="Write nodes=5000,pods=50000.")
        counts[name] = int(number)
    if counts["nodes"] > MOST_NODES or counts["pods"] > MOST_PODS:
        raise InputError(f"A scale has at most {MOST_NODES} nodes and {MOST_PODS} pods.")
    if counts["pods"] and not counts["nodes"]:
        raise InputError("Pods need nodes.", hint="Write nodes=5000,pods=50000.")
    return HollowCount(**counts)


def store_with_hollow_nodes(size: HollowCount, *, clock: Clock, region: str) -> Store:
    """Return a store with hollow nodes and pods in it.

    Args:
        size: Their numbers.
        clock: For the objects' times.
        region: That of the nodes.

    Raises:
        ConfigError: The instance table lacks a type.
    """
    store = Store()
    if size.nodes:
        _HollowNodeBuilder(clock, region).fill(store, size)
    return store


class _HollowNodeBuilder:
    """Makes one object of each kind with the server's own write path, and gaps in it."""

    def __init__(self, clock: Clock, region: str) -> None:
        self._now = format_rfc3339(clock.now())
        self._region = region
        self._registry = Registry(builtin_types())
        self._writer = Writer(Store(), self._registry, clock)
        self._built = 0

    def fill(self, store: Store, size: HollowCount) -> None:
        """Put in the hollow nodes, the pods and their namespace."""
        space = self._registry.find("", "v1", "namespaces")
        if space is not None:
            home: Object = {"metadata": {"name": NAMESPACE}}
            made = self._writer.create(space, "", home, WriteOptions())
            store.put(made.key, "", NAMESPACE, {**made.body})
        store.load(self._nodes(size.nodes))
        store.load(self._pods(size))

    def _nodes(self, count: int) -> Iterator[RenderedObject]:
        templates = [ObjectTemplate(self._node(kind), self._node_words()) for kind in _instance_types()]
        return (RenderedObject(_NODES, templates[number % len(templates)], number) for number in range(count))

    def _pods(self, size: HollowCount) -> Iterator[RenderedObject]:
        words = self._pod_words(size.nodes)
        workers = [ObjectTemplate(self._pod(kind), words) for kind in _instance_types()]
        helper = ObjectTemplate(self._pod(None), words)
        return (
            RenderedObject(_PODS, helper if number >= size.nodes else workers[number % len(workers)], number)
            for number in range(size.pods)
        )

    def _node(self, kind: InstanceType) -> Object:
        machine = Machine(
            placeholder("name"),
            placeholder("instance"),
            placeholder("address"),
            kind,
            f"{self._region}a",
            {HOLLOW: "true"},
        )
        document = node_document(machine, self._region)
        status = node_status(machine, is_ready=True, now=self._now)
        for part in ("capacity", "allocatable"):
            status[part] |= {GPU: str(kind.gpus)} if kind.gpus else {}
        return self._stored("nodes", "", document, status)

    def _pod(self, kind: InstanceType | None) -> Object:
        """Return a worker that has a machine's GPUs for itself, or without `kind` a small pod beside it."""
        amounts = {"cpu": "8", "memory": "64Gi", GPU: str(kind.gpus)} if kind and kind.gpus else {"cpu": "250m"}
        container: Object = {
            "name": "pytorch",
            "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/trainer:2.3",
            "command": ["torchrun", "--nproc_per_node=8", "train.py"],
            "env": [{"name": name, "value": "1"} for name in _ENVIRONMENT],
            "resources": {"limits": amounts, "requests": amounts},
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - a path in a container
        }
        labels = {HOLLOW: "true", "app": "hollow", "training.kubeflow.org/replica-index": placeholder("index")}
        spec: Object = {
            "nodeName": placeholder("node"),
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "tolerations": [{"operator": "Exists"}],
        }
        names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        state = {
            "name": "pytorch", "image": container["image"], "imageID": f"{container['image']}@sha256:0", "ready": True,
            "started": True, "restartCount": 0, "containerID": "containerd://" + placeholder("uid"), "lastState": {},
            "state": {"running": {"startedAt": self._now}},
        }  # fmt: skip
        status = {
            "phase": "Running",
            "conditions": [{"type": name, "status": "True", "lastTransitionTime": self._now} for name in names],
            "hostIP": placeholder("address"),
            "podIP": placeholder("ip"),
            "podIPs": [{"ip": placeholder("ip")}],
            "startTime": self._now,
            "containerStatuses": [state],
            "qosClass": "Burstable",
        }
        return self._stored("pods", NAMESPACE, {"metadata": {"name": "x", "labels": labels}, "spec": spec}, status)

    def _stored(self, plural: str, namespace: str, body: Object, status: Object) -> Object:
        """Return the object as the server would store it, with gaps where its copies differ."""
        resource = self._registry.find("", "v1", plural)
        if resource is None:
            raise ConfigError(f"The sandbox serves no {plural}.")
        self._built += 1
        name = body["metadata"]["name"] = f"model-{self._built}"
        self._writer.create(resource, namespace, body, WriteOptions(manager="kubelet"))
        options = WriteOptions(manager="kubelet", subresource="status")
        whole = self._writer.change(resource, namespace, name, lambda one: one | {"status": status}, options).body
        gaps = {"name": placeholder("name"), "uid": placeholder("uid"), "resourceVersion": placeholder("version")}
        return {**whole, "metadata": whole["metadata"] | gaps}

    def _node_words(self) -> TemplateValues:
        return {
            "name": self._node_name,
            "uid": _uid,
            "version": lambda number: str(_OLDEST + number),
            "instance": lambda number: f"i-{number:017x}",
            "address": _address,
        }

    def _pod_words(self, nodes: int) -> TemplateValues:
        return {
            "name": lambda number: f"hollow-{number:06d}",
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
