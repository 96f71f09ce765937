"""The status of MPIJobs and PyTorchJobs, as their operators derive it from pods, with the events of its changes.

Source: the real mpi-operator 0.6.0 and training-operator 1.8.1 (conditions, reasons, messages, replica statuses).
"""

from __future__ import annotations

import copy

import msgspec

from actions.sandbox.clientkit.conditions import condition, condition_of, is_true, moved_to_end
from actions.sandbox.clientkit.kinds import Document, is_deleting
from actions.sandbox.controllers.core.pods import phase_of
from actions.sandbox.controllers.kubeflow.mpi_objects import LAUNCHER, WORKER, is_suspended
from actions.sandbox.controllers.kubeflow.pytorch_objects import (
    is_elastic,
    replicas_of,
    restart_policy,
    role_selector,
    roles_of,
)


class StatusEvent(msgspec.Struct, frozen=True):
    """An event about the job."""

    reason: str
    message: str
    is_warning: bool = False


class JobStatus(msgspec.Struct):
    """The part that all operators' statuses share; each operator decides how a condition changes the others."""

    job: Document
    now: str
    conditions: list[Document] = msgspec.field(default_factory=list)
    events: list[StatusEvent] = msgspec.field(default_factory=list)

    def add_event(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Note an event to record once the status is written."""
        self.events.append(StatusEvent(reason, message, is_warning))

    def put(self, name: str, reason: str, message: str, *, status: bool) -> bool:
        """Put a condition at the end, unless there is one of the same status and reason. Returns whether it did."""
        made = condition(name, status, reason, message, self.now) | {"lastUpdateTime": self.now}
        before = self.conditions
        self.conditions = moved_to_end(before, made)
        return self.conditions is not before


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
        """Set a condition; one that changes is put last. Return whether it changed."""
        if not self.put(name, reason, message, status=status):
            return False
        ended = ("Running", "Failed") if name in _ENDS else ()
        *others, made = self.conditions
        self.conditions = [*(one | {"status": "False"} if one["type"] in ended else one for one in others), made]
        return True

    def has(self, name: str) -> bool:
        """Return whether there is such a condition, True or False."""
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
        """Return whether the job has this status already."""
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
        status.add_event("MPIJobCreated", message)
    if status.started_at is None and not is_suspended(job):
        status.started_at = now
    return status


def conclude_mpi_job(
    status: MPIJobStatus, launcher: Document | None, pods: list[Document], workers: list[Document]
) -> None:
    """Set the conditions and counts that follow from the launcher's Job, its pods, and the workers."""
    _set_suspended(status)
    running = sum(phase_of(pod) == "Running" for pod in pods)
    if launcher is not None:
        status.replicas[LAUNCHER] = _launcher_counts(status, launcher, pods, running)
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
        status.add_event("MPIJobEvicted", message, is_warning=True)
    name = _name(status.job)
    if is_suspended(status.job):
        status.set("Running", "MPIJobSuspended", f"MPIJob {name} is suspended.", status=False)
    elif running and phases.count("Running") == len(workers):
        status.set("Running", "MPIJobRunning", f"MPIJob {name} is running.")
        status.add_event("MPIJobRunning", f"MPIJob {name} is running")


def _set_suspended(status: MPIJobStatus) -> None:
    """Set the condition of a job that is suspended or resumed."""
    if is_suspended(status.job):
        if status.set("Suspended", "MPIJobSuspended", "MPIJob suspended"):
            status.add_event("MPIJobSuspended", "MPIJob suspended")
    elif status.has("Suspended") and status.set("Suspended", "MPIJobResumed", "MPIJob resumed", status=False):
        status.add_event("MPIJobResumed", "MPIJob resumed")
        status.started_at = status.now


def _launcher_counts(status: MPIJobStatus, launcher: Document, pods: list[Document], running: int) -> dict[str, int]:
    ended = launcher.get("status") or {}
    amounts = {"failed": int(ended.get("failed") or 0)}
    if is_true(launcher, "Complete"):
        message = f"MPIJob {_name(status.job)} successfully completed."
        status.set("Succeeded", "MPIJobSucceeded", message)
        status.add_event("MPIJobSucceeded", message)
        status.completed_at = status.completed_at or ended.get("completionTime") or status.now
        return amounts | {"succeeded": 1}
    if is_true(launcher, "Failed"):
        reason, message = _launcher_failure(launcher, pods)
        status.set("Failed", reason, message)
        status.add_event(reason, message, is_warning=True)
        status.completed_at = status.completed_at or status.now
        return amounts
    return amounts | {"active": running}


def _launcher_failure(launcher: Document, pods: list[Document]) -> tuple[str, str]:
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


Counts = dict[str, dict[str, int]]
"""Role → how many pods are active, succeeded, failed."""


class PyTorchJobStatus(JobStatus):
    """The status of a PyTorchJob under construction."""

    def set(self, name: str, reason: str, message: str, *, status: bool = True) -> None:
        """Set a condition, with the effects that it has on others."""
        if status and name in ("Succeeded", "Failed"):
            self.conditions = [
                one | {"status": "False", "lastUpdateTime": self.now} if one["type"] == "Running" else one
                for one in self.conditions
            ]
        other = {"Running": "Restarting", "Restarting": "Running"}.get(name)
        self.conditions = [one for one in self.conditions if one["type"] != other]
        self.put(name, reason, message, status=status)

    def has(self, name: str) -> bool:
        """Return whether the condition is True."""
        return any(one["type"] == name and one["status"] == "True" for one in self.conditions)


def begin_pytorch_job_status(job: Document, now: str) -> PyTorchJobStatus:
    """The job's status as it is, ready to be changed."""
    conditions = copy.deepcopy((job.get("status") or {}).get("conditions") or [])
    return PyTorchJobStatus(job, now, conditions)


def is_finished(job: Document) -> bool:
    """Return whether the job has succeeded or failed."""
    return is_true(job, "Succeeded") or is_true(job, "Failed")


def count(job: Document, pods_by_role: dict[str, list[Document]]) -> Counts:
    """Count the pods of each role by state. A pod that is being deleted counts as failed."""
    counts: Counts = {}
    for role in roles_of(job):
        amounts = {"active": 0, "succeeded": 0, "failed": 0}
        for pod in pods_by_role.get(role, ()):
            phase = phase_of(pod)
            if phase == "Succeeded":
                amounts["succeeded"] += 1
            elif phase == "Failed" or is_deleting(pod):
                amounts["failed"] += 1
            elif phase == "Running":
                amounts["active"] += 1
        counts[role] = amounts
    return counts


def replica_statuses(job: Document, counts: Counts, *, keeps_absent: bool = False) -> Document:
    """`status.replicaStatuses`. Zeros are `None`, which a merge patch removes; left out with `keeps_absent`."""
    statuses: Document = {}
    for role, amounts in counts.items():
        shown: Document = {name: amount or None for name, amount in amounts.items()}
        if keeps_absent:
            shown = {name: amount for name, amount in shown.items() if amount}
        statuses[role] = shown | {"selector": role_selector(job, role)}
    return statuses


def conclude_pytorch_job(job: Document, status: PyTorchJobStatus, counts: Counts, *, is_fatal: dict[str, bool]) -> None:
    """Set the conditions that follow from the counts.

    Args:
        job: The job.
        status: Changed in place.
        counts: Of its pods.
        is_fatal: Role → whether a pod of it failed in a way that ExitCode does not retry.
    """
    name = job["metadata"]["name"]
    full = f"{job['metadata']['namespace']}/{name}"
    for role in roles_of(job):
        amounts = counts[role]
        is_leading = role == "Master" or "Master" not in roles_of(job)
        if is_leading:
            _progress(job, status, role, amounts, name=name, full=full)
        if (
            amounts["failed"]
            and amounts["failed"] + amounts["succeeded"] + amounts["active"]
            and not status.has("Succeeded")
        ):
            _replica_failure(job, status, role, amounts["failed"], is_fatal=is_fatal.get(role, False))


def _progress(
    job: Document, status: PyTorchJobStatus, role: str, amounts: dict[str, int], *, name: str, full: str
) -> None:
    has_master = role == "Master"
    is_done = amounts["succeeded"] >= replicas_of(job, role)
    if not has_master and is_elastic(job):
        is_done = amounts["succeeded"] > 0
    if is_done:
        message = (
            f"PyTorchJob {name} is successfully completed."
            if has_master
            else f"PyTorchJob {full} successfully completed."
        )
        status.set("Succeeded", "PyTorchJobSucceeded", message)
        status.add_event("PyTorchJobSucceeded", message)
    elif amounts["active"]:
        status.set("Running", "PyTorchJobRunning", f"PyTorchJob {name if has_master else full} is running.")


def _replica_failure(job: Document, status: PyTorchJobStatus, role: str, failed: int, *, is_fatal: bool) -> None:
    name = job["metadata"]["name"]
    if is_fatal:
        message = f'job "{name}" is failing because "{role}" replica(s) failed.'
        status.set("Failed", "PyTorchJobFailed", message)
        status.add_event("PyTorchJobFailed", message, is_warning=True)
    elif restart_policy(job, role) == "Never":
        message = f"PyTorchJob {name} is failed because {failed} {role} replica(s) failed."
        status.set("Failed", "PyTorchJobFailed", message)
        status.add_event("PyTorchJobFailed", message)
    else:
        message = f"PyTorchJob {name} is restarting because {failed} {role} replica(s) failed."
        status.set("Restarting", "PyTorchJobRestarting", message)
        status.add_event("PyTorchJobRestarting", message, is_warning=True)
