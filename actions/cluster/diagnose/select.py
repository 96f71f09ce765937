"""Parts of the evidence: of one object, or of each workload of a cluster.

Each workload is judged by its own part, so that a fault of one does not explain another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.cluster.diagnose.evidence import Evidence, KubeObject, Pod
from actions.cluster.kinds import JOB_NAMES, find_kind
from actions.fleet.facts import EventFacts

_NAMED = re.compile(r"nodeclaim/([\w.-]+)")
_KINDS = ("NodeClaim", "NodePool", "PersistentVolumeClaim")


class PendingDependencies(msgspec.Struct, frozen=True):
    """The objects that some pods wait for. If no node claim was named to them, it may be any."""

    has_unscheduled_pods: bool
    node_claims: frozenset[str]
    volume_claims: frozenset[str]

    def holds_claim(self, claim: KubeObject) -> bool:
        """Return whether they may wait for that node claim."""
        return self.has_unscheduled_pods and (not self.node_claims or claim.name in self.node_claims)

    def holds_event(self, event: EventFacts) -> bool:
        """Return whether the event may be about an object that they wait for."""
        if not self.has_unscheduled_pods or event.kind not in _KINDS:
            return False
        if event.kind == "PersistentVolumeClaim":
            return event.name in self.volume_claims
        return event.kind == "NodePool" or not self.node_claims or event.name in self.node_claims


def pending_dependencies(evidence: Evidence, pods: tuple[Pod, ...]) -> PendingDependencies:
    """Return the objects that the pods wait for, by the events and their own volumes."""
    names = {pod.name for pod in pods}
    messages = (event.message for event in evidence.events if event.kind == "Pod" and event.name in names)
    return PendingDependencies(
        has_unscheduled_pods=any(pod.is_unscheduled for pod in pods),
        node_claims=frozenset(name for message in messages for name in _NAMED.findall(message)),
        volume_claims=frozenset(name for pod in pods for name in pod.volume_claims),
    )


_OWNER_LABELS = (
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
)
_QUOTED_POD = re.compile(r"Error pod (\S+) condition message: ")
"""The form in which training-operator repeats the scheduler's message about a pod as an event of its job."""
_MOST_LEVELS = 4
_MEMBER = re.compile(r"-(?:worker|launcher|master|head|server|raycluster)(?:-.*)?$|-\d+$")


