"""The facts of a pod out of its protobuf."""

from __future__ import annotations

from functools import lru_cache

from google.protobuf.message import DecodeError

from actions.base.errors import FormatError
from actions.cluster.decode import RUN_LABEL, STAGE_LABEL, facts_of_pod, names, safe, shared
from actions.cluster.podstatus import (
    Condition,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    PodMeta,
    PodSpec,
    PodStatus,
    StateDetail,
)
from actions.cluster.protoschema import Message, reader
from actions.cluster.quantity import effective_requests, resources_of
from actions.cluster.wire import Raw
from actions.fleet.facts import NOTHING, PodFacts, Resources

_MEMO_SIZE = 16384

_pod = reader("Pod")
_text = reader("Text")
_owner = reader("Owner")
_resources = reader("Resources")


def decode_pod(raw: Raw) -> PodFacts:
    """One pod.

    Raises:
        FormatError: It is no pod.
        ValueError: A quantity or text cannot be read.
    """
    try:
        pod = _pod(raw if isinstance(raw, bytes) else bytes(raw))
    except DecodeError as error:
        raise FormatError("The API server sent something that is no protobuf pod.") from error
    status = pod.status
    if status.phase == "Running" and not (status.reason or status.message or status.init):
        states = [entry.state for entry in status.containers]
        if all(state.HasField("running") for state in states) and not pod.metadata.HasField("deleted"):
            return _running(pod, min([state.running.started.seconds for state in states], default=0))
    return _any(pod)


def _running(pod: Message, started_seconds: int) -> PodFacts:
    """A pod about which there is nothing to say, as most are: what `_any` reads, at half the work.

    Conditions are not looked at: a pod whose containers run has been scheduled.
    """
    meta, spec, entries = pod.metadata, pod.spec, pod.status.containers
    labels = dict(filter(None, map(_label, meta.labels)))
    owner = next(filter(None, map(_controller, meta.owners)), _NOBODY)
    return PodFacts(
        uid=safe(meta.uid),
        namespace=shared(meta.namespace),
        name=safe(meta.name),
        node=shared(spec.node),
        phase="Running",
        ready=sum([entry.ready for entry in entries]),
        containers=names(tuple([entry.name for entry in spec.containers])),
        restarts=sum([entry.restarts for entry in entries]),
        requests=_requests(spec),
        created_at=float(meta.created.seconds),
        started_at=float(started_seconds),
        owner_kind=shared(owner[0]),
        owner_name=shared(owner[1]),
        run=shared(labels.get(RUN_LABEL, "")),
        stage=shared(labels.get(STAGE_LABEL, "")),
    )


def _any(pod: Message) -> PodFacts:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    labels = dict(filter(None, map(_label, meta.labels)))
    return facts_of_pod(
        PodMeta(meta.name, meta.uid, meta.namespace, None, None, "deleted" if meta.HasField("deleted") else None),
        PodSpec(spec.node, _containers(spec.containers), _containers(spec.init)),
        PodStatus(
            status.phase,
            status.reason,
            status.message,
            [Condition(entry.type, entry.status, entry.reason, entry.message) for entry in status.conditions],
            [_status(entry) for entry in status.containers],
            [_status(entry) for entry in status.init],
        ),
        requests=_requests(spec),
        created_at=float(meta.created.seconds),
        started_at=_started_at(status.containers),
        owner=next(filter(None, map(_controller, meta.owners)), _NOBODY),
        run=labels.get(RUN_LABEL, ""),
        stage=labels.get(STAGE_LABEL, ""),
    )


_NOBODY = ("", "")


def _containers(entries: Message) -> list[ContainerSpec]:
    return [ContainerSpec(entry.name, None, entry.restart_policy) for entry in entries]


def _status(entry: Message) -> ContainerStatus:
    return ContainerStatus(entry.name, entry.ready, entry.started, entry.restarts, _state(entry.state))


def _state(state: Message) -> ContainerState:
    if state.HasField("running"):
        return _RUNNING
    if state.HasField("terminated"):
        end = state.terminated
        return ContainerState(terminated=StateDetail(end.reason, end.message, end.exit_code, end.signal))
    if state.HasField("waiting"):
        return ContainerState(waiting=StateDetail(state.waiting.reason, state.waiting.message))
    return _UNKNOWN


_RUNNING = ContainerState(running=StateDetail())
_UNKNOWN = ContainerState()


def _started_at(entries: Message) -> float:
    moments = [
        state.running.started.seconds or state.terminated.started.seconds
        for state in [entry.state for entry in entries]
    ]
    return float(min(filter(None, moments), default=0))


def _requests(spec: Message) -> Resources:
    if len(spec.containers) == 1 and not spec.init and not spec.overhead:
        return _requested(spec.containers[0].resources)
    overhead = {entry.key: entry.value.text for entry in spec.overhead}
    return effective_requests(
        (_requested(entry.resources) for entry in spec.containers),
        ((_requested(entry.resources), entry.restart_policy == "Always") for entry in spec.init),
        resources_of(overhead),
    )


@lru_cache(maxsize=_MEMO_SIZE)
def _requested(raw: bytes) -> Resources:
    """Of one container, by the bytes of its `resources`: a fleet has few distinct ones."""
    return resources_of({entry.key: entry.value.text for entry in _resources(raw).requests}) if raw else NOTHING


@lru_cache(maxsize=_MEMO_SIZE)
def _label(raw: bytes) -> tuple[str, str] | None:
    """One label, if it is ours."""
    label = _text(raw)
    return (label.key, label.value) if label.key in (RUN_LABEL, STAGE_LABEL) else None


@lru_cache(maxsize=_MEMO_SIZE)
def _controller(raw: bytes) -> tuple[str, str] | None:
    """Kind and name of one owner, if it is the one that controls."""
    owner = _owner(raw)
    return (owner.kind, owner.name) if owner.controller else None
