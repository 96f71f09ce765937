"""The stage kinds of a blueprint: which keys each of them has.

`kind` in the YAML picks the class. What performs a stage is in `actions.run.stages`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from actions.blueprint.checks import Amount, AnyCheck, AnyLogCheck, QuotaCheck
from actions.blueprint.parts import Expectation, ObjectName, OutputTarget, ParameterCondition, Part, Scalar, StageId


class LoadTool(StrEnum):
    """The tool that shows the load of a stage's accelerators."""

    NONE = "none"
    NVIDIA_SMI = "nvidia-smi"
    NEURON_TOP = "neuron-top"
    NEURON_MONITOR = "neuron-monitor"


class LogWatch(Part, frozen=True, kw_only=True):
    """The source of a stage's log lines: exactly one of `pods`, `file` with `pod`, `exec` with `pod`."""

    pods: str = ""
    """Label selector: the logs of these pods, merged."""
    container: str = ""
    """Empty: the first container."""
    file: str = ""
    """Path of a file in the pod that `pod` selects; may hold `${name}`. With `*`, the newest file that matches."""
    exec: tuple[str, ...] = ()
    """Argument list that prints the log, run in the pod that `pod` selects."""
    pod: str = ""
    """Label selector that finds one pod."""
    uid_of: str = ""
    """With `file`: label selector of the pod, the newest one, whose UID replaces `{uid}` in the path."""


class FileProgress(Part, frozen=True, kw_only=True):
    """Progress counted in files: how many of `total` lie in `folders` of the pod that `pod` selects."""

    pod: str
    folders: tuple[str, ...]
    """May hold `${name}`."""
    suffix: str
    total: str
    """`${name}` of a parameter or derived value."""


class StageWatch(Part, frozen=True, kw_only=True):
    """Logs and accelerators that are followed while a stage runs."""

    logs: LogWatch | None = None
    accelerator: LoadTool = LoadTool.NONE
    """The tool that is run in the pods of `logs` or `devices`."""
    devices: str = ""
    """Label selector of the pods that have the accelerators, where they are others than those of `logs`."""
    charts: tuple[str, ...] = ()
    """Metrics in the order of their panels, as `actions.telemetry` names them: `train_loss`, `step_time_s`…"""
    progress: FileProgress | None = None


class Work(Part, frozen=True, kw_only=True):
    """The amount of work in a stage, so that its duration follows the parameters: time is work divided by a rate.

    The rate follows from the stage's `expect` at the default values: those of the preset, if `expect` is the preset's.
    """

    unit: str
    """`sequences`, `files`."""
    amount: tuple[str, ...]
    """Parameters and derived values; the work is their product."""
    parallel: tuple[str, ...] = ()
    """Parameters and derived values to whose product the rate is proportional, such as processes."""
    same: tuple[str, ...] = ()
    """Parameters on which the rate depends in no known way: with another value of one it is not known."""
    source: str
    """The place where the rate was read."""


_SECONDS_OF = {"s": 1, "m": 60, "h": 3600}


class RecordedJob(Part, frozen=True, kw_only=True):
    """A recorded log, and the pace, load and end with which it is played."""

    log: str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """File, relative to the blueprint's folder. Of several the first is printed by the pod of rank 0, the second by
    that of rank 1 …, the last by all others."""
    rate: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,5}/[smh]$")] = "5/s"
    """Lines in a second, minute or hour, before the sandbox's `--speed`."""
    load: Annotated[str, msgspec.Meta(pattern=r"^(100|[0-9]{1,2})%$")] = "0%"
    """Of the accelerators that the job's pods request: utilisation, and the share of their memory."""
    exit: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    """The exit code at the end of the log."""

    @property
    def logs(self) -> tuple[str, ...]:
        """Its files, by rank."""
        return (self.log,) if isinstance(self.log, str) else self.log

    @property
    def line_seconds(self) -> float:
        """The time before each line."""
        count, _, unit = self.rate.partition("/")
        return _SECONDS_OF[unit] / int(count)

    @property
    def load_percent(self) -> int:
        """The load as a number."""
        return int(self.load.removesuffix("%"))