def scopes_of(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the evidence of every workload, then of everything else.

    With a log of an unknown pod the evidence cannot be divided, and is yielded as a whole.
    """
    if any(not log.pod for log in evidence.logs) or len(evidence.pods) + len(evidence.jobs) < 2:
        yield _about_listed_pods(evidence)
        return
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in evidence.pods:
        groups.setdefault((pod.namespace, root_of(evidence, pod.namespace, workload_of(pod))), []).append(pod)
    for job in evidence.jobs:
        groups.setdefault((job.namespace, root_of(evidence, job.namespace, job.name)), [])
    taken: set[int] = set()
    for key, pods in groups.items():
        scope = _scope(evidence, key, tuple(pods))
        taken |= {id(event) for event in scope.events if event.kind not in ("Node", "NodeClaim")}
        taken |= {id(thing) for thing in (*scope.queued, *scope.gangs)}
        yield scope
    yield _rest(evidence, taken)


def _about_listed_pods(evidence: Evidence) -> Evidence:
    """Drop events about pods that are not listed, if any are: those are gone."""
    names = {pod.name for pod in evidence.pods}
    return replace(
        evidence, events=tuple(one for one in evidence.events if not names or one.kind != "Pod" or one.name in names)
    )


def workload_of(pod: Pod) -> str:
    """Return the name of the pod's workload, by its labels, its owner or its own name."""
    labelled = next((pod.labels[name] for name in _OWNER_LABELS if pod.labels.get(name)), "")
    kind, owner = pod.owner
    if labelled or (owner and kind not in ("Node", "ReplicaSet")):
        return labelled or owner
    return owner or _MEMBER.sub("", pod.name)


def root_of(evidence: Evidence, namespace: str, name: str) -> str:
    """Return the name of the outermost job: of a RayCluster its RayJob, of a launcher's Job its MPIJob."""
    for _ in range(_MOST_LEVELS):
        above = next(
            (job.owner[1] for job in evidence.jobs if job.name == name and job.namespace == namespace and job.owner[1]),
            "",
        )
        if not above or above == name:
            break
        name = above
    return name


def is_preemption(event: EventFacts, jobs: Iterable[KubeObject]) -> bool:
    """Return whether the scheduler reports that it has preempted a pod of one of the jobs, which is gone with that."""
    return event.reason == "Preempted" and any(
        event.name.startswith(f"{job.name}-") and event.namespace == job.namespace for job in jobs
    )


def drop_events_of_deleted_objects(evidence: Evidence) -> Evidence:
    """Drop events about pods, jobs and gangs that are gone: they explain nothing that exists, but for preemptions."""
    alive = {("Pod", pod.name) for pod in evidence.pods} | {(job.kind, job.name) for job in evidence.jobs}
    alive |= {("PodGroup", gang.name) for gang in evidence.gangs}
    kinds = {"Pod", "PodGroup", *JOB_NAMES}

    def is_alive(event: EventFacts) -> bool:
        quoted = _QUOTED_POD.match(event.message)
        if quoted is not None and ("Pod", quoted[1]) not in alive:
            return False
        is_there = event.kind not in kinds or (event.kind, event.name) in alive
        return is_there or is_preemption(event, evidence.jobs)

    return replace(evidence, events=tuple(filter(is_alive, evidence.events)))


def drop_resolved_node_events(evidence: Evidence) -> Evidence:
    """Drop events about nodes and node claims that are gone, if all pods are fine without them."""
    if not evidence.pods or not all(pod.is_fine for pod in evidence.pods):
        return evidence
    nodes, claims = {node.name for node in evidence.nodes}, {claim.name for claim in evidence.node_claims}

    def is_present(event: EventFacts) -> bool:
        if event.kind == "NodeClaim":
            return event.name in claims
        return event.kind != "Node" or not nodes or event.name in nodes

    return replace(evidence, events=tuple(filter(is_present, evidence.events)))


def _scope(evidence: Evidence, key: tuple[str, str], pods: tuple[Pod, ...]) -> Evidence:
    names = {pod.name for pod in pods}
    hosts = {pod.node for pod in pods if pod.node}
    dependencies = pending_dependencies(evidence, pods)
    jobs = tuple(job for job in evidence.jobs if (job.namespace, root_of(evidence, job.namespace, job.name)) == key)
    owned = names | {job.name for job in jobs} | {key[1]}
    return replace(
        evidence,
        pods=pods,
        nodes=tuple(node for node in evidence.nodes if dependencies.has_unscheduled_pods or node.name in hosts),
        events=tuple(
            event
            for event in evidence.events
            if _is_about(event, key[0], owned, hosts) or dependencies.holds_event(event) or is_preemption(event, jobs)
        ),
        logs=tuple(log for log in evidence.logs if log.pod in names),
        jobs=jobs,
        namespaces=tuple(one for one in evidence.namespaces if one.name == key[0]),
        node_claims=tuple(filter(dependencies.holds_claim, evidence.node_claims)),
        queued=tuple(one for one in evidence.queued if any(name in one.name for name in owned)),
        gangs=tuple(one for one in evidence.gangs if any(name in one.name for name in owned)),
        volume_claims=tuple(one for one in evidence.volume_claims if one.name in dependencies.volume_claims),
    )


def _is_about(event: EventFacts, namespace: str, owned: set[str], hosts: set[str]) -> bool:
    if event.kind == "Node":
        return event.name in hosts
    if event.namespace not in ("", namespace):
        return False
    return event.name in owned or (event.kind != "Pod" and any(name and name in event.name for name in owned))


def _rest(evidence: Evidence, taken: set[int]) -> Evidence:
    """Return the evidence outside of all workloads: nodes and claims by themselves, events about controllers."""
    known = {pod.name for pod in evidence.pods}
    return replace(
        evidence,
        pods=(),
        jobs=(),
        logs=(),
        gpus=(),
        queued=tuple(one for one in evidence.queued if id(one) not in taken),
        gangs=tuple(one for one in evidence.gangs if id(one) not in taken),
        last_log_age_s=None,
        events=tuple(
            event
            for event in evidence.events
            if id(event) not in taken and (event.kind != "Pod" or event.name in known)
        ),
    )


class ObjectSelector(msgspec.Struct, frozen=True):
    """The subject of a diagnosis: an object by kind and name, or all objects with some labels.

    `namespace` is empty for cluster-scoped objects, and for an object in any namespace.
    """

    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)

    def describe(self) -> str:
        """Return it for messages."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def select_evidence(evidence: Evidence, selector: ObjectSelector) -> Evidence:
    """Return the evidence about the object.

    Raises:
        MissingError: There is none.
    """
    jobs = tuple(job for job in evidence.jobs if _is_job(evidence, job, selector))
    pods = tuple(pod for pod in evidence.pods if _is_pod(pod, selector, jobs))
    names = {selector.name, *(pod.name for pod in pods), *(job.name for job in jobs)}
    above = {name for pod in pods if selector.kind == "Pod" and not pod.is_fine for name in _above(evidence, pod)}
    dependencies = pending_dependencies(evidence, pods)
    hosts = {pod.node for pod in pods if pod.node} | ({selector.name} if selector.kind == "Node" else set())
    found = replace(
        evidence,
        pods=pods,
        jobs=jobs,
        asked_node=selector.name if selector.kind == "Node" else "",
        namespaces=tuple(one for one in evidence.namespaces if one.name == _namespace_of(selector)),
        nodes=tuple(node for node in evidence.nodes if dependencies.has_unscheduled_pods or node.name in hosts),
        events=tuple(
            one
            for one in evidence.events
            if _is_event(one, names, hosts)
            or is_preemption(one, jobs)
            or dependencies.holds_event(one)
            or _is_of_replica_set(one, selector)
            or (one.kind != "Pod" and one.name in above and _is_here(one.namespace, selector))
        ),
        logs=tuple(log for log in evidence.logs if log.pod in names or not log.pod),
        node_claims=tuple(
            one
            for one in evidence.node_claims
            if dependencies.holds_claim(one) or _is_itself(one, "NodeClaim", selector)
        ),
        volume_claims=tuple(one for one in evidence.volume_claims if one.name in names | dependencies.volume_claims),
        queued=tuple(one for one in evidence.queued if any(name in one.name for name in names | above)),
        gangs=tuple(one for one in evidence.gangs if any(name in one.name for name in names | above)),
    )
    if not _is_known(found, selector):
        raise MissingError(f"Nothing was found about {selector.describe()}.", hint="Check kind, name and namespace.")
    return found


_GROUP = "scheduling.k8s.io/group-name"
"""The annotation by which Volcano's scheduler finds the PodGroup of a pod."""


