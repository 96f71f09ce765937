"""The evidence of a diagnosis: pods, nodes, events, logs and other objects, as small typed views of documents.

Every text in here is without control characters and credentials. Unknown values are empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from actions.base.clock import stamp_seconds
from actions.base.numbers import real
from actions.base.untrusted import plain_text, redact
from actions.cluster.kinds import LOST_UPDATE, name_of_kind
from actions.fleet.facts import EventFacts


class Condition(msgspec.Struct, frozen=True):
    """One condition of any object. `since` is seconds since the epoch, 0.0 if unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: float = 0.0


class ObservedState(msgspec.Struct, frozen=True):
    """A container's state. `kind` is waiting, running, terminated or empty; `since` its start or end, or 0.0."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    since: float = 0.0


class Probe(msgspec.Struct, frozen=True):
    """A probe of a container: what it asks, in words, every how many seconds, and how many failures end it."""

    asks: str
    period: int
    failures: int


class Container(msgspec.Struct, frozen=True):
    """The state of one container, and its previous end."""

    name: str
    image: str
    state: ObservedState
    last: ObservedState
    restarts: int = 0
    is_ready: bool = False
    is_init: bool = False
    probes: Mapping[str, Probe] = msgspec.field(default_factory=dict)
    """By `readiness`, `liveness` and `startup`."""

    @property
    def endings(self) -> tuple[ObservedState, ...]:
        """Return its ends, the newest first."""
        return tuple(state for state in (self.state, self.last) if state.kind == "terminated")


STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of containers that wait for their turn."""


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
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Labels that its node must have."""
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
    created_at: float = 0.0
    deleted_at: float = 0.0
    """The time from which on it is being deleted; 0.0 if it is not."""
    finalizers: tuple[str, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type; `None` if there is none."""
        return next((one for one in self.conditions if one.type == kind), None)

    @property
    def is_unscheduled(self) -> bool:
        """Return whether it still has no node."""
        return not self.node and self.phase in ("", "Pending")

    def has_begun_after(self, at: float) -> bool:
        """Return whether its volumes and its network were there after that time, as they are before any container.

        A container that waits for anything but these, as for its image, shows it too.
        """
        return any(
            state.kind == "running"
            or (state.kind == "waiting" and state.reason not in STARTING)
            or (state.kind == "terminated" and state.since >= at > 0)
            for one in self.containers
            for state in (one.state, one.last)
        )

    @property
    def is_fine(self) -> bool:
        """Return whether it has succeeded, or runs and is ready: every container, and the gates of others."""
        if self.phase == "Succeeded":
            return True
        ready = self.condition("Ready")
        if ready is not None and ready.status == "False":  # also of a node that does not answer
            return False
        mains = [one for one in self.containers if not one.is_init]
        sidecars_run = all(one.state.kind != "waiting" for one in self.containers if one.is_init)
        return self.phase == "Running" and bool(mains) and all(one.is_ready for one in mains) and sidecars_run


_KUBELETS_OWN = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})


class Node(msgspec.Struct, frozen=True):
    """One node. Amounts are the API's texts by resource name."""

    name: str
    instance_type: str = ""
    allocatable: Mapping[str, str] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    taints: tuple[str, ...] = ()
    """Keys."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    created_at: float = 0.0

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type; `None` if there is none."""
        return next((one for one in self.conditions if one.type == kind), None)

    @property
    def problems(self) -> Iterator[Condition]:
        """Yield the bad conditions by other agents than the kubelet: a part that is not ready, or a problem."""
        for one in self.conditions:
            bad = "False" if one.type.endswith("Ready") else "True"
            if one.type not in _KUBELETS_OWN and one.status == bad:
                yield one

    @property
    def is_ready(self) -> bool:
        """Return whether the kubelet reports it as ready."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True"


_BEFORE_CONTAINERS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"})
"""Events about what a pod has before any of its containers."""


def is_refusal(event: EventFacts) -> bool:
    """Return whether it is a controller's report that it may not make a pod."""
    return event.reason.startswith(("FailedCreate", "FailedToCreate")) and event.kind != "Pod"


