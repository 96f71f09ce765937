"""The Job controller: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from actions.base.clock import parse_rfc3339
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.conditions import condition, condition_of, is_true, with_condition
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import JOBS, PODS, Document, is_deleting, key_of, owner_of, uid_of
from actions.sandbox.actors.podcontrol import PodControl, is_pod_ready, phase_of, pod_of, suffix
from actions.sandbox.actors.watching import Caches

_SOURCE = "job-controller"
_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
_BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(slots=True)
class _Ended:
    """The pods of one job that have ended; they count also when they are gone."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)


class JobController(Controller):
    """Reconciles Jobs.

    The back-off before a failed pod is replaced begins with one second instead of the real controller's ten.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._pods = PodControl(client, caches, JOBS, source=_SOURCE)
        self._ended: dict[str, _Ended] = {}
        self._failed_at: dict[str, float] = {}
        caches[JOBS].listen(lambda job: self.wake(key_of(job)))
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        owner = owner_of(pod)
        if owner is not None and owner["kind"] == "Job":
            self.wake(f"{pod['metadata']['namespace']}/{owner['name']}")

    async def reconcile(self, key: str) -> float | None:
        """Count, decide, make or remove pods."""
        job = self._caches[JOBS].get(key)
        if job is None or is_deleting(job):
            return None
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return await self._expire(job)
        pods = self._caches[PODS].of_owner(job)
        ended = self._count(job, pods)
        active = [pod for pod in pods if phase_of(pod) in ("Pending", "Running") and not is_deleting(pod)]
        if job["spec"].get("suspend"):
            await self._suspend(job, active)
            return None
        failure = self._failure(job, pods, ended)
        if failure is not None:
            await self._fail(job, active, ended, *failure)
            return None
        if len(ended.succeeded) >= _completions(job):
            await self._complete(job, ended)
            return None
        again = await self._fill(job, active, ended)
        await self._report(job, pods, ended)
        return again

    def _count(self, job: Document, pods: list[Document]) -> _Ended:
        ended = self._ended.setdefault(uid_of(job), _Ended())
        for pod in pods:
            if phase_of(pod) == "Succeeded":
                ended.succeeded.add(uid_of(pod))
            elif phase_of(pod) == "Failed" and uid_of(pod) not in ended.failed:
                ended.failed.add(uid_of(pod))
                self._failed_at[uid_of(job)] = self._client.clock.monotonic()
        return ended

    def _failure(self, job: Document, pods: list[Document], ended: _Ended) -> tuple[str, str] | None:
        limit = int(job["spec"].get("backoffLimit", 6))
        restarts = sum(_restarts(pod) for pod in pods if phase_of(pod) in ("Pending", "Running"))
        policy = job["spec"]["template"]["spec"].get("restartPolicy")
        is_spent = len(ended.failed) > limit
        if policy == "OnFailure":
            is_spent = is_spent or (restarts > 0 and restarts >= limit)
        if is_spent:
            return _BACKOFF
        started = (job.get("status") or {}).get("startTime")
        deadline = job["spec"].get("activeDeadlineSeconds")
        if deadline is not None and started and self._age(started) >= deadline:
            return _DEADLINE
        return None

    async def _fill(self, job: Document, active: list[Document], ended: _Ended) -> float | None:
        """Make the pods that are missing. Returns when to look again."""
        wanted = min(int(job["spec"].get("parallelism", 1)), _completions(job) - len(ended.succeeded))
        missing = wanted - len(active)
        deadline = job["spec"].get("activeDeadlineSeconds")
        if missing > 0:
            wait = self._backoff_left(job, len(ended.failed))
            if wait > 0:
                return wait
            for _ in range(missing):
                await self._pods.create(job, _pod(job))
        return float(deadline) if deadline is not None else None

    def _backoff_left(self, job: Document, failures: int) -> float:
        failed_at = self._failed_at.get(uid_of(job))
        if failed_at is None:
            return 0.0
        backoff = min(_RETRY_SECONDS * 2.0 ** (failures - 1), _LONGEST_RETRY_SECONDS)
        return failed_at + backoff - self._client.clock.monotonic()

    async def _report(self, job: Document, pods: list[Document], ended: _Ended) -> None:
        status = job.get("status") or {}
        pods = self._caches[PODS].of_owner(job)
        active = [pod for pod in pods if phase_of(pod) in ("Pending", "Running") and not is_deleting(pod)]
        resumed = condition_of(job, "Suspended")
        change: Document = {
            "active": len(active) or None,
            "ready": sum(is_pod_ready(pod) for pod in active),
            "succeeded": len(ended.succeeded) or None,
            "failed": len(ended.failed) or None,
            "terminating": sum(is_deleting(pod) for pod in pods),
            "startTime": status.get("startTime") or self._client.timestamp(),
        }
        if resumed is not None and resumed["status"] == "True":
            change["startTime"] = self._client.timestamp()
            change["conditions"] = self._conditions(job, ("Suspended", False, "JobResumed", "Job resumed"))
        await self._patch(job, change)

    async def _suspend(self, job: Document, active: list[Document]) -> None:
        for pod in active:
            await self._pods.delete(job, pod)
        if not is_true(job, "Suspended"):
            conditions = self._conditions(job, ("Suspended", True, "JobSuspended", "Job suspended"))
            await self._patch(job, {"active": None, "ready": 0, "startTime": None, "conditions": conditions})
            await self._client.record(job, JOBS, "Suspended", "Job suspended", source=_SOURCE)

    async def _complete(self, job: Document, ended: _Ended) -> None:
        now = self._client.timestamp()
        base: Document = {
            "active": None,
            "ready": 0,
            "succeeded": len(ended.succeeded),
            "failed": len(ended.failed) or None,
            "terminating": 0,
            "startTime": (job.get("status") or {}).get("startTime") or now,
        }
        if not is_true(job, "SuccessCriteriaMet"):
            conditions = self._conditions(job, ("SuccessCriteriaMet", True, *_REACHED))
            updated = await self._patch(job, base | {"conditions": conditions})
            job = updated or job
        conditions = self._conditions(job, ("Complete", True, *_REACHED))
        await self._patch(job, base | {"conditions": conditions, "completionTime": now})
        await self._client.record(job, JOBS, "Completed", "Job completed", source=_SOURCE)

    async def _fail(self, job: Document, active: list[Document], ended: _Ended, reason: str, message: str) -> None:
        if not is_true(job, "FailureTarget"):
            conditions = self._conditions(job, ("FailureTarget", True, reason, message))
            job = await self._patch(job, {"conditions": conditions}) or job
        for pod in active:
            await self._pods.delete(job, pod)
        failed = len(ended.failed) + len(active)
        change = {"active": None, "ready": 0, "failed": failed, "succeeded": len(ended.succeeded) or None}
        await self._patch(job, change | {"conditions": self._conditions(job, ("Failed", True, reason, message))})
        await self._client.record(job, JOBS, reason, message, source=_SOURCE, is_warning=True)

    async def _expire(self, job: Document) -> float | None:
        """Delete a finished job when its time to live is over."""
        self._ended.pop(uid_of(job), None)
        self._failed_at.pop(uid_of(job), None)
        lifetime = job["spec"].get("ttlSecondsAfterFinished")
        if lifetime is None:
            return None
        ended = condition_of(job, "Complete") or condition_of(job, "Failed") or {}
        left = float(lifetime) - self._age(ended["lastTransitionTime"])
        if left > 0:
            return left
        await self._client.delete(JOBS, key_of(job), uid=uid_of(job))
        return None

    def _conditions(self, job: Document, new: tuple[str, bool, str, str]) -> list[Document]:
        old = list((job.get("status") or {}).get("conditions") or ())
        made = condition(*new, now=self._client.timestamp())
        return with_condition(old, made | {"lastProbeTime": made["lastTransitionTime"]})

    async def _patch(self, job: Document, change: Document) -> Document | None:
        status = job.get("status") or {}
        if all(status.get(name) == value for name, value in change.items()):
            return job
        updated = await self._client.patch_status(JOBS, job, change)
        if updated is not None:
            self._caches[JOBS].upsert(updated)
        return updated

    def _age(self, timestamp: str) -> float:
        return (self._client.clock.now() - parse_rfc3339(timestamp)).total_seconds()


def _completions(job: Document) -> int:
    """How many pods must succeed; without `completions`, one that does is enough."""
    return int(job["spec"].get("completions") or 1)


def _restarts(pod: Document) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(one.get("restartCount", 0)) for one in statuses)


def _pod(job: Document) -> Document:
    name = job["metadata"]["name"]
    pod = pod_of(job["spec"]["template"], f"{name[:57]}-{suffix()}")
    pod["metadata"]["labels"] = {
        "batch.kubernetes.io/controller-uid": uid_of(job),
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid_of(job),
        "job-name": name,
    } | pod["metadata"]["labels"]
    return pod