class RehearsalCase(RecordedJob, frozen=True, kw_only=True):
    """A recording that takes its place while a parameter has certain values, such as the log of a failure."""

    when: ParameterCondition


class Rehearsal(RecordedJob, frozen=True, kw_only=True):
    """A recorded log, by which the embedded cluster plays a job of any image. No other cluster gets to see it."""

    cases: tuple[RehearsalCase, ...] = ()
    """Others: the first whose `when` holds is played."""


class Stage(Part, frozen=True, kw_only=True, tag_field="kind", tag="stage"):
    """The keys that every stage has, and what is true of every stage of a kind."""

    WORKS_IN_CLUSTER: ClassVar[bool] = True
    """It talks to the API server, so a kubeconfig stage has to come before it."""
    WORKS_IN_ACCOUNT: ClassVar[bool] = False
    """It makes something in the AWS account, where the audit looks for what is left."""

    id: StageId
    title: str
    help: str = ""
    needs: tuple[StageId, ...] = ()
    """Stages that must have succeeded before."""
    expect: Expectation
    work: Work | None = None
    """Without it, `expect` is of the default values."""
    holds: tuple[str, ...] = ()
    """Names of `holdings` that are paid for while this stage runs."""
    outputs: tuple[str, ...] = ()
    """The values that it reports; later stages take them as `from: stage.output`."""
    sets: tuple[OutputTarget, ...] = ()
    """Fields of this stage's own files that outputs of earlier stages set."""
    secrets: tuple[str, ...] = ()
    """Names of `secrets` that must be in the run's namespace first."""
    own_cluster_only: bool = False
    """Skipped when the run uses a cluster that exists already."""
    when: ParameterCondition | None = None
    """Skipped unless it holds; stages that need this one go on then."""
    holds_accelerators: bool = False
    """Undone when the run is parked, and done again when it is resumed: for what costs most."""
    keeps_data: bool = False
    """On teardown its undo, and that of every stage it needs, waits for a consent of its own: it holds data."""
    watch: StageWatch | None = None
    deadline_seconds: int = 0
    """After this long it has failed. 0: no limit."""

    @property
    def kind(self) -> str:
        """The tag of its class."""
        return str(self.__struct_config__.tag)

    @property
    def files(self) -> tuple[str, ...]:
        """The manifest files that it renders, relative to the blueprint's folder."""
        return ()


class TerraformStage(Stage, frozen=True, kw_only=True, tag="terraform"):
    """Plans a root, waits for approval, applies it. Undone by destroy."""

    WORKS_IN_CLUSTER = False
    WORKS_IN_ACCOUNT = True

    root: str
    """Folder of the Terraform root, relative to the blueprint's folder; `common/…` for one of the program's own."""
    values: dict[str, Scalar] = msgspec.field(default_factory=dict)
    """Constants for variables of the root; they win over parameters that set a variable of every root."""
    variables: tuple[str, ...] = ()
    """Variables of the root that the run itself answers: `run_id`, `cluster_name`, `region`."""


class KubeconfigStage(Stage, frozen=True, kw_only=True, tag="kubeconfig"):
    """Writes the run's own kubeconfig and checks who answers."""

    WORKS_IN_CLUSTER = False

    cluster: str = "${cluster_name}"
    region: str = "${region}"


class FieldChange(Part, frozen=True, kw_only=True):
    """A field of an operator's release that gets another value, as a patch of its kustomization would give it."""

    kind: str
    name: str
    """`metadata.name` of the object in the release."""
    path: str
    """As in a target; it must be there, but for a last key that gets a list or mapping."""
    value: Scalar | list[Any] | dict[str, Any]


