"""The accelerators pane: load, memory, power and temperature of devices, sampled while the pane is visible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult

from actions.cluster.job_pods import role_of
from actions.fleet.facts import PodFacts
from tui.feeds.accelerators import AcceleratorFeed, Sampled
from tui.feeds.services import ConsoleServices
from tui.feeds.spool import watched_stage
from tui.panes.base import TablePane, bindings_of
from tui.present import accelerators
from tui.present.accelerators import DeviceRow
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.table_model import Column

_WORK = "accelerators"

COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column("worker", "WORKER", lambda row: row.worker, width=10, flex=1, limit=30, keeps_ends=True),
    Column("gpu", "DEV", accelerators.index_cell, width=4, align="right", sort_key=lambda row: row.key),
    Column("load", "BUSY", accelerators.load_cell, width=13, sort_key=accelerators.load_key),
    Column("memory", "MEMORY", accelerators.memory_cell, width=16),
    Column("power", "POWER", accelerators.power_cell, width=9, align="right", drop=2),
    Column("temperature", "TEMP", accelerators.temperature_cell, width=6, align="right", drop=1),
    Column("name", "MODEL", accelerators.name_cell, width=8, flex=2, limit=40, drop=3),
)


class AcceleratorsPane(TablePane[DeviceRow]):
    """The accelerators of running pods: of the watched job, else of the run on screen, else of all pods."""

    CONTEXT = KeyContext.ACCELERATORS
    BINDINGS: ClassVar = bindings_of(KeyContext.ACCELERATORS)
    NOUN = "accelerators"
    SORT = "gpu"
    EMPTY = "No running pod requests an accelerator."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda row: row.key, search=accelerators.search_text)
        self._summary = Lines(classes="totals")
        self._feed = AcceleratorFeed(services.cluster, services.clock, services.ticker.request_paint)
        self._shown = -1

    def compose(self) -> ComposeResult:
        """Yield mean and slowest device above the table."""
        yield self._summary
        yield self.table

    def on_show(self) -> None:
        """Start sampling."""
        supervisor = self.services.supervisor
        supervisor.keep(
            _WORK,
            lambda: self._feed.run(self._workers, lambda: supervisor.mark_live(_WORK), sampled=self._sampled),
        )

    def on_hide(self) -> None:
        """Stop sampling: a hidden pane must not load the workers."""
        self.services.supervisor.drop(_WORK)

    def refresh_data(self) -> None:
        """Show the newest samples."""
        self.show_health(self.services.supervisor.health(_WORK))
        cost = self.services.fleet_cost()
        if cost is not None and cost.idle_accelerators and not self._feed.readings:
            self.table.empty = f"{self.EMPTY} {cost.idle_text}."
        if self._shown == self._feed.revision:
            return
        self._shown = self._feed.revision
        rows = accelerators.device_rows(self._feed.readings)
        self._summary.show(accelerators.summary(rows))
        self.show_rows(rows)

    def subject(self) -> Subject | None:
        """Return the worker under the cursor."""
        row = self.table.selected_row
        if row is None:
            return None
        namespace, _, name = row.pod.partition("/")
        return Subject("Pod", name, namespace)

    def line_of(self, row: DeviceRow) -> str:
        """Return the command that opens the worker's log."""
        return f"logs {row.pod}"

    def _workers(self) -> Iterable[PodFacts]:
        snapshot = self.services.cluster.snapshot()
        if snapshot is None:
            return []
        run, watched = self.services.runs.view, self.services.watched
        busy = [pod for pod in snapshot.pods.values() if _has_accelerators(pod) and pod.phase == "Running"]
        if watched is not None:
            return [pod for pod in busy if role_of(watched.job, pod)]
        own = [pod for pod in busy if run is not None and pod.run == run.id]
        return own or busy

    def _sampled(self) -> Sampled | None:
        """Return the samples that the runner has taken: they need no second exec, nor the permission for one."""
        view, folder = self.services.runs.view, self.services.runs.folder
        if view is None or folder is None or self.services.watched is not None:
            return None
        stage = watched_stage(view, folder)
        return Sampled(folder, stage) if stage is not None else None


def _has_accelerators(pod: PodFacts) -> bool:
    return bool(pod.requests.gpu or pod.requests.neuron)
