"""The kinds whose pods are those of their templates, by role and number: a row for each, and one controller for all.

It makes pods once, and an ended job is ended: without restarts, elasticity, rollouts and clean-up. No operator has to
be there, as no blueprint installs one, but for Volcano, whose scheduler places the pods.

Source: names, labels, variables and states in training-operator v1.9.0 (`pkg/controller.v1/tensorflow` and `mpi`), and
as of November 2026 in Volcano (`pkg/controllers/job`, its `labels.go`), LeaderWorkerSet (`pkg/webhooks`,
`pkg/utils/pod`) and the HyperPod CLI (its template and client: its operator has no public source); not compared with
the running operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from actions.cluster.kinds import kind_of
from actions.cluster.pod_roles import PodRole, at, pod_roles
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    POD_GROUPS,
    PODS,
    Document,
    Kind,
    is_deleting,
    key_of,
    labels_of,
    owner_of,
    owner_reference,
    uid_of,
)
from actions.sandbox.controllers.core.pods import is_pod_ready, phase_of, pod_of

_TRAINING, _VOLCANO, _LWS = "training.kubeflow.org", "volcano.sh", "leaderworkerset.sigs.k8s.io"
_ROLE = f"{_TRAINING}/job-role"
_CHIEFS = ("chief", "master", "launcher")
_HYPERPOD_JOB = "sagemaker.amazonaws.com/job-name"
"""A label of the sandbox's own: those of HyperPod's operator are not public."""
_STATEFUL_SETS = Kind("apps/v1", "StatefulSet", "statefulsets")
Statuses = Callable[[Document, Mapping[str, str], str], Document]
"""From a job, the phases of its pods by name (`Ready` for one that is) and the time: its status."""


class ReplicaGroups(msgspec.Struct, frozen=True):
    """One kind.

    Args:
        name: Its full name in the table of kinds.
        version: That of its objects; empty for the table's.
        pods: Its pods.
        status: Its status.
        made: The object, with its kind, that is made before the pods; for the owner of a pod, with the owner's name.
        is_owner: That object owns the pods.
    """

    name: str
    pods: Callable[[Document], Iterator[Document]]
    status: Statuses
    made: Callable[[Document, str], tuple[Kind, Document]] | None = None
    is_owner: bool = False
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
        """Make the pods that are missing, or take them away while it is suspended, and write the status."""
        job = self._caches[self._kind].get(key)
        if job is None or is_deleting(job) or _has_ended(job):
            return None
        wanted = {} if _is_suspended(job) else {pod["metadata"]["name"]: pod for pod in self._groups.pods(job)}
        there = {name: pod for name, pod in self._pods_of(job).items() if not is_deleting(pod)}
        for name, pod in there.items():
            if name not in wanted:
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
        for name in wanted.keys() - there.keys():
            await self._make(job, wanted[name])
        phases = {name: "Ready" if is_pod_ready(pod) else phase_of(pod) for name, pod in there.items()}
        change = self._groups.status(job, phases, self._client.timestamp())
        old = job.get("status") or {}
        if any(old.get(field) != value for field, value in change.items()):
            await self._client.patch_status(self._kind, job, change)
        return None

    def _pods_of(self, job: Document) -> dict[str, Document]:
        named = self._caches[PODS].labelled(**{self._groups.label: job["metadata"]["name"]})
        owners = (self._row.kind, *self._row.pod_owners)
        mine = (pod for pod in named if (owner_of(pod) or {}).get("kind") in owners)
        return {
            pod["metadata"]["name"]: pod for pod in mine if pod["metadata"]["namespace"] == job["metadata"]["namespace"]
        }

    async def _make(self, job: Document, pod: Document) -> None:
        owner = job
        if self._groups.made is not None:
            kind, made = self._groups.made(job, pod["metadata"]["name"])
            made["metadata"] |= {"namespace": job["metadata"]["namespace"], "ownerReferences": [owner_reference(job)]}
            key = f"{job['metadata']['namespace']}/{made['metadata']['name']}"
            found = await self._client.create(kind, made) or await self._client.read(kind, key)
            owner = found if self._groups.is_owner and found is not None else job
        pod["metadata"] |= {"namespace": job["metadata"]["namespace"], "ownerReferences": [owner_reference(owner)]}
        made_pod = await self._client.create(PODS, pod)
        if made_pod is not None:
            self._caches[PODS].upsert(made_pod)


def _is_suspended(job: Document) -> bool:
    return at(job, ("spec", "runPolicy", "suspend")) is True


def _has_ended(job: Document) -> bool:
    conditions = at(job, ("status", "conditions"))
    ends = [
        one
        for one in conditions or ()
        if one.get("type") in ("Succeeded", "Completed", "Failed") and one["status"] == "True"
    ]
    return bool(ends) or at(job, ("status", "state", "phase")) in ("Completed", "Failed")


def _pod(role: PodRole, name: str, labels: dict[str, str], environment: dict[str, str]) -> Document:
    pod = pod_of(dict(role.template), name)
    pod["metadata"]["labels"] = pod["metadata"]["labels"] | labels
    variables = [{"name": key, "value": value} for key, value in environment.items()]
    for container in pod["spec"]["containers"]:
        container["env"] = [*variables, *(container.get("env") or ())]
    return pod


def _training_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a TFJob, or of an MPIJob of the training operator."""
    name, roles = job["metadata"]["name"], list(pod_roles(job))
    is_mpi, has_chief = job["kind"] == "MPIJob", any(role.name in _CHIEFS for role in roles)
    for role in roles:
        policy = at(job, (*role.path[:-1], "restartPolicy")) or ("Never" if is_mpi else "OnFailure")
        for index in range(role.total):
            place = {"job-name": name, "operator-name": f"{job['kind'].lower()}-controller", "replica-type": role.name}
            labels = {f"{_TRAINING}/{key}": value for key, value in (place | {"replica-index": str(index)}).items()}
            is_worker_0 = not (has_chief or is_mpi) and (role.name, index) == ("worker", 0)
            if role.name in _CHIEFS or is_worker_0:
                labels[_ROLE] = "master"
            title = f"{name}-{role.name}" if is_mpi and role.is_lead else f"{name}-{role.name}-{index}"
            pod = _pod(role, title, labels, {})
            pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
            if is_mpi and not role.is_lead:
                for container in pod["spec"]["containers"][:1]:
                    if not container.get("command"):
                        container |= {"command": ["sleep"], "args": ["365d"]}
            yield pod


