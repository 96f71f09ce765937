"""The plan of a launch: nodes, time and cost by stage, and its report as text or JSON."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from actions.blueprint.mirror import OperatorCopy, copies_of
from actions.blueprint.model import Blueprint, Holding, HoldingKind
from actions.blueprint.parameters import Binding, fill, reason_to_skip
from actions.blueprint.render import own_objects
from actions.blueprint.stages import AnyStage, ManifestsStage, TerraformStage
from actions.blueprint.targets import Manifest, pod_specs_of
from actions.fleet.instance_types import InstanceTable, InstanceType, PriceBook
from actions.fleet.quantity import HOURS_PER_MONTH, format_usd

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
DEVICES = {
    "nvidia.com/gpu": "gpus",
    "aws.amazon.com/neuron": "neuron_devices",
    "vpc.amazonaws.com/efa": "efa_interfaces",
}

_QUANTITY = re.compile(r"^([0-9.]+)([EPTGMk]i?|m)?$")
_FACTORS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)
}
_KUBELET_SHARE = 0.92
"""Share of an instance's CPU and memory that is left for pods beside kubelet, system and daemons, about."""


def nodes_for(manifests: Iterable[Manifest], instances: InstanceTable) -> Mapping[str, int]:
    """Nodes by instance type, for the pods that name an instance type. Others run on what is there.

    Pods of one type fill a node until its devices, CPU or memory run out.
    """
    nodes: Counter[str] = Counter()
    for manifest in manifests:
        for count, spec in _pods_of(manifest):
            name = _instance_type(spec)
            instance = instances.find(name) if name else None
            if instance is not None:
                nodes[name] += math.ceil(count / _pods_per_node(spec, instance))
            elif name:
                nodes[name] += count
    return nodes


def _pods_of(manifest: Manifest) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each pod spec of an object with the number of pods that it stands for."""
    groups = list(_replica_groups(manifest.get("spec") or {}))
    if groups:
        for count, template in groups:
            yield count, template.get("spec") or {}
        return
    for spec in pod_specs_of(manifest):
        yield _count(manifest.get("spec") or {}), spec


def _replica_groups(spec: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs"):
        for group in (spec.get(key) or {}).values():
            yield int(group.get("replicas", 1)), group.get("template") or {}
    head = spec.get("headGroupSpec")
    if head:
        yield 1, head.get("template") or {}
    for group in spec.get("workerGroupSpecs") or ():
        yield int(group.get("replicas", group.get("minReplicas", 1))), group.get("template") or {}


def _count(spec: Mapping[str, Any]) -> int:
    return int(spec.get("parallelism", spec.get("replicas", 1)))


def _instance_type(spec: Mapping[str, Any]) -> str:
    selector = spec.get("nodeSelector") or {}
    return next((str(selector[label]) for label in INSTANCE_TYPE_LABELS if label in selector), "")


def _pods_per_node(spec: Mapping[str, Any], instance: InstanceType) -> int:
    capacity = {"cpu": instance.vcpu * _KUBELET_SHARE, "memory": instance.memory_bytes * _KUBELET_SHARE}
    capacity |= {resource: float(getattr(instance, field) or 0) for resource, field in DEVICES.items()}
    fitting = [
        math.floor(capacity[resource] / amount)
        for resource, amount in _requests(spec).items()
        if resource in capacity and amount > 0
    ]
    return max(1, min(fitting, default=1))


def _requests(spec: Mapping[str, Any]) -> Mapping[str, float]:
    amounts: dict[str, float] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, quantity in asked.items():
            amounts[resource] = amounts.get(resource, 0.0) + _amount(quantity)
    return amounts


def _amount(quantity: object) -> float:
    match = _QUANTITY.match(str(quantity))
    return float(match[1]) * _FACTORS[match[2] or ""] if match else 0.0


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
    """The sum of the known prices; `None` if none is known."""
    usd_low: Decimal | None
    usd_high: Decimal | None
    unpriced: tuple[str, ...]
    """Things that are held and have no known price: with any, the sums are lower bounds."""
    objects: tuple[str, ...]
    """The objects that it applies, `Kind/name`; for Terraform, its root."""
    skip_reason: str = ""
    """The reason why the run leaves it out, in a few words; empty if it does not."""

    @property
    def is_skipped(self) -> bool:
        """True if the run leaves it out."""
        return bool(self.skip_reason)


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Time and cost of a run, shown before it starts. Durations are of stages one after the other."""

    stages: tuple[StagePlan, ...]
    total_low: Decimal
    total_high: Decimal
    unpriced: tuple[str, ...]
    """Everything without a price, once."""
    low_seconds: float
    high_seconds: float
    is_cost_simulated: bool = False
    operators: tuple[OperatorCopy, ...] = ()
    """The operators' releases that it needs, but for those that a rehearsal brings."""

    @property
    def is_priced(self) -> bool:
        """True if the price of anything is known. If not, the totals are 0 and mean nothing."""
        return any(stage.usd_per_hour is not None for stage in self.stages)

    @property
    def peak_usd_per_hour(self) -> Decimal | None:
        """The dearest hour; `None` if nothing has a price."""
        return max((stage.usd_per_hour for stage in self.stages if stage.usd_per_hour is not None), default=None)


