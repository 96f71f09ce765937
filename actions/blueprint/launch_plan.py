"""The plan of a launch: nodes, time and cost by stage, and its report as text or JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec

from actions.base.clock import SystemClock
from actions.base.decoding import json_document
from actions.base.errors import ConsoleError
from actions.base.wording import aligned, duration_range
from actions.blueprint.durations import expectation_of
from actions.blueprint.holding_rates import (
    Rate,
    Tariff,
    UsagePrice,
    held_nodes,
    holding_rates,
    markets_of,
    node_rates,
    usage_prices,
)
from actions.blueprint.mirror import OperatorCopy, operator_copies
from actions.blueprint.model import Blueprint, Holding, HoldingKind
from actions.blueprint.parameters import Binding, bind, holds, reason_to_skip
from actions.blueprint.render import own_objects, placeholders_of
from actions.blueprint.stages import AnyStage, ManifestsStage, TerraformStage
from actions.blueprint.targets import Manifest, templates_of
from actions.cluster.pod_roles import pod_roles
from actions.fleet.accelerators import is_accelerator
from actions.fleet.instance_types import InstanceTable, InstanceType
from actions.fleet.node_amounts import allocatable_of
from actions.fleet.placement import requests_of
from actions.fleet.prices import PriceBook
from actions.fleet.quantity import UNKNOWN, decimal_text, format_hourly, format_range, parse_quantity

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def nodes_for(manifests: Iterable[Manifest], instances: InstanceTable) -> Mapping[str, int]:
    """Nodes by instance type, for the pods that name an instance type. Others run on what is there.

    Pods of one type fill a node until its devices, CPU or memory run out.
    """
    nodes: Counter[str] = Counter()
    for manifest in manifests:
        for count, _, template in counted_templates(manifest):
            spec = template.get("spec") or {}
            name = _instance_type(spec)
            instance = instances.find(name) if name else None
            if instance is not None:
                nodes[name] += math.ceil(count / _pods_per_node(spec, instance))
            elif name:
                nodes[name] += count
    return nodes


def devices_for(manifests: Iterable[Manifest]) -> Mapping[str, int]:
    """Accelerators by resource, of the pods that name no instance type."""
    devices: Counter[str] = Counter()
    for manifest in manifests:
        for count, _, template in counted_templates(manifest):
            spec = template.get("spec") or {}
            with suppress(ValueError):  # an amount is an output of an earlier stage
                asked = {} if _instance_type(spec) else requests_of({"spec": spec})
                devices.update({name: int(amount) * count for name, amount in asked.items() if is_accelerator(name)})
    return devices


def counted_templates(manifest: Manifest) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield each pod template of an object with the pods that it stands for, and how many of them run at least."""
    if manifest.get("kind") == "Pod":
        yield 1, 1, manifest
        return
    roles = [role for role in pod_roles(manifest) if role.is_template]
    yield from ((role.total, role.least, role.template) for role in roles)
    for template in templates_of(manifest) if not roles else ():
        yield 1, 1, template


def _instance_type(spec: Mapping[str, Any]) -> str:
    selector = spec.get("nodeSelector") or {}
    return next((str(selector[label]) for label in INSTANCE_TYPE_LABELS if label in selector), "")


