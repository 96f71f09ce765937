"""Runs as rows of a table: those of this machine, and, dim, those of others, with who and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from actions.base.wording import counted, duration
from actions.fleet.cost import HourlyCost
from actions.fleet.quantity import format_dollars
from actions.run.paid import state_words
from actions.run.state.view import OVER, RunState
from tui.present.cells import CellValue, Span, Tone, text_of
from tui.present.run import RUN_TONES, trouble_in
from tui.present.text import age

if TYPE_CHECKING:
    from actions.run.journal.reader import RunSummary
    from actions.run.store.remote import RemoteRun

_LEAST_TROUBLE = 24
"""Columns from which a cell has what is wrong instead of the stage: the beginning of less says nothing."""


class RunRow(msgspec.Struct, frozen=True):
    """A row of the runs pane: a run of this machine, of another one, or of both if it was taken over.

    Args:
        local: The run as this machine has it.
        remote: The run as its store has it, if another machine carries it out.
        is_silent: Heartbeats of that machine are missing.
        trouble: The verdict on its pods, by what the cluster shows of them; empty if none is in trouble.
    """

    local: RunSummary | None
    remote: RemoteRun | None = None
    is_silent: bool = False
    trouble: str = ""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.local.id if self.local else self.remote.id if self.remote else ""


def rows_of(
    local: tuple[RunSummary, ...],
    elsewhere: tuple[RemoteRun, ...],
    silent: frozenset[str],
    troubles: Mapping[str, str],
) -> tuple[RunRow, ...]:
    """Return one row for each run, those of this machine first.

    Args:
        local: Newest first.
        elsewhere: The runs that other machines carry out, newest first.
        silent: Ids of those whose heartbeats are missing.
        troubles: The verdict on the pods of those that have some in trouble.
    """
    by_id = {run.id: run for run in elsewhere}
    here = [RunRow(run, by_id.pop(run.id, None), run.id in silent, troubles.get(run.id, "")) for run in local]
    return (*here, *(RunRow(None, run, run.id in silent, troubles.get(run.id, "")) for run in by_id.values()))


def name_cell(row: RunRow, name: str) -> CellValue:
    """The run's short name, dim for one of another machine."""
    return Span(name, Tone.MUTED) if row.remote else name


def state_cell(row: RunRow, width: int = 0) -> CellValue:
    """The run's state; of another machine dim, or `silent since 14:02`.

    Where `width` is too small for it, it is shorter: `silent 14:02`, `data kept`.
    """
    if row.remote is None:
        state = _local_state(row.local) if row.local else Span("")
        return replace(state, text=state.text.rpartition(", ")[2]) if 0 < width < len(state.text) else state
    state = remote_state(row.remote, is_silent=row.is_silent, trouble=row.trouble)
    is_cut = 0 < width < len(state.text) and row.is_silent
    return Span(state.text.replace(" since ", " "), state.tone) if is_cut else state


def _local_state(run: RunSummary) -> Span:
    """Return the state, red while the run's pods are in trouble, of a copy as such, or `unreadable`."""
    if run.error:
        return Span("unreadable", Tone.BAD)
    if run.is_copy:
        return Span(f"copy, {run.state.value}", Tone.MUTED)
    if trouble_in(run.notices):
        return Span(f"▲ {run.state.value}", Tone.BAD)
    return Span(state_words(run.state, run.paid), RUN_TONES[run.state])


def remote_state(run: RemoteRun, *, is_silent: bool, trouble: str = "") -> Span:
    """Return the state of a run of another machine in words, red while its pods are in trouble."""
    from actions.run.store.remote import sign_text

    if run.lease is None:
        return Span("unreadable", Tone.BAD)
    if is_silent:
        return Span(sign_text(run, is_silent=True), Tone.WARN)
    return Span(f"▲ {run.state.value}", Tone.BAD) if trouble else Span(run.state.value, Tone.MUTED)


def stage_cell(row: RunRow, width: int = 0) -> CellValue:
    """The stage at work or the one that failed, the number of leftovers, or the reason why the run cannot be read.

    Where there is room (`width` columns; 0: as much as need be), what is wrong with the pods of the stage. Dim for
    a run of another machine.
    """
    if row.remote is None:
        return _local_stage(row.local, width) if row.local else ""
    stage = row.remote.status.stage
    if row.trouble and row.remote.lease is not None:
        return Span(stage if 0 < width < _LEAST_TROUBLE else row.trouble, Tone.BAD)
    return Span(row.remote.error or stage or "-", Tone.MUTED)


