"""A job that was written elsewhere: its pods and how many there are, what they request, and what has to be there.

Paths lead from the object to a place in it, as targets of a blueprint name places. Nothing is guessed: what is not in
the manifest has no place.

Source: the kinds' own types: training-operator 1.8, mpi-operator 0.8, KubeRay 1.4, Trainer 2.0, JobSet 0.8,
Volcano 1.15, LeaderWorkerSet 0.6 and the HyperPod CLI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import BlueprintError
from actions.base.untrusted import redact
from actions.blueprint.parts import Where
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import JOBS, KubeKind, find_kind
from actions.fleet.node_amounts import GPU, NEURON, NEURON_CORE

_INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_LEADS = frozenset({"launcher", "master", "chief", "head", "submitter", "leader", "evaluator", "coordinator", "driver"})
"""Roles of which a job has one."""
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:token|secret|password|passwd|pwd|credentials?|api_?key|access_?key|secret_?key|private_?key|key)$"
)
_PLACEHOLDER = re.compile(r"\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)|<[A-Z_ -]{3,}>")
DEVICES = {
    GPU: "GPUs",
    NEURON: "Neuron devices",
    "aws.amazon.com/neurondevice": "Neuron devices",
    NEURON_CORE: "Neuron cores",
}
"""Resources of accelerators, with the words for several."""
_OF_SHELLS = frozenset({"command", "args", "entrypoint", "annotations", "exec"})
_COUNTS, _BOUNDS = ("replicas", "parallelism", "completions"), ("minReplicas", "maxReplicas")
_UNBOUND: tuple[object, object] = (None, None)
_INNER: Where = ("template", "spec", "template")
"""From an item of a JobSet to the template of its pods."""
DATA_KINDS = frozenset({"PersistentVolumeClaim", "PersistentVolume"})
"""Objects that hold data: a teardown asks before it deletes them."""


class PodRole(msgspec.Struct, frozen=True):
    """The pods of a job that are made alike.

    Args:
        name: `worker`, `launcher`; of a job with one role its kind.
        path: Of the mapping that has `spec` with containers, or of Trainer's `trainer`, which is like a container.
        spec: The pod spec; of a `trainer` one with it as the only container.
        counts: Paths of the fields that say how many there are, all with the same number; none where no field does.
        count: That number.
        low, high: Its bounds by other fields; `None` for none.
    """

    name: str
    path: Where
    spec: Mapping[str, Any]
    counts: tuple[Where, ...] = ()
    count: int = 1
    low: int | None = None
    high: int | None = None

    @property
    def is_lead(self) -> bool:
        """True if a job has one such pod."""
        return self.name in _LEADS

    def containers(self) -> Iterator[tuple[Where, Mapping[str, Any]]]:
        """Yield the containers with their paths, those that run beside the first one too."""
        if self.path[-1:] == ("trainer",):
            yield self.path, self.spec["containers"][0]
            return
        for index, container in enumerate(self.spec.get("containers") or ()):
            if isinstance(container, dict):
                yield (*self.path, "spec", "containers", index), container

    def main(self) -> tuple[Where, Mapping[str, Any]]:
        """The container that trains: the first with accelerators, else the first."""
        found = list(self.containers())
        return next((each for each in found if devices_of(each[1])), found[0])


class Needed(msgspec.Struct, frozen=True):
    """An object that a job names and that is not among its manifests."""

    kind: str
    name: str
    api_version: str = "v1"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def job_among(objects: Sequence[Manifest]) -> tuple[Manifest, KubeKind]:
    """Return the job among objects, with the row of its kind.

    Raises:
        BlueprintError: There is none, or several that could be meant.
    """
    rows = [(each, find_kind(str(each["kind"]), str(each["apiVersion"]).rpartition("/")[0])) for each in objects]
    jobs = [(each, row) for each, row in rows if row is not None and row in JOBS]
    jobs = jobs or [(each, row) for each, row in rows if row is not None and row.is_watched]
    if len(jobs) == 1:
        return jobs[0]
    known = ", ".join(row.name for row in (*JOBS, find_kind("Deployment")) if row is not None)
    if not jobs:
        found = ", ".join(dict.fromkeys(str(each["kind"]) for each in objects)) or "nothing"
        raise BlueprintError(f"there is no job in it, only {found}.", hint=f"It takes one of {known}.")
    names = ", ".join(f"{each['kind']} {each['metadata']['name']}" for each, _ in jobs)
    raise BlueprintError(f"it has {len(jobs)} jobs: {names}.", hint="Give each a file, and a blueprint.")


def roles_of(job: Manifest) -> list[PodRole]:
    """Return the roles of a job's pods.

    Raises:
        BlueprintError: There is none: the job is not whole.
    """
    spec = job.get("spec")
    found = [role for role in _roles(spec, ("spec",), job) if any(role.containers())] if isinstance(spec, dict) else []
    if not found:
        raise BlueprintError(
            f"the {job['kind']} {job['metadata']['name']} has no pods with containers of its own.",
            hint="Take the manifest of what makes its pods.",
        )
    return found


def main_role(roles: Sequence[PodRole]) -> PodRole:
    """Return the role whose pods train: with accelerators, or else workers before those of which there is one."""

    def rank(role: PodRole) -> tuple[bool, bool, bool, int]:
        has_devices = any(devices_of(container) for _, container in role.containers())
        return has_devices, not role.is_lead, role.name == "worker", role.count

    return max(roles, key=rank)


def _roles(spec: Mapping[str, Any], path: Where, job: Manifest) -> Iterator[PodRole]:
    """Yield the roles by the forms that kinds have; a spec has but those of its own kind."""
    if isinstance(cluster := spec.get("rayClusterSpec"), dict):
        yield from _of_ray(cluster, (*path, "rayClusterSpec"), job)
        yield from _role(job, "submitter", (*path, "submitterPodTemplate"))
        return
    yield from _of_kubeflow(spec, path, job)
    yield from _of_ray(spec, path, job)
    for index, task in enumerate(spec.get("tasks") or ()):
        yield from _role(job, str(task.get("name") or "task"), (*path, "tasks", index, "template"))
    for index, each in enumerate(spec.get("replicatedJobs") or ()):
        place = (*path, "replicatedJobs", index)
        is_wide = (at(each, ("template", "spec", "parallelism")) or 1) > 1 or "replicas" not in each
        counts = None if is_wide else ((*place, "replicas"),)
        yield from _role(job, str(each.get("name") or "worker"), (*place, *_INNER), counts)
    if "leaderWorkerTemplate" in spec:
        place = (*path, "leaderWorkerTemplate")
        yield from _role(job, "leader", (*place, "leaderTemplate"), ((*path, "replicas"),))
        yield from _role(job, "worker", (*place, "workerTemplate"), ((*place, "size"),))
    yield from _role(job, str(job["kind"]).lower(), (*path, "template"))


def _of_kubeflow(spec: Mapping[str, Any], path: Where, job: Manifest) -> Iterator[PodRole]:
    """Yield the roles of training-operator, mpi-operator, HyperPod and Trainer."""
    elastic = spec.get("elasticPolicy") or {}
    for key, groups in spec.items():
        if not key.endswith("eplicaSpecs"):
            continue
        for name, group in groups.items() if isinstance(groups, dict) else enumerate(groups or ()):
            title = str(name if isinstance(groups, dict) else group.get("name") or "worker").lower()
            bounds = (elastic.get("minReplicas"), elastic.get("maxReplicas")) if title == "worker" else _UNBOUND
            yield from _role(job, title, (*path, key, name, "template"), bounds=bounds)
    if isinstance(trainer := spec.get("trainer", {} if "runtimeRef" in spec else None), dict):
        container = {"name": "node", **trainer, "resources": trainer.get("resourcesPerNode") or {}}
        place = (*path, "trainer")
        yield _counted(job, PodRole("worker", place, {"containers": [container]}), ((*place, "numNodes"),))


def _of_ray(spec: Mapping[str, Any], path: Where, job: Manifest) -> Iterator[PodRole]:
    yield from _role(job, "head", (*path, "headGroupSpec", "template"))
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        bounds = (group.get("minReplicas"), group.get("maxReplicas"))
        place = (*path, "workerGroupSpecs", index)
        here = [(*place, "replicas"), *((*place, key) for key in _BOUNDS if group.get(key) == group.get("replicas"))]
        yield from _role(job, str(group.get("groupName") or "worker"), (*place, "template"), here, bounds=bounds)


def _role(
    job: Manifest,
    name: str,
    path: Where,
    counts: Sequence[Where] | None = None,
    *,
    bounds: tuple[object, object] = _UNBOUND,
) -> Iterator[PodRole]:
    """Yield the role whose template stands at a path, if it is there; its counts stand beside it unless given."""
    spec = at(job, (*path, "spec"))
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        beside = tuple((*path[:-1], key) for key in _COUNTS)
        yield _counted(job, PodRole(name, path, spec), beside if counts is None else counts, bounds)


def _counted(
    job: Manifest, role: PodRole, counts: Sequence[Where], bounds: tuple[object, object] = _UNBOUND
) -> PodRole:
    values = {place: at(job, place) for place in counts}
    for place, value in values.items():
        if not isinstance(value, int | None):
            raise BlueprintError(f"{target_path(place)} is {str(value)[:60]!r}, which is not a number.")
    count = next((value for value in values.values() if isinstance(value, int)), None)
    if count is None:
        return role
    low, high = bounds
    return replace(
        role,
        counts=tuple(place for place, value in values.items() if value == count),
        count=count,
        low=low if isinstance(low, int) and low < count else None,
        high=high if isinstance(high, int) and high > count else None,
    )


def at(node: Any, path: Where) -> Any:
    """Return what stands at a path; `None` if nothing does."""
    for step in path:
        is_there = step in node if isinstance(node, dict) else isinstance(step, int) and step < len(node or ())
        if not is_there:
            return None
        node = node[step]
    return node


def target_path(path: Where) -> str:
    """Return a path as a target writes it: `spec.template.spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (f'"{step}"' if re.search(r'[."\[\]]', step) else step)
    return text


def places_of(node: Any, path: Where = ()) -> Iterator[tuple[Where, Any]]:
    """Yield every scalar below a node with its path."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from places_of(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from places_of(value, (*path, index))
    else:
        yield path, node


def devices_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accelerators that a container requests, by resource, as they are written."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    if not ({"requests", "limits"} & {*resources}):
        amounts = resources  # Trainer's resourcesPerNode may have them so
    return {name: amount for name, amount in amounts.items() if name in DEVICES}


def instance_types_of(role: PodRole) -> Iterator[tuple[Where, str]]:
    """Yield the instance types that a role's pods ask for by a selector or a required affinity, with their places."""
    here: Where = (*role.path, "spec")
    for label in _INSTANCE_TYPES:
        found = (role.spec.get("nodeSelector") or {}).get(label)
        if isinstance(found, str):
            yield (*here, "nodeSelector", label), found
    steps: Where = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for index, term in enumerate(at(role.spec, steps) or ()):
        for place, rule in enumerate(term.get("matchExpressions") or ()):
            values = rule.get("values") or []
            if rule.get("key") in _INSTANCE_TYPES and rule.get("operator") == "In" and len(values) == 1:
                yield (*here, *steps, index, "matchExpressions", place, "values", 0), str(values[0])


def is_secret(name: str, value: object) -> bool:
    """Return whether a value beside a name, of a variable or an argument, is a secret itself and not a place of one."""
    text = str(value)
    if not text or _PLACEHOLDER.search(text) or text.startswith(("/", "$")):
        return False
    return bool(redact(text) != text or (_SECRET_NAME.search(name) and isinstance(value, str)))


def secrets_in(job: Manifest) -> Iterator[tuple[Where, str]]:
    """Yield the places of variables with a secret as their value, and the name of each."""
    for path, value in places_of(job):
        if path[-1:] == ("value",) and "env" in path:
            name = at(job, (*path[:-1], "name"))
            if isinstance(name, str) and is_secret(name, value):
                yield path, name


def placeholders_in(objects: Sequence[Manifest]) -> list[str]:
    """Return what another program was to fill in, such as `$IMAGE_URI`, in fields that no shell reads."""
    found: dict[str, None] = {}
    for item in objects:
        if item["kind"] == "ConfigMap":
            continue
        for path, value in places_of(item):
            is_shell = _OF_SHELLS & {*path} or path[-1:] == ("value",)
            if isinstance(value, str) and not is_shell and "\n" not in value:
                found |= dict.fromkeys(_PLACEHOLDER.findall(value))
    return list(found)


def needed_objects(objects: Sequence[Manifest], job: Manifest) -> list[Needed]:
    """Return the objects that a job names (ConfigMaps, Secrets, claims…) and that are not among those given."""
    brought = {(str(each["kind"]), str(each["metadata"]["name"])) for each in objects if each["kind"] != "Secret"}
    found = dict.fromkeys(each for each in _named_in(job) if (each.kind, each.name) not in brought)
    return [each for each in found if (each.kind, each.name) != ("ServiceAccount", "default")]


_NAMED = {
    "configMapRef": ("name", "ConfigMap"),
    "configMapKeyRef": ("name", "ConfigMap"),
    "configMap": ("name", "ConfigMap"),
    "secretRef": ("name", "Secret"),
    "secretKeyRef": ("name", "Secret"),
    "secret": ("secretName", "Secret"),
    "persistentVolumeClaim": ("claimName", "PersistentVolumeClaim"),
}
"""Keys of a pod spec that refer to an object: the key of its name, and its kind."""
_NAMES = {
    "serviceAccountName": ("ServiceAccount", "v1"),
    "priorityClassName": ("PriorityClass", "scheduling.k8s.io/v1"),
}
"""Keys whose value is the name of an object, with its kind and version."""


def _named_in(node: Any) -> Iterator[Needed]:
    if isinstance(node, list):
        for item in node:
            yield from _named_in(item)
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in _NAMED and isinstance(value, dict):
            name, kind = value.get(_NAMED[key][0]), _NAMED[key][1]
            if isinstance(name, str) and not value.get("optional"):
                yield Needed(kind, name)
        elif key == "imagePullSecrets":
            yield from (Needed("Secret", str(each["name"])) for each in value or () if "name" in each)
        elif key in _NAMES and isinstance(value, str) and not value.startswith("system-"):
            yield Needed(_NAMES[key][0], value, _NAMES[key][1])
        elif key == "runtimeRef" and isinstance(value, dict):
            kind = str(value.get("kind") or "ClusterTrainingRuntime")
            yield Needed(kind, str(value.get("name")), "trainer.kubeflow.org/v1alpha1")
        else:
            yield from _named_in(value)


_OF_SERVER = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"})
_OF_OWNERS = frozenset({"ownerReferences", "finalizers", "generateName"})
_OF_TOOLS = re.compile(
    r"kubectl\.kubernetes\.io/(?:last-applied-configuration|restartedAt)|deployment\.kubernetes\.io/.*|eksml\.dev/.*"
    r"|app\.kubernetes\.io/managed-by|batch\.kubernetes\.io/(?:job-tracking|.*uid)|ray\.io/.*-at"
    r"|(?:batch\.kubernetes\.io/)?(?:controller-uid|job-name)"
)
"""Labels and annotations that controllers and tools have set."""
_POD_DEFAULTS: dict[str, Any] = {
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "creationTimestamp": None,
    "resources": {},
}
"""The fields that servers add to every pod template."""


def without_server_fields(live: Manifest) -> Manifest:
    """Return an object as a person would have written it: without status, identity and what servers add by default."""
    metadata = {key: value for key, value in live["metadata"].items() if key not in _OF_SERVER | _OF_OWNERS}
    job: Manifest = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}
    job |= {key: _plain(value) for key, value in live.items() if key not in (*job, "status")}
    for key in ("labels", "annotations"):
        kept = {name: value for name, value in (metadata.get(key) or {}).items() if not _OF_TOOLS.fullmatch(name)}
        metadata.pop(key, None)
        metadata |= {key: kept} if kept else {}
    if live["kind"] == "Job" and str(live["apiVersion"]).startswith("batch/") and not job["spec"].get("manualSelector"):
        job["spec"].pop("selector", None)  # the server makes it anew
    for key in ("suspend", "podReplacementPolicy", "completionMode", "manualSelector"):
        if job["spec"].get(key) in (False, "TerminatingOrFailed", "NonIndexed"):
            del job["spec"][key]
    return job


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {
        key: _plain(value) for key, value in node.items() if key not in _POD_DEFAULTS or value != _POD_DEFAULTS[key]
    }
    for key in ("labels", "annotations"):
        if isinstance(plain.get(key), dict):
            plain[key] = {name: value for name, value in plain[key].items() if not _OF_TOOLS.fullmatch(name)}
            if not plain[key]:
                del plain[key]
    if plain.get("metadata") == {}:
        del plain["metadata"]
    return plain