def _pods_per_node(spec: Mapping[str, Any], instance: InstanceType) -> int:
    offered = allocatable_of(instance, has_devices=True, has_efa=True)
    try:
        wanted = requests_of({"spec": spec})
    except ValueError:  # an amount is an output of an earlier stage
        return 1
    fitting = [
        math.floor(parse_quantity(offered[name]) / amount)
        for name, amount in wanted.items()
        if name in offered and amount > 0
    ]
    return max(1, min(fitting, default=1))


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Time, nodes and cost of one stage."""

    id: str
    title: str
    kind: str
    low_seconds: float
    high_seconds: float
    nodes: tuple[tuple[str, int], ...]
    """Instance type and count of everything that is paid by the hour while it runs."""
    usd_per_hour: Decimal | None
    """The sum of the known prices; 0 if nothing is held, `None` if no price of what is held is known."""
    usd_low: Decimal | None
    usd_high: Decimal | None
    unpriced: tuple[str, ...]
    """Things that are held and have no known price: with any, the sums are lower bounds."""
    rates: tuple[Rate, ...] = ()
    """Everything that is paid by the hour while it runs, each with the source of its price."""
    basis: str = ""
    """The source of its duration: a rate with its source, or `for the defaults`; empty if no parameter moves it."""
    objects: tuple[str, ...]
    """The objects that it applies, `Kind/name`; for Terraform, its root."""
    skip_reason: str = ""
    """The reason why the run leaves it out, in a few words; empty if it does not."""

    @property
    def is_skipped(self) -> bool:
        """True if the run leaves it out."""
        return bool(self.skip_reason)

    @property
    def hourly_text(self) -> str:
        """`$1.10`, `≥ $1.10`, `?`."""
        return format_hourly(self.usd_per_hour, is_lower_bound=bool(self.unpriced)).removesuffix("/h")

    @property
    def cost_text(self) -> str:
        """`$0.08–0.38`, `$0.08–0.38 + ?`, `?`."""
        if self.usd_low is None or self.usd_high is None:
            return UNKNOWN
        return format_range(self.usd_low, self.usd_high, UNKNOWN if self.unpriced else "")

    @property
    def is_free(self) -> bool:
        """True if nothing is paid by the hour while it runs."""
        return self.usd_per_hour == 0


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Time and cost of a run, shown before it starts. Durations are of stages one after the other."""

    stages: tuple[StagePlan, ...]
    total_low: Decimal
    total_high: Decimal
    unpriced: tuple[str, ...]
    """Everything without a price, once."""
    usage: tuple[UsagePrice, ...] = ()
    """The things that are paid by use: in no sum."""
    low_seconds: float
    high_seconds: float
    is_cost_simulated: bool = False
    is_into_cluster: bool = False
    """It goes into a cluster that is there: its sums are of the nodes that its pods take, whoever pays for them."""
    operators: tuple[OperatorCopy, ...] = ()
    """The operators' releases that it needs, but for those that a rehearsal brings."""

    @property
    def left_out(self) -> str:
        """The things that are paid and in no sum, in a word or two: `traffic`, `?`; empty for nothing."""
        used = "traffic" if any("traffic" in item.title for item in self.usage) else "use"
        return " + ".join([used] * bool(self.usage) + [UNKNOWN] * bool(self.unpriced))

    @property
    def is_lower_bound(self) -> bool:
        """True if something that is paid is in no sum."""
        return bool(self.left_out)

    @property
    def cost_text(self) -> str:
        """The sum: `$0.08–0.38 + traffic`, `?`."""
        return format_range(self.total_low, self.total_high, self.left_out) if self.is_priced else UNKNOWN

    @property
    def peak_text(self) -> str:
        """The dearest hour: `≥ $13.08/h`, `?`."""
        return format_hourly(self.peak_usd_per_hour, is_lower_bound=self.is_lower_bound)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Everything that is paid by the hour, once."""
        return tuple(dict.fromkeys(rate for stage in self.stages for rate in stage.rates))

    @property
    def is_priced(self) -> bool:
        """True if the price of anything is known, or nothing is paid. If not, the totals are 0 and mean nothing."""
        return any(stage.usd_per_hour for stage in self.stages) or all(stage.is_free for stage in self.stages)

    @property
    def peak_usd_per_hour(self) -> Decimal | None:
        """The dearest hour; `None` if nothing has a price. A lower bound where the totals are."""
        if not self.is_priced:
            return None
        return max((stage.usd_per_hour for stage in self.stages if stage.usd_per_hour is not None), default=None)


def plan_of(
    blueprint: Blueprint,
    binding: Binding,
    prices: PriceBook,
    *,
    instances: InstanceTable | None = None,
    day: date | None = None,
    region: str = "",
) -> LaunchPlan:
    """Compute the plan. Nodes by their market; what has no price is named, never counted as nothing.

    In a cluster that is there the nodes count that its pods take, as nothing else of it is the run's.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.
        prices: Known prices.
        instances: The instance table; the one that ships with the program by default.
        day: The day on which the support of a Kubernetes version counts; today by default.
        region: That of the cluster that is there already; that of the parameters by default.

    Raises:
        BlueprintError: A manifest cannot be rendered, or an operator's file is not the one of the sum beside it.
        ConflictError: An operator's file is not the one that the blueprint records.
    """
    table = instances or InstanceTable.load()
    region = region or binding.text("region", blueprint.cluster.region)
    tariff = Tariff(prices, region, day or SystemClock().now().date())
    planning = _Planning(blueprint, binding, tariff, table)
    stages = tuple(planning.plan(stage) for stage in planning.blueprint.stages)
    preset = blueprint.presets.get(binding.preset)
    return LaunchPlan(
        stages=stages,
        total_low=sum((stage.usd_low or Decimal(0) for stage in stages), Decimal(0)),
        total_high=sum((stage.usd_high or Decimal(0) for stage in stages), Decimal(0)),
        unpriced=tuple(dict.fromkeys(name for stage in stages for name in stage.unpriced)),
        usage=planning.usage(stage.id for stage in stages if not stage.is_skipped),
        low_seconds=sum(stage.low_seconds for stage in stages),
        high_seconds=sum(stage.high_seconds for stage in stages),
        is_cost_simulated=bool(preset and preset.is_cost_simulated),
        is_into_cluster=binding.existing_cluster,
        operators=operator_copies(planning.blueprint, binding),
    )


class _Planning:
    """One launch: everything that the plan of each of its stages follows from."""

    def __init__(self, blueprint: Blueprint, binding: Binding, tariff: Tariff, instances: InstanceTable) -> None:
        self.blueprint = blueprint.under(binding.preset)
        self._original = blueprint
        self._binding = binding
        self._tariff = tariff
        self._instances = instances
        self._markets = markets_of(blueprint.holdings.values(), binding)

    def plan(self, stage: AnyStage) -> StagePlan:
        """Return the plan of a stage."""
        skip_reason = reason_to_skip(stage, self._binding)
        preview = placeholders_of(stage)
        manifests = [] if skip_reason else own_objects(self.blueprint, stage, self._binding, preview)
        for_pods = Counter(nodes_for(manifests, self._instances))
        rates = () if skip_reason else tuple(self._rates(stage, for_pods, devices_for(manifests)))
        known = [rate.usd_per_hour for rate in rates if rate.usd_per_hour is not None]
        hourly = sum(known, Decimal(0)) if known or not rates else None
        expected = expectation_of(self._original, stage, self._binding, self._instances)
        return StagePlan(
            id=stage.id,
            title=stage.title,
            kind=stage.kind,
            low_seconds=0.0 if skip_reason else expected.low_seconds,
            high_seconds=0.0 if skip_reason else expected.high_seconds,
            nodes=tuple(sorted((Counter(self._held_nodes(stage)) | for_pods).items())),
            usd_per_hour=hourly,
            usd_low=_during(hourly, expected.low_seconds),
            usd_high=_during(hourly, expected.high_seconds),
            unpriced=tuple(rate.name for rate in rates if rate.usd_per_hour is None),
            rates=rates,
            basis="" if skip_reason else expected.basis,
            objects=_objects(stage, manifests),
            skip_reason=skip_reason,
        )

    def usage(self, stage_ids: Iterable[str]) -> tuple[UsagePrice, ...]:
        """Return what is paid by use while these stages run."""
        first: dict[str, str] = {}
        for stage_id in stage_ids:
            for name in self._held(self.blueprint.stage(stage_id)):
                first.setdefault(name, stage_id)
        held = [(stage_id, self.blueprint.holdings[name]) for name, stage_id in first.items()]
        return tuple(usage_prices(held, self._binding, self._tariff))

    def _held(self, stage: AnyStage) -> tuple[str, ...]:
        """Return the holdings of a stage; in a cluster that is there, its nodes with accelerators."""
        held = tuple(name for name in stage.holds if holds(self.blueprint.holdings[name].when, self._binding))
        if not self._binding.existing_cluster:
            return held
        return tuple(name for name in held if self._are_accelerated(self.blueprint.holdings[name]))

    def _are_accelerated(self, holding: Holding) -> bool:
        if holding.kind is not HoldingKind.NODES:
            return False
        types = map(self._instances.find, held_nodes((holding,), self._binding))
        return any(kind is not None and kind.accelerators for kind in types)

    def _held_nodes(self, stage: AnyStage) -> Mapping[str, int]:
        return held_nodes((self.blueprint.holdings[name] for name in self._held(stage)), self._binding)

    def _rates(self, stage: AnyStage, for_pods: Counter[str], devices: Mapping[str, int]) -> Iterator[Rate]:
        """Yield the rates of held nodes, of more nodes that its pods need, and of everything else that is held."""
        if self._binding.existing_cluster:  # all of them are its pods', and none is made by a stage
            taken = Counter(self._held_nodes(stage)) | for_pods
            yield from node_rates(taken, self._markets, self._tariff)
            names = () if taken else (f"the nodes of {count} × {name}" for name, count in devices.items())
            yield from (Rate(name=name, usd_per_hour=None) for name in names)
            return
        held = {name: self.blueprint.holdings[name] for name in self._held(stage)}
        for name, holding in held.items():
            if holding.kind is HoldingKind.NODES:
                yield from node_rates(held_nodes((holding,), self._binding), self._markets, self._tariff, holding=name)
        more = for_pods - Counter(self._held_nodes(stage))  # pods fill held nodes
        yield from node_rates(more, self._markets, self._tariff)
        yield from holding_rates(held, self._binding, self._tariff)


def _during(rate: Decimal | None, seconds: float) -> Decimal | None:
    return None if rate is None else rate * Decimal(str(seconds)) / 3600


def _objects(stage: AnyStage, manifests: Iterable[Manifest]) -> tuple[str, ...]:
    if isinstance(stage, TerraformStage):
        return (f"Terraform root {stage.root}",)
    named = tuple(f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in manifests)
    if isinstance(stage, ManifestsStage) and stage.source is not None:
        return (f"{stage.source.name} {stage.source.version}", *named)
    return named


class CostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures by which a blueprint is chosen, of a launch with the parameters of a preset.

    Args:
        accelerators: Number and model of the devices of the stage with most of them: `16 A10G`; empty without any.
        usd_per_hour: The dearest hour; `None` if no price is known.
        usd_low: Low end of the expected cost; `None` if no price is known.
        usd_high: High end of it.
        low_seconds: Low end of the expected time.
        high_seconds: High end of it.
        left_out: What is paid and in no sum; see `LaunchPlan`.
        is_simulated: The launch is a rehearsal on the embedded cluster.
        error: The reason why there is no plan; then every other field is empty.
    """

    accelerators: str = ""
    usd_per_hour: Decimal | None = None
    usd_low: Decimal | None = None
    usd_high: Decimal | None = None
    low_seconds: float = 0.0
    high_seconds: float = 0.0
    left_out: str = ""
    is_simulated: bool = False
    error: str = ""


