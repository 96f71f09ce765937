"""The history of a namespace, in a form in which those of two clusters can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from actions.cluster.kinds import name_of_kind

Document = dict[str, Any]

_CHANCE = (
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| \+0000 UTC)?"), "<time>"),
    (re.compile(r"\b(?!0\.0\.0\.0\b)(?:\d{1,3}\.){3}\d{1,3}\b"), "<address>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])"), "-<suffix>"),
    (re.compile(r"\bip-[\d-]+\.[a-z0-9-]+\.compute\.internal\b"), "<node>"),
    (re.compile(r"0/\d+ nodes are unavailable: \d+"), "0/N nodes are unavailable: N"),
    (re.compile(r'((?:controller|template)-revision-hash": ")[^"]+'), r"\1<hash>"),
)
"""Patterns of all that differs each time, and of the number of nodes."""
_RAY = re.compile(r"(ray start(?: --head)?)((?:  --[^ \"]+)+) *")
"""KubeRay keeps the flags in a map."""
_OWNER = ("kind", "name", "controller", "blockOwnerDeletion")
_CONTAINER = ("name", "image", "command", "args", "ports", "resources", "env", "livenessProbe", "readinessProbe")
_POD = ("restartPolicy", "schedulerName", "hostname", "subdomain", "serviceAccountName", "dnsPolicy", "nodeSelector")
_JOB = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
_SERVICE = ("type", "selector", "ports")
_OF_THE_KUBELET = "/var/run/secrets/kubernetes.io/serviceaccount"
_OF_A_VERSION = ("managedFields", "resourceVersion")
_OF_EVERY_NAMESPACE = ("kube-root-ca.crt", "default")
_NOT_OF_OPERATORS = ("kubelet", "default-scheduler", "karpenter", "statefulset-controller")
_OF_REVISIONS = "CreatingRevision"
"""The sandbox has no ControllerRevisions."""
_IN_PASSING = re.compile(
    r"Error pod "
    r"|(?:[^\n]*(?:\"[\w-]+\" already exists|failed calling webhook [^\n]*|the object has been modified[^\n]*)"
    r"(?:\n|$))+$"
)
"""Of events about a moment: of the training operator, which it may miss; of all lines, each about what was made before,
about a webhook that is starting, or about an object that another has written in between. What failed is done again."""
_LATE = ("ready", "terminating", "uncountedTerminatedPods", "transitionID", "runningDuration", "version")
"""Of a status: behind what it tells of by a moment, or new each time; of Volcano's Job how often it has looked."""


@dataclass(frozen=True)
class Seen:
    """A version of an object, or its end."""

    document: Document
    is_there: bool

    @property
    def version(self) -> int:
        """The number that orders the changes of all kinds."""
        return int(self.document["metadata"]["resourceVersion"])


def history_of(changes: Iterable[Seen]) -> dict[str, Any]:
    """Return the history by subject: an object, its status, its steps, the events of one source about it.

    Steps have no repetitions. Those of pods begin when they run and leave out their end by deletion: these are the
    kubelet's.
    """
    told: dict[str, Any] = {}
    for change in changes:
        document = _without_chance(change.document)
        kind, name = name_of_kind(document), document["metadata"]["name"]
        if name in _OF_EVERY_NAMESPACE:
            continue
        if kind == "Event":
            _tell(told, document)
        elif not change.is_there:
            told[f"{kind} {name}"] = "gone"
            if kind == "PodGroup":  # how far it had come is chance
                told.pop(f"{kind} {name}: status", None)
        else:
            told[f"{kind} {name}"] = _parts(document)
            _step(told, f"{kind} {name}: steps", document)
            if kind in _STEPS and kind != "Pod":
                told[f"{kind} {name}: status"] = _filled(_settled(document.get("status") or {}))
    return told


def _tell(told: dict[str, Any], event: Document) -> None:
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    about = event["involvedObject"]
    # Volcano warns of a gang while its pods are made, and when some of them end; the condition stays.
    is_of_growth = event["type"] == "Warning" and (about["kind"] == "PodGroup" or event["reason"] == "PodGroupPending")
    if (
        source in _NOT_OF_OPERATORS
        or event["reason"] == _OF_REVISIONS
        or _IN_PASSING.match(event["message"])
        or is_of_growth
    ):
        return
    line = f"{event['type']} {event['reason']}: {' '.join(event['message'].split())}"
    lines = told.setdefault(f"{name_of_kind(about)} {about['name']}: told by {source}", [])
    if line not in lines:
        lines.append(line)
        lines.sort()
    if any(one.startswith("Normal Scheduled") for one in lines):  # until then a gang may have lacked a pod, by chance
        lines[:] = [one for one in lines if not one.startswith("Warning FailedScheduling")]


def _step(told: dict[str, Any], key: str, document: Document) -> None:
    essence = _STEPS.get(name_of_kind(document), _nothing)(document)
    steps = told.setdefault(key, [])
    if essence and essence not in steps:
        steps.append(essence)


def _nothing(_document: Document) -> object:
    return None


def _of_conditions(document: Document) -> object:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return [[one["type"], one["status"], one.get("reason", ""), one.get("message", "")] for one in conditions]


