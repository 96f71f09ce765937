"""The dashboard of a Ray head: its jobs over HTTP, as `ray job` and KubeRay ask for them, and a page to look at.

Source: Ray 2.22 jobs REST API (paths, fields, texts); KubeRay 1.1.1's requests as recorded.
"""

from __future__ import annotations

import html
import json
from typing import Any

from actions.sandbox.workloads.network import Answer
from actions.sandbox.workloads.ray_head import RayHead, RayJob

PORT = 8265
VERSION = "2.22.0"
_JOBS = "/api/jobs/"


class RayDashboard:
    """Serves one head."""

    def __init__(self, head: RayHead) -> None:
        self.head = head

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """See `network.Service`."""
        path = path.partition("?")[0]
        if path == "/api/version":
            return _json({"version": "4", "ray_version": VERSION, "ray_commit": "", "session_name": ""})
        if path in ("/api/gcs_healthz", "/api/local_raylet_healthz"):
            return Answer(200, b"success", "text/plain")
        if path in (_JOBS, _JOBS.rstrip("/")):
            return self._submit(body) if method == "POST" else _json([_told(job) for job in self.head.jobs.values()])
        if path.startswith(_JOBS):
            return self._about(method, *path.removeprefix(_JOBS).rstrip("/").partition("/")[::2])
        if path == "/" and method in ("GET", "HEAD"):
            return Answer(200, self._page().encode(), "text/html; charset=utf-8")
        return Answer(404, b"404: Not Found", "text/plain")

    def _about(self, method: str, job_id: str, what: str) -> Answer:
        job = self.head.jobs.get(job_id)
        if job is None:
            return Answer(404, f"Job {job_id} does not exist".encode(), "text/plain")
        match method, what:
            case "GET", "":
                return _json(_told(job))
            case "GET", "logs":
                return _json({"logs": "".join(job.log)})
            case "POST", "stop":
                is_new = not job.is_over
                job.must_stop = job.must_stop or is_new
                return _json({"stopped": is_new})
        return Answer(405, b"405: Method Not Allowed", "text/plain")

    def _submit(self, body: bytes) -> Answer:
        try:
            asked = json.loads(body)
            job = RayJob(
                str(asked.get("submission_id") or f"raysubmit_{len(self.head.jobs) + 1:016d}"),
                str(asked["entrypoint"]),
                dict(asked.get("runtime_env") or {}),
                self.head.now(),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return Answer(400, f"the request is no submission: {error}".encode(), "text/plain")
        if not self.head.submit(job):
            return Answer(
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


def _told(job: RayJob) -> dict[str, Any]:
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


def _json(value: object) -> Answer:
    return Answer(200, json.dumps(value).encode())
