"""A blueprint as data: the meaning of every key of `blueprint.yaml` (schema `eksml/v1`).

Nothing here reads a file: see `load`. The small parts are in `parts`, the stage kinds in `stages`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.blueprint.parts import Expectation, FieldTarget, Name, ParameterCondition, Part, Scalar
from actions.blueprint.stages import AnyStage

SCHEMA = "eksml/v1"

MOST_SHOWN = 10
"""Parameters that a launch form shows unfolded."""

Operand = int | float | str
"""A number, or the name of a parameter or of a derived value that comes earlier."""


class Cluster(Part, frozen=True, kw_only=True):
    """The default place of a run: cluster, region, namespace."""

    name: str
    region: str
    namespace: str = "default"


class ParameterType(StrEnum):
    """The type of a parameter's value."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    SECRET = "secret"  # noqa: S105 - a word, not a secret


class Parameter(Part, frozen=True, kw_only=True):
    """A choice of the operator."""

    type: ParameterType
    title: str
    help: str = ""
    default: Scalar
    """For a secret: a reference, or empty if it may be left out."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Scalar, ...] = ()
    """If not empty, the only values."""
    pattern: str = ""
    """For texts: a regular expression that the whole value matches."""
    unit: str = ""
    group: str = ""
    """Heading under which a form shows it."""
    sets: tuple[FieldTarget, ...] = ()


class Lookup(Part, frozen=True, kw_only=True):
    """A column of the instance table, e.g. the number of GPUs of an instance type."""

    instance: str
    """Name of a parameter that holds an instance type."""
    column: Literal["gpu", "neuron", "efa", "efa_rdma", "vcpu", "memory_gib"]


class Choice(Part, frozen=True, kw_only=True):
    """An operand or a word, chosen by the value of a parameter."""

    by: str
    """Name of the parameter."""
    among: dict[str, Operand] = msgspec.field(default_factory=dict)
    """Value of the parameter, as text → operand."""
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    """Instead of `among`: value of the parameter → word, such as a flag."""
    otherwise: Operand = ""
    """For any other value; empty if there must be none. With `texts` a word."""


class Derived(Part, frozen=True, kw_only=True):
    """A value that follows from others: exactly one of the operations."""

    title: str
    product: tuple[Operand, ...] = ()
    sum: tuple[Operand, ...] = ()
    ceil_div: tuple[Operand, ...] = ()
    """Two operands: the first divided by the second, rounded up."""
    floor_div: tuple[Operand, ...] = ()
    """Two operands: the first divided by the second, rounded down."""
    smallest: tuple[Operand, ...] = ()
    largest: tuple[Operand, ...] = ()
    lookup: Lookup | None = None
    choose: Choice | None = None
    unit: str = ""
    sets: tuple[FieldTarget, ...] = ()


class ParameterRule(Part, frozen=True, kw_only=True):
    """A relation that must hold between values: exactly one of the relations."""

    message: str
    """The message if it does not hold, a sentence with `${name}` for values."""
    hint: str = ""
    equal: tuple[Operand, ...] = ()
    """Two operands that must be equal."""
    at_most: tuple[Operand, ...] = ()
    """Two operands: the first must not exceed the second."""
    divides: tuple[Operand, ...] = ()
    """Two operands: the first must divide the second."""
    one_of: tuple[Operand, ...] = ()
    """The first operand must be among the others."""
    unlike: tuple[Operand, ...] = ()
    """Two operands: the first must not match the second, a regular expression for the whole value."""


class HoldingKind(StrEnum):
    """The measure by which a holding is paid."""

    NODES = "nodes"
    FLAT = "flat"
    STORAGE = "storage"
    CONTROL_PLANE = "control-plane"
    """An EKS cluster, by the support of its version."""
    USAGE = "usage"
    """Paid by what is used of it, such as traffic: named with its price, and in no sum."""


class Holding(Part, frozen=True, kw_only=True):
    """Something that costs money while it exists."""

    kind: HoldingKind
    title: str
    instance_type: str = ""
    """With nodes: a type, or `${name}`."""
    count: str = "1"
    """With nodes: a number, or `${name}`. 0: only those that a node pool starts for pods, counted from the pods."""
    capacity_type: str = "on-demand"
    """With nodes: the market, as Karpenter or EKS names it, or `${name}`."""
    disk_gib: str = "0"
    """With nodes: the size of each root disk, gp3, or `${name}`."""
    version: str = ""
    """With control-plane: a Kubernetes version, or `${name}`."""
    prices: tuple[str, ...] = ()
    """With flat, storage and usage: services of the price table that are paid together, with `${name}` in them."""
    usd_per_hour: float | None = None
    """With flat: its price where the table has none; `null` if unknown."""
    usd_per_gib_month: float | None = None
    """With storage: its price where the table has none; `null` if unknown."""
    gib: str = "0"
    """With storage: a number, or `${name}`."""
    source: str = ""
    """The place where the blueprint's own price was read, and the date."""
    when: ParameterCondition | None = None
    """Paid only if it holds."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys that may hold `${name}`."""
        return (
            self.instance_type, self.count, self.capacity_type, self.disk_gib, self.version, self.gib, *self.prices
        )  # fmt: skip


