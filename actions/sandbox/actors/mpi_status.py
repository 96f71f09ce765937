"""The status of an MPIJob: what the MPI operator concludes from its launcher and workers.

Source: recordings of mpi-operator 0.6.0 (conditions, reasons, messages, replica statuses).
"""

from __future__ import annotations

import copy

import msgspec

from actions.sandbox.actors.conditions import condition_of, is_true
from actions.sandbox.actors.jobstatus import JobStatus
from actions.sandbox.actors.kinds import Document
from actions.sandbox.actors.mpi_objects import LAUNCHER, WORKER, is_suspended
from actions.sandbox.actors.podcontrol import phase_of

_ENDS = ("Succeeded", "Failed")
_BACKOFF = "BackoffLimitExceeded"
_AMOUNTS = ("active", "succeeded", "failed")


class MPIJobStatus(JobStatus):
    """The status of an MPIJob under construction."""

    replicas: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Role → how many are active, succeeded, failed; a role that is not there yet is absent."""
    started_at: str | None = None
    completed_at: str | None = None

    def set(self, name: str, reason: str, message: str, *, status: bool = True) -> bool:
        """Set a condition; one that changes goes to the end. Returns whether it did."""
        if not self.put(name, reason, message, status=status):
            return False
        ended = ("Running", "Failed") if name in _ENDS else ()
        *others, made = self.conditions
        self.conditions = [*(one | {"status": "False"} if one["type"] in ended else one for one in others), made]
        return True

    def has(self, name: str) -> bool:
        """Whether there is such a condition, True or False."""
        return any(one["type"] == name for one in self.conditions)

    def change(self) -> Document:
        """The status as a merge patch: amounts that are zero are `None`."""
        return {
            "conditions": self.conditions,
            "replicaStatuses": {
                role: {name: amounts.get(name) or None for name in _AMOUNTS} for role, amounts in self.replicas.items()
            },
            "startTime": self.started_at,
            "completionTime": self.completed_at,
        }

    def is_as_stored(self) -> bool:
        """Whether the job has this status already."""
        old = self.job.get("status") or {}
        shown = {role: {name: one for name, one in sums.items() if one} for role, sums in self.replicas.items()}
        return (
            old.get("conditions") == self.conditions
            and old.get("replicaStatuses") == shown
            and (old.get("startTime"), old.get("completionTime")) == (self.started_at, self.completed_at)
        )


def begin_mpi_job_status(job: Document, now: str) -> MPIJobStatus:
    """The job's status as it is, ready to be changed; a new job is created with it."""
    old = copy.deepcopy(job.get("status") or {})
    status = MPIJobStatus(
        job,
        now,
        conditions=old.get("conditions") or [],
        started_at=old.get("startTime"),
        completed_at=old.get("completionTime"),
    )
    if not status.conditions:
        message = f"MPIJob {_name(job)} is created."
        status.set("Created", "MPIJobCreated", message)
        status.tell("MPIJobCreated", message)
    if status.started_at is None and not is_suspended(job):
        status.started_at = now
    return status


def conclude_mpi_job(
    status: MPIJobStatus, launcher: Document | None, pods: list[Document], workers: list[Document]
) -> None:
    """Set the conditions and counts that follow from the launcher's Job, its pods, and the workers."""
    _rest(status)
    running = sum(phase_of(pod) == "Running" for pod in pods)
    if launcher is not None:
        status.replicas[LAUNCHER] = _of_launcher(status, launcher, pods, running)
    phases = [phase_of(pod) for pod in workers]
    status.replicas[WORKER] = {
        "active": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }
    evicted = sum(phase_of(pod) == "Failed" and pod["status"].get("reason") == "Evicted" for pod in workers)
    if evicted:
        message = f"{evicted}/{len(workers)} workers are evicted"
        status.set("Failed", "MPIJobEvicted", message)
        status.tell("MPIJobEvicted", message, is_warning=True)
    name = _name(status.job)
    if is_suspended(status.job):
        status.set("Running", "MPIJobSuspended", f"MPIJob {name} is suspended.", status=False)
    elif running and phases.count("Running") == len(workers):
        status.set("Running", "MPIJobRunning", f"MPIJob {name} is running.")
        status.tell("MPIJobRunning", f"MPIJob {name} is running")


def _rest(status: MPIJobStatus) -> None:
    """Suspended or resumed."""
    if is_suspended(status.job):
        if status.set("Suspended", "MPIJobSuspended", "MPIJob suspended"):
            status.tell("MPIJobSuspended", "MPIJob suspended")
    elif status.has("Suspended") and status.set("Suspended", "MPIJobResumed", "MPIJob resumed", status=False):
        status.tell("MPIJobResumed", "MPIJob resumed")
        status.started_at = status.now


def _of_launcher(status: MPIJobStatus, launcher: Document, pods: list[Document], running: int) -> dict[str, int]:
    ended = launcher.get("status") or {}
    amounts = {"failed": int(ended.get("failed") or 0)}
    if is_true(launcher, "Complete"):
        message = f"MPIJob {_name(status.job)} successfully completed."
        status.set("Succeeded", "MPIJobSucceeded", message)
        status.tell("MPIJobSucceeded", message)
        status.completed_at = status.completed_at or ended.get("completionTime") or status.now
        return amounts | {"succeeded": 1}
    if is_true(launcher, "Failed"):
        reason, message = _failure(launcher, pods)
        status.set("Failed", reason, message)
        status.tell(reason, message, is_warning=True)
        status.completed_at = status.completed_at or status.now
        return amounts
    return amounts | {"active": running}


def _failure(launcher: Document, pods: list[Document]) -> tuple[str, str]:
    """Reason and message of a failed launcher; those of its last failed pod are appended at the back-off limit."""
    found = condition_of(launcher, "Failed") or {}
    reason, message = found.get("reason") or "MPIJobFailed", found.get("message") or ""
    failed = sorted(
        (pod for pod in pods if phase_of(pod) == "Failed"), key=lambda pod: str(pod["metadata"]["creationTimestamp"])
    )
    if reason == _BACKOFF and failed:
        last = failed[-1]["status"]
        return f"{reason}/{last.get('reason', '')}", f"{message}: {last.get('message', '')}"
    return reason, message


def _name(job: Document) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"
