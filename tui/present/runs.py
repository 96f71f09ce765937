"""The runs of this machine as rows of a table."""

from __future__ import annotations

from actions.run.journal.reader import RunSummary
from tui.present.cells import CellValue, Span, Tone
from tui.present.run import state_cell
from tui.present.times import age


def search_text(run: RunSummary) -> str:
    """What a filter on runs looks at."""
    return " ".join((run.id, run.blueprint_id, run.title, run.cluster, run.state.value, run.stage, run.error))


def summary_state_cell(run: RunSummary) -> CellValue:
    """Its state, or that it cannot be read."""
    return Span("unreadable", Tone.BAD) if run.error else state_cell(run.state)


def stage_cell(run: RunSummary) -> CellValue:
    """The stage under way, what was left, or why it cannot be read."""
    if run.error:
        return Span(run.error, Tone.BAD)
    if run.leftovers:
        return Span(f"{run.leftovers} objects left", Tone.BAD)
    if run.unknown:
        return Span("what is left is unknown", Tone.WARN)
    return run.stage or Span("-", Tone.MUTED)


def age_text(run: RunSummary, now: float) -> str:
    """How long ago it was created."""
    return age(now, run.created_at)