def cost_summary(
    blueprint: Blueprint, preset: str, prices: PriceBook, instances: InstanceTable, *, day: date | None = None
) -> CostSummary:
    """Plan a launch with the preset's parameters, and return its figures. Takes up to some tenths of a second.

    Args:
        blueprint: As it was loaded.
        preset: The one that its launch form begins with; empty for none.
        prices: Known prices.
        instances: Known instance types.
        day: See `plan_of`.
    """
    try:
        binding = bind(blueprint, {}, preset=preset, instances=instances)
        plan = plan_of(blueprint, binding, prices, instances=instances, day=day)
    except ConsoleError as error:
        return CostSummary(error=error.sentence())
    return CostSummary(
        accelerators=accelerators_of(plan, instances),
        usd_per_hour=plan.peak_usd_per_hour,
        usd_low=plan.total_low if plan.is_priced else None,
        usd_high=plan.total_high if plan.is_priced else None,
        low_seconds=plan.low_seconds,
        high_seconds=plan.high_seconds,
        left_out=plan.left_out,
        is_simulated=plan.is_cost_simulated,
    )


def accelerators_of(plan: LaunchPlan, instances: InstanceTable) -> str:
    """Return number and model of the devices of the stage that has most of them: `16 A10G`; empty without any."""
    most = 0
    models: dict[str, None] = {}
    for stage in plan.stages:
        found = [(instances.find(name), count) for name, count in stage.nodes if not stage.is_skipped]
        devices = [(kind, kind.accelerators * count) for kind, count in found if kind and kind.accelerators]
        total = sum(count for _, count in devices)
        if total > most:
            most, models = total, {_model_of(kind): None for kind, _ in devices}
    return f"{most} {' + '.join(models)}" if most else ""


