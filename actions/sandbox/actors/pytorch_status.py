"""The status of a PyTorchJob: what the training operator concludes from its pods.

Source: recordings of training-operator 1.8.1 (conditions, reasons, messages, replica statuses).
"""

from __future__ import annotations

import copy

from actions.sandbox.actors.conditions import is_true
from actions.sandbox.actors.jobstatus import JobStatus
from actions.sandbox.actors.kinds import Document, is_deleting
from actions.sandbox.actors.podcontrol import phase_of
from actions.sandbox.actors.pytorch_objects import (
    is_elastic,
    replicas_of,
    restart_policy,
    role_selector,
    roles_of,
)

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
        """Whether the condition is True."""
        return any(one["type"] == name and one["status"] == "True" for one in self.conditions)


def begin_pytorch_job_status(job: Document, now: str) -> PyTorchJobStatus:
    """The job's status as it is, ready to be changed."""
    conditions = copy.deepcopy((job.get("status") or {}).get("conditions") or [])
    return PyTorchJobStatus(job, now, conditions)


def is_finished(job: Document) -> bool:
    """Whether the job has succeeded or failed."""
    return is_true(job, "Succeeded") or is_true(job, "Failed")


def count(job: Document, pods_by_role: dict[str, list[Document]]) -> Counts:
    """What the pods of each role do. A pod that somebody deletes counts as failed."""
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
            _failure(job, status, role, amounts["failed"], is_fatal=is_fatal.get(role, False))


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
        status.tell("PyTorchJobSucceeded", message)
    elif amounts["active"]:
        status.set("Running", "PyTorchJobRunning", f"PyTorchJob {name if has_master else full} is running.")


def _failure(job: Document, status: PyTorchJobStatus, role: str, failed: int, *, is_fatal: bool) -> None:
    name = job["metadata"]["name"]
    if is_fatal:
        message = f'job "{name}" is failing because "{role}" replica(s) failed.'
        status.set("Failed", "PyTorchJobFailed", message)
        status.tell("PyTorchJobFailed", message, is_warning=True)
    elif restart_policy(job, role) == "Never":
        message = f"PyTorchJob {name} is failed because {failed} {role} replica(s) failed."
        status.set("Failed", "PyTorchJobFailed", message)
        status.tell("PyTorchJobFailed", message)
    else:
        message = f"PyTorchJob {name} is restarting because {failed} {role} replica(s) failed."
        status.set("Restarting", "PyTorchJobRestarting", message)
        status.tell("PyTorchJobRestarting", message, is_warning=True)