class SecretKind(StrEnum):
    """The type of the Kubernetes Secret that is made from a secret parameter."""

    OPAQUE = "opaque"
    REGISTRY = "registry"


class SecretObject(Part, frozen=True, kw_only=True):
    """A Kubernetes Secret of the run, made when it is applied; never rendered to disk."""

    parameter: Name
    kind: SecretKind = SecretKind.OPAQUE
    key: str = ""
    """With opaque: the key under which the value stands."""
    server: str = ""
    """With registry: host of the registry."""
    username: str = ""


class ExportDestination(Part, frozen=True, kw_only=True):
    """The one place in S3 that a role of the run may write to."""

    to: str
    """`BUCKET/PREFIX`; may hold `${name}`. Empty: there is none."""
    service_account: str
    """The service account that has the role; may hold `${stage.output}`. Not reported, or empty: there is no role."""


class Results(Part, frozen=True, kw_only=True):
    """The place of a run's results: checkpoints, logs, curves."""

    claim: str
    """The claim of the volume, in the run's namespace."""
    mount: str
    """Mount path of the volume in the blueprint's pods."""
    folder: str
    """Below `mount`; may hold `${name}`."""
    export: ExportDestination | None = None
    """The place that they may be copied to. Without it, a copy has the rights of its node or of a service account."""


class Preset(Part, frozen=True, kw_only=True):
    """A named choice of parameters, with what else differs then."""

    title: str
    help: str = ""
    set: dict[str, Scalar] = msgspec.field(default_factory=dict)
    expect: dict[str, Expectation] = msgspec.field(default_factory=dict)
    """Expectations by stage that replace those of the stages."""
    roots: dict[str, str] = msgspec.field(default_factory=dict)
    """Terraform roots by stage that replace those of the stages."""
    mirror: str = ""
    """Asset folder that serves operators, e.g. `mirror`. Empty: the operator's mirror, or the pinned source."""
    is_cost_simulated: bool = False


class Blueprint(Part, frozen=True, kw_only=True):
    """A training system, from an empty account to an empty account."""

    schema: Literal["eksml/v1"]
    id: str
    title: str
    summary: str
    cluster: Cluster
    form: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_SHOWN)] = ()
    """The parameters that a person decides, ten at most: the launch form shows them, and folds the others by group.

    Without it: the first ten that files of the blueprint's own folder state.
    """
    uses: tuple[str, ...] = ()
    """Names of components: files with a piece of a blueprint, merged into this one in their order."""
    parameters: dict[str, Parameter] = msgspec.field(default_factory=dict)
    derived: dict[str, Derived] = msgspec.field(default_factory=dict)
    """In order: a derived value may use those before it."""
    rules: tuple[ParameterRule, ...] = ()
    holdings: dict[str, Holding] = msgspec.field(default_factory=dict)
    secrets: dict[str, SecretObject] = msgspec.field(default_factory=dict)
    results: Results | None = None
    stages: tuple[AnyStage, ...]
    """In an order in which every stage comes after what it needs."""
    presets: dict[str, Preset] = msgspec.field(default_factory=dict)
    folder: Path = msgspec.field(default_factory=Path)
    """The folder it was loaded from. Not a key of the file."""

    def stage(self, stage_id: str) -> AnyStage:
        """The stage with this id.

        Raises:
            MissingError: There is none.
        """
        for stage in self.stages:
            if stage.id == stage_id:
                return stage
        known = ", ".join(stage.id for stage in self.stages)
        raise MissingError(f"Blueprint {self.id} has no stage {stage_id!r}.", hint=f"Its stages are: {known}.")

    def under(self, preset: str) -> Blueprint:
        """Return this blueprint with the preset's Terraform roots and expectations in its stages.

        Args:
            preset: Name of a preset; empty for none.

        Raises:
            MissingError: There is no such preset.
        """
        if not preset:
            return self
        if preset not in self.presets:
            known = ", ".join(self.presets) or "none"
            raise MissingError(f"Blueprint {self.id} has no preset {preset!r}.", hint=f"Its presets are: {known}.")
        chosen = self.presets[preset]
        return replace(self, stages=tuple(_stage_under(stage, chosen) for stage in self.stages))


def _stage_under(stage: AnyStage, preset: Preset) -> AnyStage:
    changes: dict[str, object] = {}
    if stage.id in preset.expect:
        changes["expect"] = preset.expect[stage.id]
    if stage.id in preset.roots:
        changes["root"] = preset.roots[stage.id]
    return replace(stage, **changes) if changes else stage
