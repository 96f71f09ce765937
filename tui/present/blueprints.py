"""Blueprints as rows of a table, and what one of them does."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.present.cells import Cells, Span, Tone
from tui.present.times import duration_range

if TYPE_CHECKING:
    from actions.blueprint.catalogue import BrokenBlueprint
    from actions.blueprint.model import Blueprint


def search_text(blueprint: Blueprint) -> str:
    """What a filter on blueprints looks at."""
    return f"{blueprint.id} {blueprint.title} {blueprint.summary}"


def expectation_cell(blueprint: Blueprint) -> str:
    """How long all stages take one after the other."""
    low = sum(stage.expect.low_seconds for stage in blueprint.stages)
    high = sum(stage.expect.high_seconds for stage in blueprint.stages)
    return duration_range(low, high)


def detail(blueprint: Blueprint | None, broken: Sequence[BrokenBlueprint], *, width: int) -> list[Cells]:
    """The summary and the stages of a blueprint, then the folders that could not be read.

    Args:
        blueprint: The one under the cursor, if any.
        broken: What could not be loaded.
        width: Terminal columns to wrap at.
    """
    lines: list[Cells] = []
    if blueprint is not None:
        lines += [(Span(line),) for line in textwrap.wrap(blueprint.summary, width)]
        stages = " → ".join(stage.id for stage in blueprint.stages)
        lines += [(Span(line, Tone.MUTED),) for line in textwrap.wrap(stages, width)]
        if blueprint.presets:
            lines.append((Span("presets ", Tone.MUTED), Span(", ".join(blueprint.presets))))
    for item in broken:
        lines += [(Span(line, Tone.BAD),) for line in textwrap.wrap(f"✗ {item.error.sentence()}", width)]
    return lines