class KubeObject(msgspec.Struct, frozen=True):
    """Any other object, with its conditions read. Kind and namespace are empty if the input lacks them."""

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
    deleted_at: float = 0.0
    """The time from which on it is being deleted; 0.0 if it is not."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type; `None` if there is none."""
        return next((one for one in self.conditions if one.type == kind), None)

    def has(self, kind: str, status: str = "True") -> bool:
        """Return whether that condition has that status."""
        found = self.condition(kind)
        return found is not None and found.status == status


class Log(msgspec.Struct, frozen=True):
    """The end of a log; `pod` is empty if the input does not name it."""

    text: str
    pod: str = ""


class GpuReading(msgspec.Struct, frozen=True):
    """One GPU in nvidia-smi's output; `None` is unknown."""

    util_pct: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    ecc_uncorrected: int | None = None


class Evidence(msgspec.Struct, frozen=True, dict=True):
    """Everything that one diagnosis reads."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    events: tuple[EventFacts, ...] = ()
    logs: tuple[Log, ...] = ()
    jobs: tuple[KubeObject, ...] = ()
    node_claims: tuple[KubeObject, ...] = ()
    volume_claims: tuple[KubeObject, ...] = ()
    queued: tuple[KubeObject, ...] = ()
    """Kueue Workloads."""
    gangs: tuple[KubeObject, ...] = ()
    """Volcano PodGroups."""
    namespaces: tuple[KubeObject, ...] = ()
    others: tuple[KubeObject, ...] = ()
    """Objects of any other kind, such as node pools and their classes."""
    unread: tuple[str, ...] = ()
    """Plurals of what could not be looked at: no right to list it, or no answer."""
    device_drivers: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Drivers of dynamic resource allocation that publish devices of a node (ResourceSlices), by its name."""
    asked_node: str = ""
    """The node that the diagnosis is about; empty if it is about something else."""
    gpus: tuple[GpuReading, ...] = ()
    last_log_age_s: float | None = None
    taken_at: float = 0.0
    """Seconds since the epoch; 0.0 if unknown."""
    paste: str = ""
    """The parts of a copied text that this was read from, in words; empty for the answers of a cluster."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return that pod; an empty namespace on either side matches any."""
        return next(
            (one for one in self.pods if one.name == name and (not namespace or one.namespace in ("", namespace))), None
        )

    def troubles(self) -> Iterator[EventFacts]:
        """Yield events, except those of what is over.

        That is: about pods that are fine by now, of the beginning of pods that have begun since, and refusals of pods
        that were made later.
        """
        return iter(self._troubles)

    @cached_property
    def _troubles(self) -> tuple[EventFacts, ...]:
        return tuple(self._found_troubles())

    def _found_troubles(self) -> Iterator[EventFacts]:
        made = self._last_made()
        for event in self.events:
            pod = self.pod(event.namespace, event.name) if event.kind in ("", "Pod") else None
            is_over = is_refusal(event) and event.last_seen_at < made.get(
                (event.kind, event.namespace, event.name), 0.0
            )
            if event.reason in _BEFORE_CONTAINERS:
                is_over = pod is not None and pod.has_begun_after(event.last_seen_at)
            if not is_over and (pod is None or not pod.is_fine):
                yield event

    @property
    def awaits_nodes(self) -> bool:
        """Return whether pods may still wait for a node: one has none, or no pod is known.

        Where every pod has one, schedulers' and Karpenter's events are of a wait that is over.
        """
        return not self.pods or any(pod.is_unscheduled for pod in self.pods)

    def _last_made(self) -> dict[tuple[str, str, str], float]:
        """Return the time at which each owner of pods has last made one."""
        made: dict[tuple[str, str, str], float] = {}
        for event in self.events:
            if event.reason.startswith("SuccessfulCreate"):
                key = (event.kind, event.namespace, event.name)
                made[key] = max(event.last_seen_at, made.get(key, 0.0))
        return made

    def logs_of(self, pod: Pod) -> Iterator[Log]:
        """Return the logs that may be that pod's."""
        return (log for log in self.logs if log.pod in ("", pod.name))

    @property
    def has_succeeded(self) -> bool:
        """Return whether its jobs are known and have all succeeded."""
        return bool(self.jobs) and all(
            any(job.has(kind) for kind in ("Succeeded", "Complete", "Completed")) for job in self.jobs
        )

    @property
    def now(self) -> float:
        """Return the time at which the evidence was taken, or else the newest time in it."""
        return self.taken_at or max((event.last_seen_at for event in self.events), default=0.0)


