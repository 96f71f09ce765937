"""A blueprint that is begun from a job that is there: its manifests as they are, with what a person may want to change.

A secret's value is never copied. What the job names and its manifests lack is looked for before it starts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from actions.base.errors import BlueprintError
from actions.base.yamldoc import Document
from actions.blueprint.begin.job_manifests import (
    DATA_KINDS,
    as_written,
    definition_of,
    job_among,
    require_filled,
    secrets_in,
    stand_in_volumes,
    stand_ins_of,
)
from actions.blueprint.begin.job_parameters import UNQUEUED, JobParameters
from actions.blueprint.model import SCHEMA, Cluster
from actions.blueprint.references import OF_KUBERNETES, manifest_error
from actions.blueprint.source_files import FILE_NAME, parse_manifests
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import KubeKind
from actions.cluster.objects.editing import yaml_text
from actions.cluster.pod_roles import at, place_text, pod_roles
from actions.fleet.fit import PodSet, fit_of
from actions.fleet.instance_types import MOST_ASKED, SAGEMAKER, InstanceTable
from actions.fleet.node_amounts import GPU, allocatable_of
from actions.fleet.placement import NodeSpace, reasons_against
from actions.fleet.quantity import parse_quantity

SCRIPT, STAND_INS = "rehearse.yaml", "manifests/stand-ins.yaml"
_VOLUMES, _LOG = "manifests/volumes.yaml", "train.log"
_NO_LOG = "No log is recorded here: eksml-tui logs KIND/NAME --to train.log takes one of a job that runs.\n"
_MOST_SECONDS = 360
"""Of a rehearsal, which is so much shorter than its log as the embedded cluster is faster."""
_CLUSTER = "bionemo-on-eks"
"""The name of the embedded cluster."""
_SEPARATOR = re.compile(r"(?m)^(?=---(?:\s|$))")
_OCTAL = re.compile(rb"\b(m|defaultM)ode:(\s*)0([0-7]{3})\b")
"""The mode of a file as YAML 1.1 has it; for YAML 1.2 it is a text."""
_GENERATED = re.compile(rb"\bgenerateName:(\s*)([\w.-]*[\w])-?(?=\s*(?:[,}#]|$))", re.MULTILINE)
"""A name of which the server makes a longer one: a blueprint has one name, which a run finds again."""
_RENDERED_BY = {
    b"{{": "Render it first: helm template CHART | eksml-tui blueprints new ID --from -",
    b"kind: Kustomization": "Build it first: kustomize build FOLDER | eksml-tui blueprints new ID --from -",
}
"""The remedy for files that are not YAML, or not of Kubernetes, by what is in them."""
_OPERATORS = {
    "pytorchjobs.kubeflow.org": ("training-operator",),
    "mpijobs.kubeflow.org": ("mpi-operator",),
    "rayjobs.ray.io": ("volcano", "kuberay"),
    "rayclusters.ray.io": ("volcano", "kuberay"),
    "jobs.batch.volcano.sh": ("volcano",),
    "jobsets.jobset.x-k8s.io": ("jobset",),
    "trainjobs.trainer.kubeflow.org": ("jobset", "kubeflow-trainer"),
}
"""The components with the operator of a definition, in the order in which they are installed."""


_SWITCHES = {
    "install_operator": (
        "Install the operator",
        "For a cluster that lacks it. One that is there is used as it is.",
    ),
    "stand_ins": ("Stand-ins", "For a rehearsal: empty objects in the place of what the job needs and lacks."),
}
"""Parameters that the rehearsal switches on, with title and help."""
_OF_SECRETS = "env:NAME, file:/PATH or secretsmanager:NAME; empty: the variable is not set."
_PLAYED = {
    "title": "Rehearsal",
    "help": "On the embedded cluster.",
    "expect": {"train": "1s..5m"},
    "mirror": "mirror",
    "is_cost_simulated": True,
}


NOWHERE = Cluster(name="my-cluster", region="us-west-2")
"""For a job of no cluster."""


class NewBlueprint(msgspec.Struct, frozen=True):
    """The files of a blueprint that has been begun.

    Args:
        files: What is in each, by its path in the blueprint's folder.
        remarks: Sentences on what it has, what was left out, and what stays as it is.
        metrics: Its charts.
        log_pods: The label selector of the pods whose log is the job's.
    """

    files: dict[str, bytes]
    remarks: tuple[str, ...]
    metrics: tuple[str, ...]
    log_pods: str


def begin_blueprint(
    blueprint_id: str,
    data: bytes,
    *,
    source: str,
    cluster: Cluster = NOWHERE,
    metrics: Sequence[str] = (),
    log: str = "",
) -> NewBlueprint:
    """Make a blueprint of manifests with one job.

    Args:
        blueprint_id: Its id.
        data: YAML, of one or several documents.
        source: Where they are from, for messages and comments.
        cluster: That of the job, whose namespace is for manifests that name none.
        metrics: What a log of the job has, for the charts.
        log: A log of it, by which the embedded cluster plays the job; empty for none.

    Raises:
        BlueprintError: It is not strict YAML, has no job or several, or holds what must not be copied; with its place.
    """
    try:
        data = _GENERATED.sub(rb"name:\1\2", as_written(data, source))
        data = _OCTAL.sub(lambda found: b"%sode:%s%d" % (found[1], found[2], int(found[3], 8)), data)
        documents = parse_manifests(data, file=source)
        objects = [document.value for document in documents]
        job, row = job_among(objects)
        require_filled(objects)
        for document in documents:
            if (wrong := manifest_error(document)) is not None:
                raise wrong
        if (home := job["metadata"].get("namespace")) in OF_KUBERNETES:
            raise BlueprintError(f"{home!r} is a namespace of Kubernetes itself.", hint="Name another one.")
        return _Draft(blueprint_id, job, row, cluster).finished(data.decode(), documents, source, metrics, log)
    except BlueprintError as error:
        hint = error.hint or next((hint for sign, hint in _RENDERED_BY.items() if sign in data and error.line), "")
        raise BlueprintError(
            error.text, file=error.file or source, line=error.line, column=error.column, hint=hint
        ) from error


class _Draft:
    """A blueprint that is being made."""

    def __init__(self, blueprint_id: str, job: Manifest, row: KubeKind, cluster: Cluster) -> None:
        self._id, self._job, self._row, self._cluster = blueprint_id, job, row, cluster
        self._name = str(job["metadata"]["name"])
        self._title = f"{job['kind']} {self._name}"
        self._file = f"manifests/{re.sub(r'[^a-z0-9-]', '-', self._name)}.yaml"
        self._is_old_mpi = job["apiVersion"] == "kubeflow.org/v1" and job["kind"] == "MPIJob"  # of training-operator
        self._operators = () if self._is_old_mpi else _OPERATORS.get(f"{row.plural}.{row.group}", ())
        self._remarks: list[str] = []
        self._secrets: dict[str, dict[str, str]] = {}

    def finished(
        self, text: str, documents: Sequence[Document], source: str, metrics: Sequence[str], log: str
    ) -> NewBlueprint:
        """Return the files."""
        needed = stand_ins_of([document.value for document in documents], self._job)
        if not self._operators and "." in self._row.group:
            needed.insert(0, definition_of(self._job, self._row))
        files: dict[str, str] = {}
        objects: list[tuple[Manifest, str]] = []
        for part, document in _parts(text, documents):
            item = document.value if document is not None else {}
            if item.get("kind") == "Secret":
                self._remarks.append(f"The Secret {item['metadata']['name']} is not copied.")
                continue
            file = _VOLUMES if item.get("kind") in DATA_KINDS else self._file
            files[file] = files.get(file, "") + (self._without_secrets(part, document) if document else part)
            objects += [(item, file)] if item else []
        hidden = [secret["parameter"] for secret in self._secrets.values()]
        chosen = JobParameters(self._job, self._row, objects, self._cluster.namespace, [*hidden, *_SWITCHES])
        self._remarks += chosen.remarks
        watch = self._watch(chosen) | _filled({"charts": list(metrics)})
        if stand_ins := [*stand_in_volumes([*(item for item, _ in objects), *needed]), *needed]:
            files[STAND_INS] = "---\n".join(map(yaml_text, stand_ins))
        parameters = self._parameters(chosen, has_stand_ins=bool(stand_ins))
        nodes = {"kind": "nodes", "title": "Nodes", "instance_type": "${instance_type}", "count": "0"}
        blueprint = {
            "schema": SCHEMA,
            "id": self._id,
            "title": self._title,
            "summary": f"{self._title}, in a cluster that is there already.",
            "cluster": msgspec.to_builtins(self._cluster) | {"namespace": parameters["namespace"]["default"]},
            "uses": list(self._operators),
            "parameters": parameters,
            "derived": chosen.derived,
            "holdings": {"nodes": nodes} if "instance_type" in parameters else {},
            "secrets": self._secrets,
            "stages": self._stages(chosen, watch, needed, [*files], lines=log.count("\n")),
            "presets": {"rehearsal": _PLAYED | {"set": self._played(parameters)}},
        }
        note = f"# Begun from {source}. What a stage is expected to take is a guess: correct it.\n"
        files = {FILE_NAME: note + yaml_text(_filled(blueprint), is_compact=True), **files}
        files[SCRIPT] = self._script([item for item, _ in objects], metrics[0] if metrics and log else "")
        if self._row.ends:
            files[_LOG] = log or _NO_LOG
        elif log:
            self._remarks.append(f"A {self._row.kind} does not end, so its rehearsal does not play the log.")
        heads = [f"{self._title}, with the parameters {', '.join(parameters)}."]
        if needed:
            named = (f"{each['kind']} {each['metadata']['name']}" for each in needed)
            heads.append(f"Has to be there, as preflight checks: {', '.join(named)}.")
        encoded = {name: content.encode() for name, content in files.items()}
        remarks = tuple(dict.fromkeys([*heads, *self._remarks]))
        return NewBlueprint(encoded, remarks, tuple(metrics), watch["logs"]["pods"])

    def _without_secrets(self, text: str, document: Document) -> str:
        """Return a document with a reference to a Secret in the place of each secret that is a variable's value.

        Raises:
            BlueprintError: There is one elsewhere.
        """
        found = list(secrets_in(document.value))
        for path, variable in found:
            if not variable:
                message = f"{place_text(path)} holds a secret, which no blueprint may."
                hint = "Put it into a Secret of the cluster, and let the program read it from there."
                raise document.error(BlueprintError, message, *path, hint=hint)
            plain = re.sub(r"[^a-z0-9]+", "_", variable.lower()).strip("_")
            secret = f"{self._id}-{plain.replace('_', '-')}"[:63].rstrip("-")
            self._secrets[secret] = {"parameter": plain, "key": variable}
            entry = at(document.value, path[:-1])
            del entry["value"]
            entry["valueFrom"] = {"secretKeyRef": {"name": secret, "key": variable, "optional": True}}
            self._remarks.append(f"The value of {variable} is not copied: {plain} takes it, from env:{variable}.")
        before = "---\n" if text.startswith("---") else ""
        return before + yaml_text(document.value) if found else text

    def _parameters(self, chosen: JobParameters, *, has_stand_ins: bool) -> dict[str, Manifest]:
        found: dict[str, Manifest] = dict(chosen.found)
        for secret in self._secrets.values():
            value = {"type": "secret", "title": secret["key"], "help": _OF_SECRETS, "default": f"env:{secret['key']}"}
            found[secret["parameter"]] = value | {"group": "Secrets"}
        switches = zip(_SWITCHES.items(), (bool(self._operators), has_stand_ins), strict=True)
        for name, (title, text) in (switch for switch, is_there in switches if is_there):
            found[name] = {"type": "boolean", "title": title, "help": text, "default": False, "group": "Cluster"}
        return found

    def _played(self, parameters: Mapping[str, Manifest]) -> dict[str, Any]:
        """Return the values of a rehearsal: operators and stand-ins, no queue, no secrets, and the one namespace."""
        values = dict.fromkeys(_SWITCHES, True) | UNQUEUED | {"namespace": "default"}
        values |= {secret["parameter"]: "" for secret in self._secrets.values()}
        return {
            name: value for name, value in values.items() if parameters.get(name, {}).get("default", value) != value
        }

    def _stages(
        self, chosen: JobParameters, watch: Manifest, needed: Sequence[Manifest], files: Sequence[str], *, lines: int
    ) -> list[Manifest]:
        """Return the stages, each of which needs the one before it."""
        place = {"cluster": self._cluster.name, "region": self._cluster.region}
        install, stand_in = ({"when": {"parameter": name, "is": [True]}} for name in _SWITCHES)
        target = {"api_version": self._job["apiVersion"], "kind": self._job["kind"], "name": self._name}
        rate, load = f"{max(5, lines // _MOST_SECONDS)}/s", "90%" if chosen.devices else "0%"
        played = {"log": _LOG, "rate": rate, "load": load}
        job: Manifest = {"kind": "job", "expect": "5m..2h", "target": target, "rehearsal": played}
        service: Manifest = {"kind": "manifests", "expect": "1m..15m", "ready": [target]}
        stages: list[Manifest] = [
            {"id": "kubeconfig", "kind": "kubeconfig", "title": "Access", "expect": "1s..30s", **place}
        ]
        stages += [{"id": name, "holds": [], **install} for name in self._operators]  # the rest is in its component
        if STAND_INS in files:
            made: Manifest = {"kind": "manifests", "title": "Stand-ins", "expect": "1s..1m", "manifests": [STAND_INS]}
            stages.append({"id": "stand-ins", **made, **stand_in})
        if needed:
            checks = [_check_of(each) for each in needed]
            checked: Manifest = {"kind": "check", "title": "Preflight", "expect": "1s..1m", "checks": checks}
            stages.append({"id": "preflight", **checked})
        if _VOLUMES in files:
            made = {"kind": "manifests", "title": "Volumes", "expect": "1s..1m", "manifests": [_VOLUMES]}
            stages.append({"id": "volumes", **made, "keeps_data": True})
        train: Manifest = {"id": "train", "title": self._title, **(job if self._row.ends else service), "watch": watch}
        held = {"holds": ["nodes"] if "instance_type" in chosen.found else [], "secrets": list(self._secrets)}
        stages.append(_filled({**train, **held, "holds_accelerators": True, "manifests": [self._file]}))
        after = ({"id": one["id"], "needs": [before["id"]], **one} for before, one in pairwise(stages))
        return [stages[0], *after]

    def _watch(self, chosen: JobParameters) -> Manifest:
        """Return what is followed: the pods with the log, and those with the accelerators where these are others."""
        main, stage = chosen.main, "eksml.dev/stage=train"
        pods = f"{self._row.labels_pods}={self._name}" if self._row.labels_pods else stage
        devices, container = "", str(main.spec.get("name") or "")
        match self._row.kind:
            case "Deployment":
                labels = at(self._job, ("spec", "selector", "matchLabels")) or {}
                pods = ",".join(f"{key}={value}" for key, value in labels.items()) or pods
            case "MPIJob" if main.role.name != "launcher":
                role = "replica-type" if self._is_old_mpi else "job-role"
                devices, container = f"{pods},training.kubeflow.org/{role}=worker", ""
                pods = f"{pods},training.kubeflow.org/{role}=launcher"
            case "RayJob":
                mode = self._job["spec"].get("submissionMode", "K8sJobMode")
                devices = f"{stage},ray.io/node-type={'head' if main.role.name == 'head' else 'worker'}"
                pods = f"{stage},ray.io/node-type=head"
                if mode == "K8sJobMode":
                    pods = f"batch.kubernetes.io/job-name={self._name}"
                else:
                    self._remarks.append(f"The embedded cluster does not play the submissionMode {mode}.")
                container = "ray-job-submitter" if mode == "SidecarMode" else ""
        is_first = container == main.role.spec["containers"][0].get("name")
        watch: Manifest = {"logs": _filled({"pods": pods, "container": "" if is_first else container})}
        if chosen.devices:
            tool = "nvidia-smi" if chosen.devices == GPU else "neuron-monitor"
            watch |= _filled({"accelerator": tool, "devices": devices})
        return watch

    def _script(self, objects: Sequence[Manifest], metric: str) -> str:
        """Return the script that plays the job's life."""
        steps: list[Manifest] = [
            {"launch": {"blueprint": self._id, "existing_cluster": True}},
            {"wait": {"run": "succeeded", "within": "10m"}},
        ]
        if metric and self._row.ends:
            steps.append({"expect": {"metric": metric, "of": "train"}})
        try:
            nodes = self._nodes(objects)
        except (AttributeError, TypeError, ValueError):
            self._remarks.append("What its pods request cannot be read: a field has another form.")
            nodes = Counter()
        named = {"nodes": ",".join(f"{name}={min(count, MOST_ASKED)}" for name, count in nodes.items())}
        has_data = any(item["kind"] in DATA_KINDS for item in objects)
        torn: Manifest = {"confirm": _CLUSTER} | ({"delete_data": True} if has_data else {})
        always = [{"teardown": torn}, {"expect": {"audit": "empty"}}]
        text = yaml_text({"eksml-script": 1, **_filled(named), "steps": steps, "always": always}, is_compact=True)
        return f"# The whole life of the job on the embedded cluster: for CI, too.\n{text}"

    def _nodes(self, objects: Sequence[Manifest]) -> Counter[str]:
        """Return the nodes that the embedded cluster needs for the pods of objects, by instance type."""
        groups: list[PodSet] = []
        for role in (role for item in objects for role in pod_roles(item)):
            pod = {"metadata": {}, "spec": {**role.spec, "containers": [*role.spec["containers"], _DAEMONS]}}
            groups.append(PodSet(f"{len(groups)} {role.name}", pod, min(role.total, _MOST_PODS)))
        table = list(InstanceTable.load())
        managed = [msgspec.structs.replace(kind, name=f"{SAGEMAKER}{kind.name}") for kind in table]
        of_today = [kind for kind in table if _OF_TODAY.match(kind.name)]
        nodes: Counter[str] = Counter()
        for types, labels, there in ((of_today, {}, [_CORE]), (table, {}, []), (managed, _HYPERPOD, [])):
            pool = {"metadata": {"name": "any"}, "spec": {"template": {"metadata": {"labels": labels}, "spec": {}}}}
            found = fit_of(groups, there, [pool], types)
            nodes.update(found.started)
            groups = [group for group in groups if group.name in found.refused]
        offered = [allocatable_of(kind, has_devices=True, has_efa=True) for kind in table]
        greatest = {name: max(parse_quantity(one.get(name, "0")) for one in offered) for one in offered for name in one}
        for group in groups:
            why = [*reasons_against(group.pod, NodeSpace("", _CORE.labels, [], greatest)), "no type has all of it"][0]
            name = group.name.partition(" ")[2]
            self._remarks.append(f"The embedded cluster has no node for the pods of {name}: {why}.")
        return nodes


