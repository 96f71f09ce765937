"""The submission of a RayJob: by a Job that runs `ray job submit`. A mode of requests to the dashboard is not played.

KubeRay requests the state of a job from the dashboard, and stops one there. The real operator reaches it by
the head's Service; a client of the API reaches the same port of the head's pod.

Source: the real KubeRay 1.1.1.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import shlex
from typing import Any, Protocol

import msgspec
import yaml

from actions.base.decoding import decode_json
from actions.base.errors import ConsoleError, FormatError, UnreachableError
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.port_forward import open_forward, pod_finder
from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.controllers.core.pods import suffix
from actions.sandbox.controllers.ray.objects import (
    CLUSTER,
    CREATED_BY,
    FROM_KIND,
    FROM_NAME,
    HEAD,
    NODE_TYPE,
    shortened,
)

FINALIZER = "ray.io/rayjob-finalizer"
_RETRIES = 2
_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}


def why_invalid(job: Document) -> str:
    """Return why the operator ignores a RayJob, empty if it does not. The reason is in its own log only."""
    spec = job["spec"]
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("submissionMode") == "HTTPMode":
        return "the sandbox submits by a Job alone, as K8sJobMode does"
    if spec.get("suspend") and spec.get("clusterSelector"):
        return "the ClusterSelector mode doesn't support the suspend operation"
    if spec.get("clusterSelector") and CLUSTER not in spec["clusterSelector"]:
        return f"failed to get cluster name in ClusterSelector map, the default key is {CLUSTER}"
    if not spec.get("clusterSelector") and not spec.get("rayClusterSpec"):
        return "one of RayClusterSpec or ClusterSelector must be set"
    return ""


def identity(job: Document) -> Document:
    """Return the id of a new submission and the cluster that it goes to, as the status shows them."""
    name, selector = job["metadata"]["name"], job["spec"].get("clusterSelector") or {}
    return {
        "jobId": job["spec"].get("jobId") or f"{name}-{suffix()}",
        "rayClusterName": selector[CLUSTER] if selector else shortened(f"{name}-raycluster-{suffix()}"),
    }


def completed_spec(job: Document) -> Document | None:
    """The empty fields that the operator's first update leaves in a RayJob's own cluster, `None` without one."""
    cluster: Document = copy.deepcopy(job["spec"].get("rayClusterSpec") or {})
    if not cluster:
        return None
    for group in (cluster["headGroupSpec"], *(cluster.get("workerGroupSpecs") or ())):
        group["template"].setdefault("metadata", {})
    for group in cluster.get("workerGroupSpecs") or ():
        group.setdefault("scaleStrategy", {})
    return {"rayClusterSpec": cluster}


def own_cluster(job: Document, name: str) -> Document:
    """The RayCluster of a RayJob that selects none."""
    metadata = job["metadata"]
    labels = {**(metadata.get("labels") or {}), FROM_KIND: "RayJob", FROM_NAME: metadata["name"]}
    made: Document = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }
    if metadata.get("annotations"):
        made["annotations"] = dict(metadata["annotations"])
    return {"metadata": made, "spec": copy.deepcopy(job["spec"]["rayClusterSpec"])}


def submitter(job: Document, cluster: Document, *, job_id: str, dashboard: str) -> Document:
    """The Job that submits a RayJob and then follows its log; it bears the RayJob's name."""
    metadata = job["metadata"]
    template = copy.deepcopy(job["spec"].get("submitterPodTemplate")) or _default_template(cluster)
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = _command(job, job_id=job_id, dashboard=dashboard)
    container["env"] = [
        *(container.get("env") or ()),
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": dashboard},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": job_id},
    ]
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**CREATED_BY, FROM_NAME: metadata["name"], FROM_KIND: "RayJob"},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"backoffLimit": _RETRIES, "template": template},
    }


