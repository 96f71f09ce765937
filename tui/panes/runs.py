"""The runs pane: all runs of this machine, and those of other machines that are recorded in the connected cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from tui.feeds.services import RUNS, ConsoleServices, troubles_elsewhere
from tui.feeds.supervisor import FeedState
from tui.panes.base import TablePane, bindings_of
from tui.present import runs as rows
from tui.present.cells import CellValue
from tui.present.runs import RunRow
from tui.present.subject import Subject
from tui.settings.keys import KeyContext, key_name
from tui.widgets.table_model import SPARE, Column


def columns_of(services: ConsoleServices) -> tuple[Column[RunRow], ...]:
    """Return the table's columns; ages are computed with the services' clock."""

    def now() -> float:
        return services.clock.now().timestamp()

    def took(row: RunRow) -> float:
        return (row.local.took_seconds(now()) or 0.0) if row.local else 0.0

    def spent(row: RunRow) -> float:
        return float(row.local.spending.usd) if row.local and row.local.spending else 0.0

    def price(row: RunRow, width: int = 0) -> CellValue:
        return rows.hourly_cell(row, services.paid.now().of(row.id), width)

    def hourly(row: RunRow) -> float:
        cost = services.paid.now().of(row.id)
        return 0.0 if cost is None else float(cost.usd) if cost.is_known else float("inf")

    def loss(row: RunRow) -> float:
        return (row.local.last_loss or 0.0) if row.local else 0.0

    return (
        Column(
            "id",
            "RUN",
            lambda row: rows.name_cell(row, _name(services, row)),
            width=20,
            wanted=25,
            flex=2,
            keeps_ends=True,
        ),
        Column("state", "STATE", rows.state_cell, width=13, wanted=20, sized=rows.state_cell),
        Column("stage", "STAGE", rows.stage_cell, width=9, flex=2, limit=40, sized=rows.stage_cell),
        Column("took", "TOOK", lambda row: rows.took_cell(row, now()), width=6, align="right", drop=2, sort_key=took),
        Column("loss", "LOSS", rows.loss_cell, width=7, align="right", drop=4, sort_key=loss),
        Column(
            "spent",
            "SPENT",
            rows.spent_cell,
            width=9,
            flex=1,
            limit=11,
            align="right",
            drop=1,
            sort_key=spent,
            sized=rows.spent_cell,
        ),
        Column("hourly", "$/H", price, width=8, align="right", sort_key=hourly, sized=price),
        Column("limits", "LIMITS", rows.limits_cell, width=12, flex=1, limit=40, drop=6),
        Column("cluster", "CLUSTER", rows.cluster_cell, width=14, flex=1, limit=30, drop=3),
        Column(
            "age",
            "AGE",
            lambda row: rows.age_cell(row, now()),
            width=6,
            align="right",
            sort_key=rows.age_key,
        ),
    )


_BESIDE_WHO: Mapping[str, Mapping[str, Any]] = {
    "id": {"width": 14, "wanted": 24},
    "state": {"wanted": 18},
    "limits": {"drop": SPARE + 1},
    "loss": {"drop": SPARE + 2},
}


def with_who(columns: tuple[Column[RunRow], ...]) -> tuple[Column[RunRow], ...]:
    """Return the columns with one more for who carries a run out, and room for it on eighty columns.

    Names of runs are cut in the middle, so that time and money have room beside it. What the record of another machine
    does not have gives way to a whole name.
    """
    who = Column("who", "WHO", rows.who_cell, width=12, wanted=22, flex=1, limit=36)
    made = [replace(column, **_BESIDE_WHO.get(column.id, {})) for column in columns]
    return (*made[:3], who, *made[3:])


def _name(services: ConsoleServices, row: RunRow) -> str:
    return services.runs.names.get(row.id) or services.remote.names.get(row.id, row.id)


class RunsPane(TablePane[RunRow]):
    """The runs of this machine and of others, newest first; opening one makes it the run on screen."""

    ONLY = "of other machines only on"
    CONTEXT = KeyContext.RUNS
    BINDINGS: ClassVar = bindings_of(KeyContext.RUNS)
    NOUN = "runs"
    SORT = "age"

    def __init__(self, services: ConsoleServices) -> None:
        key = key_name(KeyContext.EVERYWHERE, "open blueprints", services.settings.keymap)
        empty = f"No run yet: press {key} for the blueprints."
        super().__init__(services, columns_of(services), key=lambda row: row.id, search=rows.search_text, empty=empty)
        self._shown: object = None
        self._has_who = False

    def refresh_data(self) -> None:
        """Show the list."""
        runs, others = self.services.runs, self.services.remote
        health = self.services.supervisor.health(RUNS)
        is_noted = bool(others.note) and health.state is FeedState.LIVE
        self.show_health(replace(health, detail=others.note) if is_noted else health)
        if not runs.is_listed and health.state is FeedState.ENDED:  # not even begun: a question waits for its answer
            self.table.empty = "Reading the runs."
        unread = f" · {len(runs.unread)} not read yet" if runs.unread else ""
        self.entitle(f"runs{unread}")
        elsewhere = runs.listed_elsewhere()
        silent = frozenset(run.id for run in elsewhere if others.is_silent(run))
        troubles = troubles_elsewhere(self.services)
        paid = self.services.paid.now()
        shown = runs.revision, others.revision, silent, troubles, paid
        if self._shown != shown:
            self._shown = shown
            self._show_who(is_wanted=bool(elsewhere) or any(run.taken_by for run in runs.summaries))
            self.show_rows(rows.rows_of(runs.summaries, elsewhere, silent, troubles))

    def _show_who(self, *, is_wanted: bool) -> None:
        """Show the column of other machines' owners while there are any, unless columns were chosen."""
        if is_wanted == self._has_who:
            return
        self._has_who = is_wanted
        before, columns = self._all_columns, columns_of(self.services)
        self._all_columns = with_who(columns) if is_wanted else columns
        if self._columns == before:
            self._columns = self._all_columns
            self.table.set_columns(self._columns)

    def subject(self) -> Subject | None:
        """Return the run under the cursor."""
        return Subject("Run", self.table.selected_key) if self.table.selected_key else None

    def line_of(self, row: RunRow) -> str:
        """Return the command that opens the run's stages."""
        return f"open run of={row.id}"
