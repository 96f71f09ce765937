"""The Job controller: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actions.base.clock import parse_rfc3339
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, condition_of, is_true, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import JOBS, PODS, Document, is_deleting, key_of, owner_of, uid_of
from actions.sandbox.controllers.core.pods import PodControl, is_pod_ready, phase_of, pod_of

_SOURCE = "job-controller"
_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
_LONGEST_BEGINNING = 57
"""The most characters of a job's name in the names of its pods: with a dash and five letters they are still labels."""
_BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an Indexed job."""
FINALIZER = "batch.kubernetes.io/job-tracking"
"""Keeps a pod until its end has been counted in its job's status."""


class _PodCounts(msgspec.Struct, frozen=True):
    """The numbers of a job's pods that have ended, those included that its status does not count yet."""

    succeeded: int
    failed: int
    uncounted: tuple[Document, ...]


class JobController(Controller):
    """Reconciles Jobs.

    The back-off before a failed pod is replaced begins with one second instead of the real controller's ten.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._pods = PodControl(client, caches, JOBS, source=_SOURCE)
        self._counted: set[str] = set()
        """Pods whose end the status of a job holds, by uid; the cache may still show their finalizer."""
        self._failed_at: dict[str, float] = {}
        caches[JOBS].listen(lambda job: self.wake(key_of(job)))
        self.wake_owners(JOBS, [caches[PODS]])

    async def reconcile(self, key: str) -> float | None:
        """Count, decide, make or remove pods."""
        job = self._caches[JOBS].get(key)
        if job is None or is_deleting(job):
            if job is not None:
                await self._patch(job, self._present(job))
            await self._release(self._orphans(key))
            return None
        pods = self._caches[PODS].of_owner(job)
        if is_true(job, "Complete") or is_true(job, "Failed"):
            await self._release(pods)
            return await self._expire(job)
        tally = self._count(job, pods)
        active = [pod for pod in pods if phase_of(pod) in ("Pending", "Running") and not is_deleting(pod)]
        if job["spec"].get("suspend"):
            await self._suspend(job, active, tally)
            return None
        failure = self._failure(job, pods, tally)
        if failure is not None:
            await self._fail(job, pods, tally, failure)
            return None
        if tally.succeeded >= _completions(job):
            await self._complete(job, tally)
            return None
        again = await self._fill(job, active, tally)
        await self._report(job, tally)
        return again

    def _orphans(self, key: str) -> list[Document]:
        """The pods of a job that is gone or going."""
        namespace, _, name = key.rpartition("/")
        found = []
        for pod in self._caches[PODS].objects.values():
            owner = owner_of(pod)
            is_mine = owner is not None and owner["kind"] == "Job" and owner["name"] == name
            if is_mine and pod["metadata"]["namespace"] == namespace and _is_held(pod):
                found.append(pod)
        return found

    def _count(self, job: Document, pods: list[Document]) -> _PodCounts:
        status = job.get("status") or {}
        fresh = [pod for pod in pods if _has_ended(pod) and _is_held(pod) and uid_of(pod) not in self._counted]
        failures = [pod for pod in fresh if phase_of(pod) != "Succeeded"]
        if failures and uid_of(job) not in self._failed_at:
            self._failed_at[uid_of(job)] = self._client.clock.monotonic()
        succeeded = int(status.get("succeeded") or 0) + len(fresh) - len(failures)
        return _PodCounts(succeeded, int(status.get("failed") or 0) + len(failures), tuple(fresh))

    async def _settle(self, tally: _PodCounts) -> None:
        """Remove the finalizer of the pods whose end the job's status now holds."""
        self._counted |= {uid_of(pod) for pod in tally.uncounted}
        await self._release(tally.uncounted)

    async def _release(self, pods: Iterable[Document]) -> None:
        """Take our finalizer off pods."""
        for pod in pods:
            if _is_held(pod):
                left = [one for one in pod["metadata"]["finalizers"] if one != FINALIZER]
                change = {"metadata": {"uid": uid_of(pod), "finalizers": left or None}}
                updated = await self._client.patch(PODS, key_of(pod), change)
                if updated is not None and not is_deleting(updated):
                    self._caches[PODS].upsert(updated)

    def _failure(self, job: Document, pods: list[Document], tally: _PodCounts) -> tuple[str, str] | None:
        target = condition_of(job, "FailureTarget")
        if target is not None:
            return target["reason"], target["message"]
        limit = int(job["spec"].get("backoffLimit", 6))
        restarts = sum(_restarts(pod) for pod in pods if phase_of(pod) in ("Pending", "Running"))
        policy = job["spec"]["template"]["spec"].get("restartPolicy")
        is_spent = tally.failed > limit
        if policy == "OnFailure":
            is_spent = is_spent or (restarts > 0 and restarts >= limit)
        if is_spent:
            return _BACKOFF
        started = (job.get("status") or {}).get("startTime")
        deadline = job["spec"].get("activeDeadlineSeconds")
        if deadline is not None and started and self._age(started) >= deadline:
            return _DEADLINE
        return None

    async def _fill(self, job: Document, active: list[Document], tally: _PodCounts) -> float | None:
        """Make the pods that are missing. Return the seconds until the next pass."""
        wanted = min(int(job["spec"].get("parallelism", 1)), _completions(job) - tally.succeeded)
        missing = wanted - len(active)
        deadline = job["spec"].get("activeDeadlineSeconds")
        if missing > 0:
            wait = self._backoff_left(job, tally.failed)
            if wait > 0:
                return wait
            self._failed_at.pop(uid_of(job), None)
            for index in _free_indexes(job, self._caches[PODS].of_owner(job))[:missing]:
                await self._pods.create(job, _pod(job, index))
        return float(deadline) if deadline is not None else None

    def _backoff_left(self, job: Document, failures: int) -> float:
        failed_at = self._failed_at.get(uid_of(job))
        if failed_at is None:
            return 0.0
        backoff = min(_RETRY_SECONDS * 2.0 ** (failures - 1), _LONGEST_RETRY_SECONDS)
        return failed_at + backoff - self._client.clock.monotonic()

    def _present(self, job: Document) -> Document:
        """Return the part of a status that counts pods which have not ended."""
        pods = self._caches[PODS].of_owner(job)
        active = [pod for pod in pods if phase_of(pod) in ("Pending", "Running") and not is_deleting(pod)]
        return {
            "active": len(active) or None,
            "ready": sum(is_pod_ready(pod) for pod in active),
            "terminating": sum(is_deleting(pod) for pod in pods),
        }

    async def _report(self, job: Document, tally: _PodCounts) -> None:
        is_resumed = is_true(job, "Suspended")
        started = (job.get("status") or {}).get("startTime") or self._client.timestamp()
        change = _amounts(tally) | self._present(job) | {"startTime": started}
        if _is_indexed(job):
            change["completedIndexes"] = _completed_indexes(self._caches[PODS].of_owner(job)) or None
        if is_resumed:
            change["startTime"] = self._client.timestamp()
            change["conditions"] = self._conditions(job, ("Suspended", False, "JobResumed", "Job resumed"))
        await self._patch(job, change)
        await self._settle(tally)
        if is_resumed:
            await self._client.record_event(job, JOBS, "Resumed", "Job resumed", source=_SOURCE)

    async def _suspend(self, job: Document, active: list[Document], tally: _PodCounts) -> None:
        """Remove the pods. They are let go first, so that they do not count as failed."""
        await self._release(active)
        for pod in active:
            await self._pods.delete(job, pod)
        change = _amounts(tally) | {"active": None, "ready": 0, "terminating": 0}
        if is_true(job, "Suspended"):
            await self._patch(job, change)
        else:
            conditions = self._conditions(job, ("Suspended", True, "JobSuspended", "Job suspended"))
            await self._patch(job, change | {"conditions": conditions})
            await self._client.record_event(job, JOBS, "Suspended", "Job suspended", source=_SOURCE)
        await self._settle(tally)

    async def _complete(self, job: Document, tally: _PodCounts) -> None:
        now = self._client.timestamp()
        base: Document = {
            "active": None,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "startTime": (job.get("status") or {}).get("startTime") or now,
        }
        if not is_true(job, "SuccessCriteriaMet"):
            conditions = self._conditions(job, ("SuccessCriteriaMet", True, *_REACHED))
            job = await self._patch(job, base | {"conditions": conditions}) or job
        if _is_indexed(job):
            base["completedIndexes"] = _completed_indexes(self._caches[PODS].of_owner(job))
        await self._settle(tally)
        conditions = self._conditions(job, ("Complete", True, *_REACHED))
        await self._patch(job, base | _amounts(tally) | {"conditions": conditions, "completionTime": now})
        await self._client.record_event(job, JOBS, "Completed", "Job completed", source=_SOURCE)

    async def _fail(self, job: Document, pods: list[Document], tally: _PodCounts, failure: tuple[str, str]) -> None:
        """Remove the pods; the job has failed when the last one is gone."""
        left = [pod for pod in pods if phase_of(pod) in ("Pending", "Running")]
        for pod in left:
            if not is_deleting(pod):
                await self._pods.delete(job, pod)
        change = _amounts(tally) | {"active": None, "ready": 0, "terminating": len(left)}
        if not is_true(job, "FailureTarget"):
            change["conditions"] = self._conditions(job, ("FailureTarget", True, *failure))
        job = await self._patch(job, change) or job
        await self._settle(tally)
        if left:
            return
        conditions = self._conditions(job, ("Failed", True, *failure))
        await self._patch(job, {"terminating": 0, "conditions": conditions})
        await self._client.record_event(job, JOBS, *failure, source=_SOURCE, is_warning=True)

    async def _expire(self, job: Document) -> float | None:
        """Delete a finished job, its pods before it, when its time to live is over."""
        self._counted -= {uid_of(pod) for pod in self._caches[PODS].of_owner(job)}
        self._failed_at.pop(uid_of(job), None)
        lifetime = job["spec"].get("ttlSecondsAfterFinished")
        if lifetime is None:
            return None
        ended = condition_of(job, "Complete") or condition_of(job, "Failed") or {}
        left = float(lifetime) - self._age(ended["lastTransitionTime"])
        if left > 0:
            return left
        await self._client.delete(JOBS, key_of(job), uid=uid_of(job), propagation="Foreground")
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
    """Return how many pods must succeed; without `completions`, one that does is enough."""
    return int(job["spec"].get("completions") or 1)