_OF_TODAY = re.compile(r"(?:m6i|r6i|g6e|p5|p6-b\d+|trn[12])\.")
"""Instance types that a rehearsal has, where its pods select no other one."""
_CORE = NodeSpace(
    "core",
    {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
    [],
    {"pods": 30.0, "cpu": 3.0, "memory": 12 * 2.0**30, "ephemeral-storage": 2.0**36},
)
"""The part of the nodes that the embedded cluster has by itself that pods may take."""
_DAEMONS = {"name": "daemons", "resources": {"requests": {"cpu": "400m", "memory": "512Mi"}}}
"""The part of a node that its daemons take."""
_MOST_PODS = 512
_HYPERPOD = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}


def _parts(text: str, documents: Sequence[Document]) -> Iterator[tuple[str, Document | None]]:
    """Yield the parts of a text between its separators, each with its document; `None` for one of comments alone."""
    text, line = text if text.endswith("\n") else f"{text}\n", 1
    for part in _SEPARATOR.split(text):
        after = line + part.count("\n")
        yield part, next((document for document in documents if line <= document.position()[0] < after), None)
        line = after


def _filled(document: Manifest) -> Manifest:
    """Return a document without what is empty."""
    return {key: value for key, value in document.items() if value not in ("", [], {})}


def _check_of(needed: Manifest) -> Manifest:
    named = {"api_version": needed["apiVersion"], "kind": needed["kind"], "name": needed["metadata"]["name"]}
    hint = "Install its operator." if needed["kind"] == "CustomResourceDefinition" else "Make it: the job names it."
    check = {"check": "object", "title": f"{named['kind']} {named['name']}", "object": named, "hint": hint}
    return check | {"is_required": False} if needed["kind"] in DATA_KINDS else check  # bound by the first pod of some
