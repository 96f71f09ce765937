"""A whole cluster's case cut into workloads, so that what is wrong with one explains nothing of another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from actions.cluster.diagnose.awaited import awaited_by
from actions.cluster.diagnose.case import Case, Event, Pod

_OWNER_LABELS = (
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
)
_QUOTED_POD = re.compile(r"Error pod (\S+) condition message: ")
"""How training-operator repeats, as an event of its job, what the scheduler said of a pod."""
_MOST_LEVELS = 4
JOB_KINDS = frozenset({"Job", "PyTorchJob", "MPIJob", "RayJob", "RayCluster", "TrainJob", "JobSet", "TFJob"})
"""The kinds of work that is read."""
_MEMBER = re.compile(r"-(?:worker|launcher|master|head|server|raycluster)(?:-.*)?$|-\d+$")


def scopes_of(evidence: Case) -> Iterator[Case]:
    """One case for every workload, then one for what belongs to none.

    A log that nobody is named for cannot be cut: then all is one case.
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


def _about_listed_pods(evidence: Case) -> Case:
    """Where pods are listed, without events about others: those are gone."""
    names = {pod.name for pod in evidence.pods}
    return replace(
        evidence, events=tuple(one for one in evidence.events if not names or one.kind != "Pod" or one.name in names)
    )


def workload_of(pod: Pod) -> str:
    """The name of what the pod is a part of, as its labels, its owner or its own name tell it."""
    labelled = next((pod.labels[name] for name in _OWNER_LABELS if pod.labels.get(name)), "")
    kind, owner = pod.owner
    if labelled or (owner and kind not in ("Node", "ReplicaSet")):
        return labelled or owner
    return owner or _MEMBER.sub("", pod.name)


def root_of(evidence: Case, namespace: str, name: str) -> str:
    """The name of the job that a person made: of a RayCluster its RayJob, of a launcher's Job its MPIJob."""
    for _ in range(_MOST_LEVELS):
        above = next(
            (job.owner[1] for job in evidence.jobs if job.name == name and job.namespace == namespace and job.owner[1]),
            "",
        )
        if not above or above == name:
            break
        name = above
    return name


def without_the_dead(evidence: Case) -> Case:
    """Without events about pods, jobs and gangs that are gone: they explain nothing that is there."""
    alive = {("Pod", pod.name) for pod in evidence.pods} | {(job.kind, job.name) for job in evidence.jobs}
    alive |= {("PodGroup", gang.name) for gang in evidence.gangs}
    kinds = {"Pod", "PodGroup", *JOB_KINDS}

    def is_alive(event: Event) -> bool:
        quoted = _QUOTED_POD.match(event.message)
        if quoted is not None and ("Pod", quoted[1]) not in alive:
            return False
        return event.kind not in kinds or (event.kind, event.name) in alive

    return replace(evidence, events=tuple(filter(is_alive, evidence.events)))


def without_the_past(evidence: Case) -> Case:
    """Without events about nodes and claims for them that are gone, where nobody suffers from it any more."""
    if not evidence.pods or not all(pod.is_fine for pod in evidence.pods):
        return evidence
    nodes, claims = {node.name for node in evidence.nodes}, {claim.name for claim in evidence.node_claims}

    def is_present(event: Event) -> bool:
        if event.kind == "NodeClaim":
            return event.name in claims
        return event.kind != "Node" or not nodes or event.name in nodes

    return replace(evidence, events=tuple(filter(is_present, evidence.events)))


def _scope(evidence: Case, key: tuple[str, str], pods: tuple[Pod, ...]) -> Case:
    names = {pod.name for pod in pods}
    hosts = {pod.node for pod in pods if pod.node}
    awaited = awaited_by(evidence, pods)
    jobs = tuple(job for job in evidence.jobs if (job.namespace, root_of(evidence, job.namespace, job.name)) == key)
    owned = names | {job.name for job in jobs} | {key[1]}
    return replace(
        evidence,
        pods=pods,
        nodes=tuple(node for node in evidence.nodes if awaited.is_homeless or node.name in hosts),
        events=tuple(
            event for event in evidence.events if _is_about(event, key[0], owned, hosts) or awaited.holds_event(event)
        ),
        logs=tuple(log for log in evidence.logs if log.pod in names),
        jobs=jobs,
        node_claims=tuple(filter(awaited.holds_claim, evidence.node_claims)),
        queued=tuple(one for one in evidence.queued if any(name in one.name for name in owned)),
        gangs=tuple(one for one in evidence.gangs if any(name in one.name for name in owned)),
        volume_claims=tuple(one for one in evidence.volume_claims if one.name in awaited.volume_claims),
    )


def _is_about(event: Event, namespace: str, owned: set[str], hosts: set[str]) -> bool:
    if event.kind == "Node":
        return event.name in hosts
    if event.namespace not in ("", namespace):
        return False
    return event.name in owned or (event.kind != "Pod" and any(name and name in event.name for name in owned))


def _rest(evidence: Case, taken: set[int]) -> Case:
    """What belongs to no workload: nodes and claims by themselves, events about controllers."""
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