def _local_stage(run: RunSummary, width: int) -> CellValue:
    if run.error:
        return Span(run.error, Tone.BAD)
    if run.leftovers:
        return Span(f"{counted(run.leftovers, 'object')} left", Tone.BAD)
    if run.unknown:
        return Span("leftovers unknown", Tone.WARN)
    if run.is_store_behind:
        return Span("store behind", Tone.WARN)
    trouble = trouble_in(run.notices)
    if trouble:
        return Span(run.stage if 0 < width < _LEAST_TROUBLE else trouble.partition(": ")[2], Tone.BAD)
    if run.stage and run.state is RunState.FAILED:
        return Span(run.stage, Tone.BAD)
    return run.stage or Span("-", Tone.MUTED)


def who_cell(row: RunRow) -> CellValue:
    """The operator and machine that carry the run out, if it is not this machine."""
    if row.remote is None:
        taken_by = row.local.taken_by if row.local else ""
        return Span(taken_by, Tone.WARN) if taken_by else Span("-", Tone.MUTED)
    return Span(row.remote.owner, Tone.WARN if row.local else Tone.MUTED)


def took_cell(row: RunRow, now: float) -> CellValue:
    """The time that the run's stages have taken; `-` before the first, and of another machine's run."""
    if row.local is None or row.remote is not None:
        return Span("-", Tone.MUTED)
    seconds = row.local.took_seconds(now)
    return "-" if seconds is None else duration(seconds)


def loss_cell(row: RunRow) -> CellValue:
    """The newest training loss; that of another machine's run is not known here."""
    from actions.run.report import loss_text  # with the journal, which Home does not need

    return (loss_text(row.local.last_loss) if row.local else "") or "-"


def spent_cell(row: RunRow, width: int = 0) -> CellValue:
    """The cost so far; without cents where they do not fit into `width` (0: as wide as need be)."""
    from actions.run.report import spent_text

    if row.remote is not None:
        return Span(remote_spent(row.remote) or "-", Tone.MUTED)
    text = (spent_text(row.local) if row.local else "") or "-"
    return text.rpartition(".")[0] if 0 < width < len(text) and "." in text else text


def remote_spent(run: RemoteRun) -> str:
    """Return what a run of another machine has cost so far; empty if that is unknown."""
    return format_dollars(run.spent_usd) if run.spent_usd is not None else ""


def hourly_cell(row: RunRow, hourly: HourlyCost | None, width: int = 0) -> CellValue:
    """The price of what the run pays for by the hour now: `≥ $1.17`; `hourly` is `None` for nothing.

    Of another machine's run it is what that has published, nodes included. Where `width` is too small, without cents.
    """
    published = row.remote.usd_per_hour if row.remote else None
    if published:
        return Span(f"${published:,.2f}", Tone.MUTED)
    if hourly is None:
        return Span("-", Tone.MUTED)
    state = row.local.state if row.local and row.remote is None else None
    text = hourly.text.removesuffix("/h")
    text = text.rpartition(".")[0] if 0 < width < len(text) else text
    return Span(text, Tone.MUTED if row.remote else Tone.WARN if state in OVER else Tone.PLAIN)


def limits_cell(row: RunRow) -> CellValue:
    """The limits of the run; those of another machine's are not known."""
    return (row.local.limits if row.local else "") or "-"


def cluster_cell(row: RunRow) -> CellValue:
    """The name of the run's cluster."""
    if row.remote is None:
        return row.local.cluster if row.local else ""
    return Span(row.remote.about.cluster or (row.local.cluster if row.local else ""), Tone.MUTED)


def age_cell(row: RunRow, now: float) -> CellValue:
    """The run's age."""
    text = age(now, created_at(row))
    return Span(text, Tone.MUTED) if row.remote else text


def created_at(row: RunRow) -> float:
    """Return when the run was created, in seconds since the epoch; 0.0 if that is unknown."""
    if row.local:
        return row.local.created_at
    return row.remote.about.created_at if row.remote else 0.0


def age_key(row: RunRow) -> float:
    """Return the sort key by age, the newest run first, of whichever machine; unknown ages come last."""
    return -created_at(row)


def search_text(row: RunRow) -> str:
    """Return the text that a filter on runs matches."""
    run, local = row.local, ""
    if run is not None:
        local = " ".join((run.id, run.blueprint_id, run.title, run.cluster, run.state.value, run.stage, run.error))
    if row.remote is None:
        return local
    return " ".join((local, row.id, row.remote.owner, text_of(stage_cell(row)), text_of(state_cell(row))))
