"""The kinds whose pods are those of their templates, by role and number: a row for each, and one controller for all.

It makes pods once, and an ended job is ended: without restarts, elasticity, rollouts and clean-up. No operator has to
be there, as no blueprint installs one, but for Volcano, whose scheduler places the pods.

Source: training-operator v1.8.1 (`pkg/controller.v1/tensorflow` and `mpi`) and the HyperPod CLI (its template and
client: its operator has no public source); not compared with the running operators are MPIJobs of `v1`, which the MPI
operator has superseded, and HyperPod.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from actions.cluster.kinds import kind_of
from actions.cluster.pod_roles import PodRole, at, pod_roles
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Document,
    Kind,
    is_deleting,
    key_of,
    labels_of,
    owner_of,
    owner_reference,
    uid_of,
)
from actions.sandbox.controllers.core.made import Made, empty_set
from actions.sandbox.controllers.core.pods import is_pod_ready, phase_of, pod_of_role
from actions.sandbox.controllers.kubeflow.status import PyTorchJobStatus
from actions.sandbox.controllers.leader_worker_set import lws_events, lws_made, lws_pods, lws_status
from actions.sandbox.controllers.volcano.job import (
    ENDED,
    ENDING,
    phase_of_job,
    volcano_events,
    volcano_gang,
    volcano_pods,
    volcano_status,
)

_TRAINING = "training.kubeflow.org"
_ROLE = f"{_TRAINING}/job-role"
_CHIEFS = ("chief", "master", "launcher")
_TYPE = f"{_TRAINING}/replica-type"
_STATES = {"Ready": "active", "Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
_ENDS = ("Succeeded", "Failed")
_TENSORFLOW = "tensorflow"
_TENSORFLOW_PORT: Document = {"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}
_HYPERPOD_JOB = "sagemaker.amazonaws.com/job-name"
"""A label of the sandbox's own: those of HyperPod's operator are not public."""
Statuses = Callable[[Document, Mapping[str, str], str], Document]
"""From a job, the phases of its pods by name (also `Ready` and `Deleting`) and the time: what changes in its status."""

Events = Callable[[Document, Document, Mapping[str, Document]], Iterator[tuple[str, str]]]
"""From a job, what changes in its status, and its pods by name: reason and message of each event."""


class ReplicaGroups(msgspec.Struct, frozen=True):
    """One kind.

    Args:
        name: Its full name in the table of kinds.
        pods: Its pods.
        status: Its status.
        made: The objects that are made before the pod of a name.
        is_owner: The last of that owns the pod.
        events: The events that go with a change of the status.
        source: The component that events name.
        tells_of_pods: There is an event for each pod that is made.
        version: That of its objects; empty for the table's.
    """

    name: str
    pods: Callable[[Document], Iterator[Document]]
    status: Statuses
    made: Callable[[Document, str], Iterator[Made]] = lambda _job, _pod: iter(())
    is_owner: bool = False
    events: Events = lambda _job, _change, _pods: iter(())
    source: str = ""
    tells_of_pods: bool = False
    version: str = ""

    @property
    def kind(self) -> Kind:
        """The address of its objects."""
        row = kind_of(self.name)
        version = f"{row.group}/{self.version}" if self.version else row.api_version
        return Kind(version, row.kind, row.plural, is_custom=True)

    @property
    def label(self) -> str:
        """The label of its pods that has its name."""
        return kind_of(self.name).labels_pods or _HYPERPOD_JOB


class ReplicaGroupsController(Controller):
    """Reconciles the jobs of one kind."""

    def __init__(self, client: ApiClient, caches: Caches, groups: ReplicaGroups) -> None:
        super().__init__()
        self._client, self._caches, self._groups = client, caches, groups
        self._kind, self._row = groups.kind, kind_of(groups.name)
        caches[self._kind].listen(lambda one: self.wake(key_of(one)))
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        job = labels_of(pod).get(self._groups.label)
        if job is not None:
            self.wake(f"{pod['metadata']['namespace']}/{job}")

    async def reconcile(self, key: str) -> float | None:
        """Make the pods that are missing, take away those of a job that rests or ends, and write the status."""
        job = self._caches[self._kind].get(key)
        if job is None or is_deleting(job):
            return None
        pods = self._pods_of(job)
        if _has_ended(job):
            await self._let_go(job, pods)
            return None
        is_ending = phase_of_job(job) in ENDING
        wanted = {} if _is_suspended(job) else {pod["metadata"]["name"]: pod for pod in self._groups.pods(job)}
        for name, pod in pods.items():
            is_too_much = phase_of(pod) not in _ENDS if is_ending else name not in wanted
            if is_too_much and not is_deleting(pod):
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
        for name, pod in wanted.items():
            if not is_ending and name not in pods:
                await self._make(job, pod)
        change = self._groups.status(
            job, {name: _state_of(pod) for name, pod in pods.items()}, self._client.timestamp()
        )
        if not _holds(job.get("status"), change):
            await self._client.patch_status(self._kind, job, change)
            for reason, message in self._groups.events(job, change, pods):
                await self._record(job, reason, message)
        return None

    async def _record(self, job: Document, reason: str, message: str) -> None:
        await self._client.record_event(job, self._kind, reason, message, source=self._groups.source)

    async def _let_go(self, job: Document, pods: Mapping[str, Document]) -> None:
        """Delete what was made for the pods of a job that has ended, and goes with that."""
        for made in itertools.chain(*(self._groups.made(job, pod) for pod in pods)):
            key = f"{job['metadata']['namespace']}/{made.document['metadata']['name']}"
            if made.ends and self._caches[made.kind].get(key) is not None:
                await self._client.delete(made.kind, key)

    def _pods_of(self, job: Document) -> dict[str, Document]:
        named = self._caches[PODS].labelled(**{self._groups.label: job["metadata"]["name"]})
        owners = (self._row.kind, *self._row.pod_owners)
        mine = (pod for pod in named if (owner_of(pod) or {}).get("kind") in owners)
        return {
            pod["metadata"]["name"]: pod for pod in mine if pod["metadata"]["namespace"] == job["metadata"]["namespace"]
        }

    async def _make(self, job: Document, pod: Document) -> None:
        owner, home = job, job["metadata"]["namespace"]
        for made in self._groups.made(job, pod["metadata"]["name"]):
            above = self._caches[PODS].get(f"{home}/{made.pod}") if made.pod else job
            if above is None:
                return  # its leader is being made again
            made.document["metadata"] |= {"namespace": home, "ownerReferences": [owner_reference(above)]}
            found = await self._client.create(made.kind, made.document)
            if found is not None and made.told:
                await self._record(job, *made.told)
            if self._groups.is_owner:
                name = made.document["metadata"]["name"]
                owner = found or await self._client.read(made.kind, f"{home}/{name}") or job
        pod["metadata"] |= {"namespace": home, "ownerReferences": [owner_reference(owner)]}
        made_pod = await self._client.create(PODS, pod)
        if made_pod is not None:
            self._caches[PODS].upsert(made_pod)
            if self._groups.tells_of_pods:
                await self._record(job, "SuccessfulCreatePod", f"Created pod: {made_pod['metadata']['name']}")


def _state_of(pod: Document) -> str:
    return "Deleting" if is_deleting(pod) else "Ready" if is_pod_ready(pod) else phase_of(pod)


def _holds(stored: Any, change: Any) -> bool:
    """Return whether a merge patch would change nothing."""
    if isinstance(change, dict):
        return all(_holds((stored or {}).get(name), value) for name, value in change.items())
    return bool(stored == change)


def _is_suspended(job: Document) -> bool:
    return at(job, ("spec", "runPolicy", "suspend")) is True


def _has_ended(job: Document) -> bool:
    conditions = at(job, ("status", "conditions"))
    ends = [
        one
        for one in conditions or ()
        if one.get("type") in ("Succeeded", "Completed", "Failed") and one["status"] == "True"
    ]
    return bool(ends) or phase_of_job(job) in ENDED


def _training_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a TFJob, or of an MPIJob of the training operator."""
    name, roles = job["metadata"]["name"], list(pod_roles(job))
    is_mpi, has_chief = job["kind"] == "MPIJob", any(role.name in _CHIEFS for role in roles)
    for role in roles:
        policy = at(job, (*role.path[:-1], "restartPolicy")) or "Never"
        for index in range(role.total):
            labels = _training_labels(job, role.name, index)
            is_worker_0 = not (has_chief or is_mpi) and (role.name, index) == ("worker", 0)
            if role.name in _CHIEFS or is_worker_0:
                labels[_ROLE] = "master"
            pod = pod_of_role(role, f"{name}-{role.name}" if is_mpi and role.is_lead else f"{name}-{role.name}-{index}")
            pod["metadata"]["labels"] |= labels
            pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
            for container in pod["spec"]["containers"]:
                if not is_mpi and container["name"] == _TENSORFLOW:
                    _complete_tensorflow(container, job, roles, (role.name, index))
            if is_mpi and not role.is_lead:
                for container in pod["spec"]["containers"][:1]:
                    if not container.get("command"):
                        container |= {"command": ["sleep"], "args": ["365d"]}
            yield pod


