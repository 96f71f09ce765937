"""What a run will take and cost: a plan by stage, from expectations, holdings and the requests of rendered pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

import msgspec

from actions.blueprint.demand import nodes_for
from actions.blueprint.derive import fill
from actions.blueprint.model import Blueprint, Holding, HoldingKind
from actions.blueprint.parameters import Binding
from actions.blueprint.render import own_objects
from actions.blueprint.skipping import reason_to_skip
from actions.blueprint.stages import AnyStage, ManifestsStage, TerraformStage
from actions.blueprint.targets import Manifest
from actions.fleet.instances import InstanceTable
from actions.fleet.prices import PriceBook
from actions.fleet.quantity import HOURS_PER_MONTH


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage takes and costs."""

    id: str
    title: str
    kind: str
    low_seconds: float
    high_seconds: float
    nodes: tuple[tuple[str, int], ...]
    """Instance type and count of everything that is paid by the hour while it runs."""
    usd_per_hour: Decimal | None
    """Of what has a price; `None` if nothing has."""
    usd_low: Decimal | None
    usd_high: Decimal | None
    unpriced: tuple[str, ...]
    """What is held and has no known price: the sums are at least so much."""
    objects: tuple[str, ...]
    """What it applies, `Kind/name`; for Terraform, its root."""
    skip_reason: str = ""
    """Why the run leaves it out, in a few words; empty if it does not."""

    @property
    def is_skipped(self) -> bool:
        """Whether the run leaves it out."""
        return bool(self.skip_reason)


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run will take and cost, shown before it starts. Durations are of stages one after the other."""

    stages: tuple[StagePlan, ...]
    total_low: Decimal
    total_high: Decimal
    unpriced: tuple[str, ...]
    """Everything without a price, once."""
    low_seconds: float
    high_seconds: float
    is_cost_simulated: bool = False

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
        BlueprintError: A manifest cannot be rendered.
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
        kind=stage.kind.value,
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
