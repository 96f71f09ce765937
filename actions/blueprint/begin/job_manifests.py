"""A job that was written elsewhere: its containers, what it names and does not bring, what must not be copied of it.

Paths lead from the object to a place in it, as targets of a blueprint name places.

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
from actions.base.yamldoc import load_documents
from actions.blueprint.parts import Where
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import JOBS, KubeKind, find_kind, kind_of
from actions.cluster.objects.editing import yaml_text
from actions.cluster.pod_roles import PodRole, at, place_text, pod_roles
from actions.fleet.accelerators import ACCELERATORS

DATA_KINDS = frozenset({"PersistentVolumeClaim", "PersistentVolume"})
"""Objects that hold data: a teardown asks before it deletes them."""
_OF_SHELLS = frozenset({"command", "args", "entrypoint", "annotations", "exec"})
_PLACEHOLDER = re.compile(r"\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)|<[A-Za-z][A-Za-z_ -]{2,}>")
_NEEDED = frozenset({"image", "replicas", "parallelism", "completions", "numNodes"})
_MOST_NAMED = 12
_SECRET = r"(?i)(?:^|[\s_-])(?:token|secret|password|passwd|pwd|credentials?|api_?key|access_?key|key)"  # noqa: S105
_SECRET_NAME = re.compile(f"{_SECRET}$")
_SECRET_ARGUMENT = re.compile(rf"{_SECRET}[= ](?=\S*\d)[^\s$<>/\"']{{16,}}")


class JobContainer(msgspec.Struct, frozen=True):
    """A container of a job's pods, with its path."""

    role: PodRole
    path: Where
    spec: Mapping[str, Any]

    @property
    def devices(self) -> dict[str, Any]:
        """The accelerators that it requests, by resource, as they are written."""
        parts = (at(self.spec, ("resources", part)) for part in ("requests", "limits"))
        amounts = {name: amount for part in parts if isinstance(part, dict) for name, amount in part.items()}
        return {name: amount for name, amount in amounts.items() if name in ACCELERATORS}


def job_among(objects: Sequence[Manifest]) -> tuple[Manifest, KubeKind]:
    """Return the job among objects, with the row of its kind.

    Raises:
        BlueprintError: There is none, or several that could be meant.
    """
    rows = [(each, find_kind(each["kind"], each["apiVersion"].rpartition("/")[0])) for each in objects]
    watched = [(each, row) for each, row in rows if row is not None and row.is_watched]
    jobs = [(each, row) for each, row in watched if row in JOBS] or watched
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        found = ", ".join(dict.fromkeys(each["kind"] for each in objects))
        known = ", ".join(row.name for row in (*JOBS, kind_of("Deployment")))
        raise BlueprintError(f"there is no job in it{found and f', only {found}'}.", hint=f"It takes one of {known}.")
    names = ", ".join(f"{each['kind']} {each['metadata']['name']}" for each, _ in jobs)
    raise BlueprintError(f"it has {len(jobs)} jobs: {names}.", hint="Give each a file, and a blueprint.")


def job_containers(job: Manifest) -> list[JobContainer]:
    """Return the containers of a job's pods.

    Raises:
        BlueprintError: There is none: the job is not whole.
    """
    try:
        found = [JobContainer(role, *each) for role in pod_roles(job) for each in role.containers()]
    except ValueError as error:
        raise BlueprintError(f"{error}.") from error
    if not found:
        raise BlueprintError(
            f"the {job['kind']} {job['metadata']['name']} has no pods with containers of its own.",
            hint="Take the manifest of what makes its pods.",
        )
    return found


def main_container(containers: Sequence[JobContainer]) -> JobContainer:
    """Return the container that trains: with accelerators, or else of workers before those of which there is one."""
    return max(
        containers, key=lambda one: (bool(one.devices), not one.role.is_lead, one.role.name == "worker", one.role.count)
    )


def places_of(node: Any, path: Where = ()) -> Iterator[tuple[Where, Any]]:
    """Yield every scalar below a node with its path."""
    if not isinstance(node, dict | list):
        yield path, node
        return
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield from places_of(value, (*path, key))


