"""The head of a Ray cluster, its workers and jobs, and its dashboard: jobs over HTTP, and a page for browsers.

Source: Ray 2.22 jobs REST API (paths, fields, texts); KubeRay 1.1.1's requests as recorded.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

import msgspec

from actions.sandbox.programs.network import HttpAnswer
from actions.sandbox.programs.program import NeuronLoad

TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_KEPT_CHARACTERS = 20_000
MESSAGES = {
    "PENDING": "Job has not started yet. It may be waiting for the runtime environment to be set up.",
    "RUNNING": "Job is currently running.",
    "SUCCEEDED": "Job finished successfully.",
    "STOPPED": "Job was intentionally stopped.",
}


class RayJob(msgspec.Struct):
    """A submission."""

    submission_id: str
    entrypoint: str
    runtime_env: dict[str, Any]
    submitted_at: float
    """Seconds since the epoch."""
    status: str = "PENDING"
    message: str = MESSAGES["PENDING"]
    log: list[str] = msgspec.field(default_factory=list)
    """The output of its driver and its workers, in pieces."""
    ended_at: float = 0.0
    """Seconds since the epoch, 0 while it has not ended."""
    must_stop: bool = False

    @property
    def is_over(self) -> bool:
        """True if its state is final."""
        return self.status in TERMINAL

    @property
    def environment(self) -> dict[str, str]:
        """The variables that its runtime environment sets."""
        return {str(name): str(value) for name, value in (self.runtime_env.get("env_vars") or {}).items()}

    def begin(self) -> None:
        """Note that its driver has been started."""
        self._move("RUNNING")

    def end(self, status: str, now: float, *, code: int = 0) -> None:
        """Note that its driver has ended, or has been stopped."""
        self.ended_at = now
        self._move(status)
        if status == "FAILED":
            tail = "".join(self.log)[-_KEPT_CHARACTERS:]
            self.message = (
                f"Job entrypoint command failed with exit code {code}, "
                f"last available logs (truncated to 20,000 chars):\n{tail}"
            )

    def _move(self, status: str) -> None:
        self.status, self.message = status, MESSAGES.get(status, "")


class RayNode(msgspec.Struct):
    """A worker pod that has joined."""

    pod: str
    address: str
    neuron_cores: int
    load: NeuronLoad = msgspec.field(default_factory=NeuronLoad)
    """The load that the job puts on its devices."""


class RayHead:
    """The state that the global control store of a Ray cluster holds.

    Args:
        cluster: The RayCluster's name.
        now: Seconds since the epoch.
    """

    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self.cluster = cluster
        self.now = now
        self.jobs: dict[str, RayJob] = {}
        self.nodes: dict[str, RayNode] = {}

    def join(self, node: RayNode) -> None:
        """Add a worker that has started."""
        self.nodes[node.pod] = node

    def leave(self, pod: str) -> None:
        """Remove a worker that has ended, and what ran on it."""
        self.nodes.pop(pod, None)

    def submit(self, job: RayJob) -> bool:
        """Take a job. Return whether its id is new."""
        if job.submission_id in self.jobs:
            return False
        self.jobs[job.submission_id] = job
        return True

    def set_load(self, load: NeuronLoad) -> None:
        """Set the load of every worker's devices from now on."""
        for node in self.nodes.values():
            node.load = load

    @property
    def neuron_cores(self) -> int:
        """The number of cores of all workers."""
        return sum(node.neuron_cores for node in self.nodes.values())


PORT = 8265
VERSION = "2.22.0"
_JOBS = "/api/jobs/"


class RayDashboard:
    """Serves one head."""

    def __init__(self, head: RayHead) -> None:
        self.head = head

    def answer(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Answer a request (`HttpService`)."""
        path = path.partition("?")[0]
        if path == "/api/version":
            return _json({"version": "4", "ray_version": VERSION, "ray_commit": "", "session_name": ""})
        if path in ("/api/gcs_healthz", "/api/local_raylet_healthz"):
            return HttpAnswer(200, b"success", "text/plain")
        if path in (_JOBS, _JOBS.rstrip("/")):
            return (
                self._submit(body)
                if method == "POST"
                else _json([_job_details(job) for job in self.head.jobs.values()])
            )
        if path.startswith(_JOBS):
            return self._about(method, *path.removeprefix(_JOBS).rstrip("/").partition("/")[::2])
        if path == "/" and method in ("GET", "HEAD"):
            return HttpAnswer(200, self._page().encode(), "text/html; charset=utf-8")
        return HttpAnswer(404, b"404: Not Found", "text/plain")

    def _about(self, method: str, job_id: str, what: str) -> HttpAnswer:
        job = self.head.jobs.get(job_id)
        if job is None:
            return HttpAnswer(404, f"Job {job_id} does not exist".encode(), "text/plain")
        match method, what:
            case "GET", "":
                return _json(_job_details(job))
            case "GET", "logs":
                return _json({"logs": "".join(job.log)})
            case "POST", "stop":
                is_new = not job.is_over
                job.must_stop = job.must_stop or is_new
                return _json({"stopped": is_new})
        return HttpAnswer(405, b"405: Method Not Allowed", "text/plain")

    def _submit(self, body: bytes) -> HttpAnswer:
        try:
            asked = json.loads(body)
            job = RayJob(
                str(asked.get("submission_id") or f"raysubmit_{len(self.head.jobs) + 1:016d}"),
                str(asked["entrypoint"]),
                dict(asked.get("runtime_env") or {}),
                self.head.now(),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return HttpAnswer(400, f"the request is not a submission: {error}".encode(), "text/plain")
        if not self.head.submit(job):
            return HttpAnswer(
                500,
                f"ValueError: Job with submission_id {job.submission_id} already exists. Please use a different "
                "submission_id.".encode(),
                "text/plain",
            )
        return _json({"job_id": job.submission_id, "submission_id": job.submission_id})

    def _page(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(job.submission_id)}</td><td>{job.status}</td>"
            f"<td>{html.escape(job.entrypoint)}</td></tr>"
            for job in self.head.jobs.values()
        )
        nodes = "".join(
            f"<li>{html.escape(node.pod)}: {node.neuron_cores} neuron_cores</li>" for node in self.head.nodes.values()
        )
        return (
            f"<!doctype html><title>{html.escape(self.head.cluster)}</title><h1>Ray {VERSION}: "
            f"{html.escape(self.head.cluster)}</h1><p>Played by the sandbox.</p><ul>{nodes}</ul><table>{rows}</table>\n"
        )


def _job_details(job: RayJob) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": job.submission_id,
        "status": job.status,
        "message": job.message,
        "entrypoint": job.entrypoint,
        "start_time": round(job.submitted_at * 1000),
        "end_time": round(job.ended_at * 1000) if job.ended_at else None,
        "metadata": {},
        "runtime_env": job.runtime_env,
    }


def _json(value: object) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(value).encode())
