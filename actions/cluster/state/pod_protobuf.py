"""The decoder of a pod's facts from protobuf.

Repeated fields are read as `field[:]`: a list at once, while iterating over the field itself ends with an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from google.protobuf.message import DecodeError

from actions.base.errors import FormatError
from actions.cluster.kinds import full_name
from actions.cluster.protobuf_schema import Message, reader
from actions.cluster.state.decode import RUN_LABEL, STAGE_LABEL, facts_of_pod, names, safe, shared
from actions.cluster.state.pod_requests import effective_requests, resources_of
from actions.cluster.state.pod_status import (
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    PodCondition,
    PodMeta,
    PodSpec,
    PodStatus,
    StateDetail,
)
from actions.cluster.watch.json_format import Raw
from actions.fleet.facts import NOTHING, PodFacts, Resources

_MEMO_SIZE = 16384
_OUR_LABELS = b"eksml.dev/"
_NOBODY = ("", "")

_pod = reader("Pod")
_text = reader("Text")
_time = reader("Time")
_owner = reader("Owner")
_resources = reader("Resources")
_state_message = reader("State")


def decode_pod(raw: Raw) -> PodFacts:
    """Decode one pod.

    Raises:
        FormatError: It is not a pod.
        ValueError: A quantity or text cannot be read.
    """
    data = raw if isinstance(raw, bytes) else bytes(raw)
    try:
        pod = _pod(data)
        run, stage = _run_and_stage(pod.metadata)
        return _running(pod, run=run, stage=stage) or _any(pod, run=run, stage=stage)
    except DecodeError as error:
        raise FormatError("The API server sent something that is not a protobuf pod.") from error


def _running(pod: Message, *, run: str, stage: str) -> PodFacts | None:
    """Read a pod without peculiarities, as most are, like `_any` at half the work.

    Conditions are not read: a pod whose containers run has been scheduled.

    Returns:
        `None` if it has a peculiarity.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    if status.phase != "Running" or status.reason or status.message or status.init or meta.HasField("deleted"):
        return None
    ready = restarts = 0
    started_at = 0.0
    for entry in status.containers[:]:
        state, at = _state(entry.state)
        if state is not _RUNNING:
            return None
        ready += entry.ready
        restarts += entry.restarts
        started_at = max(started_at, at)
    containers = spec.containers[:]
    owner = _owner_of(meta)
    return PodFacts(
        uid=safe(meta.uid),
        namespace=shared(meta.namespace),
        name=safe(meta.name),
        node=shared(spec.node),
        phase="Running",
        ready=ready,
        containers=names(tuple([entry.name for entry in containers])),
        restarts=restarts,
        requests=_requests(spec, containers),
        created_at=_moment(meta.created),
        started_at=started_at,
        owner_kind=shared(owner[0]),
        owner_name=shared(owner[1]),
        run=run,
        stage=stage,
    )


def _any(pod: Message, *, run: str, stage: str) -> PodFacts:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return facts_of_pod(
        PodMeta(meta.name, meta.uid, meta.namespace, None, None, "deleted" if meta.HasField("deleted") else None),
        PodSpec(spec.node, _containers(spec.containers), _containers(spec.init)),
        PodStatus(
            status.phase,
            status.reason,
            status.message,
            [PodCondition(entry.type, entry.status, entry.reason, entry.message) for entry in status.conditions],
            [_status(entry) for entry in status.containers],
            [_status(entry) for entry in status.init],
        ),
        requests=_requests(spec, spec.containers[:]),
        created_at=_moment(meta.created),
        started_at=max((_state(entry.state)[1] for entry in status.containers), default=0.0),
        owner=_owner_of(meta),
        run=run,
        stage=stage,
    )


def _containers(entries: Message) -> list[ContainerSpec]:
    return [ContainerSpec(entry.name, None, entry.restart_policy) for entry in entries]


def _status(entry: Message) -> ContainerStatus:
    return ContainerStatus(entry.name, entry.ready, entry.started, entry.restarts, _state(entry.state)[0])


@lru_cache(maxsize=_MEMO_SIZE)
def _state(raw: bytes) -> tuple[ContainerState, float]:
    """Return the state of a container, and its start; 0.0 if that is not known."""
    state = _state_message(raw)
    if state.HasField("running"):
        return _RUNNING, float(state.running.started.seconds)
    if state.HasField("terminated"):
        end = state.terminated
        detail = StateDetail(end.reason, end.message, end.exit_code, end.signal)
        return ContainerState(terminated=detail), float(end.started.seconds)
    if state.HasField("waiting"):
        return ContainerState(waiting=StateDetail(state.waiting.reason, state.waiting.message)), 0.0
    return _UNKNOWN, 0.0


_RUNNING = ContainerState(running=StateDetail())
_UNKNOWN = ContainerState()


@lru_cache(maxsize=_MEMO_SIZE)
def _moment(raw: bytes) -> float:
    return float(_time(raw).seconds)


def _run_and_stage(meta: Message) -> tuple[str, str]:
    ours = [raw for raw in meta.labels[:] if _OUR_LABELS in raw]
    if not ours:
        return _NOBODY
    labels = {label.key: label.value for label in map(_text, ours)}
    return shared(labels.get(RUN_LABEL, "")), shared(labels.get(STAGE_LABEL, ""))


def _requests(spec: Message, containers: Sequence[Message]) -> Resources:
    if len(containers) == 1 and not spec.init and not spec.overhead and not spec.resources:
        return _requested(containers[0].resources)
    overhead = {entry.key: entry.value.text for entry in spec.overhead}
    return effective_requests(
        (_requested(entry.resources) for entry in containers),
        ((_requested(entry.resources), entry.restart_policy == "Always") for entry in spec.init),
        resources_of(overhead),
        {entry.key: entry.value.text for entry in _resources(spec.resources).requests} if spec.resources else None,
    )


@lru_cache(maxsize=_MEMO_SIZE)
def _requested(raw: bytes) -> Resources:
    """Return one container's requests, memoized by the bytes of its `resources`: a fleet has few distinct ones."""
    return resources_of({entry.key: entry.value.text for entry in _resources(raw).requests}) if raw else NOTHING


def _owner_of(meta: Message) -> tuple[str, str]:
    """Return the full name of the kind and the name of the controlling owner; empty if there is none."""
    for raw in meta.owners[:]:
        owner = _controller(raw)
        if owner is not None:
            return owner
    return _NOBODY


@lru_cache(maxsize=_MEMO_SIZE)
def _controller(raw: bytes) -> tuple[str, str] | None:
    """Return kind and name of one owner if it is the controlling one; else empty texts."""
    owner = _owner(raw)
    return (full_name(owner.api_version, owner.kind), owner.name) if owner.controller else None