def require_filled(objects: Sequence[Manifest]) -> None:
    """Refuse what was to be filled in: nothing, or such as `$IMAGE_URI` and `<image>` in fields that no shell reads.

    Raises:
        BlueprintError: There is some, with the command that fills it in.
    """
    own: dict[str, None] = {}
    of_shells: dict[str, None] = {}
    for item in (item for item in objects if item["kind"] != "ConfigMap"):
        secrets = {path for path, variable in secrets_in(item) if variable}
        for path, value in places_of(item):
            if value is None and (path[-1] in _NEEDED or path[-2:-1] in (("requests",), ("limits",))):
                own[place_text(path)] = None
            if not isinstance(value, str) or path in secrets:
                continue
            is_whole = path[-1] == "value" and "\n" not in value and _PLACEHOLDER.fullmatch(value)
            is_free = "\n" in value or _OF_SHELLS & {*path} or path[-1] == "value"
            (of_shells if is_free and not is_whole else own).update(dict.fromkeys(_PLACEHOLDER.findall(value)))
    if not own:
        return
    named = [one for one in own if one.startswith("$")]
    other = [one for one in of_shells if one.startswith("$") and one not in own]
    hint = f"Export them, and run: envsubst '{' '.join(named)}' < FILE | eksml-tui blueprints new ID --from -"
    if other:
        hint += f" (with those of its commands that no shell is to fill in: {', '.join(other[:_MOST_NAMED])})"
    more = f" and {len(own) - 3} more" if len(own) > 3 else ""
    message = f"it is a template, without a value yet for {', '.join([*own][:3])}{more}."
    raise BlueprintError(message, hint=hint if named else "Write the values into it.")


def secrets_in(manifest: Manifest) -> Iterator[tuple[Where, str]]:
    """Yield the places of texts that are or hold a secret; with the variable's name, if it is a variable's value."""
    for path, value in places_of(manifest):
        if not isinstance(value, str):
            continue
        name = at(manifest, (*path[:-1], "name")) if path[-1] == "value" and "env" in path else None
        is_secret = redact(value) != value
        if isinstance(name, str):
            is_meant = value and not value.startswith(("/", "$")) and not _PLACEHOLDER.search(value)
            is_secret |= bool((is_meant or _PLACEHOLDER.fullmatch(value)) and _SECRET_NAME.search(name))
        elif _OF_SHELLS & {*path}:
            before = at(manifest, (*path[:-1], path[-1] - 1)) if isinstance(path[-1], int) and path[-1] else ""
            is_secret |= bool(_SECRET_ARGUMENT.search(f"{before} {value}"))
        if is_secret:
            yield path, name if isinstance(name, str) else ""


_REFERENCE = re.compile(
    r"(configMap|secret|persistentVolumeClaim|serviceAccount|priorityClass)(?:KeyRef|Ref|Name)?"
    r"|imagePullSecrets|runtimeRef"
)
"""Keys that refer to an object, most of them by its kind."""
_OF_CLUSTER = re.compile(r"default|system-.*")
"""Names of accounts and classes that every cluster has."""
_RUNTIME = {
    "mlPolicy": {"torch": {}},
    "template": {"spec": {"replicatedJobs": [{
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "stand-in"}]}}},
        },
    }]}},
}  # fmt: skip
_DEFAULT_CLASS = "gp3"
"""The class that the embedded cluster gives claims without one."""
_MODES: Manifest = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
_CONTENTS: dict[str, Manifest] = {
    "PersistentVolumeClaim": {"spec": {**_MODES, "resources": {"requests": {"storage": "1Gi"}}}},
    "PriorityClass": {"value": 0},
    "ClusterTrainingRuntime": {"spec": _RUNTIME},
    "TrainingRuntime": {"spec": _RUNTIME},
}
"""The least that makes an object of a kind valid."""


def stand_ins_of(objects: Sequence[Manifest], job: Manifest) -> list[Manifest]:
    """Return objects without a use in the place of those that a job names and that are not among those given."""
    brought = {(each["kind"], each["metadata"]["name"]) for each in objects if each["kind"] != "Secret"}
    found: dict[tuple[str, str], Manifest] = {}
    for kind, name, key in _named_in(job):
        if (kind, name) in brought:
            continue
        made = found.setdefault((kind, name), _stand_in(kind, name))
        if key:
            made.setdefault("stringData" if kind == "Secret" else "data", {})[key] = "stand-in"
    return list(found.values())


def stand_in_volumes(objects: Sequence[Manifest]) -> list[Manifest]:
    """Return a volume for each claim, which no driver would make; none beside volumes."""
    found = []
    for claim in (each for each in objects if each["kind"] == "PersistentVolumeClaim"):
        name = at(claim, ("spec", "volumeName")) or f"stand-in-{claim['metadata']['name']}"
        written = {field: at(claim, ("spec", field)) for field in _MODES}
        spec = {**_MODES, "storageClassName": _DEFAULT_CLASS}
        spec |= {field: value for field, value in written.items() if value is not None}
        capacity = at(claim, ("spec", "resources", "requests")) or {"storage": "1Gi"}
        spec |= {"capacity": capacity, "hostPath": {"path": "/mnt/stand-in"}}
        found.append(_stand_in("PersistentVolume", name) | {"spec": spec})
    return [] if any(each["kind"] == "PersistentVolume" for each in objects) else found