class Source(Part, frozen=True, kw_only=True):
    """The release that manifests outside of the project come from: one file, or several that are made one here."""

    name: str
    """Folder in a mirror directory, e.g. `training-operator`."""
    version: str
    url: str
    """The address of the pinned release; with `files`, of their folder; empty if it can only come from a mirror."""
    sha256: str
    """SHA-256 of the file at `url`, hex. Empty if not recorded, and with `files`: those have their own."""
    files: dict[str, Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]] = msgspec.field(default_factory=dict)
    """For a release without a single file: paths below `url`, each with its SHA-256, in the order of the result."""
    namespace: str = ""
    """With `files`: the namespace of objects, of their subjects and of webhooks' services, and a Namespace's name."""
    prefix: str = ""
    """With `files`: what comes before the names of its objects, but of definitions, and where they name each other."""
    images: dict[str, str] = msgspec.field(default_factory=dict)
    """With `files`: images as they stand there, and what replaces them."""
    changes: tuple[FieldChange, ...] = ()
    """With `files`: fields that get another value, one after the other."""
    made_by: str = ""
    """The command that makes the file, where the release has none: for people."""
    without: tuple[str, ...] = ()
    """Objects of the file that are not applied, as `Kind/name`."""
    arguments: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Arguments that are added to containers of its Deployments, by the container's name."""

    @property
    def is_pinned(self) -> bool:
        """True if whatever comes from its address can be verified."""
        return bool(self.url and (self.sha256 or self.files))


Minor = Annotated[str, msgspec.Meta(pattern=r"^([0-9]+\.[0-9]+)?$")]


class OperatorRefusal(Part, frozen=True, kw_only=True):
    """Installed operators that later stages cannot work with, by their images and their arguments."""

    since: Minor = ""
    """The first such version: `1.5`. Versions are those of the images' tags; empty for none."""
    before: Minor = ""
    """The first version that is good again."""
    images: tuple[str, ...] = ()
    """Images without a version in their tag."""
    arguments: tuple[str, ...] = ()
    """Refused only if a container has one of these arguments; empty: whatever arguments it has."""
    reason: str
    """The sentence that the operator of the console reads, without its full stop."""
    hint: str = ""
    """The remedy, as an imperative."""


class ManifestsStage(Stage, frozen=True, kw_only=True, tag="manifests"):
    """Applies objects and waits until they are ready."""

    manifests: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables of all containers of its own objects, over those that they have: texts with `${name}`."""
    source: Source | None = None
    """An operator from its pinned release or a mirror. `manifests` are added, but for objects that it has itself."""
    detect: ObjectName | None = None
    """If this was there before the run, nothing is applied, and nothing deleted on teardown."""
    refuses: tuple[OperatorRefusal, ...] = ()
    """Of what `detect` finds: the operators with which the stage fails before anything is made."""
    ready: tuple[ObjectName, ...] = ()
    """Objects that must be ready before the stage has succeeded."""
    makes: tuple[ObjectName, ...] = ()
    """Objects that an operator makes by itself once it runs and nothing owns: no reason to keep its namespace and its
    definitions on teardown."""
    where_served: tuple[str, ...] = ()
    """Kinds, such as `PodMonitor`, whose objects are left out of a cluster that does not serve them."""

    @property
    def files(self) -> tuple[str, ...]:
        return self.manifests


class HelmStage(Stage, frozen=True, kw_only=True, tag="helm"):
    """Installs a chart at a pinned version. A release of that name that is there already is used as it is."""

    release: str
    chart: str
    """Name in `repository`, or an address `oci://…`."""
    repository: str = ""
    version: str
    namespace: str
    values: str = ""
    """A values file, relative to the blueprint's folder."""
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Single values that win over the file; texts with `${name}` and `${stage.output}`."""
    ready: tuple[ObjectName, ...] = ()
    """Objects that must be ready before the stage has succeeded."""
    makes: tuple[ObjectName, ...] = ()
    """Objects that its programs make by themselves and nothing owns: no reason to keep the namespace on teardown."""


class CheckStage(Stage, frozen=True, kw_only=True, tag="check"):
    """Checks conditions, and changes nothing."""

    checks: tuple[AnyCheck, ...]


class StorageStage(Stage, frozen=True, kw_only=True, tag="storage"):
    """Applies volumes and claims, and waits until the claims are bound."""

    manifests: tuple[str, ...]
    claims: tuple[ObjectName, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return self.manifests


class NetworkStage(Stage, frozen=True, kw_only=True, tag="network"):
    """Opens a security group to itself for all protocols, both ways: EFA needs it. Rules that are there are left."""

    WORKS_IN_CLUSTER = False
    WORKS_IN_ACCOUNT = True

    security_group: str
    """`${name}` or `${stage.output}`. Empty: the cluster's own security group."""


