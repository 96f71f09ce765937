"""The pods of a job, also those that it owns indirectly, with their roles and in the order of their importance.

From a pod one job owns the other: a Job that an MPIJob, a JobSet or a RayJob has made, the JobSet that a TrainJob has
made. ReplicaSets and StatefulSets in between are not watched; their names tell.

Source: recordings of training-operator 1.8.1, mpi-operator 0.6.0 and KubeRay 1.1.1; JobSet 0.8.2, Trainer 2.0.0,
Volcano 1.15.1 and LeaderWorkerSet 0.6.2 on real nodes, whose leaders are of a StatefulSet of its name, and whose
workers are of one of the leader's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from actions.cluster.kinds import WATCHED, KubeKind, find_kind, is_watched_kind
from actions.fleet.facts import PodFacts, WorkloadFacts

_ROLES = ("launcher", "submitter", "head", "master", "chief", "worker")
_MOST_LEVELS = 4
_NUMBER = re.compile(r"(\d+)")


class JobRef(msgspec.Struct, frozen=True):
    """One job; `kind` is the full name of one that is watched."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Return the key in snapshots: `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}"


class JobPod(NamedTuple):
    """One pod of a job."""

    pod: PodFacts
    role: str
    """`launcher`, `submitter`, `head`, `master`, `chief` or `worker`."""
    rank: int
    """Its place among all: 0 is the one whose log is about the job as a whole."""


def pods_of_job(job: JobRef, pods: Mapping[str, PodFacts], workloads: Mapping[str, WorkloadFacts]) -> list[JobPod]:
    """Return the pods of a job, the one whose log is about the job as a whole first."""
    found = [(role, pod) for pod in pods.values() if (role := role_of(job, pod, workloads))]
    found.sort(key=lambda one: (_ROLES.index(one[0]), _natural(one[1].name), one[1].created_at))
    return [JobPod(pod, role, rank) for rank, (role, pod) in enumerate(found)]


def job_of(pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> JobRef | None:
    """Return the outermost job that the pod is a part of; `None` if there is none that is watched."""
    if above := [*_jobs_above(pod, workloads)]:
        return above[-1]
    makers = [row for row in WATCHED if pod.owner_kind in row.pod_owners]
    jobs = (one for one in workloads.values() if makers and one.namespace == pod.namespace)
    named = (JobRef(one.kind, one.namespace, one.name) for one in jobs)
    return next((job for job in named if role_of(job, pod, workloads)), None)


def job_named(namespace: str, name: str, workloads: Mapping[str, WorkloadFacts]) -> JobRef | None:
    """Return the job of that name; one that another job has made only if no other one has the name.

    Returns:
        `None` if there is none, or several.
    """
    named = [one for one in workloads.values() if (one.namespace, one.name) == (namespace, name)]
    made = [one for one in named if not is_watched_kind(one.owner_kind)] or named
    return JobRef(made[0].kind, namespace, name) if len(made) == 1 else None


def role_of(job: JobRef, pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> str:
    """Return the pod's role in the job; empty if it is not a part of it."""
    row = find_kind(job.kind)
    if row is None or pod.namespace != job.namespace:
        return ""
    if job not in _jobs_above(pod, workloads) and not _is_made_for(job, row, pod, workloads.get(job.key)):
        return ""
    if row.lead and pod.owner_kind == "Job":
        return row.lead
    rest = pod.name.removeprefix(job.name)
    return next((role for role in _ROLES if f"-{role}" in rest), "worker")


def _is_made_for(job: JobRef, row: KubeKind, pod: PodFacts, facts: WorkloadFacts | None) -> bool:
    """Return whether the pod is of an object that the job's status names, or that is not watched and has its name."""
    if pod.owner_kind not in row.pod_owners:
        return False
    is_told = facts is not None and facts.pods_from == pod.owner_name
    return is_told or (not is_watched_kind(pod.owner_kind) and job.name in _names_in(pod.owner_name))


def _names_in(made: str) -> tuple[str, str]:
    """Return the names that the maker of an object may have: its own, or that without the last part."""
    return made, made.rpartition("-")[0]


def _jobs_above(pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> Iterator[JobRef]:
    """Yield the jobs that own the pod, each before the one that owns it."""
    kind, name = pod.owner_kind, pod.owner_name
    for _ in range(_MOST_LEVELS):
        if not is_watched_kind(kind):
            return
        yield (above := JobRef(kind, pod.namespace, name))
        facts = workloads.get(above.key)
        kind, name = (facts.owner_kind, facts.owner_name) if facts is not None else ("", "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key with numbers in order of size: `worker-10` after `worker-9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name) if part]