def _training_labels(job: Document, role: str, index: int) -> dict[str, str]:
    operator = f"{job['kind'].lower()}-controller"
    place = {"job-name": job["metadata"]["name"], "operator-name": operator, "replica-type": role}
    return {f"{_TRAINING}/{key}": value for key, value in (place | {"replica-index": str(index)}).items()}


def _complete_tensorflow(container: Document, job: Document, roles: Sequence[PodRole], place: tuple[str, int]) -> None:
    """Give the container of a pod its port, and where others of the job are."""
    ports = container.setdefault("ports", [])
    if not any(port.get("name") == _TENSORFLOW_PORT["name"] for port in ports):
        ports.append(_TENSORFLOW_PORT)
    if sum(role.total for role in roles) > 1:
        name, home = job["metadata"]["name"], job["metadata"]["namespace"]
        cluster = {
            role.name: [f"{name}-{role.name}-{index}.{home}.svc:{_port_of(role)}" for index in range(role.total)]
            for role in sorted(roles, key=lambda role: role.name)
        }
        task = {"type": place[0], "index": place[1]}
        config = msgspec.json.encode({"cluster": cluster, "task": task, "environment": "cloud"}).decode()
        container["env"] = [*(container.get("env") or ()), {"name": "TF_CONFIG", "value": config}]


