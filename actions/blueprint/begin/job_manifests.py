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

from actions.base.errors import BlueprintError
from actions.base.untrusted import redact
from actions.blueprint.parts import Where
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import JOBS, KubeKind, find_kind
from actions.cluster.pod_roles import PodRole, at, pod_roles
from actions.fleet.node_amounts import GPU, NEURON, NEURON_CORE

_INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
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
DATA_KINDS = frozenset({"PersistentVolumeClaim", "PersistentVolume"})
"""Objects that hold data: a teardown asks before it deletes them."""


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
    try:
        found = [role for role in pod_roles(job) if any(role.containers())]
    except ValueError as error:
        raise BlueprintError(f"{error}.") from error
    if not found:
        raise BlueprintError(
            f"the {job['kind']} {job['metadata']['name']} has no pods with containers of its own.",
            hint="Take the manifest of what makes its pods.",
        )
    return found


def main_container(role: PodRole) -> tuple[Where, Mapping[str, Any]]:
    """The container of a role that trains, with its path: the first with accelerators, else the first."""
    found = list(role.containers())
    return next((each for each in found if devices_of(each[1])), found[0])


def main_role(roles: Sequence[PodRole]) -> PodRole:
    """Return the role whose pods train: with accelerators, or else workers before those of which there is one."""

    def rank(role: PodRole) -> tuple[bool, bool, bool, int]:
        has_devices = any(devices_of(container) for _, container in role.containers())
        return has_devices, not role.is_lead, role.name == "worker", role.count

    return max(roles, key=rank)


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
