"""KubeRay's RayJob controller, as version 1.1.1 behaves.

Source: the real KubeRay 1.1.1. It acts only while its Deployment has a ready pod. The operator writes its
objections to a RayJob to its own log only: the object stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actions.base.clock import parse_rfc3339
from actions.base.errors import ConsoleError
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition_of, is_true
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    Document,
    is_deleting,
    key_of,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.ray.objects import DASHBOARD_PORT_NAME, head_host
from actions.sandbox.controllers.ray.ray_cluster import EMPTY, KUBERAY, replacing
from actions.sandbox.controllers.ray.submission import (
    FINALIZER,
    Dashboard,
    DashboardAddress,
    JobInfo,
    UnknownJob,
    completed_spec,
    identity,
    is_terminal,
    own_cluster,
    submitter,
    why_invalid,
)

_SOURCE = "rayjob-controller"
_POLL_SECONDS = 3.0
_SHUTDOWN_MARGIN_SECONDS = 2.0
_MEANT = ("jobStatus", "jobDeploymentStatus")
"""Only a change of one of these is written."""

Phase = Callable[[Document, Document], Awaitable[bool]]
"""Handles a RayJob in one deployment status: changes the status in place. Returns whether it is to be written."""


class RayJobController(Controller):
    """Reconciles RayJobs.

    Args:
        client: The API.
        caches: Of RayJobs, RayClusters, Jobs and Deployments.
        dashboard: Of the Ray heads.
    """

    def __init__(self, client: ApiClient, caches: Caches, dashboard: Dashboard) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._dashboard = dashboard
        self._operator = KubernetesOperator(caches, KUBERAY)
        self._phases: dict[str, Phase] = {
            "": self._begin,
            "Initializing": self._initialise,
            "Running": self._follow,
            "Suspending": self._suspend,
            "Suspended": self._resume,
        }
        caches[RAY_JOBS].listen(lambda job: self.wake(key_of(job)))
        self.wake_owners(RAY_JOBS, [caches[RAY_CLUSTERS], caches[JOBS]])
        self._operator.on_change(lambda: self.wake_each(caches[RAY_JOBS]))

    async def reconcile(self, key: str) -> float | None:
        """Bring a RayJob forward by the action that belongs to its deployment status."""
        job = self._caches[RAY_JOBS].get(key)
        if job is None or not self._operator.is_ready:
            return None
        if is_deleting(job):
            await self._release(job)
            return None
        if why_invalid(job):
            return None
        status: Document = copy.deepcopy(job.get("status") or {})
        phase = self._phases.get(str(status.get("jobDeploymentStatus") or ""))
        if phase is None:
            return await self._shut_down(job)
        try:
            if await phase(job, status):
                await self._write(job, status)
        except ConsoleError:
            return _POLL_SECONDS
        return _POLL_SECONDS

    async def _release(self, job: Document) -> None:
        """Stop the Ray job, whether that succeeds or not, and let the RayJob go."""
        finalizers = job["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        status = job.get("status") or {}
        if not is_terminal(str(status.get("jobStatus") or "")) and status.get("jobId"):
            with suppress(ConsoleError):
                await self._dashboard.stop(_address(job), status["jobId"])
        kept = [name for name in finalizers if name != FINALIZER]
        await self._client.patch(RAY_JOBS, key_of(job), {"metadata": {"finalizers": kept or None}})

    async def _begin(self, job: Document, status: Document) -> bool:
        finalizers = job["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            change: Document = {"metadata": {"finalizers": [*finalizers, FINALIZER]}}
            spec = completed_spec(job)
            if spec is not None:
                change["spec"] = spec
            updated = await self._client.patch(RAY_JOBS, key_of(job), change)
            if updated is not None:
                self._caches[RAY_JOBS].upsert(updated)
        status |= identity(job) | {
            "jobDeploymentStatus": "Initializing",
            "rayClusterStatus": status.get("rayClusterStatus") or EMPTY,
            "startTime": self._client.timestamp(),
        }
        return True

    async def _initialise(self, job: Document, status: Document) -> bool:
        """Wait for the cluster, then submit."""
        if self._must_suspend(job, status) or self._is_late(job, status):
            return True
        cluster = await self._cluster(job, status)
        if cluster is None:
            return False
        if not status.get("dashboardURL"):
            if (cluster.get("status") or {}).get("state") != "ready":
                return False
            port = (cluster["status"].get("endpoints") or {}).get(DASHBOARD_PORT_NAME)
            if port is None:
                return False
            status["dashboardURL"] = f"{head_host(cluster)}:{port}"
        await self._submit(job, status, cluster)
        status["jobDeploymentStatus"] = "Running"
        return True

    async def _submit(self, job: Document, status: Document, cluster: Document) -> None:
        if self._caches[JOBS].get(key_of(job)) is not None:
            return
        made = await self._client.create(
            JOBS, submitter(job, cluster, job_id=status["jobId"], dashboard=status["dashboardURL"])
        )
        if made is not None:
            self._caches[JOBS].upsert(made)
            await self._record(job, "Created", f"Created Kubernetes Job {made['metadata']['name']}")

    async def _follow(self, job: Document, status: Document) -> bool:
        """Take over the state from the dashboard; end when it and the submitter have ended."""
        if self._must_suspend(job, status) or self._is_late(job, status):
            return True
        submission = self._caches[JOBS].get(key_of(job))
        if submission is None:
            return False
        if self._is_given_up(submission, status):
            return True
        cluster = await self._cluster(job, status)
        if cluster is None:
            return False
        try:
            info = await self._dashboard.job(_address(job), status["jobId"])
        except (UnknownJob, ConsoleError):  # a head of an image without a program here has no dashboard
            info = JobInfo("", "")
        if not info.status:
            if not is_true(submission, "Complete"):
                return False
            info = JobInfo("SUCCEEDED", "")  # its submitter has printed a recorded log, and submitted nothing
        is_over = info.is_terminal and _is_finished(submission)
        is_failed = is_over and info.status == "FAILED"
        status |= {
            "rayClusterStatus": cluster.get("status") or EMPTY,
            "jobStatus": info.status,
            "message": info.message,
            "jobDeploymentStatus": "Failed" if is_failed else "Complete" if is_over else "Running",
        }
        if is_failed:
            status["reason"] = "AppFailed"
        return True

    def _is_given_up(self, submission: Document, status: Document) -> bool:
        """Return whether the submitter has failed for good: either the job had, or it was never submitted."""
        if not is_true(submission, "Failed"):
            return False
        failed = condition_of(submission, "Failed") or {}
        status["jobDeploymentStatus"] = "Failed"
        if status.get("jobStatus") == "FAILED":
            status["reason"] = "AppFailed"
            return True
        why = f"Reason: {failed.get('reason', '')}. Message: {failed.get('message', '')}"
        status |= {"reason": "SubmissionFailed", "message": f"Job submission has failed. {why}"}
        return True

    async def _suspend(self, job: Document, status: Document) -> bool:
        """Delete cluster and submitter, then forget the submission."""
        gone = [await self._delete_cluster(job), await self._delete_submitter(job)]
        if not all(gone):
            return False
        kept = {"startTime": status.get("startTime"), "rayClusterStatus": EMPTY, "jobDeploymentStatus": "Suspended"}
        status.clear()
        status |= kept
        return True

    async def _delete_cluster(self, job: Document) -> bool:
        """Delete the job's own cluster. Return whether it was gone before."""
        name = job["status"].get("rayClusterName")
        known = self._caches[RAY_CLUSTERS].get(f"{job['metadata']['namespace']}/{name}")
        if known is None:
            return True
        if not is_deleting(known) and await self._client.delete(RAY_CLUSTERS, key_of(known), uid=uid_of(known)):
            await self._record(job, "Deleted", f"Deleted cluster {name}")
        return False

    async def _delete_submitter(self, job: Document) -> bool:
        """Delete the submitter. Return whether it was gone before."""
        known = self._caches[JOBS].get(key_of(job))
        if known is not None and not is_deleting(known):
            await self._client.delete(JOBS, key_of(known), uid=uid_of(known))
        return known is None

    async def _resume(self, job: Document, status: Document) -> bool:
        if job["spec"].get("suspend"):
            return False
        del status["jobDeploymentStatus"]
        return True

    async def _shut_down(self, job: Document) -> float | None:
        """Delete an ended RayJob's own cluster, if the job specifies it, when its time is over."""
        spec, status = job["spec"], job["status"]
        if not spec.get("shutdownAfterJobFinishes") or spec.get("clusterSelector"):
            return None
        left = float(spec.get("ttlSecondsAfterFinished") or 0) - self._age(status["endTime"])
        if left > 0:
            return left + _SHUTDOWN_MARGIN_SECONDS
        await self._delete_cluster(job)
        return None

    def _must_suspend(self, job: Document, status: Document) -> bool:
        if not job["spec"].get("suspend"):
            return False
        status["jobDeploymentStatus"] = "Suspending"
        return True

    def _is_late(self, job: Document, status: Document) -> bool:
        deadline = job["spec"].get("activeDeadlineSeconds")
        if deadline is None or self._age(status["startTime"]) < float(deadline):
            return False
        started = parse_rfc3339(status["startTime"]).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
        status |= {
            "jobDeploymentStatus": "Failed",
            "reason": "DeadlineExceeded",
            "message": f"The RayJob has passed the activeDeadlineSeconds. StartTime: {started}. "
            f"ActiveDeadlineSeconds: {deadline}",
        }
        return True

    async def _cluster(self, job: Document, status: Document) -> Document | None:
        """The RayJob's cluster; its own is made if it is not there."""
        name = status["rayClusterName"]
        known = self._caches[RAY_CLUSTERS].get(f"{job['metadata']['namespace']}/{name}")
        if known is not None or job["spec"].get("clusterSelector"):
            return known
        made = await self._client.create(RAY_CLUSTERS, own_cluster(job, name))
        if made is not None:
            self._caches[RAY_CLUSTERS].upsert(made)
            await self._record(job, "Created", f"Created RayCluster {name}")
        return made

    async def _write(self, job: Document, status: Document) -> None:
        old = job.get("status") or {}
        if all(old.get(name) == status.get(name) for name in _MEANT):
            return
        if status.get("jobDeploymentStatus") in ("Complete", "Failed"):
            status["endTime"] = self._client.timestamp()
        updated = await self._client.patch_status(RAY_JOBS, job, replacing(old, status))
        if updated is not None:
            self._caches[RAY_JOBS].upsert(updated)

    async def _record(self, job: Document, reason: str, message: str) -> None:
        await self._client.record_event(job, RAY_JOBS, reason, message, source=_SOURCE)

    def _age(self, timestamp: str) -> float:
        return (self._client.clock.now() - parse_rfc3339(timestamp)).total_seconds()


def _address(job: Document) -> DashboardAddress:
    return DashboardAddress(job["metadata"]["namespace"], str((job.get("status") or {}).get("rayClusterName") or ""))


def _is_finished(submission: Document) -> bool:
    return is_true(submission, "Complete") or is_true(submission, "Failed")