_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def clean_json(value: Any) -> Any:
    """Return the same JSON with every text cleaned."""
    if isinstance(value, str):
        return redact(plain_text(value))
    if isinstance(value, Mapping):
        return {str(key): clean_json(entry) for key, entry in value.items()}
    return [clean_json(entry) for entry in value] if isinstance(value, list) else value


def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; a single object is a list of one."""
    entries: Iterable[Any] = [value] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return (entry for entry in entries if isinstance(entry, Mapping))


def text(value: Any) -> str:
    """Return `value` as text; empty for `None`."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def number(value: Any) -> float | None:
    """Return `value` as a number, `None` if it is not one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    found = real(value)
    return found if found is not None and math.isfinite(found) else None


def whole(value: Any) -> int:
    """Return `value` as a count, 0 if it is not one."""
    return int(number(value) or 0)


def conditions_of(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Read the conditions of any status."""
    return tuple(
        Condition(
            type=text(entry.get("type")),
            status=text(entry.get("status")),
            reason=text(entry.get("reason")),
            message=text(entry.get("message")),
            since=stamp_seconds(entry.get("lastTransitionTime")),
        )
        for entry in mappings(status.get("conditions"))
    )


def object_of(document: Mapping[str, Any]) -> KubeObject:
    """Read any object."""
    metadata, status = mapping(document.get("metadata")), mapping(document.get("status"))
    return KubeObject(
        kind=text(name_of_kind(document)),
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        conditions=conditions_of(status),
        status=status,
        spec=mapping(document.get("spec")),
        labels=mapping(metadata.get("labels")),
        owner=_owner(metadata),
        created_at=stamp_seconds(metadata.get("creationTimestamp")),
        deleted_at=stamp_seconds(metadata.get("deletionTimestamp")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(text, value)) if isinstance(value, list) else ()


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str]:
    owner = next(mappings(metadata.get("ownerReferences")), {})
    return text(name_of_kind(owner)), text(owner.get("name"))


def pod_of(document: Mapping[str, Any]) -> Pod:
    """Read a pod."""
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
        selector=mapping(spec.get("nodeSelector")),
        requests=_extended(spec),
        containers=tuple(_containers(spec, status)),
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
        created_at=stamp_seconds(metadata.get("creationTimestamp")),
        deleted_at=stamp_seconds(metadata.get("deletionTimestamp")),
        finalizers=_texts(metadata.get("finalizers")),
    )


def _extended(spec: Mapping[str, Any]) -> dict[str, int]:
    """Sum up the containers' requests of resources with a slash in their name."""
    total: dict[str, int] = {}
    for container in mappings(spec.get("containers")):
        resources = mapping(container.get("resources"))
        asked = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
        for name, amount in asked.items():
            if "/" in name:
                total[name] = total.get(name, 0) + whole(amount)
    return total


def _probes(container: Mapping[str, Any]) -> Iterator[tuple[str, Probe]]:
    for name in ("readiness", "liveness", "startup"):
        if probe := mapping(container.get(f"{name}Probe")):
            yield (
                name,
                Probe(_asks(probe), whole(probe.get("periodSeconds")) or 10, whole(probe.get("failureThreshold")) or 3),
            )


_MOST_OF_COMMAND = 80


def _asks(probe: Mapping[str, Any]) -> str:
    http, tcp, grpc = (mapping(probe.get(kind)) for kind in ("httpGet", "tcpSocket", "grpc"))
    if http:
        return f"GET {text(http.get('host'))}:{text(http.get('port'))}{text(http.get('path')) or '/'}"
    if tcp:
        return f"TCP {text(tcp.get('host'))}:{text(tcp.get('port'))}"
    if grpc:
        return f"gRPC :{text(grpc.get('port'))}"
    return " ".join(_texts(mapping(probe.get("exec")).get("command")))[:_MOST_OF_COMMAND]


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Container]:
    probes = {text(one.get("name")): dict(_probes(one)) for one in mappings(spec.get("containers"))}
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
                probes=probes.get(text(entry.get("name")), {}),
            )


