"""The time that a stage takes under the values of a run: its work divided by the rate that the blueprint gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, derive, read_value
from actions.blueprint.parts import FieldTarget, Scalar
from actions.blueprint.stages import AnyStage, JobStage
from actions.fleet.instance_types import InstanceTable

FOR_THE_DEFAULTS = "for the defaults"


class StageDuration(msgspec.Struct, frozen=True):
    """The expected duration of a stage."""

    low_seconds: float
    high_seconds: float
    basis: str = ""
    """The rate with its source; or that the duration is that of the default values; empty if nothing moves it."""


def expectation_of(blueprint: Blueprint, stage: AnyStage, binding: Binding, instances: InstanceTable) -> StageDuration:
    """Return how long a stage takes.

    Args:
        blueprint: As it was loaded, without a preset's changes.
        stage: With the preset's changes.
        binding: The run's values.
        instances: For the derived values of the defaults.
    """
    low, high = stage.expect.low_seconds, stage.expect.high_seconds
    if stage.work is None and not isinstance(stage, JobStage):
        return StageDuration(low, high)
    base = _base_values(blueprint, stage.id, binding.preset, instances)
    values = binding.everything
    if stage.work is None:
        return StageDuration(low, high, FOR_THE_DEFAULTS if _is_moved(blueprint, stage, values, base) else "")
    work = stage.work
    before, now = _product(work.amount, base), _product(work.amount, values)
    width, width_now = _product(work.parallel, base), _product(work.parallel, values)
    changed = [name for name in work.same if values.get(name) != base.get(name)]
    if changed or not (before and now and width and width_now):
        named = f": no rate is known for this {', '.join(changed)}" if changed else ""
        return StageDuration(low, high, FOR_THE_DEFAULTS + named)
    factor = now / before * width / width_now
    return StageDuration(
        low * factor,
        high * factor,
        _basis(work.unit, now, low * factor, high * factor) + f": {_source(blueprint, stage, binding)}",
    )


def _source(blueprint: Blueprint, stage: AnyStage, binding: Binding) -> str:
    """Return the place where the rate was read: a preset with a duration of its own has another rate."""
    chosen = blueprint.presets.get(binding.preset)
    if chosen is not None and stage.id in chosen.expect:
        return f"the rate of preset {binding.preset}"
    return stage.work.source if stage.work else ""


def _basis(unit: str, amount: float, low: float, high: float) -> str:
    slow, fast = (amount * 3600 / seconds if seconds else math.inf for seconds in (high, low))
    rates = _figure(fast) if _figure(slow) == _figure(fast) else f"{_figure(slow)} to {_figure(fast)}"
    return f"{_figure(amount)} {unit}, {rates} an hour"


def _figure(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def _base_values(blueprint: Blueprint, stage_id: str, preset: str, instances: InstanceTable) -> Mapping[str, Scalar]:
    """Return the values of which `expect` is: the defaults, or those of the preset if it has its own for the stage."""
    chosen = blueprint.presets.get(preset)
    given = chosen.set if chosen is not None and stage_id in chosen.expect else {}
    values = {
        name: read_value(name, parameter, given.get(name, parameter.default))
        for name, parameter in blueprint.parameters.items()
    }
    return {**values, **derive(blueprint.derived, values, instances)}


def _product(names: Iterable[str], values: Mapping[str, Scalar]) -> float:
    return math.prod(float(values[name]) for name in names)


def _is_moved(blueprint: Blueprint, stage: AnyStage, values: Mapping[str, Scalar], base: Mapping[str, Scalar]) -> bool:
    """Return whether a value that its own files hold differs: a job may then take another time."""
    files = set(stage.files)
    return any(
        values.get(name) != base.get(name)
        for name, targets in _targets(blueprint)
        if any(target.file in files for target in targets)
    )


def _targets(blueprint: Blueprint) -> Iterator[tuple[str, tuple[FieldTarget, ...]]]:
    for name, parameter in blueprint.parameters.items():
        yield name, parameter.sets
    for name, derived in blueprint.derived.items():
        yield name, derived.sets