def _of_pod(document: Document) -> object:
    status = document.get("status") or {}
    containers = [_of_container(one) for one in status.get("containerStatuses") or ()]
    is_between = status.get("phase") == "Running" and any("running" not in one for one in containers)
    if document["metadata"].get("deletionTimestamp") or status.get("phase", "Pending") == "Pending" or is_between:
        return None
    return [status["phase"], containers]


def _of_container(one: Document) -> str:
    kind, state = next(iter((one.get("state") or {"waiting": {}}).items()))
    return " ".join(map(str, (one["name"], kind, *(state[name] for name in ("reason", "exitCode") if name in state))))


def _of_ray_cluster(document: Document) -> object:
    return (document.get("status") or {}).get("state")


def _of_volcano_job(document: Document) -> object:
    return ((document.get("status") or {}).get("state") or {}).get("phase")


def _of_ray_job(document: Document) -> object:
    """KubeRay asks Ray every three seconds: what it hears before the end is chance."""
    status = document.get("status") or {}
    names = ("jobDeploymentStatus", "jobStatus", "reason", "message") if status.get("endTime") else ("rayClusterName",)
    return [status[name] for name in names if status.get(name)]


_STEPS: dict[str, Callable[[Document], object]] = {
    "Pod": _of_pod,
    "Job": _of_conditions,
    "PyTorchJob": _of_conditions,
    "MPIJob": _of_conditions,
    "JobSet": _of_conditions,
    "TrainJob": _of_conditions,
    "TFJob": _of_conditions,
    "LeaderWorkerSet": _of_conditions,
    "Job.batch.volcano.sh": _of_volcano_job,
    "RayCluster": _of_ray_cluster,
    "RayJob": _of_ray_job,
    "PodGroup": _nothing,
}
"""The part of a status that makes a step. A gang begins before all its pods are there: only its end counts."""


def _without_chance(document: Document) -> Document:
    text = json.dumps(document)
    for pattern, name in _CHANCE:
        text = pattern.sub(name, text)
    text = _RAY.sub(lambda found: " ".join([found[1], *sorted(found[2].split())]), text)
    hidden: Document = json.loads(text)
    return hidden


def _parts(document: Document) -> Document:
    metadata = document["metadata"]
    parts: Document = {name: metadata.get(name) for name in ("labels", "annotations", "finalizers")}
    parts["owners"] = [{name: one.get(name) for name in _OWNER} for one in metadata.get("ownerReferences") or ()]
    parts["spec"] = _SPECS.get(name_of_kind(document), _whole)(document)
    filled: Document = _filled(parts)
    return filled


def _filled(value: Any) -> Any:
    """Without what is empty, or late: whether an operator writes `{}` or nothing is its language's choice."""
    if isinstance(value, dict):
        kept = {name: _filled(one) for name, one in value.items() if name not in _LATE}
        return {name: one for name, one in kept.items() if one not in ({}, [], "", None, 0)}
    return [_filled(one) for one in value] if isinstance(value, list) else value


def _settled(status: Document) -> Document:
    """Return the status without the shortage of a gang that has been placed since."""
    conditions = status.get("conditions") or []
    is_placed = any(one.get("type") == "Scheduled" for one in conditions)
    return {
        **status,
        "conditions": [one for one in conditions if not (is_placed and one.get("type") == "Unschedulable")],
    }


def _whole(document: Document) -> object:
    return document.get("spec")


def _pod_spec(spec: Document) -> Document:
    kept: Document = {name: spec.get(name) for name in _POD}
    kept["volumes"] = [one for one in spec.get("volumes") or () if "projected" not in one]
    for group in ("containers", "initContainers"):
        kept[group] = [_container(one) for one in spec.get(group) or ()]
    return kept


def _container(container: Document) -> Document:
    mounts = [one for one in container.get("volumeMounts") or () if one["mountPath"] != _OF_THE_KUBELET]
    return {name: container.get(name) for name in _CONTAINER} | {"volumeMounts": mounts}


def _job_spec(document: Document) -> Document:
    spec = document["spec"]
    return {name: spec.get(name) for name in _JOB} | {"template": _pod_spec(spec["template"]["spec"])}


def _data(document: Document) -> Document:
    data: Document = document.get("data") or {}
    if "runtime" in data:  # of a TrainJob: its runtime, in the form of the operator's language
        runtime = yaml.safe_load(data["runtime"])
        runtime["metadata"] = {name: one for name, one in runtime["metadata"].items() if name not in _OF_A_VERSION}
        return {"runtime": runtime}
    return data


_SPECS: dict[str, Callable[[Document], Any]] = {
    "Pod": lambda document: _pod_spec(document["spec"]),
    "Job": _job_spec,
    "Service": lambda document: {name: document["spec"].get(name) for name in _SERVICE},
    "ConfigMap": _data,
    "StatefulSet": _nothing,
    "Secret": lambda document: [document.get("type"), sorted(document.get("data") or ())],
    "Role": lambda document: document.get("rules"),
    "RoleBinding": lambda document: [document["roleRef"], document.get("subjects")],
}
