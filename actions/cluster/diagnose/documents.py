"""Views of single documents: what a diagnosis reads of a pod, a node, an event, in whatever state they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from actions.base.clock import parse_rfc3339
from actions.base.untrusted import plain_text, redact
from actions.cluster.diagnose.case import Condition, Container, ContainerState, Event, GpuReading, Node, Pod, Thing

_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def cleaned(value: Any) -> Any:
    """The same JSON with every text cleaned."""
    if isinstance(value, str):
        return redact(plain_text(value))
    if isinstance(value, Mapping):
        return {str(key): cleaned(entry) for key, entry in value.items()}
    return [cleaned(entry) for entry in value] if isinstance(value, list) else value


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a list; a single object is a list of one."""
    entries: Iterable[Any] = [value] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return (entry for entry in entries if isinstance(entry, Mapping))


def text(value: Any) -> str:
    """`value` as text; empty for nothing."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def number(value: Any) -> float | None:
    """`value` as a number, `None` if it is none."""
    try:
        return None if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError):
        return None


def whole(value: Any) -> int:
    """`value` as a count, 0 if it is none."""
    return int(number(value) or 0)


def moment(value: Any) -> float:
    """A time of the API in seconds since the epoch, 0.0 if there is none."""
    try:
        return parse_rfc3339(value).timestamp() if isinstance(value, str) and value else 0.0
    except ValueError:
        return 0.0


def conditions_of(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of any status."""
    return tuple(
        Condition(
            type=text(entry.get("type")),
            status=text(entry.get("status")),
            reason=text(entry.get("reason")),
            message=text(entry.get("message")),
            since=moment(entry.get("lastTransitionTime")),
        )
        for entry in mappings(status.get("conditions"))
    )


def thing_of(document: Mapping[str, Any]) -> Thing:
    """Any object."""
    metadata, status = mapping(document.get("metadata")), mapping(document.get("status"))
    return Thing(
        kind=text(document.get("kind")),
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        conditions=conditions_of(status),
        status=status,
        spec=mapping(document.get("spec")),
        labels=mapping(metadata.get("labels")),
        owner=_owner(metadata),
        created_at=moment(metadata.get("creationTimestamp")),
    )


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str]:
    owner = next(mappings(metadata.get("ownerReferences")), {})
    return text(owner.get("kind")), text(owner.get("name"))


def pod_of(document: Mapping[str, Any]) -> Pod:
    """A pod."""
    metadata, spec, status = (mapping(document.get(part)) for part in ("metadata", "spec", "status"))
    volumes = list(mappings(spec.get("volumes")))
    return Pod(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")),
        reason=text(status.get("reason")),
        message=text(status.get("message")),
        owner=_owner(metadata),
        labels=mapping(metadata.get("labels")),
        annotations=mapping(metadata.get("annotations")),
        scheduler=text(spec.get("schedulerName")),
        requests=_extended(spec),
        containers=tuple(_containers(status)),
        conditions=conditions_of(status),
        is_gated=bool(spec.get("schedulingGates")),
        memory_volumes=frozenset(
            text(one.get("name")) for one in volumes if mapping(one.get("emptyDir")).get("medium") == "Memory"
        ),
        volume_claims=frozenset(
            text(mapping(one.get("persistentVolumeClaim")).get("claimName"))
            for one in volumes
            if one.get("persistentVolumeClaim")
        ),
        nominated=text(status.get("nominatedNodeName")),
    )


def _extended(spec: Mapping[str, Any]) -> dict[str, int]:
    """What its containers ask for of resources with a slash in their name."""
    total: dict[str, int] = {}
    for container in mappings(spec.get("containers")):
        resources = mapping(container.get("resources"))
        asked = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
        for name, amount in asked.items():
            if "/" in name:
                total[name] = total.get(name, 0) + whole(amount)
    return total


def _containers(status: Mapping[str, Any]) -> Iterator[Container]:
    for key, is_init in (("initContainerStatuses", True), ("containerStatuses", False)):
        for entry in mappings(status.get(key)):
            yield Container(
                name=text(entry.get("name")),
                image=text(entry.get("image")),
                state=_state(entry.get("state")),
                last=_state(entry.get("lastState")),
                restarts=whole(entry.get("restartCount")),
                is_ready=entry.get("ready") is True,
                is_init=is_init,
            )


def _state(value: Any) -> ContainerState:
    for kind in ("waiting", "terminated", "running"):
        details = mapping(value).get(kind)
        if isinstance(details, Mapping):
            code = number(details.get("exitCode"))
            return ContainerState(
                kind,
                text(details.get("reason")),
                text(details.get("message")),
                None if code is None else int(code),
                moment(details.get("finishedAt" if kind == "terminated" else "startedAt")),
            )
    return ContainerState()


def node_of(document: Mapping[str, Any]) -> Node:
    """A node."""
    metadata, spec, status = (mapping(document.get(part)) for part in ("metadata", "spec", "status"))
    labels = mapping(metadata.get("labels"))
    return Node(
        name=text(metadata.get("name")),
        instance_type=next((text(labels[name]) for name in _TYPE_LABELS if name in labels), ""),
        allocatable={name: text(amount) for name, amount in mapping(status.get("allocatable")).items()},
        conditions=conditions_of(status),
        taints=tuple(text(taint.get("key")) for taint in mappings(spec.get("taints"))),
        created_at=moment(metadata.get("creationTimestamp")),
    )


def event_of(document: Mapping[str, Any]) -> Event:
    """An event, of either API group."""
    about = mapping(document.get("involvedObject") or document.get("regarding"))
    series = mapping(document.get("series"))
    count = document.get("count") or document.get("deprecatedCount") or series.get("count") or 1
    times = (
        series.get("lastObservedTime"),
        document.get("lastTimestamp"),
        document.get("deprecatedLastTimestamp"),
        document.get("eventTime"),
        mapping(document.get("metadata")).get("creationTimestamp"),
    )
    return Event(
        reason=text(document.get("reason")),
        message=text(document.get("message") or document.get("note")),
        type=text(document.get("type")),
        kind=text(about.get("kind")),
        namespace=text(about.get("namespace")),
        name=text(about.get("name")),
        count=whole(count),
        last_seen_at=next((at for at in map(moment, times) if at), 0.0),
    )


def gpu_of(document: Mapping[str, Any]) -> GpuReading:
    """One GPU of a reading of nvidia-smi."""
    return GpuReading(
        util_pct=number(document.get("util_pct")),
        power_w=number(document.get("power_w")),
        power_cap_w=number(document.get("power_cap_w")),
        ecc_uncorrected=whole(document.get("ecc_uncorrected")) if document.get("ecc_uncorrected") else None,
    )