def _default_template(cluster: Document) -> Document:
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container = {"name": "ray-job-submitter", "image": head["image"], "resources": copy.deepcopy(_RESOURCES)}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _command(job: Document, *, job_id: str, dashboard: str) -> list[str]:
    spec = job["spec"]
    options: list[str] = []
    environment = _runtime_environment(job)
    if environment:
        options += ["--runtime-env-json", _as_go_writes(environment)]
    if spec.get("metadata"):
        options += ["--metadata-json", _as_go_writes(spec["metadata"])]
    options += ["--submission-id", job_id]
    for field, flag in (("entrypointNumCpus", "--entrypoint-num-cpus"), ("entrypointNumGpus", "--entrypoint-num-gpus")):
        if float(spec.get(field) or 0) > 0:
            options += [flag, f"{float(spec[field]):f}"]
    if spec.get("entrypointResources"):
        options += ["--entrypoint-resources", spec["entrypointResources"]]
    entrypoint = shlex.split(str(spec["entrypoint"]).strip(), comments=True)
    return ["ray", "job", "submit", "--address", f"http://{dashboard}", *options, "--", *entrypoint]


def _runtime_environment(job: Document) -> dict[str, Any]:
    try:
        found = yaml.safe_load(job["spec"].get("runtimeEnvYAML") or "")
    except yaml.YAMLError as error:
        raise ValueError("runtimeEnvYAML is not YAML") from error
    return found if isinstance(found, dict) else {}


def _as_go_writes(value: object) -> str:
    """JSON with sorted keys and no blanks, safe to stand in HTML."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_PORT = 8265
_DEADLINE_SECONDS = 10.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)
_TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class UnknownJob(Exception):
    """The dashboard answers, and has no job of that id."""


class JobInfo(msgspec.Struct, frozen=True):
    """The dashboard's information about a job."""

    status: str
    message: str

    @property
    def is_terminal(self) -> bool:
        """True if the job has ended."""
        return is_terminal(self.status)


def is_terminal(status: str) -> bool:
    """Return whether a job in this state has ended."""
    return status in _TERMINAL


class DashboardAddress(msgspec.Struct, frozen=True):
    """The address of a cluster's dashboard."""

    namespace: str
    cluster: str


class Dashboard(Protocol):
    """The two requests. Each raises a `ConsoleError` if there is no answer."""

    async def job(self, address: DashboardAddress, job_id: str) -> JobInfo:
        """The job of that id; raises `UnknownJob` if there is none."""
        ...

    async def stop(self, address: DashboardAddress, job_id: str) -> None:
        """Stop a job."""
        ...


class PodDashboard:
    """The dashboard in the head's pod, through the API's port-forward.

    Args:
        session: With the API.
    """

    def __init__(self, session: KubeSession) -> None:
        self._session = session

    async def job(self, address: DashboardAddress, job_id: str) -> JobInfo:
        """See `Dashboard`."""
        code, body = await self._ask(address, "GET", f"/api/jobs/{job_id}")
        if code == 404:
            raise UnknownJob(job_id)
        found = _document(body)
        return JobInfo(str(found.get("status") or ""), str(found.get("message") or ""))

    async def stop(self, address: DashboardAddress, job_id: str) -> None:
        """See `Dashboard`."""
        await self._ask(address, "POST", f"/api/jobs/{job_id}/stop")

    async def _ask(self, address: DashboardAddress, method: str, path: str) -> tuple[int, bytes]:
        troubles: list[ConsoleError] = []
        head = pod_finder(self._session, address.namespace, f"{CLUSTER}={address.cluster},{NODE_TYPE}={HEAD}")
        opening = open_forward(self._session, address.namespace, head, _PORT, on_trouble=troubles.append)
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS), opening as forward:
                answer = await _exchange(forward.local_port, method, path)
        except (TimeoutError, OSError) as error:
            raise UnreachableError(f"The dashboard of {address.cluster} does not answer.") from error
        if troubles:
            raise troubles[0]
        return _parse(answer, address)


async def _exchange(port: int, method: str, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: dashboard\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        return await _read_answer(reader)
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """Read a whole answer by its content length: not every kubelet passes on that the other side has closed."""
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        return head + (await reader.readexactly(int(length[1])) if length else await reader.read())
    except asyncio.IncompleteReadError as cut:
        return head + cut.partial


def _parse(answer: bytes, address: DashboardAddress) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[1].isdigit():
        raise UnreachableError(f"The dashboard of {address.cluster} closed the connection without an answer.")
    return int(words[1]), body


def _document(body: bytes) -> dict[str, Any]:
    try:
        return decode_json(body, dict[str, Any])
    except msgspec.DecodeError as error:
        raise FormatError("The dashboard's answer is not JSON.") from error