def _state(value: Any) -> ObservedState:
    for kind in ("waiting", "terminated", "running"):
        details = mapping(value).get(kind)
        if isinstance(details, Mapping):
            code = number(details.get("exitCode"))
            return ObservedState(
                kind,
                text(details.get("reason")),
                text(details.get("message")),
                None if code is None else whole(code),
                stamp_seconds(details.get("finishedAt" if kind == "terminated" else "startedAt")),
            )
    return ObservedState()


def node_of(document: Mapping[str, Any]) -> Node:
    """Read a node."""
    metadata, spec, status = (mapping(document.get(part)) for part in ("metadata", "spec", "status"))
    labels = mapping(metadata.get("labels"))
    return Node(
        name=text(metadata.get("name")),
        instance_type=next((text(labels[name]) for name in _TYPE_LABELS if name in labels), ""),
        allocatable={name: text(amount) for name, amount in mapping(status.get("allocatable")).items()},
        capacity={name: text(amount) for name, amount in mapping(status.get("capacity")).items()},
        conditions=conditions_of(status),
        taints=tuple(text(taint.get("key")) for taint in mappings(spec.get("taints"))),
        labels=labels,
        created_at=stamp_seconds(metadata.get("creationTimestamp")),
    )


def device_drivers_of(slices: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the drivers that have devices on a node, by the node's name."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in slices:
        spec = mapping(entry.get("spec"))
        node, driver = text(spec.get("nodeName")), text(spec.get("driver"))
        if node and driver not in found.get(node, ()):
            found[node] = (*found.get(node, ()), driver)
    return found


def event_of(document: Mapping[str, Any]) -> EventFacts:
    """Read an event, of either API group."""
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
    return EventFacts(
        uid="",
        reason=text(document.get("reason")),
        message=text(document.get("message") or document.get("note")),
        type=text(document.get("type")),
        kind=text(name_of_kind(about)),
        namespace=text(about.get("namespace")),
        name=text(about.get("name")),
        count=whole(count),
        last_seen_at=next((at for at in map(stamp_seconds, times) if at), 0.0),
    )


def gpu_of(document: Mapping[str, Any]) -> GpuReading:
    """Read one GPU of nvidia-smi's output."""
    return GpuReading(
        util_pct=number(document.get("util_pct")),
        power_w=number(document.get("power_w")),
        power_cap_w=number(document.get("power_cap_w")),
        ecc_uncorrected=whole(document.get("ecc_uncorrected")) if document.get("ecc_uncorrected") else None,
    )


def job_failure(job: KubeObject) -> tuple[str, str]:
    """Return reason and message of a failed job; two empty texts if it has not failed, or has succeeded since."""
    if any(job.has(kind) for kind in ("Succeeded", "Complete", "Completed")):
        return "", ""
    for kind in ("Failed", "ReplicaFailure"):
        condition = job.condition(kind)
        if condition is not None and condition.status == "True":
            return condition.reason, condition.message
    deployment, run = str(job.status.get("jobDeploymentStatus") or ""), str(job.status.get("jobStatus") or "")
    if deployment in ("Failed", "ValidationFailed") or (deployment == "Complete" and run in ("FAILED", "STOPPED")):
        return str(job.status.get("reason") or run or deployment), str(job.status.get("message") or "")
    phase = (job.status.get("state") or {}).get("phase") if isinstance(job.status.get("state"), dict) else ""
    if phase in ("Failed", "Terminated"):  # one that is aborted was stopped by its user, and can be resumed
        return str(phase), str(job.status["state"].get("message") or "")
    if job.kind == "RayCluster" and job.status.get("state") == "failed":
        reason = str(job.status.get("reason") or "")
        return ("", "") if LOST_UPDATE in reason else ("failed", reason)
    return "", ""


def is_failed(job: KubeObject) -> bool:
    """Return whether it has failed for good."""
    return any(job_failure(job))