class ImageStage(Stage, frozen=True, kw_only=True, tag="image"):
    """Makes sure that an image is in ECR; builds and pushes it where docker is there.

    Reports `image` (repository@digest) and `digest`.
    """

    WORKS_IN_CLUSTER = False
    WORKS_IN_ACCOUNT = True

    repository: str
    """`${name}` or `${stage.output}`; with its registry, or a name in the account's own."""
    tag: str
    context: str = ""
    """Folder of the build, relative to the blueprint's folder. Empty: it is never built here."""
    dockerfile: str = "Dockerfile"
    """Relative to `context`."""
    build_args: dict[str, str] = msgspec.field(default_factory=dict)
    """Texts with `${name}` and `${stage.output}`."""


class PodStage(Stage, frozen=True, kw_only=True, tag="pod"):
    """Starts a pod and waits until it is ready."""

    manifests: tuple[str, ...]
    target: ObjectName

    @property
    def files(self) -> tuple[str, ...]:
        return self.manifests


class JobStage(Stage, frozen=True, kw_only=True, tag="job"):
    """Starts a workload and follows it to its end."""

    manifests: tuple[str, ...]
    target: ObjectName
    """The Job, TrainJob, PyTorchJob, MPIJob or RayJob whose end is the stage's end."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables of all containers of its own objects, over those that they have: texts with `${name}`."""
    gone_is_success: bool = False
    """True: its time to live removes it after the end, so gone, once seen running and not failed, means succeeded."""
    is_temporary: bool = False
    """True: a test, whose objects are deleted as soon as it has succeeded."""
    verdict: AnyLogCheck | None = None
    """Checks of its log that must hold for it to have succeeded, beside its exit code."""
    rehearsal: Rehearsal | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return self.manifests


class CapacityStage(Stage, frozen=True, kw_only=True, tag="capacity"):
    """Chooses the zone that offers the nodes' instance type, and looks at their reservation. Makes nothing.

    Reports `zone`, `zone_id` and `placement_group`.
    """

    WORKS_IN_CLUSTER = False

    instance_type: str
    count: Amount
    """Nodes."""
    zone: str = ""
    """`${name}`: name or id of a zone; `auto` or empty to have one chosen."""
    capacity_type: str = "ON_DEMAND"
    """`${name}`: `ON_DEMAND`, `SPOT` or `CAPACITY_BLOCK`."""
    reservation: str = ""
    """`${name}`: `cr-…`, or empty for none."""
    lead_hours: int = 24
    """The time that the stages before the nodes may take: a reservation that begins later is waited for first."""
    is_awaited: bool = False
    """Waits until a reservation has begun; without it one that begins within `lead_hours` will do."""
    quotas: tuple[QuotaCheck, ...] = ()


AnyStage = (
    TerraformStage
    | KubeconfigStage
    | ManifestsStage
    | HelmStage
    | CheckStage
    | StorageStage
    | NetworkStage
    | ImageStage
    | PodStage
    | JobStage
    | CapacityStage
)
