"""The run pane: stages with durations, details of the selected one, pending approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult

from actions.base.errors import JournalError
from actions.base.wording import counted
from actions.run.state.records import Action
from actions.run.state.view import RunState, RunView, StageState
from tui.feeds.services import RUNS, ConsoleServices
from tui.panes.base import Pane, bindings_of
from tui.present import rail, run
from tui.present.cells import Cells, Span, Tone
from tui.present.subject import Subject
from tui.present.text import console_words
from tui.settings.keys import KeyContext, key_name
from tui.widgets.base import Lines
from tui.widgets.stage_rail import StageRail

if TYPE_CHECKING:
    from tui.feeds.output import OwnProgress


_MOST_HEADING = 6
_LEAST_DETAIL = 3
"""Rows, with the rule above them."""


class RunPane(Pane):
    """The run on screen; `open run of=ID` selects another."""

    CONTEXT = KeyContext.RUN
    BINDINGS: ClassVar = bindings_of(KeyContext.RUN)
    DEFAULT_CSS = """
    RunPane > .totals { height: auto; min-height: 2; max-height: 6; }
    RunPane > StageRail { height: auto; }
    RunPane > .stage-detail { height: 1fr; min-height: 3; padding: 0 1; border-top: solid $foreground 15%; }
    """

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        keymap = services.settings.keymap
        there = [key_name(KeyContext.EVERYWHERE, f"open {name}", keymap) for name in ("blueprints", "runs")]
        self._runs_key = there[1]
        how = f"Press {there[0]} for the blueprints, {there[1]} for past runs."
        self._no_run = ((Span(f"No run yet. {how}", Tone.MUTED),),)
        self._none_at_work = ((Span(f"No run is at work. {how}", Tone.MUTED),),)
        self._keys = {
            does: key_name(KeyContext.RUN, does, keymap) for does in ("approve", "park", "resume", "teardown")
        }
        self._heading = Lines(self._no_run, classes="totals")
        self._rail = StageRail()
        self._detail = Lines(classes="stage-detail")
        self._heading_rows = 0
        self._rail_rows = 0
        """The most rows of the rail; 0 before the pane has a size."""
        self._progress: OwnProgress | None = None
        self._left = rail.NO_PROGRESS

    def compose(self) -> ComposeResult:
        """Yield heading, rail and details."""
        yield self._heading
        yield self._rail
        yield self._detail

    def refresh_data(self) -> None:
        """Show the run's current view; durations advance while it works."""
        self.show_health(self.services.supervisor.health(RUNS))
        view = self.services.runs.view
        if view is None:
            self._heading.show(self._without_run())
            self._rail.show(())
            self._detail.show(())
            return
        now = self.services.clock.now().timestamp()
        self.entitle(" · ".join(filter(None, (view.id, run.store_words(view)))))
        self._left = self._own_progress(view)
        width = self.size.width - 2
        hourly = self.services.paid.now().of(view.id)
        heading = run.run_heading(view, now=now, width=width, runner=self._runner(), hourly=hourly, left=self._left)
        self._heading.show(heading)
        self._heading_rows = min(len(heading), _MOST_HEADING)
        self._show_rail(view)
        self._show_detail()

    def _runner(self) -> Span | None:
        """Return what the heading adds on the run's runner: nothing while it works."""
        runs = self.services.runs
        if runs.is_interrupted:
            return run.without_runner("" if self._no_changes() else self._keys["resume"], has_died=runs.has_died)
        return run.RUNNER_STARTS if runs.is_starting else None

    def _share_room(self, detail: int, fifths: int) -> None:
        """Let the rail have the rows that heading and detail leave, and so many fifths of all at least."""
        height = self.size.height
        free = height - self._heading_rows
        rows = max(3, min(height * fifths // 5, free - _LEAST_DETAIL), free - max(_LEAST_DETAIL, detail + 1))
        if height and rows != self._rail_rows:
            self._rail_rows = rows
            self._rail.styles.max_height = rows

    def _without_run(self) -> Sequence[Cells]:
        """Return the heading while no run is on screen: nothing is said of runs before their list was read."""
        if not self.services.runs.is_listed:
            return ((Span("Reading the runs.", Tone.MUTED),),)
        unreadable = self.services.runs.unreadable
        if unreadable is not None:
            return _unreadable_lines(unreadable.id, self._runs_key)
        others = len(self.services.runs.listed_elsewhere())
        if self.services.runs.summaries:
            return self._none_at_work
        if not others:
            return self._no_run
        text = f"No run of yours is at work. Press {self._runs_key} for {counted(others, 'run')} of this cluster."
        return ((Span(text, Tone.MUTED),),)

    def has_nothing(self) -> bool:
        """Return whether a job is watched that is of no run."""
        return self.services.runs.view is None and self.services.watched is not None

    def show_target(self, of: str) -> None:
        """Show another run, or move the cursor to a stage of this one.

        Raises:
            MissingError: There is no such run.
        """
        view = self.services.runs.view
        if of and view is not None:  # a pane that was never shown has no stages yet
            self._show_rail(view)
        if of and not self._rail.select(rail.row_key(view, of) if view is not None else of):
            self.services.open_run(of)
        self.refresh_data()

    def subject(self) -> Subject | None:
        """Return the stage under the cursor; none in the row of those that are skipped."""
        key = self._rail.selected_key
        return Subject("Stage", key) if key and key not in (rail.SKIPPED, rail.KEPT) else None

    def focus_content(self) -> None:
        """Focus the rail."""
        self._rail.focus()

    def on_resize(self) -> None:
        """Lay out heading and details for the new width."""
        self.refresh_data()

    def on_stage_rail_highlighted(self, event: StageRail.Highlighted) -> None:
        """Show the details of the stage under the cursor."""
        event.stop()
        self._show_detail()

    def on_stage_rail_selected(self, event: StageRail.Selected) -> None:
        """Open the stage's log."""
        event.stop()
        view = self.services.runs.view
        if view is not None and any(stage.id == event.key for stage in view.stages):
            self.post_message(self.Entered(f"open logs of={event.key}"))

    def _show_rail(self, view: RunView) -> None:
        now = self.services.clock.now().timestamp()
        approve_key = "" if self._no_changes() else self._keys["approve"]
        self._rail.show(rail.rail_of(view, now=now, approve_key=approve_key, left=self._left), view.id)

    def _no_changes(self) -> str:
        """Return why this console changes nothing in the run on screen; empty if it can."""
        if self.services.runs.remote is not None:
            return "Another machine carries it out: approve or change it there."
        if self.services.settings.readonly:
            return "This console is read-only: nothing can be approved or changed."
        return ""

    def _own_progress(self, view: RunView) -> Mapping[str, float]:
        """Return the seconds that the job at work still takes by its own progress bar, by stage; empty without one."""
        folder = self.services.runs.folder
        stage = next((one for one in reversed(view.stages) if one.state is StageState.RUNNING), None)
        if stage is None or folder is None or stage.kind != "job":
            return {}
        with suppress(JournalError):
            progress = self._progress
            is_known = progress is not None and (progress.folder, progress.stage) == (folder, stage.id)
            if progress is None or not is_known or progress.attempt != stage.attempt:
                from tui.feeds.output import OwnProgress

                progress = self._progress = OwnProgress(folder, stage.id, stage.attempt, only_new=is_known)
            left = progress.left_seconds()
            return {} if left is None else {stage.id: left}
        return {}

    def _show_detail(self) -> None:
        view = self.services.runs.view
        stage = view.step(self._rail.selected_key) if view else None
        if view is not None and stage is None:
            self._show_lines(rail.skipped_lines(view, self._rail.selected_key, self.size.width - 6))
        if view is None or stage is None:
            return
        if stage.kind == Action.AUDIT and view.audit is not None:
            stage = replace(stage, message="")  # the end of the teardown tells its result, name by name
        stage = replace(stage, message=console_words(stage.message, self.services))
        now = self.services.clock.now().timestamp()
        keys, width, no_changes = self._keys, self.size.width - 6, self._no_changes()
        detail = run.stage_detail(
            stage,
            now=now,
            width=width,
            approve_key=keys["approve"],
            no_changes=no_changes,
            is_stalled=view.state is RunState.STALLED,
            spent=run.spent_in(view, self._rail.selected_key, now),
            left_seconds=self._left.get(stage.id),
            title=rail.title_of(self._rail.selected_key, stage),
        )
        idle = run.idle_lines(
            view,
            self.services.paid.now().of_runs.get(view.id),
            park_key=keys["park"],
            teardown_key=keys["teardown"],
            no_changes=no_changes,
            width=width,
        )
        ending = run.ending_lines(view, width=width, worded=lambda text: console_words(text, self.services))
        if stage.state is StageState.FAILED:  # the reason is on the first screen, whatever its size
            self._show_lines([*detail, *idle, *ending], fifths=2)
        else:
            self._show_lines([*idle, *detail, *ending])

    def _show_lines(self, lines: Sequence[Cells], *, fifths: int = 3) -> None:
        self._share_room(len(lines), fifths)
        self._detail.show(lines)


def _unreadable_lines(run_id: str, runs_key: str) -> list[Cells]:
    text = f"The newest run, {run_id}, cannot be read. Press {runs_key} for the reason and for other runs."
    return [(Span(text, Tone.WARN),)]
