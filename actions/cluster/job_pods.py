"""The pods of a job, also those that it owns indirectly, with their roles and in the order of their importance.

Source: recordings of training-operator 1.8.1, mpi-operator 0.6.0 and KubeRay 1.1.1: an MPIJob's launcher belongs to a
Job `NAME-launcher`; a RayJob's submitter to a Job of its own name, its Ray pods to a RayCluster `NAME-raycluster-…`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from actions.cluster.kinds import WATCHED, is_watched_kind
from actions.fleet.facts import PodFacts, WorkloadFacts

_ROLES = ("launcher", "submitter", "head", "master", "worker")
_NUMBER = re.compile(r"(\d+)")


class JobRef(msgspec.Struct, frozen=True):
    """One job; `kind` is one that is watched."""

    kind: str
    namespace: str
    name: str
    cluster: str = ""
    """Of a RayJob, the RayCluster in its status: one of its own, or a chosen one."""

    @property
    def key(self) -> str:
        """Return the key in snapshots: `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}"


class JobPod(NamedTuple):
    """One pod of a job."""

    pod: PodFacts
    role: str
    """`launcher`, `submitter`, `head`, `master` or `worker`."""
    rank: int
    """Its place among all: 0 is the one whose log is about the job as a whole."""


def pods_of_job(job: JobRef, pods: Mapping[str, PodFacts]) -> list[JobPod]:
    """Return the pods of a job, the one whose log is about the job as a whole first."""
    found = [(role, pod) for pod in pods.values() if (role := role_of(job, pod))]
    found.sort(key=lambda one: (_ROLES.index(one[0]), _natural(one[1].name), one[1].created_at))
    return [JobPod(pod, role, rank) for rank, (role, pod) in enumerate(found)]


def job_of(pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> JobRef | None:
    """Return the outermost job that the pod is a part of; `None` if there is none that is watched."""
    for row in WATCHED:
        if not row.pod_owners:
            continue
        for workload in workloads.values():
            job = JobRef(workload.kind, workload.namespace, workload.name)
            if workload.kind == row.kind and role_of(job, pod):
                return job
    if not is_watched_kind(pod.owner_kind):
        return None
    return JobRef(pod.owner_kind, pod.namespace, pod.owner_name)


def job_named(namespace: str, name: str, workloads: Mapping[str, WorkloadFacts]) -> JobRef | None:
    """Return the job of that name; a Job only if no other kind has the name. `None` if there is none, or several."""
    named = [one for one in workloads.values() if (one.namespace, one.name) == (namespace, name)]
    made = [one for one in named if one.kind != "Job"] or named  # a RayJob's submitter has the name of its RayJob
    return JobRef(made[0].kind, namespace, name) if len(made) == 1 else None


def role_of(job: JobRef, pod: PodFacts) -> str:
    """Return the pod's role in the job; empty if it is not a part of it."""
    if pod.namespace != job.namespace:
        return ""
    owner = (pod.owner_kind, pod.owner_name)
    match job.kind:
        case "MPIJob" if owner == ("Job", f"{job.name}-launcher") or _is_own_launcher(job, pod):
            return "launcher"
        case "RayJob" if owner == ("Job", job.name):
            return "submitter"
        case "RayJob" if pod.owner_kind == "RayCluster" and _is_of_ray_job(pod.owner_name, job):
            return _ray_role(pod)
        case "RayCluster" if owner == ("RayCluster", job.name):
            return _ray_role(pod)
        case _ if owner == (job.kind, job.name) and job.kind != "RayJob":
            return "master" if "-master-" in pod.name else "worker"
    return ""


def _is_own_launcher(job: JobRef, pod: PodFacts) -> bool:
    """Return whether it is the launcher as the training-operator makes it, without a Job in between."""
    return (pod.owner_kind, pod.owner_name, pod.name) == ("MPIJob", job.name, f"{job.name}-launcher")


def _is_of_ray_job(cluster: str, job: JobRef) -> bool:
    return cluster == job.cluster if job.cluster else cluster.startswith(f"{job.name}-raycluster-")


def _ray_role(pod: PodFacts) -> str:
    return "head" if "-head" in pod.name.removeprefix(pod.owner_name) else "worker"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key with numbers in order of size: `worker-10` after `worker-9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name) if part]