def _amounts(tally: _PodCounts) -> Document:
    """The counts of a job's status; zeros are `None`, which a merge patch removes."""
    counts = {"succeeded": tally.succeeded or None, "failed": tally.failed or None}
    return counts | {"uncountedTerminatedPods": {}}


def _is_held(pod: Document) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def _has_ended(pod: Document) -> bool:
    """Return whether a pod counts as ended; one that is being deleted has failed, even if its phase is another."""
    return phase_of(pod) in ("Succeeded", "Failed") or is_deleting(pod)


def _restarts(pod: Document) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(one.get("restartCount", 0)) for one in statuses)


def _is_indexed(job: Document) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _free_indexes(job: Document, pods: Iterable[Document]) -> list[int | None]:
    """Return the indexes that have no pod that runs or has succeeded; of a job without indexes `None` for each pod."""
    if not _is_indexed(job):
        return [None] * int(job["spec"].get("parallelism", 1))
    taken = {_index_of(pod) for pod in pods if phase_of(pod) != "Failed" and not is_deleting(pod)}
    return [index for index in range(_completions(job)) if index not in taken]


def _index_of(pod: Document) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, "-1"))


def _completed_indexes(pods: Iterable[Document]) -> str:
    """Return the indexes whose pods have succeeded, as a job's status has them: `0-2,4`."""
    done = sorted({_index_of(pod) for pod in pods if phase_of(pod) == "Succeeded"})
    runs: list[list[int]] = []
    for index in done:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _pod(job: Document, index: int | None) -> Document:
    name = job["metadata"]["name"]
    pod = pod_of(job["spec"]["template"], "")
    del pod["metadata"]["name"]
    pod["metadata"]["generateName"] = f"{name[:_LONGEST_BEGINNING]}-"
    if index is not None:
        _mark_index(pod, name, index)
    pod["metadata"]["finalizers"] = [FINALIZER]
    pod["metadata"]["labels"] = {
        "batch.kubernetes.io/controller-uid": uid_of(job),
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid_of(job),
        "job-name": name,
    } | pod["metadata"]["labels"]
    return pod


def _mark_index(pod: Document, job: str, index: int) -> None:
    """Give a pod its index, as the real controller does: in name, host name, label, annotation and variables."""
    pod["metadata"]["generateName"] = f"{job[: _LONGEST_BEGINNING - len(str(index)) - 1]}-{index}-"
    for field in ("labels", "annotations"):
        pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), INDEX: str(index)}
    pod["spec"].setdefault("hostname", f"{job}-{index}")
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        env = container.get("env") or []
        if not any(one["name"] == variable["name"] for one in env):
            container["env"] = [*env, variable]