def _port_of(role: PodRole) -> int:
    ports = (port for one in role.spec["containers"] if one["name"] == _TENSORFLOW for port in one.get("ports") or ())
    own = (port["containerPort"] for port in ports if port.get("name") == _TENSORFLOW_PORT["name"])
    return int(next(own, _TENSORFLOW_PORT["containerPort"]))


def _tensorflow_service(job: Document, pod: str) -> Iterator[Made]:
    """Yield the headless Service of a pod."""
    role, _, index = pod.removeprefix(f"{job['metadata']['name']}-").rpartition("-")
    port = next(_port_of(one) for one in pod_roles(job) if one.name == role)
    labels = _training_labels(job, role, int(index))
    ports = [{"name": _TENSORFLOW_PORT["name"], "protocol": "TCP", "port": port, "targetPort": port}]
    spec = {"clusterIP": "None", "selector": labels, "ports": ports}
    about = {"metadata": {"name": pod, "labels": labels}, "spec": spec}
    yield Made(SERVICES, about, told=("SuccessfulCreateService", f"Created service: {pod}"))


def _training_status(job: Document, by_pod: Mapping[str, str], now: str) -> Document:
    """The job succeeds with its chief or launcher, without one with its worker 0, or by policy with all workers."""
    kind, name = job["kind"], job["metadata"]["name"]
    full, old = f"{job['metadata']['namespace']}/{name}", job.get("status") or {}
    pods = list(_training_pods(job))
    leads = [pod for pod in pods if labels_of(pod).get(_ROLE) == "master"]
    is_of_workers = all(labels_of(pod)[_TYPE] == "worker" for pod in leads)
    if is_of_workers and job["spec"].get("successPolicy") == "AllWorkers":
        leads = [pod for pod in pods if labels_of(pod)[_TYPE] == "worker"]
    status = PyTorchJobStatus(job, now, list(old.get("conditions") or ()))
    status.set("Created", f"{kind}Created", f"{kind} {name} is created.")
    counts = _counts(job, pods, by_pod)
    failed = {role: amounts["failed"] for role, amounts in counts.items() if amounts["failed"]}
    running = any(
        by_pod.get(pod["metadata"]["name"]) in ("Ready", "Running") for pod in (leads if not is_of_workers else pods)
    )
    if leads and all(by_pod.get(pod["metadata"]["name"]) == "Succeeded" for pod in leads):
        status.set("Succeeded", f"{kind}Succeeded", f"{kind} {full} successfully completed.")
        for amounts in counts.values():
            amounts |= {"succeeded": amounts["succeeded"] + amounts["active"], "active": 0}
    elif running and not failed:
        status.set("Running", f"{kind}Running", f"{kind} {full} is running.")
    for role, count in failed.items() if not status.has("Succeeded") else ():
        status.set("Failed", f"{kind}Failed", f"{kind} {full} has failed because {count} {role} replica(s) failed.")
    change = {
        "conditions": status.conditions,
        "replicaStatuses": {
            role: {name: amount or None for name, amount in found.items()} for role, found in counts.items()
        },
        "startTime": old.get("startTime") or now,
    }
    return change | ({"completionTime": now} if status.has("Succeeded") or status.has("Failed") else {})


