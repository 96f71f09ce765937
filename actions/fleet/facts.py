"""The facts kept of the cluster's objects: small structs instead of documents, and a node's state in a word.

Every text in here has passed `actions.base.untrusted`. Times are seconds since the epoch, UTC; 0.0 is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from actions.base.untrusted import plain_text
from actions.base.wording import duration


class Resources(msgspec.Struct, frozen=True, gc=False):
    """An amount of each resource that a scheduler counts. Never negative."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu: int = 0
    """GPUs, and parts of them under names of their own: MIG devices, shares of a GPU that is shared in time."""
    neuron: int = 0
    """`aws.amazon.com/neuron`, whole devices. Of a pod that requests cores, as many as these are at two a device."""
    efa: int = 0
    """`vpc.amazonaws.com/efa`, interfaces."""
    neuron_cores: int = 0
    """`aws.amazon.com/neuroncore`. How many a device has depends on its node: `NodeFacts.requested` converts them."""

    @property
    def accelerators(self) -> int:
        """GPUs and Neuron devices; of a pod that requests cores alone, at least one."""
        return self.gpu + self.neuron

    def plus(self, other: Resources) -> Resources:
        """Sum, resource by resource."""
        return Resources(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.gpu + other.gpu,
            self.neuron + other.neuron,
            self.efa + other.efa,
            self.neuron_cores + other.neuron_cores,
        )

    def minus(self, other: Resources) -> Resources:
        """Difference, resource by resource, of an amount and a part of it."""
        return Resources(
            self.cpu_milli - other.cpu_milli,
            self.memory_bytes - other.memory_bytes,
            self.gpu - other.gpu,
            self.neuron - other.neuron,
            self.efa - other.efa,
            self.neuron_cores - other.neuron_cores,
        )


NOTHING = Resources()
UNCOUNTED = "Devices of resource claims are not counted"
"""The words beside sums, where a cluster has such claims and they may not be listed, or are not listed yet."""
CORES_PER_NEURON_DEVICE = 2
"""Of Trainium 1 and Inferentia 2, where no node gives the number."""


_BAD_WORDS = ("CrashLoopBackOff", "OOMKilled", "Terminating")


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a pod."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    """Empty while unscheduled."""
    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown: the API's `status.phase`."""
    reason: str = ""
    """kubectl's STATUS where it is more exact than the phase: CrashLoopBackOff, Terminating, OOMKilled…"""
    message: str = ""
    """The reason why it waits, in the API's words (the PodScheduled condition, a container's waiting message)."""
    ready: int = 0
    containers: tuple[str, ...] = ()
    """Names of the main containers, in order."""
    restarts: int = 0
    requests: Resources = NOTHING
    """Effective requests: the scheduler's rule over containers, init containers and overhead; and `claimed`."""
    created_at: float = 0.0
    started_at: float = 0.0
    """The newest start of one of its containers: of one that was restarted, a moment ago."""
    owner_kind: str = ""
    """Kind of the workload it belongs to: Job, PyTorchJob, MPIJob, RayCluster, DaemonSet, ReplicaSet…"""
    owner_name: str = ""
    run: str = ""
    """Label `eksml.dev/run`, empty for pods that are not ours."""
    stage: str = ""
    """Label `eksml.dev/stage`."""
    claimed: Resources = NOTHING
    """The part of `requests` that are devices of its ResourceClaims; of a claim that pods share, each has all."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_done(self) -> bool:
        """True if it has ended, and so holds no resources any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_fine(self) -> bool:
        """True if it has succeeded, or runs with every container ready and is not being deleted."""
        if self.phase == "Running":
            return self.ready >= len(self.containers) and (not self.reason or self.reason not in _BAD_WORDS)
        return self.phase == "Succeeded"


class NodeFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a node."""

    uid: str
    name: str
    instance_type: str = ""
    region: str = ""
    zone: str = ""
    capacity_type: str = ""
    """`on-demand`, `spot`, `capacity-block`, or empty without a label for it; of nodes that are not instances of EC2
    `fargate` or `hybrid`."""
    pool: str = ""
    """Karpenter NodePool or EKS node group."""
    allocatable: Resources = NOTHING
    pods_allocatable: int = 0
    is_ready: bool = False
    is_schedulable: bool = True
    taints: tuple[str, ...] = ()
    """`key=value:Effect`."""
    created_at: float = 0.0
    version: str = ""
    """Kubelet version."""
    offered: Resources = NOTHING
    """The part of `allocatable` that are devices of ResourceSlices, beyond those that a device plugin offers."""
    health: str = ""
    """The finding of HyperPod's checks against it: `Unschedulable`, `DeepHealthCheckFailed`; empty if nothing."""

    def requested(self, usage: NodeUsage) -> Resources:
        """Return the requests on this node, with those of Neuron cores as devices of this node, rounded up."""
        asked, has = usage.requested, self.allocatable
        if not asked.neuron_cores:
            return asked
        if has.neuron and has.neuron_cores:
            devices = -(-asked.neuron_cores * has.neuron // has.neuron_cores)
        else:
            devices = -(-asked.neuron_cores // CORES_PER_NEURON_DEVICE)
        return replace(asked, neuron=asked.neuron + devices)


class NodeClaimFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a NodeClaim of Karpenter: a machine that is requested, starting, or a node by now."""

    uid: str
    name: str
    pool: str = ""
    node: str = ""
    """Empty until the machine has registered."""
    instance_type: str = ""
    """Empty until a machine is launched."""
    zone: str = ""
    capacity_type: str = ""
    """`on-demand`, `spot`, or empty while it is open."""
    state: str = ""
    """finished (the node is ready), failed, running, waiting or unknown."""
    message: str = ""
    """The reason why it is not ready, in the API's words."""
    created_at: float = 0.0


class DeviceFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a device of dynamic resource allocation that is counted as an accelerator or interface."""

    name: str
    kind: str
    """The field of `Resources` in which it counts: gpu, neuron or efa; empty for one that does not count."""
    unit: str
    """The piece of hardware that it is, is a part of, or another form of: such devices of a pool count once."""
    node: str = ""
    """Empty where its slice names the node."""


class SliceFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a ResourceSlice: some of the devices that a driver offers."""

    uid: str
    name: str
    driver: str
    pool: str
    generation: int
    """Of the pool; slices of an older one are about to go."""
    count: int
    """The number of slices that the pool has in this generation."""
    node: str
    devices: tuple[DeviceFacts, ...] = ()


class DeviceClaimFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a ResourceClaim."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    """The only node on which what it was given can be used; empty without such."""
    devices: tuple[tuple[str, str, str], ...] = ()
    """Driver, pool and name of what it was given, without devices that it has for administration."""
    pods: tuple[str, ...] = ()
    """The names of the pods that may use it."""
    is_extended: bool = False
    """The scheduler has made it of a pod's request of an extended resource, which is among the pod's own requests."""


HARMLESS_EVENTS = frozenset({"DNSConfigForming", "FailedToRetrieveImagePullSecret", "ProbeWarning"})
"""Reasons of warnings with which pods start as well; the kubelet repeats them every few seconds."""


class EventFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of an event, with its last count."""

    uid: str
    namespace: str
    kind: str
    """Kind of the object it is about."""
    name: str
    type: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int
    last_seen_at: float

    @property
    def is_of_placed_gang(self) -> bool:
        """Return whether Volcano 1.15.1 says *Unschedulable* of a gang that is placed.

        Source: volcano v1.15.1, `RecordJobStatusEvent`, which goes by the phase that the PodGroup had before.
        """
        return self.kind == "PodGroup" and "in gang unschedulable: pod group is ready" in self.message

    @property
    def is_warning(self) -> bool:
        """Return whether it reports something wrong."""
        return self.type != "Normal" and self.reason not in HARMLESS_EVENTS and not self.is_of_placed_gang


class JobReport(msgspec.Struct, frozen=True, gc=False):
    """Progress and metrics that a training has put into its job's status."""

    percent: int | None = None
    remaining_seconds: int | None = None
    metrics: tuple[tuple[str, str], ...] = ()
    """Their names, and newest values as they were printed."""
    at: float = 0.0

    def words(self) -> str:
        """Return it as a line: `40 %, 20m00s left, loss 0.31`."""
        left = None if self.remaining_seconds is None else f"{duration(self.remaining_seconds)} left"
        percent = None if self.percent is None else f"{self.percent} %"
        return ", ".join([*filter(None, (percent, left)), *(f"{name} {value}" for name, value in self.metrics)])


class WorkloadFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a job that is watched."""

    uid: str
    kind: str
    """The full name of its kind: `Job`, `Job.batch.volcano.sh`."""
    namespace: str
    name: str
    state: str
    """finished, failed, running, waiting or unknown."""
    message: str = ""
    created_at: float = 0.0
    run: str = ""
    stage: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    pods_from: str = ""
    """The object whose pods are its own though it does not own the object, by its status."""
    report: JobReport | None = None


class NodeUsage(msgspec.Struct, frozen=True, gc=False):
    """The sums of the requests of the pods bound to one node. Ended pods do not count; terminating ones do."""

    requested: Resources = NOTHING
    """Devices of pods that request Neuron cores are not in `neuron` here: see `NodeFacts.requested`."""
    pods: int = 0
    claimed: Resources = NOTHING
    """The part of `requested` that are devices allocated to ResourceClaims of pods; each device counts once."""


UNUSED = NodeUsage()


_HEALTH, _DEEP_CHECK = "sagemaker.amazonaws.com/node-health-status", "sagemaker.amazonaws.com/deep-health-check-status"
_FINE = ("", "Schedulable", "Passed")


def node_health(labels: Mapping[str, str]) -> str:
    """Return what HyperPod's labels say against a node; empty if they say nothing."""
    status, check = plain_text(labels.get(_HEALTH, "")), plain_text(labels.get(_DEEP_CHECK, ""))
    deep = "" if check in _FINE else f"DeepHealthCheck{check}"
    return ",".join(word for word in (status, deep) if word not in _FINE)


_DISRUPTED = "karpenter.sh/disrupted"
_DISRUPTION = "karpenter.sh/disruption"


def state_of(node: NodeFacts) -> str:
    """`Ready`, `NotReady`, and what keeps pods away: `Ready,Cordoned`, `Ready,Disrupted` (Karpenter drains it).

    Source: taints of Karpenter v1 (`karpenter.sh/disrupted`) and v1beta1 (`karpenter.sh/disruption`).
    """
    words = ["Ready" if node.is_ready else "NotReady"]
    if any(taint.startswith((_DISRUPTED, _DISRUPTION)) for taint in node.taints):
        words.append("Disrupted")
    elif not node.is_schedulable:
        words.append("Cordoned")
    if node.health:
        words.append(node.health)
    return ",".join(words)
