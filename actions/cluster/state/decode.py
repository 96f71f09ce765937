"""The decoders of facts from the API's JSON, which make only the fields that we use into Python objects.

Strings that repeat are kept once. Fields are optional even where the API requires them: one odd object must not
blank a screen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.decoding import json_decoder
from actions.base.untrusted import one_line, plain_text
from actions.cluster.kinds import find_kind, full_name, name_of_kind
from actions.cluster.objects.status_rules import object_status
from actions.cluster.state.pod_requests import effective_requests, parse_quantity, resources_of
from actions.cluster.state.pod_status import (
    ContainerSpec,
    ContainerStatus,
    OwnerReference,
    PodMeta,
    PodSpec,
    PodStatus,
    status_word,
    why_waiting,
)
from actions.fleet.facts import (
    NOTHING,
    EventFacts,
    JobReport,
    NodeClaimFacts,
    NodeFacts,
    PodFacts,
    Resources,
    WorkloadFacts,
    node_health,
)

Raw = bytes | memoryview | msgspec.Raw

RUN_LABEL = "eksml.dev/run"
STAGE_LABEL = "eksml.dev/stage"

_REGION = "topology.kubernetes.io/region"
_ZONE = "topology.kubernetes.io/zone"
_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType")
_RESERVATION = "karpenter.k8s.aws/capacity-reservation-type"
_COMPUTE = "eks.amazonaws.com/compute-type"
_POOL = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "sagemaker.amazonaws.com/instance-group-name",
    "karpenter.sh/provisioner-name",
)
_MESSAGE_LIMIT = 1000


class _Pod(msgspec.Struct, gc=False):
    metadata: PodMeta
    spec: PodSpec | None = None
    status: PodStatus | None = None


class _Taint(msgspec.Struct, gc=False):
    key: str = ""
    value: str | None = None
    effect: str | None = None


class _NodeSpec(msgspec.Struct, gc=False):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _NodeInfo(msgspec.Struct, rename="camel", gc=False):
    kubelet_version: str | None = None


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    allocatable: dict[str, str] | None = None
    conditions: list[_Condition] | None = None
    node_info: _NodeInfo | None = None


class _Node(msgspec.Struct, gc=False):
    metadata: PodMeta
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Involved(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Series(msgspec.Struct, rename="camel", gc=False):
    count: int | None = None
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel", gc=False):
    metadata: PodMeta
    involved_object: _Involved | None = None
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_pods = json_decoder(_Pod)
_nodes = json_decoder(_Node)
_events = json_decoder(_Event)
_documents = json_decoder(dict[str, Any])


def decode_pod(raw: Raw) -> PodFacts:
    """Decode one pod.

    Raises:
        msgspec.DecodeError: It is not a pod.
        ValueError: A quantity or time cannot be read.
    """
    pod = _pods.decode(raw)
    meta, spec, status = pod.metadata, pod.spec or PodSpec(), pod.status or PodStatus()
    labels = meta.labels or {}
    owner = next((owner for owner in meta.owner_references or () if owner.controller), OwnerReference())
    return facts_of_pod(
        meta,
        spec,
        status,
        requests=_requests(spec),
        created_at=_epoch(meta.creation_timestamp),
        started_at=_started_at(status.container_statuses or ()),
        owner=(full_name(owner.api_version, owner.kind), owner.name),
        run=labels.get(RUN_LABEL, ""),
        stage=labels.get(STAGE_LABEL, ""),
    )


def facts_of_pod(
    meta: PodMeta,
    spec: PodSpec,
    status: PodStatus,
    *,
    requests: Resources,
    created_at: float,
    started_at: float,
    owner: tuple[str, str],
    run: str,
    stage: str,
) -> PodFacts:
    """Make the facts of a pod from the parts of its JSON or its protobuf.

    Args:
        meta: Its names.
        spec: Node and containers.
        status: Its status.
        requests: The resources that it occupies on its node.
        created_at: Seconds since the epoch.
        started_at: The newest start of one of its containers, likewise; 0.0 for none.
        owner: Kind and name of the controller, empty for none.
        run: Label of our run.
        stage: Label of our stage.
    """
    phase = shared(status.phase or "")
    word, ready, restarts = status_word(meta, spec, status)
    return PodFacts(
        uid=safe(meta.uid),
        namespace=shared(meta.namespace or ""),
        name=safe(meta.name),
        node=shared(spec.node_name or ""),
        phase=phase,
        reason="" if word == phase else shared(word),
        message=one_line(why_waiting(status), limit=_MESSAGE_LIMIT),
        ready=ready,
        containers=names(tuple([container.name for container in spec.containers or ()])),
        restarts=restarts,
        requests=requests,
        created_at=created_at,
        started_at=started_at,
        owner_kind=shared(owner[0]),
        owner_name=shared(owner[1]),
        run=shared(run),
        stage=shared(stage),
    )


def decode_node(raw: Raw, *, region: str = "") -> NodeFacts:
    """Decode one node.

    Args:
        raw: Its JSON.
        region: Of the cluster, which is that of a node without a label for it.

    Raises:
        msgspec.DecodeError: It is not a node.
        ValueError: A quantity or time cannot be read.
    """
    node = _nodes.decode(raw)
    meta, spec, status = node.metadata, node.spec or _NodeSpec(), node.status or _NodeStatus()
    labels, allocatable = meta.labels or {}, status.allocatable or {}
    info = status.node_info or _NodeInfo()
    return NodeFacts(
        uid=safe(meta.uid),
        name=shared(meta.name),
        instance_type=_first(labels, (_TYPE, "beta.kubernetes.io/instance-type")),
        region=_first(labels, (_REGION,)) or region,
        zone=_first(labels, (_ZONE,)),
        capacity_type=_capacity_type(labels),
        pool=_first(labels, _POOL),
        allocatable=resources_of(allocatable),
        pods_allocatable=round(parse_quantity(allocatable.get("pods", "0"))),
        is_ready=any(entry.type == "Ready" and entry.status == "True" for entry in status.conditions or ()),
        is_schedulable=not spec.unschedulable,
        taints=tuple(_taint(taint) for taint in spec.taints or ()),
        created_at=_epoch(meta.creation_timestamp),
        version=shared(info.kubelet_version or ""),
        health=node_health(labels),
    )


def decode_event(raw: Raw) -> EventFacts:
    """Decode one event, of the core API or written through `events.k8s.io`.

    Raises:
        msgspec.DecodeError: It is not an event.
        ValueError: A time cannot be read.
    """
    event = _events.decode(raw)
    about, series = event.involved_object or _Involved(), event.series or _Series()
    moment = series.last_observed_time or event.last_timestamp or event.event_time or event.first_timestamp
    return EventFacts(
        uid=safe(event.metadata.uid),
        namespace=shared(about.namespace or event.metadata.namespace or ""),
        kind=shared(full_name(about.api_version or "", about.kind or "")),
        name=safe(about.name or ""),
        type=shared(event.type or "Normal"),
        reason=shared(event.reason or ""),
        message=one_line(event.message or "", limit=_MESSAGE_LIMIT),
        count=series.count or event.count or 1,
        last_seen_at=_epoch(moment or event.metadata.creation_timestamp),
    )


def workload_decoder(api_version: str, kind: str) -> Callable[[Raw], WorkloadFacts]:
    """Return the decoder of the workloads of one kind, which is given because items of lists do not name theirs.

    It raises `msgspec.DecodeError` for anything but an object, `KeyError` for an object without name or uid.
    """
    named = {"apiVersion": api_version, "kind": kind}
    return lambda raw: workload_of(_documents.decode(raw) | named)


def decode_claim(raw: Raw) -> NodeClaimFacts:
    """Decode one NodeClaim, judged by `actions.cluster.objects.status_rules`.

    Raises:
        msgspec.DecodeError: It is not an object.
        KeyError: It has no name or no uid.
    """
    document = _documents.decode(raw) | {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}
    metadata, status = document["metadata"], document.get("status") or {}
    labels = metadata.get("labels") or {}
    verdict = object_status(document)
    return NodeClaimFacts(
        uid=safe(metadata["uid"]),
        name=safe(metadata["name"]),
        pool=_first(labels, _POOL),
        node=safe(str(status.get("nodeName") or "")),
        instance_type=_first(labels, (_TYPE,)),
        zone=_first(labels, (_ZONE,)),
        capacity_type=_capacity_type(labels),
        state=verdict.state.value,
        message=one_line(verdict.message or verdict.reason, limit=_MESSAGE_LIMIT),
        created_at=_epoch(metadata.get("creationTimestamp")),
    )


def workload_of(document: dict[str, Any]) -> WorkloadFacts:
    """Make the facts of a job that is watched, judged by `actions.cluster.objects.status_rules`."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or {}
    verdict = object_status(document)
    kind = name_of_kind(document)
    row = find_kind(kind)
    status = document.get("status") or {}
    owner: dict[str, Any] = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), {})
    return WorkloadFacts(
        uid=safe(metadata["uid"]),
        kind=shared(kind),
        namespace=shared(metadata.get("namespace", "")),
        name=safe(metadata["name"]),
        state=verdict.state.value,
        message=verdict.message or verdict.reason,
        created_at=_epoch(metadata.get("creationTimestamp")),
        run=shared(labels.get(RUN_LABEL, "")),
        stage=shared(labels.get(STAGE_LABEL, "")),
        owner_kind=shared(name_of_kind(owner)),
        owner_name=safe(str(owner.get("name", ""))),
        pods_from=safe(str(_at(status, row.pods_from) or "")) if row is not None and row.pods_from else "",
        report=_report(_at(status, row.report)) if row is not None and row.report else None,
    )


