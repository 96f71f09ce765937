"""A blueprint that is begun from a job that is there: its manifests as they are, with what a person may want to change.

A secret's value is never copied. What the job names and its manifests lack is looked for before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import yaml

from actions.base.errors import BlueprintError
from actions.base.untrusted import redact
from actions.base.yamldoc import Document, load_documents
from actions.blueprint.begin.job_manifests import (
    DATA_KINDS,
    DEVICES,
    Needed,
    instance_types_of,
    job_among,
    main_container,
    needed_objects,
    placeholders_in,
    places_of,
    secrets_in,
)
from actions.blueprint.begin.job_parameters import UNQUEUED, JobParameters
from actions.blueprint.begin.job_rehearsal import SCRIPT, STAND_INS, nodes_of, script_of, stand_ins_of
from actions.blueprint.checks import NodesCheck, ObjectCheck, PoolCheck
from actions.blueprint.model import (
    SCHEMA,
    Cluster,
    Holding,
    HoldingKind,
    Parameter,
    ParameterType,
    Preset,
    SecretObject,
)
from actions.blueprint.parts import Expectation, ObjectName, Scalar
from actions.blueprint.source_files import FILE_NAME, parse_manifests
from actions.blueprint.stages import (
    CheckStage,
    JobStage,
    KubeconfigStage,
    LoadTool,
    LogWatch,
    ManifestsStage,
    Rehearsal,
    StageWatch,
)
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import KubeKind
from actions.cluster.objects.editing import yaml_text
from actions.cluster.pod_roles import at, place_text
from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_amounts import GPU

_LOG = "train.log"
_NO_LOG = "No log is recorded here: eksml-tui logs KIND/NAME --to train.log takes one of a job that runs.\n"
_BUSY = "90%"
"""The load of accelerators in a rehearsal, which a log does not have."""
_MOST_SECONDS = 360
"""Of a rehearsal, which is so much shorter than its log as the embedded cluster is faster."""
_SEPARATOR = re.compile(r"(?m)^(?=---(?:\s|$))")
_GENERATED = re.compile(rb"\bgenerateName:(\s*)([\w.-]*[\w])-?(?=\s*(?:[,}#]|$))", re.MULTILINE)
"""A name of which the server makes a longer one: a blueprint has one name, which a run finds again."""
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
_LATEST_MPI = "kubeflow.org/v2beta1"
_STAGE, _INSTALL, _STANDING_IN = "train", "install_operator", "stand_ins"
_VOLUMES = "manifests/volumes.yaml"


class NewBlueprint(msgspec.Struct, frozen=True):
    """The files of a blueprint that has been begun.

    Args:
        job: What it was begun from: `PyTorchJob train`.
        files: What is in each, by its path in the blueprint's folder.
        parameters: Names.
        needed: What the job names and the blueprint does not bring.
        remarks: Sentences on what was left out, or stays as it is.
        log_pods: The label selector of the pods whose log is the job's.
    """

    job: str
    files: dict[str, bytes]
    parameters: tuple[str, ...]
    needed: tuple[Needed, ...]
    remarks: tuple[str, ...]
    log_pods: str


class Place(msgspec.Struct, frozen=True):
    """The cluster that a blueprint names, where a launch does not choose another."""

    cluster: str = "my-cluster"
    region: str = "us-west-2"
    namespace: str = "default"
    """For a manifest that names none."""


class _ManifestPart(msgspec.Struct):
    """A document of a file, with its text."""

    text: str
    document: Document

    @property
    def value(self) -> Manifest:
        """The object."""
        found: Manifest = self.document.value
        return found

    @property
    def is_data(self) -> bool:
        """True if the object holds data."""
        return self.value["kind"] in DATA_KINDS


def begin_blueprint(
    blueprint_id: str,
    data: bytes,
    *,
    source: str,
    place: Place | None = None,
    metrics: Sequence[str] = (),
    log: str = "",
) -> NewBlueprint:
    """Make a blueprint of manifests with one job.

    Args:
        blueprint_id: Its id.
        data: YAML, of one or several documents.
        source: Where they are from, for messages and comments.
        place: The cluster.
        metrics: What a log of the job has, for the charts.
        log: A log of it, by which the embedded cluster plays the job; empty for none.

    Raises:
        BlueprintError: It is not strict YAML, has no job or several, or holds what must not be copied; with its place.
    """
    parts = _parts(_strict(_GENERATED.sub(rb"name:\1\2", data), source), source)
    objects = [part.value for part in parts]
    try:
        job = job_among(objects)
        if unfilled := placeholders_in(objects):
            message = f"it is a template: {', '.join(unfilled[:8])} has to be filled in first."
            hint = "Export the values, and run: envsubst < FILE | eksml-tui blueprints new ID --from -"
            raise BlueprintError(message, hint=hint)
        return _Draft(blueprint_id, parts, job, place or Place()).finished(source, metrics, log)
    except BlueprintError as error:
        raise error if error.file else BlueprintError(error.text, file=source, hint=error.hint) from error


def _strict(data: bytes, source: str) -> str:
    try:
        parse_manifests(data, file=source)
    except BlueprintError as error:
        if "anchors" not in error.text:
            raise
        hint = "Write them out: yq 'explode(.)' FILE | eksml-tui blueprints new ID --from -"
        raise BlueprintError(error.text, file=source, line=error.line, column=error.column, hint=hint) from error
    return data.decode()


def _parts(text: str, source: str) -> list[_ManifestPart]:
    """Return the documents of a file, each with all of its text: comments, and the line that separates it."""
    parts: list[_ManifestPart] = []
    before = ""
    for chunk in _SEPARATOR.split(text):
        found = load_documents(chunk.encode(), file=source, kind=BlueprintError)
        if found:
            parts.append(_ManifestPart(before + chunk, found[0]))
            before = ""
        elif parts:
            parts[-1].text += chunk
        else:
            before += chunk
    return parts


class _Draft:
    """A blueprint that is being made."""

    def __init__(
        self, blueprint_id: str, parts: Sequence[_ManifestPart], job: tuple[Manifest, KubeKind], place: Place
    ) -> None:
        self._id, self._place = blueprint_id, place
        self._job, self._row = job
        self._name = str(self._job["metadata"]["name"])
        self._file = f"manifests/{re.sub(r'[^a-z0-9-]', '-', self._name)}.yaml"
        self._remarks: list[str] = []
        self._secrets: dict[str, SecretObject] = {}
        self._hidden: dict[str, Parameter] = {}
        self._stand_ins = ""
        self._needed = needed_objects([part.value for part in parts], self._job)
        kept = [part for part in parts if part.value["kind"] != "Secret"]
        gone = [part.value["metadata"]["name"] for part in parts if part.value["kind"] == "Secret"]
        self._remarks += [f"The Secret {name} is not copied." for name in gone]
        for part in kept:
            is_job = part.value is self._job
            self._replace_secrets(part)
            self._job = part.value if is_job else self._job
        self._parts = [(part, _VOLUMES if part.is_data else self._file) for part in kept]
        self._chosen = JobParameters(self._job, self._row, self._file, tuple(self._hidden))
        self._chosen.namespace([(part.value, file) for part, file in self._parts], place.namespace)
        self._chosen.queue([(part.value, file) for part, file in self._parts])
        self._chosen.arguments()
        self._remarks += self._chosen.remarks

    def _replace_secrets(self, part: _ManifestPart) -> None:
        """Put a reference to a Secret in the place of each secret that is a variable's value.

        Raises:
            BlueprintError: There is one elsewhere.
        """
        spans: list[tuple[int, int, str]] = []
        for path, variable in secrets_in(part.value):
            plain = re.sub(r"[^a-z0-9]+", "_", variable.lower()).strip("_")
            secret = f"{self._id}-{plain.replace('_', '-')}"[:63].rstrip("-")
            reference = f"valueFrom: {{secretKeyRef: {{name: {secret}, key: {variable}, optional: true}}}}"
            spans.append((*_span_of(part.text, path), reference))
            if secret not in self._secrets:
                self._secrets[secret] = SecretObject(parameter=plain, key=variable)
                self._hidden[plain] = Parameter(
                    type=ParameterType.SECRET, title=variable, default=f"env:{variable}", group="Secrets",
                    help="env:NAME, file:/PATH or secretsmanager:NAME; empty: the variable is not set.",
                )  # fmt: skip
                self._remarks.append(f"The value of {variable} is not copied: {plain} takes it, from env:{variable}.")
        for start, end, reference in sorted(spans, reverse=True):
            part.text = part.text[:start] + reference + part.text[end:]
        part.document = load_documents(part.text.encode(), file=part.document.file, kind=BlueprintError)[0]
        for path, value in places_of(part.value):
            if isinstance(value, str) and redact(value) != value:
                raise part.document.error(
                    BlueprintError, f"{place_text(path)} holds a secret, which no blueprint may.", *path,
                    hint="Put it into a Secret of the cluster, and let the pods take it from there.",
                )  # fmt: skip

    def finished(self, source: str, metrics: Sequence[str], log: str) -> NewBlueprint:
        """Return the files."""
        operators = self._operators()
        holdings = self._holdings()
        watch = self._watch(metrics)
        is_defined = bool(operators) or "." not in self._row.group
        self._stand_ins = stand_ins_of(self._needed, self._job, None if is_defined else self._row)
        played = log or _NO_LOG
        stages = list(self._stages(operators, holdings, watch, lines=played.count("\n")))
        parameters = self._parameters(operators)
        document = {
            "schema": SCHEMA,
            "id": self._id,
            "title": self._title(),
            "summary": f"{self._title()}, in a cluster that is there already.",
            "cluster": Cluster(
                name=self._place.cluster, region=self._place.region, namespace=str(parameters["namespace"].default)
            ),
            "uses": operators,
            "parameters": parameters,
            "derived": self._chosen.derived,
            "holdings": holdings,
            "secrets": self._secrets,
            "stages": stages,
            "presets": {"rehearsal": self._rehearsal(operators, [str(stage["id"]) for stage in stages])},
        }
        written = {key: _written(value) for key, value in document.items() if value}
        text = yaml_text(written, is_compact=True)
        files = {FILE_NAME: f"# Begun from {source}. What a stage is expected to take is a guess: correct it.\n{text}"}
        for part, file in self._parts:
            files[file] = files.get(file, "") + part.text
        if self._stand_ins:
            files[STAND_INS] = self._stand_ins
        nodes, odd = nodes_of([part.value for part, _ in self._parts], InstanceTable.load())
        files[SCRIPT] = script_of(self._id, nodes, metric=metrics[0] if metrics and log and self._row.ends else "")
        if self._row.ends:
            files[_LOG] = played
        return NewBlueprint(
            job=self._title(),
            files={name: content.encode() for name, content in files.items()},
            parameters=tuple(parameters),
            needed=tuple(self._needed),
            remarks=tuple(dict.fromkeys((*self._remarks, *odd))),
            log_pods=watch.logs.pods if watch.logs is not None else "",
        )

    def _title(self) -> str:
        return f"{self._job['kind']} {self._name}"

    def _operators(self) -> tuple[str, ...]:
        if self._row.kind == "MPIJob" and self._job["apiVersion"] != _LATEST_MPI:
            return ()
        return _OPERATORS.get(f"{self._row.plural}.{self._row.group}", ())

    def _parameters(self, operators: Sequence[str]) -> dict[str, Parameter]:
        text, cluster = ParameterType.TEXT, "Cluster"
        found = self._chosen.found | self._hidden
        found["cluster_name"] = Parameter(type=text, title="Cluster name", default=self._place.cluster, group=cluster)
        found["region"] = Parameter(type=text, title="Region", default=self._place.region, group=cluster)
        if operators:
            found[_INSTALL] = Parameter(
                type=ParameterType.BOOLEAN, title="Install the operator", default=False, group=cluster,
                help="For a cluster that lacks it. One that is there is used as it is.",
            )  # fmt: skip
        if self._stand_ins:
            found[_STANDING_IN] = Parameter(
                type=ParameterType.BOOLEAN, title="Stand-ins", default=False, group=cluster,
                help="For a rehearsal: empty objects in the place of what the job needs and its manifests lack.",
            )  # fmt: skip
        return found

    def _holdings(self) -> dict[str, Holding]:
        if "instance_type" not in self._chosen.found:
            return {}
        main, workers = self._chosen.main, self._chosen.workers
        is_selected = any("nodeSelector" in path for path, _ in instance_types_of(main))
        count = "0" if is_selected else f"${{{workers}}}" if workers else str(main.count)
        kind = HoldingKind.NODES
        return {"nodes": Holding(kind=kind, title="Nodes", instance_type="${instance_type}", count=count)}

    def _rehearsal(self, operators: Sequence[str], stages: Sequence[str]) -> Preset:
        chosen: dict[str, Scalar] = dict.fromkeys(self._hidden, "")
        chosen |= {_INSTALL: True} if operators else {}
        chosen |= {_STANDING_IN: True} if self._stand_ins else {}
        chosen |= {name: value for name, value in UNQUEUED.items() if name in self._chosen.found}
        chosen |= {"namespace": "default"} if self._chosen.found["namespace"].default != "default" else {}
        usual = {"kubeconfig": Expectation(0, 5), "preflight": Expectation(0, 20), _STAGE: Expectation(1, 300)}
        return Preset(
            title="Rehearsal",
            help="On the embedded cluster.",
            set=chosen,
            expect={stage: span for stage, span in usual.items() if stage in stages},
            mirror="mirror" if operators else "",
            is_cost_simulated=True,
        )

    def _stages(
        self, operators: Sequence[str], holdings: Mapping[str, Holding], watch: StageWatch, *, lines: int
    ) -> Iterator[dict[str, Any]]:
        yield _stage(KubeconfigStage(id="kubeconfig", title="Access", expect=Expectation(1, 30)))
        needs: tuple[str, ...] = ("kubeconfig",)
        for name in operators:  # the rest of it is in its component
            yield {"id": name, "needs": [*needs], "when": {"parameter": _INSTALL, "is": [True]}, "holds": []}
            needs = (name,)
        if self._stand_ins:
            made = ManifestsStage(id="stand-ins", title="Stand-ins", needs=needs, expect=Expectation(1, 60),
                                  manifests=(STAND_INS,))  # fmt: skip
            yield _stage(made) | {"when": {"parameter": _STANDING_IN, "is": [True]}}
            needs = ("stand-ins",)
        if checks := tuple(self._checks()):
            yield _stage(
                CheckStage(id="preflight", title="Preflight", needs=needs, expect=Expectation(1, 60), checks=checks)
            )
            needs = ("preflight",)
        if any(file == _VOLUMES for _, file in self._parts):
            yield _stage(
                ManifestsStage(
                    id="volumes",
                    title="Volumes",
                    needs=needs,
                    expect=Expectation(1, 60),
                    manifests=(_VOLUMES,),
                    keeps_data=True,
                )
            )
            needs = ("volumes",)
        target = ObjectName(api_version=self._job["apiVersion"], kind=self._job["kind"], name=self._name)
        common: dict[str, Any] = {
            "id": _STAGE,
            "title": self._title(),
            "needs": needs,
            "holds": tuple(holdings),
            "holds_accelerators": True,
            "secrets": tuple(self._secrets),
            "manifests": (self._file,),
            "watch": watch,
        }
        if self._row.ends:
            load = _BUSY if self._chosen.devices else "0%"
            pace = max(5, lines // _MOST_SECONDS)
            played = Rehearsal(log=_LOG, rate=f"{pace}/s", load=load)
            yield _stage(JobStage(expect=Expectation(300, 7200), target=target, rehearsal=played, **common))
        else:
            yield _stage(ManifestsStage(expect=Expectation(60, 900), ready=(target,), **common))

    def _checks(self) -> Iterator[ObjectCheck | NodesCheck | PoolCheck]:
        row = self._row
        if "." in row.group:
            kind, name = "CustomResourceDefinition", f"{row.plural}.{row.group}"
            definition = ObjectName(api_version="apiextensions.k8s.io/v1", kind=kind, name=name)
            hint = f"Install its operator{f', or set {_INSTALL}=true' if self._operators() else ''}."
            yield ObjectCheck(title=f"{row.kind} is served", object=definition, hint=hint)
        for each in self._needed:
            named = ObjectName(api_version=each.api_version, kind=each.kind, name=each.name)
            yield ObjectCheck(title=str(each), object=named, hint="Make it: the job names it.")
        if "instance_type" in self._chosen.found:
            hint = "Add such nodes, or a NodePool that starts them."
            yield PoolCheck(title="nodes", instance_type="${instance_type}", is_required=False, hint=hint)
        elif "accelerators" in self._chosen.found:
            yield NodesCheck(
                title=DEVICES[self._chosen.devices], resource=self._chosen.devices, amount="${accelerators}",
                is_required=False, hint="Add such nodes, and their device plugin.",
            )  # fmt: skip

    def _watch(self, metrics: Sequence[str]) -> StageWatch:
        main, spec = self._chosen.main, self._job["spec"]
        pods = f"{self._row.labels_pods}={self._name}" if self._row.labels_pods else f"eksml.dev/stage={_STAGE}"
        container, devices = str(main_container(main)[1].get("name") or ""), ""
        match self._row.kind:
            case "Deployment":
                chosen = at(spec, ("selector", "matchLabels")) or {}
                pods = ",".join(f"{key}={value}" for key, value in chosen.items()) or pods
            case "MPIJob" if main.name != "launcher":
                devices, container = f"{pods},training.kubeflow.org/job-role=worker", ""
                pods = f"{pods},training.kubeflow.org/job-role=launcher"
            case "RayJob":
                mode, all_pods = spec.get("submissionMode", "K8sJobMode"), f"eksml.dev/stage={_STAGE},ray.io/node-type="
                devices = f"{all_pods}{'head' if main.name == 'head' else 'worker'}"
                is_apart = mode == "K8sJobMode"
                pods = f"batch.kubernetes.io/job-name={self._name}" if is_apart else f"{all_pods}head"
                container = "ray-job-submitter" if mode == "SidecarMode" else ""
        first = next((str(each.get("name")) for _, each in main.containers()), "")
        tool = LoadTool.NVIDIA_SMI if self._chosen.devices == GPU else LoadTool.NEURON_MONITOR
        return StageWatch(
            logs=LogWatch(pods=pods, container=container if container != first else ""),
            accelerator=tool if self._chosen.devices else LoadTool.NONE,
            devices=devices if self._chosen.devices else "",
            charts=tuple(metrics),
        )


def _stage(stage: msgspec.Struct) -> dict[str, Any]:
    written: dict[str, Any] = _written(stage)
    return {"id": written.pop("id"), **written}


def _written(value: Any) -> Any:
    """Return a part of a blueprint as it stands in the file: without what a key has by default."""
    match value:
        case StrEnum():
            return value.value
        case Expectation():
            return f"{_span(value.low_seconds)}..{_span(value.high_seconds)}"
        case msgspec.Struct():
            config = value.__struct_config__
            fields = {each.encode_name: (getattr(value, each.name), each) for each in msgspec.structs.fields(value)}
            tag = {config.tag_field: config.tag} if config.tag_field else {}
            kept = {
                key: one for key, (one, each) in fields.items() if each.required or one not in (each.default, {}, ())
            }
            return tag | {key: _written(one) for key, one in kept.items()}
        case dict():
            return {key: _written(one) for key, one in value.items()}
        case tuple() | list():
            return [_written(one) for one in value]
    return value


def _span(seconds: float) -> str:
    unit, size = next(
        (unit, size) for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if seconds >= size or unit == "s"
    )
    return f"{seconds / size:g}{unit}"


def _span_of(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Return where the entry `key: value` at a path begins and ends in a document's text."""
    node: Any = next(
        each for each in yaml.compose_all(text, Loader=yaml.SafeLoader) if isinstance(each, yaml.MappingNode)
    )
    key: Any = node
    for step in path:
        if isinstance(node, yaml.MappingNode):
            key, node = next((key, value) for key, value in node.value if key.value == step)
        else:
            key = node = node.value[int(step)]
    return key.start_mark.index, node.end_mark.index
