"""The STATUS of `kubectl get pods`, and the narrow view of a pod that it is computed from.

Source: kubernetes/kubernetes `pkg/printers/internalversion/printers.go`, `printPod`, v1.34.
"""

from __future__ import annotations

import msgspec


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """One owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodMeta(msgspec.Struct, rename="camel", gc=False):
    """Metadata, of any kind."""

    name: str
    uid: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class Requests(msgspec.Struct, gc=False):
    """`resources` of a container, or of a pod as a whole."""

    requests: dict[str, str] | None = None


class ContainerSpec(msgspec.Struct, rename="camel", gc=False):
    """One container of a pod's spec."""

    name: str = ""
    resources: Requests | None = None
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """A pod's spec."""

    node_name: str | None = None
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
    overhead: dict[str, str] | None = None
    resources: Requests | None = None


class StateDetail(msgspec.Struct, rename="camel", gc=False):
    """`waiting`, `running` or `terminated`; each fills its own fields."""

    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    """A container's state, of which one field is set."""

    waiting: StateDetail | None = None
    running: StateDetail | None = None
    terminated: StateDetail | None = None


class ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    """The status of one container."""

    name: str = ""
    ready: bool | None = None
    started: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None


class PodCondition(msgspec.Struct, gc=False):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(msgspec.Struct, rename="camel", gc=False):
    """A pod's status."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


def status_word(meta: PodMeta, spec: PodSpec, status: PodStatus) -> tuple[str, int, int]:
    """Return the STATUS word, the number of ready containers, and the RESTARTS."""
    word = status.reason or status.phase or "Unknown"
    if any(entry.type == "PodScheduled" and entry.reason == "SchedulingGated" for entry in status.conditions or ()):
        word = "SchedulingGated"
    init_word, ready, restarts = _init_part(spec, status)
    if not init_word or _is_true(status, "Initialized"):
        word, main_ready, main_restarts = _main_part(init_word or word, status)
        ready += main_ready
        restarts += main_restarts
    else:
        word = init_word
    if meta.deletion_timestamp:
        if status.reason == "NodeLost":
            word = "Unknown"
        elif status.phase not in ("Succeeded", "Failed"):
            word = "Terminating"
    return word, ready, restarts


def why_waiting(status: PodStatus) -> str:
    """Return the API's message about a pod that does not run; empty for one that does."""
    if status.phase in ("Running", "Succeeded") and _is_true(status, "Ready"):
        return ""
    for entry in status.conditions or ():
        if entry.type == "PodScheduled" and entry.status == "False":
            return entry.message or entry.reason or ""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        state = container.state or ContainerState()
        detail = state.waiting or state.terminated
        if detail is not None and detail.message:
            return detail.message
    return status.message or ""


def _init_part(spec: PodSpec, status: PodStatus) -> tuple[str, int, int]:
    """Return the word for the first unfinished init container (empty if there is none), ready sidecars, restarts."""
    ready = restarts = sidecar_restarts = 0
    sidecars = {entry.name for entry in spec.init_containers or () if entry.restart_policy == "Always"}
    for index, container in enumerate(status.init_container_statuses or ()):
        state = container.state or ContainerState()
        count = container.restart_count or 0
        restarts += count
        is_sidecar = container.name in sidecars
        sidecar_restarts += count if is_sidecar else 0
        if state.terminated is not None and not state.terminated.exit_code:
            continue
        if is_sidecar and container.started:
            ready += bool(container.ready)
            continue
        return _init_word(state, index, len(spec.init_containers or ())), ready, restarts
    return "", ready, sidecar_restarts


def _init_word(state: ContainerState, index: int, total: int) -> str:
    if state.terminated is not None:
        return "Init:" + (state.terminated.reason or _exit_word(state.terminated))
    if state.waiting is not None and state.waiting.reason not in (None, "", "PodInitializing"):
        return f"Init:{state.waiting.reason}"
    return f"Init:{index}/{total}"


def _main_part(word: str, status: PodStatus) -> tuple[str, int, int]:
    ready = restarts = 0
    has_running = False
    for container in reversed(status.container_statuses or ()):
        restarts += container.restart_count or 0
        state = container.state or ContainerState()
        if state.waiting is not None and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated is not None:
            word = state.terminated.reason or _exit_word(state.terminated)
        elif container.ready and state.running is not None:
            has_running = True
            ready += 1
    if word == "Completed" and has_running:
        word = "Running" if _is_true(status, "Ready") else "NotReady"
    return word, ready, restarts


def _exit_word(detail: StateDetail) -> str:
    return f"Signal:{detail.signal}" if detail.signal else f"ExitCode:{detail.exit_code or 0}"


def _is_true(status: PodStatus, kind: str) -> bool:
    return any(entry.type == kind and entry.status == "True" for entry in status.conditions or ())
