"""Our RayCluster and RayJob controllers beside the recordings of KubeRay 1.1.1."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import yaml

from actions.base.errors import UnreachableError
from actions.base.files import asset
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    SERVICES,
)
from actions.sandbox.controllers.core.jobs import JobController
from actions.sandbox.controllers.ray.ray_cluster import RayClusterController
from actions.sandbox.controllers.ray.ray_job import RayJobController
from actions.sandbox.controllers.ray.submission import DashboardAddress, JobInfo, UnknownJob
from tests.operators.acting import create
from tests.operators.operator import FIXTURES, Operator, definitions_in
from tests.operators.story import Document
from tests.operators.world import World, running

_PENDING = "Job has not started yet. It may be waiting for the runtime environment to be set up."
_TRACEBACK = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    "Traceback (most recent call last): ..."
)
_MESSAGES = {
    "PENDING": _PENDING,
    "RUNNING": "Job is currently running.",
    "SUCCEEDED": "Job finished successfully.",
    "FAILED": _TRACEBACK,
}
_VERSION = "kuberay-1.1.1"
_FLAGS = re.compile(r"^(ulimit -n 65536; )?(ray start(?: --head)? )(.*)$", re.DOTALL)


class RecordedDashboard:
    """A dashboard that says what the acts of a recording let it say."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobInfo] = {}
        self.is_down = False
        self.asked: list[str] = []

    async def job(self, _address: DashboardAddress, job_id: str) -> JobInfo:
        self._answer(f"GET {job_id}")
        if job_id not in self.jobs:
            raise UnknownJob(job_id)
        return self.jobs[job_id]

    async def stop(self, _address: DashboardAddress, job_id: str) -> None:
        self._answer(f"STOP {job_id}")

    def _answer(self, request: str) -> None:
        self.asked.append(request)
        if self.is_down:
            raise UnreachableError("The connection was closed without an answer.")


_DASHBOARDS: WeakKeyDictionary[ApiClient, RecordedDashboard] = WeakKeyDictionary()
"""Of each world, by its client."""


async def _say(world: World, found: re.Match[str]) -> None:
    dashboard = _DASHBOARDS[world.client]
    dashboard.jobs[world.names.real(found[1])] = JobInfo(found[2], _MESSAGES[found[2]])


async def _break(world: World, _found: re.Match[str]) -> None:
    _DASHBOARDS[world.client].is_down = True


async def _scale(world: World, found: re.Match[str]) -> None:
    groups = copy.deepcopy(world.find("RayCluster", found[1])["spec"]["workerGroupSpecs"])
    groups[int(found[2])]["replicas"] = int(found[3])
    await world.client.patch(RAY_CLUSTERS, f"default/{found[1]}", {"spec": {"workerGroupSpecs": groups}})


async def _edit(world: World, found: re.Match[str]) -> None:
    await world.client.patch(RAY_JOBS, f"default/{found[1]}", {"spec": {"entrypoint": "python3 other.py"}})


async def _create_selected(world: World, found: re.Match[str]) -> None:
    """The cluster of all recordings with one."""
    text = (FIXTURES / _VERSION / "cluster-ready-delete.yaml").read_text(encoding="utf-8")
    manifest = yaml.load(text, yaml.CSafeLoader)
    assert manifest["metadata"]["name"] == found[1]
    await create(world, [manifest])


async def _break_pod(world: World, found: re.Match[str]) -> None:
    pod = world.find("Pod", found[1])
    status = running(pod)
    for condition in status["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "False"
    for container in status["containerStatuses"]:
        container |= {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    await world.client.patch_status(PODS, pod, status)


def definitions() -> list[Document]:
    """The CRDs of the demo's KubeRay, and as much of Volcano's as KubeRay looks for."""
    return [*definitions_in(asset("mirror/kuberay/1.1.1/manifest.yaml")), pod_group_definition()]


def pod_group_definition() -> Document:
    """The CRD of PodGroups, which like the real one has no status subresource."""
    documents = definitions_in(asset("mirror/volcano/1.15.1/manifest.yaml"))
    return next(one for one in documents if one["metadata"]["name"].startswith("podgroups."))


def _controllers(client: ApiClient, caches: Caches) -> list[Controller]:
    dashboard = _DASHBOARDS[client] = RecordedDashboard()
    return [
        JobController(client, caches),
        RayClusterController(client, caches, needs_operator=False),
        RayJobController(client, caches, dashboard, needs_operator=False),
    ]


def _essence(kind: str, status: Document) -> object:
    if kind == "RayCluster":
        return [status.get("state", ""), status.get("reason", "")]
    return [status.get(name, "") for name in ("jobDeploymentStatus", "jobStatus", "reason", "message")]


def _settled(account: Any) -> Any:
    """With the flags of Ray's start command in order: the operator keeps them in a map."""
    if isinstance(account, str):
        return _in_text(account)
    if isinstance(account, dict):
        return {name: _settled(value) for name, value in account.items()}
    return [_settled(value) for value in account] if isinstance(account, list) else account


@cache
def _in_text(text: str) -> str:
    found = _FLAGS.match(text)
    return f"{found[1] or ''}{found[2]}{' '.join(sorted(found[3].split()))}" if found else text


KUBERAY = Operator(
    version=_VERSION,
    resources=(RAY_CLUSTERS, RAY_JOBS),
    made=(SERVICES, JOBS),
    watched=(DEPLOYMENTS, POD_GROUPS),
    definitions=definitions,
    controllers=_controllers,
    sources=frozenset({"raycluster-controller", "rayjob-controller"}),
    essence=_essence,
    beginnings=("rj-raycluster-", "rj-"),
    performers={
        r"Ray dashboard: job (\S+) is (\w+)": _say,
        r"Ray dashboard goes down": _break,
        r"PUT RayCluster (\w+): workerGroupSpecs\[(\d)\].replicas \d -> (\d)": _scale,
        r"PATCH RayJob (\w+): another entrypoint .*": _edit,
        r"create RayCluster (\w+) \(the one the selector names\)": _create_selected,
        r"pod (\S+): Ready False \(container waiting CrashLoopBackOff\), phase Running": _break_pod,
    },
    settled=_settled,
    left_out={
        "cluster-autoscaling": "no blueprint and no plain job has Ray's own autoscaler",
        "job-http-mode": "no blueprint and no plain job is submitted by requests of the operator",
        "volcano-crd-missing": "no blueprint starts KubeRay before Volcano; test_kuberay_waits_for_volcano tells of it",
        "volcano-crd-deleted-before-first-use": "nobody deletes a CRD of Volcano in a blueprint",
        "cluster-suspend": "after the resumption the real one works from a stale picture and makes workers too many",
    },
)
