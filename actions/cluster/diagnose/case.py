"""What is known of the trouble: pods, nodes, events, logs and the rest, as small typed views of their documents.

Every text in here has been cleaned of controls and of what looks like a credential. What is not known is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


class Condition(msgspec.Struct, frozen=True):
    """One condition of any object. `since` is seconds since the epoch, 0.0 if unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: float = 0.0


class ContainerState(msgspec.Struct, frozen=True):
    """`kind` is waiting, running or terminated, or empty. `since`: it runs, or has ended; 0.0 if unknown."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    since: float = 0.0


class Container(msgspec.Struct, frozen=True):
    """How one container is, and how it ended the time before."""

    name: str
    image: str
    state: ContainerState
    last: ContainerState
    restarts: int = 0
    is_ready: bool = False
    is_init: bool = False

    @property
    def endings(self) -> tuple[ContainerState, ...]:
        """How it ended, the newest first."""
        return tuple(state for state in (self.state, self.last) if state.kind == "terminated")


class Pod(msgspec.Struct, frozen=True):
    """One pod. `requests` counts extended resources (`nvidia.com/gpu`, `vpc.amazonaws.com/efa`…) over containers."""

    name: str
    namespace: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    owner: tuple[str, str] = ("", "")
    """Kind and name."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    scheduler: str = ""
    requests: Mapping[str, int] = msgspec.field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    conditions: tuple[Condition, ...] = ()
    is_gated: bool = False
    memory_volumes: frozenset[str] = frozenset()
    """Names of its volumes that live in memory."""
    volume_claims: frozenset[str] = frozenset()
    """Names of the claims that it mounts."""
    nominated: str = ""
    """The node on which the scheduler makes room for it, by preempting others."""

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.type == kind), None)

    @property
    def is_unscheduled(self) -> bool:
        """Whether it still looks for a node."""
        return not self.node and self.phase in ("", "Pending")

    @property
    def is_fine(self) -> bool:
        """Whether it has succeeded, or runs with every container ready."""
        if self.phase == "Succeeded":
            return True
        mains = [one for one in self.containers if not one.is_init]
        sidecars_run = all(one.state.kind != "waiting" for one in self.containers if one.is_init)
        return self.phase == "Running" and bool(mains) and all(one.is_ready for one in mains) and sidecars_run


_KUBELETS_OWN = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})


class Node(msgspec.Struct, frozen=True):
    """One node. Amounts are the API's texts by resource name."""

    name: str
    instance_type: str = ""
    allocatable: Mapping[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    taints: tuple[str, ...] = ()
    """Keys."""
    created_at: float = 0.0

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.type == kind), None)

    @property
    def problems(self) -> Iterator[Condition]:
        """What agents report of it beside the kubelet: that a part is not ready, or that a problem is there."""
        for one in self.conditions:
            bad = "False" if one.type.endswith("Ready") else "True"
            if one.type not in _KUBELETS_OWN and one.status == bad:
                yield one

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet says so."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True"


class Event(msgspec.Struct, frozen=True):
    """One event; `kind`, `namespace` and `name` are of the object that it is about."""

    reason: str
    message: str
    type: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    count: int = 1
    last_seen_at: float = 0.0

    @property
    def is_refusal(self) -> bool:
        """Whether a controller tells that it may not make a pod."""
        return self.reason.startswith(("FailedCreate", "FailedToCreate")) and self.kind != "Pod"


class Thing(msgspec.Struct, frozen=True):
    """Any other object, with its conditions read. Kind and namespace are empty where the input does not say them."""

    kind: str
    namespace: str
    name: str
    conditions: tuple[Condition, ...] = ()
    status: Mapping[str, Any] = msgspec.field(default_factory=dict)
    spec: Mapping[str, Any] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    owner: tuple[str, str] = ("", "")
    """Kind and name."""
    created_at: float = 0.0

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.type == kind), None)

    def has(self, kind: str, status: str = "True") -> bool:
        """Whether that condition has that status."""
        found = self.condition(kind)
        return found is not None and found.status == status


class Log(msgspec.Struct, frozen=True):
    """The end of a log; `pod` is empty where the input does not say whose."""

    text: str
    pod: str = ""


class GpuReading(msgspec.Struct, frozen=True):
    """One GPU as nvidia-smi saw it; `None` is unknown."""

    util_pct: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    ecc_uncorrected: int | None = None


class Case(msgspec.Struct, frozen=True):
    """Everything that belongs to one trouble."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    events: tuple[Event, ...] = ()
    logs: tuple[Log, ...] = ()
    jobs: tuple[Thing, ...] = ()
    node_claims: tuple[Thing, ...] = ()
    volume_claims: tuple[Thing, ...] = ()
    queued: tuple[Thing, ...] = ()
    """Kueue Workloads."""
    gangs: tuple[Thing, ...] = ()
    """Volcano PodGroups."""
    gpus: tuple[GpuReading, ...] = ()
    last_log_age_s: float | None = None
    taken_at: float = 0.0
    """Seconds since the epoch; 0.0 if unknown."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """That pod; an empty namespace on either side fits any."""
        return next(
            (one for one in self.pods if one.name == name and (not namespace or one.namespace in ("", namespace))), None
        )

    def troubles(self) -> Iterator[Event]:
        """Events but those about pods that are fine by now, and about pods that could be made later."""
        made = self._last_made()
        for event in self.events:
            pod = self.pod(event.namespace, event.name) if event.kind in ("", "Pod") else None
            is_over = event.is_refusal and event.last_seen_at < made.get((event.kind, event.namespace, event.name), 0.0)
            if not is_over and (pod is None or not pod.is_fine):
                yield event

    def _last_made(self) -> dict[tuple[str, str, str], float]:
        """When each owner of pods has last made one."""
        made: dict[tuple[str, str, str], float] = {}
        for event in self.events:
            if event.reason.startswith("SuccessfulCreate"):
                key = (event.kind, event.namespace, event.name)
                made[key] = max(event.last_seen_at, made.get(key, 0.0))
        return made

    def logs_of(self, pod: Pod) -> Iterator[Log]:
        """What may be that pod's log."""
        return (log for log in self.logs if log.pod in ("", pod.name))

    @property
    def has_succeeded(self) -> bool:
        """Whether its jobs are known and have all done what they were for."""
        return bool(self.jobs) and all(
            any(job.has(kind) for kind in ("Succeeded", "Complete", "Completed")) for job in self.jobs
        )

    @property
    def now(self) -> float:
        """When the case was taken, or the newest time that it knows of."""
        return self.taken_at or max((event.last_seen_at for event in self.events), default=0.0)