def _training_status(job: Document, phases: Mapping[str, str], now: str) -> Document:
    """The job succeeds with its chief or launcher, without one with its worker 0, or by policy with all workers."""
    kind, full = job["kind"], f"{job['metadata']['namespace']}/{job['metadata']['name']}"
    pods = list(_training_pods(job))
    leads = [pod for pod in pods if labels_of(pod).get(_ROLE) == "master"]
    is_of_workers = all(labels_of(pod)[f"{_TRAINING}/replica-type"] == "worker" for pod in leads)
    if is_of_workers and job["spec"].get("successPolicy") == "AllWorkers":
        leads = [pod for pod in pods if labels_of(pod)[f"{_TRAINING}/replica-type"] == "worker"]
    conditions = list(at(job, ("status", "conditions")) or ())

    def put(state: str, message: str, *, is_so: bool = True) -> None:
        nonlocal conditions
        conditions = with_condition(conditions, condition(state, is_so, f"{kind}{state}", message, now))

    put("Created", f"{kind} {full} is created.")
    has_succeeded = bool(leads) and all(phases.get(pod["metadata"]["name"]) == "Succeeded" for pod in leads)
    failed = [name for name, phase in phases.items() if phase == "Failed"]
    if has_succeeded or failed:
        put("Running", f"{kind} {full} is running.", is_so=False)
    if has_succeeded:
        put("Succeeded", f"{kind} {full} successfully completed.")
    elif failed:
        put("Failed", f"{kind} {full} has failed because {len(failed)} replica(s) failed.")
    elif "Ready" in phases.values():
        put("Running", f"{kind} {full} is running.")
    return {"conditions": conditions}


