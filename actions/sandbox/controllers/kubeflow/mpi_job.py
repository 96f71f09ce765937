"""The MPI operator's MPIJob controller, as version 0.6.0 behaves.

Source: the real mpi-operator 0.6.0 and 0.8.0. It acts only while its Deployment has a ready pod.
"""

from __future__ import annotations

from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    CONFIG_MAPS,
    JOBS,
    MPI_JOBS,
    PODS,
    SECRETS,
    SERVICES,
    Document,
    Kind,
    is_deleting,
    key_of,
    labels_of,
    owner_of,
    owner_reference,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.core.pods import is_pod_ready, phase_of
from actions.sandbox.controllers.kubeflow.mpi_objects import (
    INDEX_LABEL,
    LAUNCHER,
    WORKER,
    host_files,
    is_suspended,
    launcher_job,
    object_name,
    replica_spec,
    run_policy,
    service,
    ssh_secret,
    worker_pod,
    workers_of,
)
from actions.sandbox.controllers.kubeflow.status import MPIJobStatus, begin_mpi_job_status, conclude_mpi_job

MADE = (SERVICES, CONFIG_MAPS, SECRETS, JOBS)
"""The kinds of object that the operator makes beside pods."""
_SOURCE = "mpi-job-controller"
_OPERATOR = "mpi-operator/mpi-operator"
_OWN = "kubeflow.org/mpi-operator"
"""The `managedBy` of jobs that are its own."""


