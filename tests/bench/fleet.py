"""A made-up fleet: nodes and pods of life's size, already written as JSON and as protobuf."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from actions.cluster.protobuf_schema import CLASSES
from tests.unit.cluster import protobytes

Document = dict[str, Any]

TYPES = (
    ("m5.4xlarge", "16", "63Gi", "0", "on-demand"),
    ("c5.9xlarge", "36", "70Gi", "0", "spot"),
    ("g5.12xlarge", "48", "185Gi", "4", "on-demand"),
    ("p4d.24xlarge", "96", "1110Gi", "8", "spot"),
)
REQUESTS = (
    {"cpu": "100m", "memory": "128Mi"},
    {"cpu": "1", "memory": "2Gi"},
    {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
    {"cpu": "250m", "memory": "512Mi"},
)
NAMESPACES = 25
POOLS = 5
_CREATED = "2026-11-20T08:00:00Z"
_NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
_FIELDS: Document = {f'k:{{"name":"field-{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(70)}
_MANAGED_FIELDS = [
    {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": _FIELDS},
    }
]
_FILL_BYTES = 4200
"""Of a pod's 6.7 KB of JSON, what nobody reads: managed fields, volumes, probes, environment."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """So many nodes with so many pods on them, spread evenly, and so many events of the last hour."""

    nodes: int
    pods: int
    events: int = 0

    def node(self, index: int, version: int) -> Document:
        """One node as the API server has it."""
        kind, cpu, memory, gpus, capacity = TYPES[index % len(TYPES)]
        name = node_name(index)
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"} | ({"nvidia.com/gpu": gpus} if gpus != "0" else {})
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "uid": f"node-{index:06d}",
                "resourceVersion": str(version),
                "creationTimestamp": _CREATED,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "node.kubernetes.io/instance-type": kind,
                    "topology.kubernetes.io/region": "us-west-2",
                    "topology.kubernetes.io/zone": f"us-west-2{'abc'[index % 3]}",
                    "karpenter.sh/capacity-type": capacity,
                    "karpenter.sh/nodepool": f"pool-{index % POOLS}",
                },
                "annotations": {"heartbeat": str(version), "fill": "x" * 2500},
            },
            "spec": {"providerID": f"aws:///us-west-2a/i-{index:017x}"},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.34.4-eks-abcdef0"},
            },
        }

    def first_shown(self, count: int) -> list[int]:
        """The nodes at the top of the console's table: accelerated ones, by pool, by name."""
        order = sorted(range(self.nodes), key=lambda n: (TYPES[n % len(TYPES)][3] == "0", n % POOLS, node_name(n)))
        return order[:count]

    def pod(self, index: int, version: int, *, restarts: int = 0) -> Document:
        """One pod, running."""
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": f"train-{index:06d}",
                "namespace": f"team-{index % NAMESPACES:02d}",
                "uid": f"0000-{index:06d}",
                "resourceVersion": str(version),
                "creationTimestamp": _CREATED,
                "labels": {"app": f"app-{index % 50}", "pod-template-hash": f"{index % 500:08x}"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": f"app-{index % 500}", "controller": True}],
            },
            "spec": {
                "nodeName": node_name(index % self.nodes),
                "containers": [{"name": "main", "resources": {"requests": REQUESTS[index // self.nodes % 4]}}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "PodScheduled")],
                "containerStatuses": [
                    {
                        "name": "main",
                        "ready": True,
                        "started": True,
                        "restartCount": restarts,
                        "state": {"running": {"startedAt": _CREATED}},
                    }
                ],
            },
        }

    def event(self, index: int, version: int, *, at: datetime = _NOON) -> Document:
        """An event about a pod; the first ones are spread over the hour before noon."""
        pod = index % max(1, self.pods)
        namespace = f"team-{pod % NAMESPACES:02d}"
        moment = at if at is not _NOON else _NOON - timedelta(hours=1) * (1 - index / max(1, self.events))
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": f"train-{pod:06d}.{index:x}",
                "namespace": namespace,
                "uid": f"event-{index:07d}",
                "resourceVersion": str(version),
                "creationTimestamp": stamp,
            },
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": f"train-{pod:06d}"},
            "reason": ("Pulled", "Created", "Started", "BackOff")[index % 4],
            "message": f"Back-off restarting failed container main in pod train-{pod:06d}, for the {index}th time",
            "type": "Warning" if index % 4 == 3 else "Normal",
            "count": index % 9 + 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": "kubelet", "host": node_name(pod % self.nodes)},
        }


def node_name(index: int) -> str:
    """Nodes are named as EC2 names them."""
    return f"ip-10-{index >> 16 & 255}-{index >> 8 & 255}-{index & 255}.us-west-2.compute.internal"


def as_json(document: Document) -> bytes:
    """The object as an API server writes it, with what nobody reads."""
    return msgspec.json.encode(document)


def full_pod(document: Document) -> Document:
    """A pod with the many small fields that make up most of a real one; anything else as it is."""
    if document["kind"] != "Pod":
        return document
    whole = copy.copy(document)
    whole["metadata"] = document["metadata"] | {"managedFields": _MANAGED_FIELDS}
    return whole


def as_protobuf(document: Document) -> bytes:
    """The pod's bytes, not in an envelope, with a managed field of the size that real ones have."""
    fill: bytes = CLASSES["Text"](value="f" * _FILL_BYTES).SerializeToString()
    managed = b"\x8a\x01" + _varint(len(fill)) + fill
    return b"".join((protobytes.pod_bytes(document), b"\x0a", _varint(len(managed)), managed))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