def _volcano_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a Job of Volcano."""
    name, queue = job["metadata"]["name"], job["spec"].get("queue") or "default"
    for role in pod_roles(job):
        for index in range(role.total):
            place = {"task-index": str(index), "job-name": name, "task-spec": role.name, "queue-name": queue}
            labels = {f"{_VOLCANO}/{key}": value for key, value in place.items()}
            labels[f"{_VOLCANO}/job-namespace"] = job["metadata"]["namespace"]
            pod = _pod(role, f"{name}-{role.name}-{index}", labels, {"VC_TASK_INDEX": str(index)})
            group = {"scheduling.k8s.io/group-name": f"{name}-{uid_of(job)}"}
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | group
            pod["spec"]["schedulerName"] = job["spec"].get("schedulerName") or "volcano"
            yield pod


def _pod_group(job: Document, _pod: str) -> tuple[Kind, Document]:
    spec = {"minMember": _least(job), "queue": job["spec"].get("queue") or "default"}
    return POD_GROUPS, {"metadata": {"name": f"{job['metadata']['name']}-{uid_of(job)}"}, "spec": spec}


def _least(job: Document) -> int:
    return int(job["spec"].get("minAvailable") or sum(role.total for role in pod_roles(job)))


def _volcano_status(job: Document, by_pod: Mapping[str, str], now: str) -> Document:
    """Its job is completed when as many pods have succeeded as have to be there, and none runs."""
    phases = Counter(by_pod.values())
    least, total = _least(job), sum(role.total for role in pod_roles(job))
    running = phases["Ready"] + phases["Running"]
    has_ended = phases["Succeeded"] + phases["Failed"] >= total > 0
    ended = "Completed" if phases["Succeeded"] >= least else "Failed"
    state = ended if has_ended else "Running" if running + phases["Succeeded"] >= least else "Pending"
    if at(job, ("status", "state", "phase")) != state:
        state_document = {"phase": state, "lastTransitionTime": now}
    else:
        state_document = job["status"]["state"]
    counts = {"pending": phases["Pending"], "running": running, "succeeded": phases["Succeeded"]}
    counts |= {"failed": phases["Failed"], "minAvailable": least}
    return {"state": state_document} | {name: count for name, count in counts.items() if count}


def _lws_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a LeaderWorkerSet: of each group the leader, and its workers."""
    name, home = job["metadata"]["name"], job["metadata"]["namespace"]
    roles = list(pod_roles(job))
    leader, worker = roles[0], roles[-1]
    size = int(at(job, ("spec", "leaderWorkerTemplate", "size")) or 1)
    for group in range(int(job["spec"].get("replicas", 1))):
        first = f"{name}-{group}"
        for index in range(size):
            labels = {"name": name, "group-index": str(group), "worker-index": str(index)}
            environment = {"LWS_LEADER_ADDRESS": f"{first}.{name}.{home}", "LWS_GROUP_SIZE": str(size)}
            environment["LWS_WORKER_INDEX"] = str(index)
            labels = {f"{_LWS}/{key}": value for key, value in labels.items()}
            pod_name = f"{first}-{index}" if index else first
            yield _pod(worker if index else leader, pod_name, labels, environment)


def _lws_set(job: Document, pod: str) -> tuple[Kind, Document]:
    """The StatefulSet of all leaders, or of the workers of one."""
    name = job["metadata"]["name"]
    rest = pod.removeprefix(f"{name}-")
    return _stateful_set(job, f"{name}-{rest.partition('-')[0]}" if "-" in rest else name, f"{_LWS}/name")


def _stateful_set(job: Document, name: str, label: str) -> tuple[Kind, Document]:
    """A StatefulSet of a job, without pods of its own."""
    labels = {label: job["metadata"]["name"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "pod", "image": "pod"}]}}
    spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return _STATEFUL_SETS, {"metadata": {"name": name, "labels": labels}, "spec": spec}


def _lws_status(job: Document, by_pod: Mapping[str, str], now: str) -> Document:
    """It is available when the pods of all groups are ready."""
    phases = Counter(by_pod.values())
    replicas = int(job["spec"].get("replicas", 1))
    total = replicas * int(at(job, ("spec", "leaderWorkerTemplate", "size")) or 1)
    is_ready = phases["Ready"] >= total
    ready = condition("Available", is_ready, "AllGroupsReady", "All replicas are ready", now)
    waiting = condition("Progressing", not is_ready, "GroupsProgressing", "Replicas are progressing", now)
    conditions = list(at(job, ("status", "conditions")) or ())
    for one in (waiting, ready):
        conditions = with_condition(conditions, one)
    return {
        "conditions": conditions,
        "replicas": replicas,
        "readyReplicas": phases["Ready"] * replicas // max(1, total),
    }


def _hyperpod_pods(job: Document) -> Iterator[Document]:
    """Yield the pods of a HyperPodPyTorchJob."""
    name = job["metadata"]["name"]
    for role in pod_roles(job):
        for index in range(role.total):
            pod = _pod(role, f"{name}-{role.name}-{index}", {_HYPERPOD_JOB: name}, {})
            pod["spec"]["restartPolicy"] = "Never"
            yield pod


def _hyperpod_set(job: Document, pod: str) -> tuple[Kind, Document]:
    return _stateful_set(job, pod.rpartition("-")[0], _HYPERPOD_JOB)


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
    ReplicaGroups("TFJob", _training_pods, _training_status),
    ReplicaGroups("MPIJob", _training_pods, _training_status, version="v1"),
    ReplicaGroups("Job.batch.volcano.sh", _volcano_pods, _volcano_status, _pod_group),
    ReplicaGroups("LeaderWorkerSet", _lws_pods, _lws_status, _lws_set, is_owner=True),
    ReplicaGroups("HyperPodPyTorchJob", _hyperpod_pods, _hyperpod_status, _hyperpod_set, is_owner=True),
)