def _counts(job: Document, pods: Sequence[Document], by_pod: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Count the pods by role, as the job names it, and by state."""
    names = {str(role.path[-2]).lower(): str(role.path[-2]) for role in pod_roles(job)}
    counts: dict[str, dict[str, int]] = {role: dict.fromkeys(_STATES.values(), 0) for role in names.values()}
    for pod in pods:
        state = _STATES.get(by_pod.get(pod["metadata"]["name"], ""))
        if state:
            counts[names[labels_of(pod)[_TYPE]]][state] += 1
    return counts


def _training_events(_job: Document, change: Document, pods: Mapping[str, Document]) -> Iterator[tuple[str, str]]:
    """Yield the ends of containers, and of the job."""
    for name, pod in pods.items():
        for one in at(pod, ("status", "containerStatuses")) or ():
            ended = (one.get("state") or {}).get("terminated")
            if one["name"] == _TENSORFLOW and ended:
                about = f"Pod: {pod['metadata']['namespace']}.{name} exited with code {ended['exitCode']}"
                yield "ExitedWithCode", about
    for one in change["conditions"]:
        if one["type"] in _ENDS and one["status"] == "True":
            yield one["reason"], one["message"]


def _hyperpod_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a HyperPodPyTorchJob."""
    name = job["metadata"]["name"]
    for role in pod_roles(job):
        for index in range(role.total):
            pod = pod_of_role(role, f"{name}-{role.name}-{index}")
            pod["metadata"]["labels"][_HYPERPOD_JOB] = name
            pod["spec"]["restartPolicy"] = "Never"
            yield pod


def _hyperpod_set(job: Document, pod: str) -> Iterator[Made]:
    yield Made(STATEFUL_SETS, empty_set(pod.rpartition("-")[0], {_HYPERPOD_JOB: job["metadata"]["name"]}))


def _hyperpod_status(job: Document, phases: Mapping[str, str], now: str) -> Document:
    """Its job is completed when all pods have succeeded."""
    states = Counter(phases.values())
    conditions = with_condition(
        list(at(job, ("status", "conditions")) or ()), condition("Created", True, "Created", "Job is created", now)
    )
    total = sum(role.total for role in pod_roles(job))
    ended = "Failed" if states["Failed"] else "Completed" if states["Succeeded"] >= total > 0 else ""
    for state in filter(None, ("Running" if states["Ready"] or ended else "", ended)):
        conditions = with_condition(conditions, condition(state, True, state, f"Job is {state.lower()}", now))
    first = next((role.name for role in pod_roles(job)), "")
    return {"conditions": conditions, "jobPods": {"kind": "StatefulSet", "name": f"{job['metadata']['name']}-{first}"}}


REPLICA_GROUPS = (
    ReplicaGroups(
        "TFJob",
        _training_pods,
        _training_status,
        _tensorflow_service,
        events=_training_events,
        source="tfjob-controller",
        tells_of_pods=True,
    ),
    ReplicaGroups("MPIJob", _training_pods, _training_status, version="v1"),
    ReplicaGroups(
        "Job.batch.volcano.sh",
        volcano_pods,
        volcano_status,
        volcano_gang,
        events=volcano_events,
        source="vc-controller-manager",
    ),
    ReplicaGroups(
        "LeaderWorkerSet",
        lws_pods,
        lws_status,
        lws_made,
        is_owner=True,
        events=lws_events,
        source="leaderworkerset",
    ),
    ReplicaGroups("HyperPodPyTorchJob", _hyperpod_pods, _hyperpod_status, _hyperpod_set, is_owner=True),
)
