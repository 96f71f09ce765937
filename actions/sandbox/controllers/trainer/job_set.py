"""The JobSet controller, as version 0.12.0 behaves with its feature gates as they are by default.

Source: `pkg/controllers` of JobSet 0.12.0. It acts only while its Deployment has a ready pod. What a JobSet leaves open
its webhook fills in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.base.clock import parse_rfc3339
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, condition_of, is_true
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    JOB_SETS,
    JOBS,
    SERVICES,
    Document,
    is_deleting,
    key_of,
    labels_of,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.trainer.job_set_objects import (
    REPLICATED_JOB,
    has_started,
    job_name,
    job_of,
    jobs_due,
    replicas_of,
    restarts_of,
    service_of,
    subdomain_of,
)

_SOURCE = "jobset"
_OPERATOR = "jobset-system/jobset-controller-manager"
_OWN = "jobset.sigs.k8s.io/jobset-controller"
_COMPLETED = ("AllJobsCompleted", "jobset completed successfully")
_SUSPENDED = ("SuspendedJobs", "jobset is suspended")
_RESUMED = ("ResumeJobs", "jobset is resumed")
_IN_ORDER = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
_ORDERED = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")
_READY = ("JobsReady", "all jobs are ready")
_EXCLUSIVE = frozenset({"StartupPolicyInProgress", "StartupPolicyCompleted"})


class _Jobs(msgspec.Struct, frozen=True):
    """The Jobs of a JobSet, of its present run and of those before."""

    active: Sequence[Document]
    succeeded: Sequence[Document]
    failed: Sequence[Document]
    previous: Sequence[Document]

    @property
    def names(self) -> set[str]:
        """The names of all."""
        every = (*self.active, *self.succeeded, *self.failed, *self.previous)
        return {job["metadata"]["name"] for job in every}


class _Status:
    """The status of a JobSet as a reconcile changes it, with the events of the changes."""

    def __init__(self, job_set: Document, now: str) -> None:
        self._now = now
        self.before = job_set.get("status") or {}
        self.conditions = [dict(one) for one in self.before.get("conditions") or ()]
        self.fields: Document = {}
        self.events: list[tuple[str, str, bool]] = []

    def set(self, name: str, is_so: bool, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Set a condition; one that is not so and never was is left out."""
        new = condition(name, is_so, reason, message, self._now)
        old = next((one for one in self.conditions if one["type"] == name), None)
        for other in self.conditions:
            if is_so and other is not old and {name, other["type"]} == _EXCLUSIVE:
                other["status"] = "False"
        if old is None:
            if not is_so:
                return
            self.conditions.append(new)
        elif all(old[field] == new[field] for field in ("status", "reason", "message")):
            return
        else:
            old.update(
                new if old["status"] != new["status"] else new | {"lastTransitionTime": old["lastTransitionTime"]}
            )
        self.events.append((reason, message, is_warning))

    @property
    def change(self) -> Document:
        """The fields that differ from before."""
        wanted = {**self.fields, "conditions": self.conditions or None}
        return {name: value for name, value in wanted.items() if self.before.get(name) != value}


