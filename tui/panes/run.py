"""The run pane: stages with durations, details of the selected one, pending approvals."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from actions.run.state.view import RunState, RunView, StageState
from tui.feeds.services import RUNS, ConsoleServices
from tui.panes.base import Pane, bindings_of
from tui.present import run
from tui.present.cells import Cells, Span, Tone
from tui.present.subject import Subject
from tui.settings.keys import KeyContext, name_of
from tui.widgets.base import Lines
from tui.widgets.stage_rail import StageRail


class RunPane(Pane):
    """The run on screen; `open run of=ID` selects another."""

    CONTEXT = KeyContext.RUN
    BINDINGS: ClassVar = bindings_of(KeyContext.RUN)
    DEFAULT_CSS = """
    RunPane > .totals { height: auto; min-height: 2; max-height: 6; }
    RunPane > StageRail { height: auto; max-height: 60%; }
    RunPane > .stage-detail { height: 1fr; min-height: 3; padding: 0 1; border-top: solid $foreground 15%; }
    """

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        keymap = services.settings.keymap
        there = [name_of(KeyContext.EVERYWHERE, f"open {name}", keymap) for name in ("blueprints", "runs")]
        self._runs_key = there[1]
        text = f"No run yet. Press {there[0]} for the blueprints, {there[1]} for past runs."
        self._no_run = ((Span(text, Tone.MUTED),),)
        self._keys = {does: name_of(KeyContext.RUN, does, keymap) for does in ("approve", "park", "resume", "teardown")}
        self._heading = Lines(self._no_run, classes="totals")
        self._rail = StageRail()
        self._detail = Lines(classes="stage-detail")

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
            unreadable = self.services.runs.unreadable
            self._heading.show(self._no_run if unreadable is None else _unreadable_lines(unreadable.id, self._runs_key))
            self._rail.show(())
            self._detail.show(())
            return
        now = self.services.clock.now().timestamp()
        self.border_title = Content(view.id)
        resume = self._keys["resume"] if self.services.runs.is_interrupted else ""
        self._heading.show(run.run_heading(view, now=now, width=self.size.width - 2, resume_key=resume))
        self._show_rail(view)
        self._show_detail()

    def show_target(self, of: str) -> None:
        """Show another run, or move the cursor to a stage of this one.

        Raises:
            MissingError: There is no such run.
        """
        view = self.services.runs.view
        if of and view is not None:  # a pane that was never shown has no stages yet
            self._show_rail(view)
        if of and not self._rail.select(of):
            self.services.runs.choose(self.services.runs.find(of).folder)
        self.refresh_data()

    def subject(self) -> Subject | None:
        """Return the stage under the cursor."""
        return Subject("Stage", self._rail.selected_key) if self._rail.selected_key else None

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
        self._rail.show(run.rail_of(view, now=now, approve_key=self._keys["approve"]))

    def _show_detail(self) -> None:
        view = self.services.runs.view
        stage = run.stage_of(view, self._rail.selected_key) if view else None
        if view is None or stage is None:
            return
        now = self.services.clock.now().timestamp()
        keys, width = self._keys, self.size.width - 6
        detail = run.stage_detail(
            stage,
            now=now,
            width=width,
            approve_key=keys["approve"],
            is_stalled=view.state is RunState.STALLED,
            spent=run.spent_in(view, self._rail.selected_key, now),
        )
        cost = self.services.fleet_cost()
        idle = run.idle_lines(view, cost, park_key=keys["park"], teardown_key=keys["teardown"], width=width)
        ending = run.ending_lines(view, width=width)
        if stage.state is StageState.FAILED:  # the reason is on the first screen, whatever its size
            self._detail.show([*detail, *idle, *ending])
        else:
            self._detail.show([*idle, *detail, *ending])


def _unreadable_lines(run_id: str, runs_key: str) -> list[Cells]:
    text = f"The newest run, {run_id}, cannot be read. Press {runs_key} for the reason and for other runs."
    return [(Span(text, Tone.WARN),)]