def _model_of(kind: InstanceType) -> str:
    """Return the model as its maker writes it: the table has `A10G` and `trainium`."""
    return kind.accelerator_model[:1].upper() + kind.accelerator_model[1:] or "accelerators"


SCHEMA = "eksml-plan/1"
OF_THE_CLUSTER = " for the nodes that its pods take, whether they are there or are started for it"


def plan_table(plan: LaunchPlan) -> str:
    """Return a table: a line for each stage, the totals, the sources of durations and prices, and what has no price."""
    lines = aligned([("STAGE", "KIND", "EXPECTED", "HOLDS", "$/h", "COST"), *map(_row, plan.stages)])
    simulated = " (simulated)" if plan.is_cost_simulated else ""
    lines += [
        "",
        f"total   {duration_range(plan.low_seconds, plan.high_seconds, is_rough=False)}, {plan.cost_text}{simulated}",
    ]
    if plan.peak_usd_per_hour is not None:
        lines.append(f"peak    {plan.peak_text}{OF_THE_CLUSTER if plan.is_into_cluster else ''}")
    if plan.unpriced:
        left_out = "not included, as no price is known" if plan.is_priced else "no price is known"
        lines.append(f"{left_out}: {', '.join(plan.unpriced)}")
    if plan.usage:
        lines.append(f"not included, as it is paid by use: {', '.join(item.text for item in plan.usage)}")
    bases = [(stage.id, stage.basis) for stage in plan.stages if stage.basis]
    if bases:
        lines += ["", *aligned([("DURATION", "FROM"), *bases])]
    priced = [rate for rate in plan.rates if rate.usd_per_hour is not None]
    if priced:
        lines += ["", *aligned([("PRICE", "$/h", "SOURCE", "AS OF"), *map(_rate_row, priced)])]
    lines += operator_lines(plan)
    return "\n".join(lines) + "\n"