def _at(status: Any, path: str) -> Any:
    """Return what a status has at a path; `None` if it has nothing there."""
    for name in path.split("."):
        status = status.get(name) if isinstance(status, dict) else None
    return status


def _report(found: Any) -> JobReport | None:
    """Read what a trainer reports; `None` if it reports nothing."""
    if not isinstance(found, dict):
        return None
    percent, left = found.get("progressPercentage"), found.get("estimatedRemainingSeconds")
    metrics = ((safe(str(one.get("name", ""))), safe(str(one.get("value", "")))) for one in found.get("metrics") or ())
    return JobReport(
        percent=percent if isinstance(percent, int) else None,
        remaining_seconds=left if isinstance(left, int) else None,
        metrics=tuple((name, text) for name, text in metrics if _is_number(text)),
        at=_epoch(found.get("lastUpdatedTime")),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def container_with_devices(document: Mapping[str, Any]) -> str:
    """Return the name of the first container of a pod that requests accelerators or claims devices; else of the first.

    Args:
        document: The pod, as its API server has it, so each requests what it is limited to.
    """
    containers = [*((document.get("spec") or {}).get("containers") or ()), {}]
    able = (one for one in containers if _has_devices(one.get("resources") or {}))
    return str(next(able, containers[0]).get("name", ""))


def _has_devices(resources: Mapping[str, Any]) -> bool:
    return resources_of(resources.get("requests")).accelerators > 0 or bool(resources.get("claims"))


def _requests(spec: PodSpec) -> Resources:
    containers, init = spec.containers or (), spec.init_containers or ()
    whole_pod = spec.resources.requests if spec.resources else None
    if len(containers) == 1 and not init and not spec.overhead and not whole_pod:
        return _of_container(containers[0])
    return effective_requests(
        (_of_container(container) for container in containers),
        ((_of_container(container), container.restart_policy == "Always") for container in init),
        resources_of(spec.overhead),
        whole_pod,
    )


def _of_container(container: ContainerSpec) -> Resources:
    return resources_of(container.resources.requests) if container.resources else NOTHING


def _started_at(statuses: list[ContainerStatus] | tuple[()]) -> float:
    moments = [
        moment
        for entry in statuses
        if entry.state is not None
        for state in (entry.state.running, entry.state.terminated)
        if state is not None and (moment := _epoch(state.started_at))
    ]
    return max(moments, default=0.0)


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((shared(labels[name]) for name in names if name in labels), "")


def _capacity_type(labels: dict[str, str]) -> str:
    """Return how a node is bought. A reservation other than a capacity block is billed as on-demand.

    Source: Karpenter 1.3 and later, `capacity-reservation-type` of reserved nodes; labels of EKS for nodes that are not
    instances of EC2.
    """
    found = _first(labels, _CAPACITY).lower().replace("_", "-")
    if found == "reserved":
        return {"capacity-block": "capacity-block", "default": "on-demand"}.get(labels.get(_RESERVATION, ""), found)
    compute = labels.get(_COMPUTE, "")
    return found or (shared(compute) if compute in ("fargate", "hybrid") else "")


def _taint(taint: _Taint) -> str:
    return shared(f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}")


@lru_cache(maxsize=16384)
def shared(text: str) -> str:
    """Clean a text; equal texts become one string object."""
    return sys.intern(safe(text))


@lru_cache(maxsize=4096)
def names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Clean texts; equal tuples become one object."""
    return tuple(shared(text) for text in texts)


def safe(text: str) -> str:
    """Clean a text; a clean one, as most are, is returned as it is."""
    return text if text.isascii() and text.isprintable() else plain_text(text)


@lru_cache(maxsize=16384)
def _epoch(text: str | None) -> float:
    return parse_rfc3339(text).timestamp() if text else 0.0