def _stand_in(kind: str, name: str) -> Manifest:
    row = find_kind(kind) or kind_of("ClusterTrainingRuntime")
    return {"apiVersion": row.api_version, "kind": kind, "metadata": {"name": name}, **_CONTENTS.get(kind, {})}


def _named_in(node: Any, key: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield kind and name of each object that something refers to, and the key in it; empty for the whole object."""
    found = _REFERENCE.fullmatch(key)
    if found is None or isinstance(node, list):
        for below, value in node.items() if isinstance(node, dict) else ():
            yield from _named_in(value, below)
        for item in node if isinstance(node, list) else ():
            yield from _named_in(item, key)
        return
    kind = "Secret" if key == "imagePullSecrets" else "ClusterTrainingRuntime"
    kind = found[1][0].upper() + found[1][1:] if found[1] else kind
    if isinstance(node, dict) and not node.get("optional"):
        names = (node.get(field) for field in ("name", "secretName", "claimName"))
        name = next((name for name in names if isinstance(name, str)), "")
        kind, part = str(node.get("kind") or kind), str(node.get("key") or "")
    else:
        is_name = key.endswith("Name") and not _OF_CLUSTER.fullmatch(str(node))
        name, part = str(node) if is_name else "", ""
    if name:
        yield kind, name, part


def definition_of(job: Manifest, row: KubeKind) -> Manifest:
    """Return a definition of a job's kind that takes whatever is in one."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    version = job["apiVersion"].rpartition("/")[2]
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    names = {"kind": row.kind, "plural": row.plural, "singular": row.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{row.plural}.{row.group}"},
        "spec": {"group": row.group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


_ALWAYS = object()
_ADDED: dict[str, object] = {
    **dict.fromkeys(
        ("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"), _ALWAYS
    ),
    **dict.fromkeys(("ownerReferences", "finalizers", "generateName"), _ALWAYS),
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
    "completionMode": "NonIndexed",
    "manualSelector": False,
}
"""Fields that servers add, with the value that they add."""
_OF_TOOLS = re.compile(
    r"kubectl\.kubernetes\.io/(?:last-applied-configuration|restartedAt)|deployment\.kubernetes\.io/.*|eksml\.dev/.*"
    r"|app\.kubernetes\.io/managed-by|batch\.kubernetes\.io/(?:job-tracking|.*uid)|ray\.io/.*-at"
    r"|(?:batch\.kubernetes\.io/)?(?:controller-uid|job-name)"
)
"""Labels and annotations that controllers and tools have set."""
_MAPPINGS = ("labels", "annotations")


def as_written(data: bytes, file: str) -> bytes:
    """Return manifests as a person would have written them, if some are in a list or a server has printed them.

    Raises:
        BlueprintError: It is not YAML.
    """
    documents = [document.value for document in load_documents(data, file=file, kind=BlueprintError)]
    objects = [item for each in documents for item in (each["items"] if _is_list(each) else [each])]
    is_live = any(at(each, ("metadata", "uid")) for each in objects)
    if (objects == documents and not is_live) or not all(isinstance(each, dict) for each in objects):
        return data
    return "---\n".join(yaml_text(without_server_fields(each)) for each in objects).encode()


def _is_list(document: Any) -> bool:
    items = document.get("items") if isinstance(document, dict) else None
    return isinstance(items, list) and all(isinstance(item, dict) and "metadata" in item for item in items)


def without_server_fields(live: Manifest) -> Manifest:
    """Return an object as a person would have written it: without status, identity and what servers add by default."""
    ordered = {key: live[key] for key in ("apiVersion", "kind", "metadata") if key in live} | live
    job: Manifest = _plain({key: value for key, value in ordered.items() if key != "status"})
    spec = job.get("spec")
    if str(live.get("apiVersion")).startswith("batch/") and isinstance(spec, dict) and not spec.get("manualSelector"):
        spec.pop("selector", None)  # the server makes it anew
    return job


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in node.items():
        if key in _MAPPINGS and isinstance(value, dict):
            value = {name: text for name, text in value.items() if not _OF_TOOLS.fullmatch(name)}  # noqa: PLW2901
        plain = _plain(value)
        is_added = key in _ADDED and (_ADDED[key] is _ALWAYS or _ADDED[key] == value)
        if not is_added and (plain != {} or key not in ("metadata", *_MAPPINGS)):
            kept[key] = plain
    return kept