class MPIJobController(Controller):
    """Reconciles MPIJobs.

    Args:
        client: The API.
        caches: Of MPIJobs, of all that it makes, and of Deployments.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, _OPERATOR)
        self._operator.on_change(lambda: self.wake_each(caches[MPI_JOBS]))
        caches[MPI_JOBS].listen(lambda job: self.wake(key_of(job)))
        self.wake_owners(MPI_JOBS, [caches[kind] for kind in (PODS, *MADE)])
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        """Wake the MPIJob of a pod; a launcher's pod belongs to its Job, and that to the MPIJob."""
        owner = owner_of(pod)
        if owner is None or owner["kind"] != JOBS.kind:
            return
        job = self._caches[JOBS].get(f"{pod['metadata']['namespace']}/{owner['name']}")
        grandparent = owner_of(job) if job is not None else None
        if grandparent is not None and grandparent["kind"] == MPI_JOBS.kind:
            self.wake(f"{pod['metadata']['namespace']}/{grandparent['name']}")

    async def reconcile(self, key: str) -> float | None:
        """Bring a job forward in the operator's order: network, host files, key, workers, launcher, status."""
        job = self._caches[MPI_JOBS].get(key)
        if job is None or is_deleting(job) or not self._operator.is_ready:
            return None
        if run_policy(job).get("managedBy", _OWN) != _OWN:
            return None
        problem = _problem_of(job)
        if problem:
            await self._record(job, "ValidationError", f"Found validation errors: {problem}", is_warning=True)
            return None
        status = begin_mpi_job_status(job, self._client.timestamp())
        if (job.get("status") or {}).get("completionTime"):
            if run_policy(job).get("cleanPodPolicy") in ("Running", "All"):
                await self._remove_workers(job)
            return None
        workers: list[Document] = []
        launcher = self._launcher(job)
        if launcher is None or not (is_true(launcher, "Complete") or is_true(launcher, "Failed")):
            workers, launcher = await self._provide(job, launcher)
        if launcher is not None and is_suspended(job) != bool(launcher["spec"].get("suspend")):
            await self._client.patch(JOBS, key_of(launcher), {"spec": {"suspend": is_suspended(job)}})
        if is_suspended(job):
            await self._remove_workers(job)
        pods = self._caches[PODS].of_owner(launcher) if launcher is not None else []
        conclude_mpi_job(status, launcher, pods, workers)
        await self._write(job, status)
        return None

    def _launcher(self, job: Document) -> Document | None:
        found = self._caches[JOBS].of_owner(job)
        return found[0] if found else None

    async def _provide(self, job: Document, launcher: Document | None) -> tuple[list[Document], Document | None]:
        """Make what is missing. Returns the workers and the launcher's Job, if it is time for one."""
        await self._ensure(job, SERVICES, service(job))
        await self._ensure_host_files(job)
        if self._caches[SECRETS].get(_key(job, object_name(job, "ssh"))) is None:
            await self._ensure(job, SECRETS, ssh_secret(job))
        workers = [] if is_suspended(job) else await self._scale(job)
        if launcher is None and self._is_time_to_launch(job, workers):
            if (replica_spec(job, LAUNCHER) or {})["template"]["spec"].get("restartPolicy"):
                message = "Restart policy in pod template overridden by restart policy in replica spec"
                await self._record(job, "SetPodTemplateRestartPolicy", message, is_warning=True)
            launcher = await self._ensure(job, JOBS, launcher_job(job))
        return workers, launcher

    def _is_time_to_launch(self, job: Document, workers: list[Document]) -> bool:
        is_at_startup = job["spec"].get("launcherCreationPolicy", "AtStartup") == "AtStartup"
        return is_at_startup or all(is_pod_ready(pod) for pod in workers)

    async def _ensure(self, job: Document, kind: Kind, wanted: Document) -> Document | None:
        """Return the object, made if missing; `None`, with an event, if the name is that of a foreign one."""
        found = self._caches[kind].get(key_of(wanted))
        if found is None:
            found = await self._client.create(kind, wanted)
            if found is not None:
                self._caches[kind].upsert(found)
            else:
                found = await self._client.read(kind, key_of(wanted))
        if found is not None and (owner_of(found) or {}).get("uid") != uid_of(job):
            what = f'Resource "{found["metadata"]["name"]}" of Kind "{kind.kind}"'
            message = f"{what} already exists and is not managed by MPIJob"
            await self._record(job, "ErrResourceExists", message, is_warning=True)
            return None
        return found

    async def _ensure_host_files(self, job: Document) -> None:
        wanted = host_files(job, [pod for pod in self._workers(job) if phase_of(pod) == "Running"])
        found = await self._ensure(job, CONFIG_MAPS, wanted)
        if found is not None and found.get("data") != wanted["data"]:
            updated = await self._client.patch(CONFIG_MAPS, key_of(found), {"data": wanted["data"]})
            if updated is not None:
                self._caches[CONFIG_MAPS].upsert(updated)

    def _workers(self, job: Document) -> list[Document]:
        found = [pod for pod in self._caches[PODS].of_owner(job) if _index_of(pod) >= 0]
        return sorted(found, key=_index_of)

    async def _scale(self, job: Document) -> list[Document]:
        """Return the workers that the job is to have; make missing ones and delete surplus ones."""
        there = {_index_of(pod): pod for pod in self._workers(job)}
        for index, pod in sorted(there.items(), reverse=True):
            if index >= workers_of(job) and not is_deleting(pod):
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
        for index in range(workers_of(job)):
            if index in there:
                continue
            pod = worker_pod(job, index)
            pod["metadata"] |= {"namespace": job["metadata"]["namespace"], "ownerReferences": [owner_reference(job)]}
            made = await self._ensure(job, PODS, pod)
            if made is not None:
                there[index] = made
        return [there[index] for index in range(workers_of(job)) if index in there]

    async def _remove_workers(self, job: Document) -> None:
        """Remove the workers; under the policy Running, those that have ended stay."""
        keeps_ended = run_policy(job).get("cleanPodPolicy") == "Running"
        for pod in self._workers(job):
            has_ended = phase_of(pod) not in ("Running", "Pending")
            if not is_deleting(pod) and not (keeps_ended and has_ended):
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))

    async def _write(self, job: Document, status: MPIJobStatus) -> None:
        if not status.is_as_stored():
            updated = await self._client.patch_status(MPI_JOBS, job, status.change())
            if updated is not None:
                self._caches[MPI_JOBS].upsert(updated)
        for event in status.events:
            await self._record(job, event.reason, event.message, is_warning=event.is_warning)

    async def _record(self, job: Document, reason: str, message: str, *, is_warning: bool = False) -> None:
        await self._client.record_event(job, MPI_JOBS, reason, message, source=_SOURCE, is_warning=is_warning)


def _problem_of(job: Document) -> str:
    """Return the operator's objection to a job, or the sandbox's; empty if there is none."""
    others = {"mpiImplementation": "OpenMPI", "runLauncherAsWorker": False}
    for field, played in others.items():
        if job["spec"].get(field, played) != played:
            return f"spec.{field}: Unsupported value: the sandbox plays {played} alone"
    path = "spec.mpiReplicaSpecs"
    specs = job["spec"].get("mpiReplicaSpecs") or {}
    if not specs.get(LAUNCHER):
        return f"{path}[{LAUNCHER}]: Required value: must have {LAUNCHER} replica spec"
    if int(specs[LAUNCHER].get("replicas", 1)) != 1:
        return f"{path}[{LAUNCHER}].replicas: Invalid value: {specs[LAUNCHER]['replicas']}: must be 1"
    for role in (LAUNCHER, WORKER):
        if role in specs and not specs[role]["template"]["spec"].get("containers"):
            return f"{path}[{role}].template.spec.containers: Required value: must define at least one container"
    return ""


def _index_of(pod: Document) -> int:
    """A worker's index; -1 for any other pod."""
    text = labels_of(pod).get(INDEX_LABEL, "")
    return int(text) if text.isdigit() else -1


def _key(job: Document, name: str) -> str:
    return f"{job['metadata']['namespace']}/{name}"
