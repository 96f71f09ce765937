"""The runs pane: all runs of this machine."""

from __future__ import annotations

from typing import ClassVar

from actions.run.journal.reader import RunSummary
from tui.feeds.services import RUNS, ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import run as runs
from tui.present.subject import Subject
from tui.settings.keys import KeyContext, name_of
from tui.widgets.table_model import Column


def columns_of(services: ConsoleServices) -> tuple[Column[RunSummary], ...]:
    """Return the table's columns; ages are computed with the services' clock."""
    return (
        Column("id", "RUN", lambda run: services.runs.names.get(run.id, run.id), width=26, flex=2, limit=50),
        Column("state", "STATE", runs.summary_state_cell, width=17),
        Column("stage", "STAGE", runs.stage_cell, width=12, flex=1, limit=40),
        Column("cluster", "CLUSTER", lambda run: run.cluster, width=14, flex=1, limit=30, drop=1),
        Column(
            "age",
            "AGE",
            lambda run: runs.age_text(run, services.clock.now().timestamp()),
            width=7,
            align="right",
            sort_key=lambda run: -run.created_at,
        ),
    )


class RunsPane(TablePane[RunSummary]):
    """The runs, newest first; opening one makes it the run on screen."""

    CONTEXT = KeyContext.RUNS
    BINDINGS: ClassVar = bindings_of(KeyContext.RUNS)
    NOUN = "runs"
    SORT = "age"

    def __init__(self, services: ConsoleServices) -> None:
        key = name_of(KeyContext.EVERYWHERE, "open blueprints", services.settings.keymap)
        empty = f"No run yet: press {key} for the blueprints."
        super().__init__(services, columns_of(services), key=lambda run: run.id, search=runs.search_text, empty=empty)
        self._shown = -1

    def refresh_data(self) -> None:
        """Show the list."""
        self.show_health(self.services.supervisor.health(RUNS))
        if self._shown != self.services.runs.revision:
            self._shown = self.services.runs.revision
            self.show_rows(self.services.runs.summaries)

    def subject(self) -> Subject | None:
        """Return the run under the cursor."""
        return Subject("Run", self.table.selected_key) if self.table.selected_key else None

    def line_of(self, row: RunSummary) -> str:
        """Return the command that opens the run's stages."""
        return f"open run of={row.id}"
