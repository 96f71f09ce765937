"""Commands on curves: the metric of the chart, runs compared, the chart as a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.errors import RefusedError
from actions.base.executors import in_thread
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.runs import whole_id
from tui.feeds.services import ConsoleServices
from tui.screens.workspace import PaneWorkspace
from tui.settings.settings import form_of

if TYPE_CHECKING:
    from actions.run.comparison import RunCurves
    from actions.run.journal.reader import RunSummary
    from actions.run.store.remote import RemoteRun
    from tui.panes.charts import ChartsPane

_CHARTS = "charts"
NOTICED_SECONDS = 0.3
"""Time that curves may take to be read before the pane shows that they are: less would only flicker."""
_FORMS = {".svg": "svg", ".csv": "csv"}
_SEVERAL = ",*?["
"""Signs of several names, or of a pattern for them."""
_PICK = "pick"
"""The word after `chart` that opens the list of charts."""


class CurveCommands:
    """The handlers of `chart`, `compare` and `export-chart`.

    Args:
        workspace: The panes.
        services: The runs.
        actions: Shows sentences, and the list of charts.
        submit: Starts a command line.
    """

    def __init__(
        self,
        workspace: PaneWorkspace,
        services: ConsoleServices,
        actions: AppActions,
        submit: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions
        self._submit = submit

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"chart": self._chart, "compare": self._compare, "export-chart": self._export}

    async def _chart(self, arguments: args.ChartArguments) -> None:
        pane, metric, before = self._pane(), arguments.metric, dict(self._services.picked_charts)
        if metric == _PICK:
            from tui.screens.chart_picker import ChartPicker

            self._app.show(ChartPicker("charts to show", pane.choices(), self._submit))
        elif any(sign in metric for sign in _SEVERAL):
            pane.pick([name for part in metric.split(",") if (name := part.strip())])
        else:
            pane.choose(metric)
        if self._services.picked_charts != before:
            await self._workspace.kept.keep_charts(self._services.picked_charts)

    async def _compare(self, arguments: args.CompareArguments) -> None:
        from actions.run.comparison import metric_to_compare
        from tui.present.charts.metrics import MOST_RUNS

        typed = [name for name in f"{arguments.run},{arguments.other}".split(",") if name]
        if len(typed) == 1:
            view = self._services.runs.view
            typed.insert(0, view.id if view is not None else self._services.runs.find("").id)
        chosen = {run.id: run for run in map(self._run_named, typed)}
        if len(chosen) < 2:
            raise RefusedError(f"{next(iter(chosen))} cannot be compared with itself.", hint="Name another run.")
        if len(chosen) > MOST_RUNS:
            raise RefusedError(f"At most {MOST_RUNS} runs are compared at once.", hint="Name fewer.")
        pane, store = self._pane(), self._services.settings.store
        reading = asyncio.ensure_future(in_thread("compare", _read_runs, list(chosen.values()), store))
        try:
            await asyncio.wait({reading}, timeout=NOTICED_SECONDS)
            if not reading.done():  # output of days, or a busy machine
                self._workspace.open(_CHARTS, "")
                pane.wait_for_runs(len(chosen))
            runs = await reading
            metric = metric_to_compare(runs, arguments.metric)
            self._workspace.open(_CHARTS, "")
            pane.compare(runs, metric)
        finally:
            reading.cancel()
            pane.wait_for_runs(0)

    async def _export(self, arguments: args.ExportChartArguments) -> None:
        file = Path(arguments.file)
        if form_of(file, _FORMS) == "csv":
            self._services.settings.write_file(file, self._pane().values_csv().encode())
        elif _CHARTS not in self._workspace.split.visible_keys:
            raise RefusedError("The charts are not on screen.", hint="Open them: :open charts.")
        else:
            await self._app.save_screen(file, self._pane())
        self._app.notify_plainly(f"Saved {arguments.file}.")

    def _run_named(self, typed: str) -> RunSummary | RemoteRun:
        """Return the run with this id, or the only one whose id begins so; also one of another machine.

        Raises:
            MissingError: There is none, or more than one.
        """
        runs = self._services.runs
        wanted = whole_id(runs, typed)
        elsewhere = next((run for run in runs.listed_elsewhere() if run.id == wanted), None)
        here = any(run.id == wanted for run in runs.summaries)
        return elsewhere if elsewhere is not None and not here else runs.find(wanted)

    def _pane(self) -> ChartsPane:
        from tui.panes.charts import ChartsPane

        pane = self._workspace.pane(_CHARTS)
        if not isinstance(pane, ChartsPane):
            raise TypeError(f"{pane} is not the charts pane")
        return pane


def _read_runs(runs: Sequence[RunSummary | RemoteRun], store: str) -> list[RunCurves]:
    """Read runs: those of this machine from their folders, others from copies, brought up to date from the store.

    Raises:
        RefusedError: A run of another machine has no store with curves that is read here.
        ConsoleError: The store does not answer.
    """
    from actions.run.journal.reader import RunSummary
    from actions.run.store.copy import refreshed_copy

    folders: list[Path] = []
    for run in runs:
        if isinstance(run, RunSummary):
            folders.append(run.folder)
        elif store and run.store == store:
            folders.append(refreshed_copy(store, run.id))
        else:
            raise RefusedError(
                f"The curves of {run.id} are on another machine, and it has no store that is read here.",
                hint="Set store: in config.yaml to its store, if it has one.",
            )
    return _read(folders)


def _read(folders: Sequence[Path]) -> list[RunCurves]:
    """Read runs to the ends of their output; the panes read on from there."""
    from actions.run.comparison import read_run

    return [read_run(folder, capacity=2048) for folder in folders]