def _above(evidence: Evidence, pod: Pod) -> set[str]:
    """Return the names of a pod's workload, of the outermost job above it and of its PodGroup."""
    workload = workload_of(pod)
    return {workload, root_of(evidence, pod.namespace, workload), pod.annotations.get(_GROUP, "")} - {""}


def _namespace_of(selector: ObjectSelector) -> str:
    return selector.name if selector.kind == "Namespace" else selector.namespace


def _is_known(evidence: Evidence, selector: ObjectSelector) -> bool:
    if selector.kind == "Namespace":
        return any(namespace.name == selector.name for namespace in evidence.namespaces)
    if selector.kind == "Node":
        return any(node.name == selector.name for node in evidence.nodes)
    if selector.labels and evidence.jobs:
        return True
    things = (*evidence.jobs, *evidence.node_claims, *evidence.volume_claims, *evidence.queued, *evidence.gangs)
    named = (thing.name for thing in things)
    return (
        bool(evidence.pods) or selector.name in named or any(event.name == selector.name for event in evidence.events)
    )


def _carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def _is_here(namespace: str, selector: ObjectSelector) -> bool:
    return not selector.namespace or namespace in ("", selector.namespace)


def _is_job(evidence: Evidence, job: KubeObject, selector: ObjectSelector) -> bool:
    """Return whether the job is the selected one, or one that it has made for its pods."""
    if selector.labels:
        return _carries(job.labels, selector.labels)
    if not _is_here(job.namespace, selector):
        return False
    if job.kind in ("", selector.kind) and job.name == selector.name:
        return True
    if job.owner[1]:
        return (selector.kind, selector.name) in _owners(evidence, job)
    row = find_kind(selector.kind)
    owners = row.pod_owners if row is not None else ()
    is_made = job.kind in owners and job.kind != selector.kind
    is_named = job.name == selector.name or job.name.startswith(f"{selector.name}-")
    return is_named and (is_made or (not job.kind and bool(owners)))


def _owners(evidence: Evidence, job: KubeObject) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the job's owner, of the owner's owner, and so on."""
    made = {(one.kind, one.namespace, one.name): one for one in evidence.jobs}
    above: KubeObject | None = job
    for _ in range(_MOST_LEVELS):
        if above is None or not above.owner[1]:
            return
        yield above.owner
        above = made.get((above.owner[0], above.namespace, above.owner[1]))


def _is_pod(pod: Pod, selector: ObjectSelector, jobs: tuple[KubeObject, ...]) -> bool:
    if selector.labels:
        return _carries(pod.labels, selector.labels)
    if selector.kind == "Node":
        return pod.node == selector.name
    if not _is_here(pod.namespace, selector):
        return False
    if selector.kind == "Pod":
        return pod.name == selector.name
    owners = {selector.name, *(job.name for job in jobs)}
    workload = workload_of(pod)
    if jobs and pod.owner[0] in JOB_NAMES:  # the owner counts, not the name: a Job of Volcano may have that of another
        return pod.owner in {(job.kind, job.name) for job in jobs}
    if selector.kind == "Deployment":
        return workload.rpartition("-")[0] == selector.name
    return workload in owners or pod.owner == (selector.kind, selector.name)


def _is_event(event: EventFacts, names: set[str], hosts: set[str]) -> bool:
    if event.kind == "Node":
        return event.name in hosts
    return event.name in names


def _is_of_replica_set(event: EventFacts, selector: ObjectSelector) -> bool:
    """Return whether the event is about a ReplicaSet of the selected Deployment: it is that which makes pods."""
    is_set = (selector.kind, event.kind) == ("Deployment", "ReplicaSet")
    return is_set and event.name.rpartition("-")[0] == selector.name and _is_here(event.namespace, selector)


def _is_itself(thing: KubeObject, kind: str, selector: ObjectSelector) -> bool:
    return selector.kind == kind and thing.name == selector.name