def plan_of(
    blueprint: Blueprint,
    binding: Binding,
    prices: PriceBook,
    *,
    instances: InstanceTable | None = None,
) -> LaunchPlan:
    """Compute the plan. On-demand prices; what has none is named, never counted as nothing.

    With an existing cluster only what the run adds to it counts.

    Raises:
        BlueprintError: A manifest cannot be rendered, or an operator's file is not the one of the sum beside it.
        ConflictError: An operator's file is not the one that the blueprint records.
    """
    table = instances or InstanceTable.load()
    adapted = blueprint.under(binding.preset)
    stages = tuple(_stage_plan(adapted, stage, binding, prices, table) for stage in adapted.stages)
    active = [stage for stage in stages if not stage.is_skipped]
    preset = blueprint.presets.get(binding.preset)
    return LaunchPlan(
        stages=stages,
        total_low=sum((stage.usd_low or Decimal(0) for stage in active), Decimal(0)),
        total_high=sum((stage.usd_high or Decimal(0) for stage in active), Decimal(0)),
        unpriced=tuple(dict.fromkeys(name for stage in active for name in stage.unpriced)),
        low_seconds=sum(stage.low_seconds for stage in active),
        high_seconds=sum(stage.high_seconds for stage in active),
        is_cost_simulated=bool(preset and preset.is_cost_simulated),
        operators=copies_of(adapted, binding),
    )


def _previewed(blueprint: Blueprint, stage: AnyStage, binding: Binding) -> list[Manifest]:
    """A stage's own objects before anything has run: outputs of earlier stages are shown as `‹stage.output›`."""
    unknown: dict[str, dict[str, str]] = {}
    for wire in stage.sets:
        source, _, name = wire.source.partition(".")
        unknown.setdefault(source, {})[name] = f"‹{wire.source}›"
    return own_objects(blueprint, stage, binding, unknown)


def _stage_plan(
    blueprint: Blueprint, stage: AnyStage, binding: Binding, prices: PriceBook, instances: InstanceTable
) -> StagePlan:
    skip_reason = reason_to_skip(stage, binding)
    manifests = [] if skip_reason else _previewed(blueprint, stage, binding)
    held = [] if binding.existing_cluster else [blueprint.holdings[name] for name in stage.holds]
    nodes = Counter(_held_nodes(held, binding)) | Counter(nodes_for(manifests, instances))  # pods fill held nodes
    rates, unpriced = _rates(held, nodes, binding, prices)
    rate = sum(rates, Decimal(0)) if rates else None
    return StagePlan(
        id=stage.id,
        title=stage.title,
        kind=stage.kind,
        low_seconds=0.0 if skip_reason else stage.expect.low_seconds,
        high_seconds=0.0 if skip_reason else stage.expect.high_seconds,
        nodes=tuple(sorted(nodes.items())),
        usd_per_hour=rate,
        usd_low=_during(rate, stage.expect.low_seconds),
        usd_high=_during(rate, stage.expect.high_seconds),
        unpriced=tuple(unpriced),
        objects=_objects(stage, manifests),
        skip_reason=skip_reason,
    )


def _held_nodes(held: Iterable[Holding], binding: Binding) -> Mapping[str, int]:
    nodes: Counter[str] = Counter()
    for holding in held:
        if holding.kind is HoldingKind.NODES:
            nodes[fill(holding.instance_type, binding.everything)] += int(fill(holding.count, binding.everything))
    return nodes


def _rates(
    held: Iterable[Holding], nodes: Mapping[str, int], binding: Binding, prices: PriceBook
) -> tuple[list[Decimal], list[str]]:
    rates: list[Decimal] = []
    unpriced: list[str] = []
    priced = [*_node_rates(nodes, binding.text("region"), prices), *_holding_rates(held, binding)]
    for name, rate in priced:
        if rate is None:
            unpriced.append(name)
        else:
            rates.append(rate)
    return rates, unpriced


