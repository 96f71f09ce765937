"""A launch plan as text, or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from actions.blueprint.cost import LaunchPlan, StagePlan
from actions.fleet.quantity import format_usd

SCHEMA = "eksml-plan/1"


def plan_table(plan: LaunchPlan) -> str:
    """One line a stage, the total, and what has no price. The last line is ended by a newline."""
    lines = _aligned([("STAGE", "KIND", "EXPECTED", "HOLDS", "$/h", "COST"), *map(_row, plan.stages)])
    simulated = " (simulated)" if plan.is_cost_simulated else ""
    total = _range(plan.total_low, plan.total_high)
    lines += ["", f"in all  {_span(plan.low_seconds, plan.high_seconds)}, {_at_least(plan)}{total}{simulated}"]
    if plan.peak_usd_per_hour is not None:
        lines.append(f"peak    {format_usd(plan.peak_usd_per_hour)}/h")
    if plan.unpriced:
        lines.append(f"not in it, because no price is known: {', '.join(plan.unpriced)}")
    return "\n".join(lines) + "\n"


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
