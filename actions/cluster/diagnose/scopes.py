"""A whole cluster's case cut into workloads, so that what is wrong with one explains nothing of another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from actions.cluster.diagnose.case import Case, Event, Pod, Thing

_OWNER_LABELS = (
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
)
_MEMBER = re.compile(r"-(?:worker|launcher|master|head|server|raycluster)(?:-.*)?$|-\d+$")


def scopes_of(case: Case) -> Iterator[Case]:
    """One case for every workload, then one for what belongs to none.

    A log that nobody is named for cannot be cut: then all is one case.
    """
    if any(not log.pod for log in case.logs) or len(case.pods) + len(case.jobs) < 2:
        yield case
        return
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in case.pods:
        groups.setdefault((pod.namespace, workload_of(pod)), []).append(pod)
    for job in case.jobs:
        if not any(_belongs(job, key) for key in groups):
            groups[(job.namespace, job.name)] = []
    taken: set[int] = set()
    for key, pods in groups.items():
        scope = _scope(case, key, tuple(pods))
        taken |= {id(event) for event in scope.events if event.kind not in ("Node", "NodeClaim")}
        yield scope
    yield _rest(case, taken)


def workload_of(pod: Pod) -> str:
    """The name of what the pod is a part of, as its labels, its owner or its own name tell it."""
    labelled = next((pod.labels[name] for name in _OWNER_LABELS if pod.labels.get(name)), "")
    kind, owner = pod.owner
    if labelled or (owner and kind not in ("Node", "ReplicaSet")):
        return labelled or owner
    return owner or _MEMBER.sub("", pod.name)


def _belongs(job: Thing, key: tuple[str, str]) -> bool:
    """Whether the group is of that job: its name, or one that an operator made from it."""
    namespace, name = key
    return job.namespace in ("", namespace) and (name == job.name or name.startswith(f"{job.name}-"))


def _scope(case: Case, key: tuple[str, str], pods: tuple[Pod, ...]) -> Case:
    names = {pod.name for pod in pods}
    hosts = {pod.node for pod in pods if pod.node}
    has_homeless = any(pod.is_unscheduled for pod in pods)
    jobs = tuple(job for job in case.jobs if _belongs(job, key) or (not pods and (job.namespace, job.name) == key))
    owned = names | {job.name for job in jobs} | {key[1]}
    return replace(
        case,
        pods=pods,
        nodes=tuple(node for node in case.nodes if has_homeless or node.name in hosts),
        events=tuple(event for event in case.events if _is_about(event, key[0], owned, hosts, has_homeless)),
        logs=tuple(log for log in case.logs if log.pod in names),
        jobs=jobs,
        node_claims=case.node_claims if has_homeless else (),
        queued=tuple(one for one in case.queued if any(name in one.name for name in owned)),
        gangs=tuple(one for one in case.gangs if any(name in one.name for name in owned)),
        volume_claims=case.volume_claims if has_homeless else (),
    )


def _is_about(event: Event, namespace: str, owned: set[str], hosts: set[str], has_homeless: bool) -> bool:
    if event.kind == "Node":
        return event.name in hosts
    if event.kind in ("NodeClaim", "NodePool", "PersistentVolumeClaim"):
        return has_homeless
    if event.namespace not in ("", namespace):
        return False
    return event.name in owned or (event.kind != "Pod" and any(name and name in event.name for name in owned))


def _rest(case: Case, taken: set[int]) -> Case:
    """What belongs to no workload: nodes and claims by themselves, events about controllers."""
    known = {pod.name for pod in case.pods}
    return replace(
        case,
        pods=(),
        jobs=(),
        logs=(),
        gpus=(),
        last_log_age_s=None,
        events=tuple(
            event for event in case.events if id(event) not in taken and (event.kind != "Pod" or event.name in known)
        ),
    )
