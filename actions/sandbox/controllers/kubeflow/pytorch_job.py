"""The training operator's PyTorchJob controller, as version 1.8.1 behaves.

Source: the real training-operator 1.8.1. It acts only while its Deployment has a ready pod.
"""

from __future__ import annotations

from actions.base.clock import parse_rfc3339
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    PODS,
    PYTORCH_JOBS,
    SERVICES,
    Document,
    Kind,
    is_deleting,
    key_of,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.core.pods import PodControl, phase_of
from actions.sandbox.controllers.kubeflow.pytorch_objects import (
    CONTAINER,
    index_of,
    object_name,
    replica_pod,
    replica_service,
    replicas_of,
    restart_policy,
    role_of,
    roles_of,
)
from actions.sandbox.controllers.kubeflow.status import (
    Counts,
    PyTorchJobStatus,
    begin_pytorch_job_status,
    conclude_pytorch_job,
    count,
    is_finished,
    replica_statuses,
)

_SOURCE = "pytorchjob-controller"
_OPERATOR = "kubeflow/training-operator"
_RETRYABLE_FROM = 128


class PyTorchJobController(Controller):
    """Reconciles PyTorchJobs.

    Args:
        client: The API.
        caches: Of jobs, pods, services and deployments.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, _OPERATOR)
        self._pods = PodControl(client, caches, PYTORCH_JOBS, source=_SOURCE)
        self._unschedulable: set[tuple[str, str]] = set()
        caches[PYTORCH_JOBS].listen(lambda job: self.wake(key_of(job)))
        self.wake_owners(PYTORCH_JOBS, [caches[PODS], caches[SERVICES]])
        self._operator.on_change(lambda: self.wake_each(caches[PYTORCH_JOBS]))

    async def reconcile(self, key: str) -> float | None:
        """Bring a job forward in the operator's order: clean up, suspend, limits, pods, status, services."""
        job = self._caches[PYTORCH_JOBS].get(key)
        if job is None or is_deleting(job) or not self._operator.is_ready or not _is_valid(job):
            return None
        pods, services = self._children(job, PODS), self._children(job, SERVICES)
        if is_finished(job):
            return await self._clean_up(job, pods, services)
        status = begin_pytorch_job_status(job, self._client.timestamp())
        name = job["metadata"]["name"]
        status.set("Created", "PyTorchJobCreated", f"PyTorchJob {name} is created.")
        if _run_policy(job).get("suspend"):
            await self._suspend(job, status, pods, services)
            return None
        if status.has("Suspended"):
            message = f"PyTorchJob {name} is resumed."
            status.set("Suspended", "PyTorchJobResumed", message, status=False)
            status.add_event("PyTorchJobResumed", message)
            job = job | {"status": job["status"] | {"startTime": None}}  # it starts anew
        limit = self._limit(job, pods)
        if limit:
            await self._stop(job, status, pods, services, limit)
            return None
        await self._advance(job, status, pods, services)
        return None

    def _children(self, job: Document, kind: Kind) -> list[Document]:
        return sorted(self._caches[kind].of_owner(job), key=lambda child: (role_of(child), index_of(child)))

    async def _advance(
        self, job: Document, status: PyTorchJobStatus, pods: list[Document], services: list[Document]
    ) -> None:
        """Make what is missing, take away what is too much, conclude."""
        by_role: dict[str, list[Document]] = {}
        is_fatal: dict[str, bool] = {}
        for role in roles_of(job):
            mine = [pod for pod in pods if role_of(pod) == role.lower()]
            by_role[role] = [pod for pod in mine if index_of(pod) < replicas_of(job, role)]
            for pod in by_role[role]:
                is_fatal[role] = await self._judge(job, role, pod) or is_fatal.get(role, False)
            await self._scale_pods(job, role, mine)
            await self._scale_services(job, role, services)
        counts = count(job, by_role)
        conclude_pytorch_job(job, status, counts, is_fatal=is_fatal)
        await self._write(job, status, counts)

    async def _judge(self, job: Document, role: str, pod: Document) -> bool:
        """Record a pod's end, delete it if it is to be made again. Return whether its failure is the job's end."""
        await self._record_containers(job, pod)
        await self._record_unschedulable(job, pod)
        code = _exit_code(pod)
        if code is not None:
            message = f"Pod: {pod['metadata']['namespace']}.{pod['metadata']['name']} exited with code {code}"
            await self._client.record_event(job, PYTORCH_JOBS, "ExitedWithCode", message, source=_SOURCE)
        policy = restart_policy(job, role)
        if phase_of(pod) != "Failed" or policy == "Never" or is_deleting(pod):
            return False
        if policy == "ExitCode" and code is not None and code < _RETRYABLE_FROM:
            return True
        await self._pods.delete(job, pod, reason="SuccessfulDeletePod")
        message = f"job {job['metadata']['name']} is restarting because {role} replica(s) failed."
        await self._client.record_event(
            job, PYTORCH_JOBS, "PyTorchJobRestarting", message, source=_SOURCE, is_warning=True
        )
        return False

    async def _record_containers(self, job: Document, pod: Document) -> None:
        """Record what has ended or waits in a pod that the kubelet has not given up."""
        if phase_of(pod) in ("Succeeded", "Failed"):
            return
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            about = f"Error pod {pod['metadata']['name']} container {one['name']}"
            ended, waits = one["state"].get("terminated"), one["state"].get("waiting")
            if ended and ended["exitCode"]:
                message = f"{about} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
            elif waits and waits.get("message"):
                message = f"{about} waiting message: {waits['message']}"
            else:
                continue
            reason = (ended or waits)["reason"]
            await self._client.record_event(job, PYTORCH_JOBS, reason, message, source=_SOURCE, is_warning=True)

    async def _record_unschedulable(self, job: Document, pod: Document) -> None:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                name = pod["metadata"]["name"]
                message = f"Error pod {name} condition message: {condition.get('message', '')}"
                if (uid_of(pod), message) not in self._unschedulable:
                    self._unschedulable.add((uid_of(pod), message))
                    await self._client.record_event(
                        job, PYTORCH_JOBS, "Unschedulable", message, source=_SOURCE, is_warning=True
                    )

    async def _scale_pods(self, job: Document, role: str, pods: list[Document]) -> None:
        there = {index_of(pod) for pod in pods}
        for index in range(replicas_of(job, role)):
            if index not in there:
                await self._pods.create(job, replica_pod(job, role, index), reason="SuccessfulCreatePod")
        for pod in pods:
            if index_of(pod) >= replicas_of(job, role) and not is_deleting(pod):
                await self._pods.delete(job, pod, reason="SuccessfulDeletePod")

    async def _scale_services(self, job: Document, role: str, services: list[Document]) -> None:
        mine = [service for service in services if role_of(service) == role.lower()]
        there = {index_of(service) for service in mine}
        for index in range(replicas_of(job, role)):
            if index in there:
                continue
            made = await self._client.create(SERVICES, replica_service(job, role, index))
            if made is not None:
                self._caches[SERVICES].upsert(made)
                await self._record(job, "SuccessfulCreateService", f"Created service: {object_name(job, role, index)}")
        for service in mine:
            if index_of(service) >= replicas_of(job, role):
                await self._delete_service(job, service)

    async def _write(self, job: Document, status: PyTorchJobStatus, counts: Counts) -> None:
        old = job.get("status") or {}
        change: Document = {
            "conditions": status.conditions,
            "replicaStatuses": replica_statuses(job, counts),
            "startTime": old.get("startTime") or status.now,
        }
        if status.has("Succeeded") or status.has("Failed"):
            change["completionTime"] = old.get("completionTime") or status.now
        is_same = (
            old.get("conditions") == status.conditions
            and old.get("replicaStatuses") == replica_statuses(job, counts, keeps_absent=True)
            and old.get("startTime")
        )
        if not is_same:
            await self._put(job, change)
        await self._record_all(job, status)

    async def _clean_up(self, job: Document, pods: list[Document], services: list[Document]) -> float | None:
        """Recount an ended job, remove its pods by its policy, then the job when its time to live is over."""
        await self._recount(job)
        policy = _run_policy(job).get("cleanPodPolicy") or "None"
        for pod in pods:
            is_running = phase_of(pod) in ("Running", "Pending")
            if policy == "All" or (policy == "Running" and is_running):
                await self._remove_replica(job, pod, services)
        lifetime = _run_policy(job).get("ttlSecondsAfterFinished")
        ended = (job.get("status") or {}).get("completionTime")
        if lifetime is None or not ended:
            return None
        left = float(lifetime) - self._age(ended)
        if left > 0:
            return left
        if await self._client.delete(PYTORCH_JOBS, key_of(job), uid=uid_of(job)):
            await self._record(job, "SuccessfulDeletePod", f"Deleted job: {job['metadata']['name']}")
        return None

    async def _recount(self, job: Document) -> None:
        """Count the active pods of a job that has succeeded as succeeded."""
        statuses = (job.get("status") or {}).get("replicaStatuses") or {}
        if not any(one["type"] == "Succeeded" for one in job["status"]["conditions"]):
            return
        change = {
            role: {"active": None, "succeeded": amounts.get("succeeded", 0) + amounts["active"]}
            for role, amounts in statuses.items()
            if amounts.get("active")
        }
        if change:
            await self._put(job, {"replicaStatuses": change})

    async def _suspend(
        self, job: Document, status: PyTorchJobStatus, pods: list[Document], services: list[Document]
    ) -> None:
        for pod in pods:
            await self._remove_replica(job, pod, services)
        message = f"PyTorchJob {job['metadata']['name']} is suspended."
        if not status.has("Suspended"):
            status.add_event("PyTorchJobSuspended", message)
        if status.has("Running"):
            status.set("Running", "PyTorchJobSuspended", message, status=False)
        status.set("Suspended", "PyTorchJobSuspended", message)
        old = job.get("status") or {}
        roles = old.get("replicaStatuses") or {}
        if old.get("conditions") != status.conditions or any(amounts.get("active") for amounts in roles.values()):
            idle = {role: {"active": None} for role in roles}
            await self._put(job, {"conditions": status.conditions} | ({"replicaStatuses": idle} if idle else {}))
        await self._record_all(job, status)

    def _limit(self, job: Document, pods: list[Document]) -> str:
        """Return why the job must end now, empty if it may continue."""
        name = job["metadata"]["name"]
        backoff = _run_policy(job).get("backoffLimit")
        is_spent = backoff is not None and _restarts(pods) >= max(1, int(backoff))
        if is_spent or (backoff == 0 and _has_new_failure(job, pods)):
            return f"Job {name} has failed because it has reached the specified backoff limit"
        deadline = _run_policy(job).get("activeDeadlineSeconds")
        started = (job.get("status") or {}).get("startTime")
        if deadline is not None and started and self._age(started) >= float(deadline):
            return f"Job {name} has failed because it was active longer than specified deadline"
        return ""

    async def _stop(
        self, job: Document, status: PyTorchJobStatus, pods: list[Document], services: list[Document], message: str
    ) -> None:
        for pod in pods:
            await self._remove_replica(job, pod, services)
        status.set("Failed", "PyTorchJobFailed", message)
        status.add_event("PyTorchJobFailed", message)
        await self._put(job, {"conditions": status.conditions, "completionTime": status.now})
        await self._record_all(job, status)

    async def _remove_replica(self, job: Document, pod: Document, services: list[Document]) -> None:
        if not is_deleting(pod):
            await self._pods.delete(job, pod, reason="SuccessfulDeletePod")
        for service in services:
            if service["metadata"]["name"] == pod["metadata"]["name"]:
                await self._delete_service(job, service)

    async def _delete_service(self, job: Document, service: Document) -> None:
        if await self._client.delete(SERVICES, key_of(service), uid=uid_of(service)):
            await self._record(job, "SuccessfulDeleteService", f"Deleted service: {service['metadata']['name']}")

    async def _put(self, job: Document, change: Document) -> None:
        updated = await self._client.patch_status(PYTORCH_JOBS, job, change)
        if updated is not None:
            self._caches[PYTORCH_JOBS].upsert(updated)

    async def _record(self, job: Document, reason: str, message: str) -> None:
        await self._client.record_event(job, PYTORCH_JOBS, reason, message, source=_SOURCE)

    async def _record_all(self, job: Document, status: PyTorchJobStatus) -> None:
        for event in status.events:
            await self._client.record_event(
                job, PYTORCH_JOBS, event.reason, event.message, source=_SOURCE, is_warning=event.is_warning
            )

    def _age(self, timestamp: str) -> float:
        return (self._client.clock.now() - parse_rfc3339(timestamp)).total_seconds()