def operator_lines(plan: LaunchPlan) -> list[str]:
    """Return a line for each operator's release that the run needs: where it is or comes from."""
    return [f"operator {copy.name} {copy.version} {copy.state.value}: {copy.note}" for copy in plan.operators]


def _rate_row(rate: Rate) -> tuple[str, ...]:
    hourly = "" if rate.usd_per_hour is None else f"{rate.usd_per_hour:.3f}"
    return (rate.name, hourly, rate.source, rate.as_of.isoformat() if rate.as_of else "no date")


def plan_json(
    plan: LaunchPlan, notes: Sequence[str] = (), *, checks: Sequence[Mapping[str, object]] | None = None
) -> str:
    """The plan as indented JSON: money as decimal texts, an unknown amount as null.

    Args:
        plan: The plan.
        notes: Sentences below it: on credentials and on support.
        checks: What was asked of machine, cluster and account; `None` if nothing was.
    """
    built = msgspec.to_builtins(plan, builtin_types=(Decimal,))
    document = {"schema": SCHEMA, **built, "notes": list(notes), "checks": checks}
    return json_document(_written(document))


def _written(value: object) -> object:
    """Return a JSON value with its amounts of money as texts."""
    match value:
        case Decimal():
            return decimal_text(value)
        case dict():
            return {key: _written(item) for key, item in value.items()}
        case list() | tuple():
            return [_written(item) for item in value]
        case _:
            return value


def _row(stage: StagePlan) -> tuple[str, ...]:
    if stage.is_skipped:
        return (stage.id, stage.kind, f"skipped: {stage.skip_reason}", "", "", "")
    nodes = ", ".join(f"{count} × {name}" for name, count in stage.nodes)
    span = duration_range(stage.low_seconds, stage.high_seconds, is_rough=False)
    if stage.is_free:
        return (stage.id, stage.kind, span, nodes, "–", "–")
    return (stage.id, stage.kind, span, nodes, stage.hourly_text, stage.cost_text)


def loss_without_store(*, existing_cluster: bool, is_alone: bool = False) -> str:
    """Return the sentence on what is lost with this machine, if a run is launched without a store.

    Args:
        existing_cluster: It goes into a cluster that is there.
        is_alone: Its user may not keep it in that.
    """
    if is_alone:
        return (
            "Without a store (--store s3://…) this machine alone has the run: if it is lost, what the run has made has "
            "to be found and removed by hand (eksml-tui audit CLUSTER)."
        )
    if existing_cluster:
        return (
            "Without a store (--store s3://…) the run is kept in its cluster: "
            "with this machine, logs and curves of pods that are gone are lost."
        )
    return (
        "Without a store (--store s3://…) this machine alone has the run until its cluster is there: if it is lost "
        "before, what Terraform has made has to be found and removed by hand (eksml-tui audit CLUSTER)."
    )