class JobSetController(Controller):
    """Reconciles JobSets."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, _OPERATOR)
        self._operator.on_change(lambda: self.wake_each(caches[JOB_SETS]))
        caches[JOB_SETS].listen(lambda one: self.wake(key_of(one)))
        self.wake_owners(JOB_SETS, [caches[JOBS], caches[SERVICES]])

    async def reconcile(self, key: str) -> float | None:
        """Make, suspend, resume or delete Jobs, and write the status."""
        job_set = self._caches[JOB_SETS].get(key)
        if job_set is None or is_deleting(job_set) or not self._operator.is_ready:
            return None
        if job_set["spec"].get("managedBy", _OWN) != _OWN:
            return None
        jobs, status = self._jobs_of(job_set), _Status(job_set, self._client.timestamp())
        counts = _counts(job_set, jobs)
        names = sorted(counts, reverse=True)
        status.fields["replicatedJobsStatus"] = [{"name": name, **counts[name]} for name in names]
        again = await self._act(job_set, jobs, counts, status)
        await self._write(job_set, status)
        return again

    async def _act(
        self, job_set: Document, jobs: _Jobs, counts: dict[str, dict[str, int]], status: _Status
    ) -> float | None:
        if is_true(job_set, "Completed") or is_true(job_set, "Failed"):
            await self._delete(jobs.active)
            return await self._expire(job_set)
        await self._delete(jobs.previous)
        is_suspended = bool(job_set["spec"].get("suspend"))
        total = sum(map(replicas_of, job_set["spec"]["replicatedJobs"]))
        if not is_suspended and total == sum(one["ready"] + one["succeeded"] for one in counts.values()):
            status.set("RestartingJobSet", False, *_READY)
        if jobs.failed:
            _fail(job_set, jobs.failed, status)
            return None
        if jobs.succeeded and _is_complete(job_set, jobs.succeeded):
            status.set("Completed", True, *_COMPLETED)
            status.set("RestartingJobSet", False, "JobSetCompleted", _COMPLETED[1])
            status.fields["terminalState"] = "Completed"
            return None
        if subdomain_of(job_set) and self._caches[SERVICES].get(_key(job_set, subdomain_of(job_set))) is None:
            await self._client.create(SERVICES, service_of(job_set))
        await self._make(job_set, jobs, counts)
        await self._suspend(job_set, jobs, counts, status, is_suspended=is_suspended)
        return None

    async def _make(self, job_set: Document, jobs: _Jobs, counts: dict[str, dict[str, int]]) -> None:
        policy = job_set["spec"].get("failurePolicy") or {}
        if jobs.previous and policy.get("restartStrategy") == "BlockingRecreate":
            return
        for replicated in jobs_due(job_set, counts):
            for index in range(replicas_of(replicated)):
                if job_name(job_set, replicated, index) not in jobs.names:
                    made = await self._client.create(JOBS, job_of(job_set, replicated, index))
                    if made is not None:
                        self._caches[JOBS].upsert(made)

    async def _suspend(
        self, job_set: Document, jobs: _Jobs, counts: dict[str, dict[str, int]], status: _Status, *, is_suspended: bool
    ) -> None:
        """Bring the Jobs into the state that the JobSet is to have, and set the conditions of that."""
        due = {one["name"] for one in jobs_due(job_set, counts)}
        for job in jobs.active:
            if bool(job["spec"].get("suspend")) != is_suspended and (
                is_suspended or labels_of(job).get(REPLICATED_JOB) in due
            ):
                await self._client.patch(JOBS, key_of(job), {"spec": {"suspend": is_suspended}})
        if is_suspended:
            status.set("Suspended", True, *_SUSPENDED)
            status.set("RestartingJobSet", False, "JobSetSuspended", _SUSPENDED[1])
            return
        if (job_set["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder":
            replicas = {one["name"]: replicas_of(one) for one in job_set["spec"]["replicatedJobs"]}
            if not all(has_started(counts[name], count) for name, count in replicas.items()):
                status.set("StartupPolicyInProgress", True, *_IN_ORDER)
                return
            status.set("StartupPolicyCompleted", True, *_ORDERED)
        status.set("Suspended", False, *_RESUMED)

    def _jobs_of(self, job_set: Document) -> _Jobs:
        jobs = self._caches[JOBS].of_owner(job_set)
        restarts = int((job_set.get("status") or {}).get("restarts") or 0)
        present = [job for job in jobs if restarts_of(job) >= restarts]
        ended = {kind: [job for job in present if is_true(job, kind)] for kind in ("Complete", "Failed")}
        active = [job for job in present if not is_true(job, "Complete") and not is_true(job, "Failed")]
        previous = [job for job in jobs if restarts_of(job) < restarts]
        return _Jobs(active, ended["Complete"], ended["Failed"], previous)

    async def _delete(self, jobs: Sequence[Document]) -> None:
        for job in jobs:
            if not is_deleting(job):
                await self._client.delete(JOBS, key_of(job), uid=uid_of(job), propagation="Foreground")

    async def _expire(self, job_set: Document) -> float | None:
        lifetime = job_set["spec"].get("ttlSecondsAfterFinished")
        if lifetime is None:
            return None
        ended = condition_of(job_set, "Completed") or condition_of(job_set, "Failed") or {}
        passed = self._client.clock.now() - parse_rfc3339(ended["lastTransitionTime"])
        left = float(lifetime) - passed.total_seconds()
        if left > 0:
            return left
        await self._client.delete(JOB_SETS, key_of(job_set), uid=uid_of(job_set), propagation="Foreground")
        return None

    async def _write(self, job_set: Document, status: _Status) -> None:
        if not status.change:
            return
        updated = await self._client.patch_status(JOB_SETS, job_set, status.change)
        if updated is not None:
            self._caches[JOB_SETS].upsert(updated)
        for reason, message, is_warning in status.events:
            await self._client.record_event(job_set, JOB_SETS, reason, message, source=_SOURCE, is_warning=is_warning)


def _key(job_set: Document, name: str) -> str:
    return f"{job_set['metadata']['namespace']}/{name}"


def _counts(job_set: Document, jobs: _Jobs) -> dict[str, dict[str, int]]:
    """Return how many Jobs of each replicated job are in which state."""
    states = ("ready", "succeeded", "failed", "active", "suspended")
    counts = {one["name"]: dict.fromkeys(states, 0) for one in job_set["spec"]["replicatedJobs"]}
    for state, found in (("succeeded", jobs.succeeded), ("failed", jobs.failed)):
        for job in found:
            counts[labels_of(job)[REPLICATED_JOB]][state] += 1
    for job in jobs.active:
        mine, spec, status = counts[labels_of(job)[REPLICATED_JOB]], job["spec"], job.get("status") or {}
        pods = min(int(spec.get("parallelism", 1)), int(spec.get("completions") or spec.get("parallelism", 1)))
        mine["ready"] += int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= pods
        mine["active"] += int(status.get("active") or 0) > 0
        mine["suspended"] += bool(spec.get("suspend"))
    return counts


def _is_complete(job_set: Document, succeeded: Sequence[Document]) -> bool:
    policy = job_set["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [one["name"] for one in job_set["spec"]["replicatedJobs"]]
    found = sum(labels_of(job)[REPLICATED_JOB] in targets for job in succeeded)
    if policy.get("operator") == "Any":
        return found >= 1
    return found >= sum(replicas_of(one) for one in job_set["spec"]["replicatedJobs"] if one["name"] in targets)


def _fail(job_set: Document, failed: Sequence[Document], status: _Status) -> None:
    """Carry out the failure policy: the JobSet fails, or begins anew."""
    policy = job_set["spec"].get("failurePolicy")
    first = min(failed, key=_failed_at)
    if policy is None:
        _conclude(status, "FailedJobs", "jobset failed due to one or more job failures", first)
        return
    chosen: tuple[Document, Document] = next(
        (
            (one, min(found, key=_failed_at))
            for one in policy.get("rules") or ()
            if (found := [each for each in failed if _applies(one, each)])
        ),
        ({}, first),
    )
    rule, job = chosen
    action, before = rule.get("action", "RestartJobSet"), status.before
    counted = int(before.get("restartsCountTowardsMax") or 0)
    if action == "FailJobSet":
        _conclude(status, "FailJobSetFailurePolicyAction", "applying FailJobSet failure policy action", job)
    elif action == "RestartJobSet" and counted >= int(policy.get("maxRestarts") or 0):
        _conclude(status, "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts", job)
    else:
        message = _with_first(f"applying {action} failure policy action", job)
        reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
        status.set("RestartingJobSet", True, reason, message, is_warning=True)
        status.events.append((f"{action}FailurePolicyAction", message, True))
        status.fields["restarts"] = int(before.get("restarts") or 0) + 1
        if action == "RestartJobSet":
            status.fields["restartsCountTowardsMax"] = counted + 1


def _conclude(status: _Status, reason: str, message: str, first: Document) -> None:
    status.set("Failed", True, reason, _with_first(message, first), is_warning=True)
    status.set("RestartingJobSet", False, "JobSetFailed", "jobset failed")
    status.fields["terminalState"] = "Failed"


def _with_first(message: str, job: Document) -> str:
    return f"{message} (first failed job: {job['metadata']['name']})"


def _failed_at(job: Document) -> str:
    return str((condition_of(job, "Failed") or {}).get("lastTransitionTime", ""))


def _applies(rule: Document, job: Document) -> bool:
    reasons, targets = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    reason = (condition_of(job, "Failed") or {}).get("reason")
    return (not reasons or reason in reasons) and (not targets or labels_of(job).get(REPLICATED_JOB) in targets)
