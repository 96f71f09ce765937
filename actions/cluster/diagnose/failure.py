"""Whether a job, of whatever operator, has failed, and in which words."""

from __future__ import annotations

from actions.cluster.diagnose.case import Thing


def failure_of(job: Thing) -> tuple[str, str]:
    """Reason and message of a job that has failed; two empty texts of one that has not, or whose failure was undone."""
    if any(job.has(kind) for kind in ("Succeeded", "Complete", "Completed")):
        return "", ""
    for kind in ("Failed", "ReplicaFailure"):
        condition = job.condition(kind)
        if condition is not None and condition.status == "True":
            return condition.reason, condition.message
    deployment, run = str(job.status.get("jobDeploymentStatus") or ""), str(job.status.get("jobStatus") or "")
    if deployment in ("Failed", "ValidationFailed") or (deployment == "Complete" and run in ("FAILED", "STOPPED")):
        return str(job.status.get("reason") or run or deployment), str(job.status.get("message") or "")
    phase = (job.status.get("state") or {}).get("phase") if isinstance(job.status.get("state"), dict) else ""
    if phase in ("Failed", "Aborted", "Terminated"):
        return str(phase), str(job.status["state"].get("message") or "")
    if job.kind == "RayCluster" and job.status.get("state") == "failed":
        return "failed", str(job.status.get("reason") or "")
    return "", ""


def is_failed(job: Thing) -> bool:
    """Whether it has failed for good."""
    return any(failure_of(job))
