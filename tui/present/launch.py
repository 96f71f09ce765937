"""A launch before it starts: the fields of its form, and what it will take and cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from actions.blueprint.cost import LaunchPlan, StagePlan
from actions.blueprint.model import Blueprint, Parameter, ParameterType
from actions.fleet.quantity import UNKNOWN, format_usd
from tui.present.cells import Cells, Span, Tone, fit
from tui.present.fields import Field, FieldKind, Value
from tui.present.times import duration_range

PRESET = "@preset"
EXISTING = "@existing"
NO_PRESET = "none"
_KINDS = {
    ParameterType.INTEGER: FieldKind.INTEGER,
    ParameterType.NUMBER: FieldKind.NUMBER,
    ParameterType.TEXT: FieldKind.TEXT,
    ParameterType.BOOLEAN: FieldKind.SWITCH,
    ParameterType.SECRET: FieldKind.SECRET,
}


def fields_of(blueprint: Blueprint, *, preset: str, existing_cluster: bool) -> list[Field]:
    """Preset and cluster first, then the parameters with the preset's values as defaults."""
    fields = [
        Field(EXISTING, "Use this cluster", FieldKind.SWITCH, existing_cluster, help="provision nothing"),
        *(
            _field(name, parameter, default_of(blueprint, preset, name))
            for name, parameter in blueprint.parameters.items()
        ),
    ]
    if blueprint.presets:
        chosen = preset or NO_PRESET
        fields.insert(0, Field(PRESET, "Preset", FieldKind.CHOICE, chosen, choices=(NO_PRESET, *blueprint.presets)))
    return fields


def default_of(blueprint: Blueprint, preset: str, name: str) -> Value:
    """What a parameter is if nobody chooses it."""
    chosen = blueprint.presets.get(preset)
    return chosen.set.get(name, blueprint.parameters[name].default) if chosen else blueprint.parameters[name].default


def chosen_values(blueprint: Blueprint, preset: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters that differ from what the preset makes of them."""
    return {
        name: values[name]
        for name in blueprint.parameters
        if name in values and values[name] != default_of(blueprint, preset, name)
    }


def _field(name: str, parameter: Parameter, default: Value) -> Field:
    return Field(
        name,
        parameter.title,
        FieldKind.CHOICE if parameter.choices else _KINDS[parameter.type],
        default,
        help=parameter.help,
        minimum=parameter.minimum,
        maximum=parameter.maximum,
        choices=parameter.choices,
        unit=parameter.unit,
    )


def plan_lines(plan: LaunchPlan) -> list[Cells]:
    """The sums, then one line for each stage."""
    total = _range(plan.total_low, plan.total_high)
    peak = "" if plan.peak_usd_per_hour is None else f", at most {format_usd(plan.peak_usd_per_hour)}/h"
    sums = f"{duration_range(plan.low_seconds, plan.high_seconds)}, {total}{peak}"
    lines: list[Cells] = [(Span("All of it: ", Tone.MUTED), Span(sums, Tone.STRONG))]
    if plan.unpriced:
        names = ", ".join(plan.unpriced)
        lines.append((Span(f"▲ at least: no price is known of {names}", Tone.WARN),))
    if plan.is_cost_simulated:
        lines.append((Span("This preset runs on the embedded cluster: the cost is simulated.", Tone.ACCENT),))
    lines.append((Span("STAGE                          EXPECTED      $/H        COST", Tone.STRONG),))
    return lines + [_stage_line(stage) for stage in plan.stages]


def _stage_line(stage: StagePlan) -> Cells:
    if stage.is_skipped:
        return (*fit(stage.title, 30), Span(f" skipped: {stage.skip_reason}", Tone.MUTED))
    held = ", ".join(f"{count} × {instance}" for instance, count in stage.nodes)
    hourly = UNKNOWN if stage.usd_per_hour is None else format_usd(stage.usd_per_hour)
    return (
        *fit(stage.title, 30),
        *fit(f" {duration_range(stage.low_seconds, stage.high_seconds)}", 12),
        *fit(hourly, 9, align_right=True),
        *fit(f"  {_range(stage.usd_low, stage.usd_high)}", 20),
        Span(f"  {held}", Tone.MUTED),
    )


def _range(low: Decimal | None, high: Decimal | None) -> str:
    if low is None or high is None:
        return UNKNOWN
    first, last = format_usd(low), format_usd(high)
    return first if first == last else f"{first}…{last}"