def _run_policy(job: Document) -> Document:
    policy: Document = job["spec"].get("runPolicy") or {}
    return policy


def _is_valid(job: Document) -> bool:
    """Return whether there is something to run; without its webhook the operator ignores any other job."""
    roles = job["spec"].get("pytorchReplicaSpecs") or {}
    containers = [one["template"]["spec"]["containers"] for one in roles.values()]
    return bool(roles) and all(any(one["name"] == CONTAINER for one in group) for group in containers)


def _exit_code(pod: Document) -> int | None:
    """Return the code with which the training container has ended, `None` while it has not."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if status["name"] == CONTAINER and ended:
            return int(ended.get("exitCode", 0))
    return None


def _has_new_failure(job: Document, pods: list[Document]) -> bool:
    """Return whether more pods have failed than the job's status counts."""
    counted = ((job.get("status") or {}).get("replicaStatuses") or {}).values()
    failed = sum(phase_of(pod) == "Failed" for pod in pods)
    return failed > sum(int(amounts.get("failed", 0)) for amounts in counted)


def _restarts(pods: list[Document]) -> int:
    """Return the number of restarts in place, of the pods whose policy restarts."""
    total = 0
    for pod in pods:
        if pod["spec"].get("restartPolicy") in ("OnFailure", "Always") and phase_of(pod) == "Running":
            statuses = (pod.get("status") or {}).get("containerStatuses") or ()
            total += sum(int(status.get("restartCount", 0)) for status in statuses)
    return total