def _node_rates(nodes: Mapping[str, int], region: str, prices: PriceBook) -> Iterator[tuple[str, Decimal | None]]:
    for instance_type, count in nodes.items():
        price = prices.price_of(instance_type, region)
        yield f"{count} × {instance_type}", None if price is None else price.usd_per_hour * count


def _holding_rates(held: Iterable[Holding], binding: Binding) -> Iterator[tuple[str, Decimal | None]]:
    for holding in held:
        if holding.kind is HoldingKind.FLAT:
            yield holding.title, None if holding.usd_per_hour is None else Decimal(str(holding.usd_per_hour))
        elif holding.kind is HoldingKind.STORAGE:
            gib = int(fill(holding.gib, binding.everything))
            month = holding.usd_per_gib_month
            rate = None if month is None else Decimal(str(month)) * gib / HOURS_PER_MONTH
            yield f"{holding.title}, {gib} GiB", rate


def _during(rate: Decimal | None, seconds: float) -> Decimal | None:
    return None if rate is None else rate * Decimal(str(seconds)) / 3600


def _objects(stage: AnyStage, manifests: Iterable[Manifest]) -> tuple[str, ...]:
    if isinstance(stage, TerraformStage):
        return (f"Terraform root {stage.root}",)
    named = tuple(f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in manifests)
    if isinstance(stage, ManifestsStage) and stage.source is not None:
        return (f"{stage.source.name} {stage.source.version}", *named)
    return named


SCHEMA = "eksml-plan/1"


def plan_table(plan: LaunchPlan) -> str:
    """Return a table: a line for each stage, the total, and what has no price. The last line has its newline too."""
    lines = _aligned([("STAGE", "KIND", "EXPECTED", "HOLDS", "$/h", "COST"), *map(_row, plan.stages)])
    simulated = " (simulated)" if plan.is_cost_simulated else ""
    total = _at_least(plan) + _range(plan.total_low, plan.total_high) if plan.is_priced else "?"
    lines += ["", f"total   {_span(plan.low_seconds, plan.high_seconds)}, {total}{simulated}"]
    if plan.peak_usd_per_hour is not None:
        lines.append(f"peak    {format_usd(plan.peak_usd_per_hour)}/h")
    if plan.unpriced:
        left_out = "not included, as no price is known" if plan.is_priced else "no price is known"
        lines.append(f"{left_out}: {', '.join(plan.unpriced)}")
    lines += operator_lines(plan)
    return "\n".join(lines) + "\n"


def operator_lines(plan: LaunchPlan) -> list[str]:
    """Return a line for each operator's release that the run needs: where it is or comes from."""
    return [f"operator {copy.name} {copy.version} {copy.state.value}: {copy.note}" for copy in plan.operators]


def plan_json(plan: LaunchPlan) -> str:
    """The plan as indented JSON: money as decimal texts, an unknown amount as null."""
    document = {"schema": SCHEMA, **msgspec.to_builtins(plan, builtin_types=())}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _row(stage: StagePlan) -> tuple[str, ...]:
    if stage.is_skipped:
        return (stage.id, stage.kind, f"skipped: {stage.skip_reason}", "", "", "")
    nodes = ", ".join(f"{count} × {name}" for name, count in stage.nodes)
    hourly = "?" if stage.usd_per_hour is None else format_usd(stage.usd_per_hour)
    cost = "?" if stage.usd_low is None or stage.usd_high is None else _range(stage.usd_low, stage.usd_high)
    more = " + ?" if stage.unpriced and cost != "?" else ""
    return (stage.id, stage.kind, _span(stage.low_seconds, stage.high_seconds), nodes, hourly, cost + more)


def _at_least(plan: LaunchPlan) -> str:
    return "at least " if plan.unpriced else ""


def _range(low: Decimal, high: Decimal) -> str:
    first, last = format_usd(low), format_usd(high)
    return first if first == last else f"{first} to {last}"


def _span(low_seconds: float, high_seconds: float) -> str:
    low, high = _duration(low_seconds), _duration(high_seconds)
    return low if low == high else f"{low} to {high}"


def _duration(seconds: float) -> str:
    for size, unit, least in ((86400, "d", 3 * 86400), (3600, "h", 2 * 3600), (60, "min", 60)):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows]


def _line(row: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
