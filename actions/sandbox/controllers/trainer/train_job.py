"""The TrainJob controller of Kubeflow Trainer, as version 2.3.0 behaves with its feature gates as they are by default.

Source: `pkg/controller/trainjob_controller.go` of Kubeflow Trainer 2.3.0. It acts only while its Deployment has a ready
pod. It reports no progress: `status.trainerStatus` needs a feature gate.
"""

from __future__ import annotations

from actions.base.clock import parse_rfc3339
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, condition_of, is_true, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    RUNTIMES,
    TRAIN_JOBS,
    Document,
    is_deleting,
    key_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.trainer.train_job_objects import job_set_of, snapshot_of

_SOURCE = "trainer-trainjob-controller"
_OPERATOR = "kubeflow-system/kubeflow-trainer-controller-manager"
_OWN = "trainer.kubeflow.org/trainjob-controller"
_RETRY_SECONDS = 1.0
_COUNTS = ("name", "ready", "succeeded", "failed", "active", "suspended")
_EXCEEDED = ("DeadlineExceeded", "TrainJob exceeded its active deadline")


class TrainJobController(Controller):
    """Reconciles TrainJobs."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, _OPERATOR)
        self._operator.on_change(lambda: self.wake_each(caches[TRAIN_JOBS]))
        caches[TRAIN_JOBS].listen(lambda one: self.wake(key_of(one)))
        self.wake_owners(TRAIN_JOBS, [caches[JOB_SETS]])

    async def reconcile(self, key: str) -> float | None:
        """Make or change the JobSet, and tell of it in the status."""
        job = self._caches[TRAIN_JOBS].get(key)
        if job is None or is_deleting(job) or not self._operator.is_ready:
            return None
        if job["spec"].get("managedBy", _OWN) != _OWN:
            return None
        is_over = is_true(job, "Complete") or is_true(job, "Failed")
        again = None if is_over else await self._make(job)
        status = self._status(job)
        left = self._left(job) if not is_over else None
        if left is not None and left <= 0:
            status["conditions"] = self._with(status["conditions"], "Failed", True, *_EXCEEDED)
            await self._client.delete(JOB_SETS, key)
        before = job.get("status") or {}
        change = {name: value for name, value in status.items() if before.get(name) != value}
        if change.get("conditions") or "jobsStatus" in change:
            updated = await self._client.patch_status(TRAIN_JOBS, job, change)
            if updated is not None:
                self._caches[TRAIN_JOBS].upsert(updated)
        return again if left is None or left <= 0 else left

    async def _make(self, job: Document) -> float | None:
        """Make the JobSet, or change one that is suspended. Return when to try again."""
        key, is_suspended = key_of(job), bool(job["spec"].get("suspend"))
        known = self._caches[JOB_SETS].get(key)
        if known is not None and not is_suspended and not known["spec"].get("suspend"):
            return None
        runtime = await self._runtime(job)
        if runtime is None:
            kind = job["spec"]["runtimeRef"].get("kind", CLUSTER_RUNTIMES.kind)
            message = f"TrainJob resources reconciliation failed: not found {kind} specified in TrainJob"
            await self._client.record_event(
                job, TRAIN_JOBS, "TrainJobResourcesCreationFailed", message, source=_SOURCE, is_warning=True
            )
            return _RETRY_SECONDS
        wanted = job_set_of(job, runtime)
        if known is None:
            await self._client.create(CONFIG_MAPS, snapshot_of(job, runtime))
            await self._client.create(JOB_SETS, wanted)
        elif bool(known["spec"].get("suspend")) != is_suspended:
            await self._client.patch(JOB_SETS, key, {"spec": {"suspend": is_suspended}})
        return None

    async def _runtime(self, job: Document) -> Document | None:
        reference = job["spec"]["runtimeRef"]
        if reference.get("kind", CLUSTER_RUNTIMES.kind) == CLUSTER_RUNTIMES.kind:
            return await self._client.read(CLUSTER_RUNTIMES, reference["name"])
        return await self._client.read(RUNTIMES, f"{job['metadata']['namespace']}/{reference['name']}")

    def _status(self, job: Document) -> Document:
        """Return the conditions and the counts of Jobs as they follow from the JobSet."""
        conditions = list((job.get("status") or {}).get("conditions") or ())
        if job["spec"].get("suspend"):
            conditions = self._with(conditions, "Suspended", True, "Suspended", "TrainJob is suspended")
        elif is_true(job, "Suspended"):
            conditions = self._with(conditions, "Suspended", False, "Resumed", "TrainJob is resumed")
        job_set = self._caches[JOB_SETS].get(key_of(job))
        if job_set is None:
            return {"conditions": conditions}
        for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
            if is_true(job_set, theirs):
                conditions = with_condition(conditions, (condition_of(job_set, theirs) or {}) | {"type": ours})
        counts = (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
        return {"conditions": conditions, "jobsStatus": [{name: one[name] for name in _COUNTS} for one in counts]}

    def _with(self, conditions: list[Document], name: str, is_so: bool, reason: str, message: str) -> list[Document]:
        return with_condition(conditions, condition(name, is_so, reason, message, self._client.timestamp()))

    def _left(self, job: Document) -> float | None:
        """Return the seconds to its deadline; `None` without one, or while it is suspended."""
        limit = job["spec"].get("activeDeadlineSeconds")
        if not limit or job["spec"].get("suspend"):
            return None
        resumed = condition_of(job, "Suspended") or {}
        since = resumed.get("lastTransitionTime") or job["metadata"]["creationTimestamp"]
        return float(limit) - (self._client.clock.now() - parse_rfc3339(since)).total_seconds()
