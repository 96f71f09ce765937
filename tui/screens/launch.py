"""The launch form: parameters above, the plan with its duration and cost below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.worker import Worker, WorkerCancelled

from actions.base.errors import ConsoleError
from actions.base.executors import NamedExecutor
from actions.blueprint.launch_plan import LaunchPlan, loss_without_store, plan_of
from actions.blueprint.model import Blueprint, Parameter
from actions.blueprint.parameters import Binding as Bound
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import namespace_note
from actions.blueprint.version_rules import choice_notes, require_together
from actions.command.arguments import LaunchArguments
from actions.fleet.instance_types import InstanceTable
from actions.fleet.prices import PriceBook
from actions.run.context.store_address import parse_store
from actions.run.limits.at_launch import launch_notes, require_possible
from actions.run.limits.options import LimitTexts, limits_of, require_limit, with_usual
from actions.run.state.records import CheckResult
from tui.feeds.launch_checks import QUIET_SECONDS, LaunchChecks
from tui.feeds.services import ConsoleServices
from tui.present.blueprints import (
    APPROVAL,
    EXISTING,
    NO_PRESET,
    PRESET,
    STORE,
    check_lines,
    chosen_lines,
    chosen_values,
    command_of_store,
    cost_lines,
    fields_of,
    known_parameters,
    launch_title,
    named_parameters,
    note_lines,
    place_lines,
    plan_lines,
    problem_lines,
    refusal_lines,
    shown_fields,
    store_of_command,
    unknown_lines,
    warning_lines,
)
from tui.present.cells import Span, Tone
from tui.present.header import header_line
from tui.present.limits import (
    limit_entries,
    limit_fields,
    limit_mistakes,
    texts_of_command,
    texts_of_form,
    with_limits,
)
from tui.present.text import console_words
from tui.screens.confirm import BODY_COLUMNS, Confirmation, ConfirmModal, TypeNameModal
from tui.screens.live_screen import LiveScreen
from tui.screens.status_lines import header_facts
from tui.widgets.base import Lines
from tui.widgets.form import ParameterForm

if TYPE_CHECKING:  # it imports what asks AWS, after the form is on screen
    from actions.run.doctor.report import DoctorLine

_LAUNCH = (Span(" enter", Tone.ACCENT), Span(" launch  ", Tone.MUTED))
_FOLD = (Span(" enter", Tone.ACCENT), Span(" show or hide  ", Tone.MUTED))
_TO_CHANGE = (Span(" ctrl+n", Tone.ACCENT), Span(" what to change  ", Tone.MUTED))
_HINT = (
    Span("↑ ↓", Tone.ACCENT),
    Span(" fields  ", Tone.MUTED),
    Span("← →", Tone.ACCENT),
    Span(" choices  ", Tone.MUTED),
    Span("ctrl+r", Tone.ACCENT),
    Span(" default  ", Tone.MUTED),
    Span("pgdn", Tone.ACCENT),
    Span(" plan  ", Tone.MUTED),
    Span("esc", Tone.ACCENT),
    Span(" leave", Tone.MUTED),
)

_PLAN_FRAME = 6
"""Columns taken by the plan's border, padding and scrollbar."""


class LaunchScreen(LiveScreen[LaunchArguments | None]):
    """The launch form; its result is the confirmed launch, or `None` if cancelled.

    Args:
        blueprint: The blueprint.
        wanted: Preset and parameters given on the command line.
        services: Data for the header line, and the settings.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False),
        Binding("ctrl+n", "go_to_named", "what to change", show=False),
        Binding("pageup", "page_plan(-1)", "plan up", show=False, priority=True),
        Binding("pagedown", "page_plan(1)", "plan down", show=False, priority=True),
    ]

    def __init__(self, blueprint: Blueprint, wanted: LaunchArguments, services: ConsoleServices) -> None:
        super().__init__()
        self._blueprint = blueprint
        self._services = services
        self._usual_preset = services.settings.preferred_preset(blueprint.presets)
        self._preset = wanted.preset or self._usual_preset
        self._values: dict[str, Scalar] = dict(wanted.set)
        self._existing = wanted.existing_cluster
        self._auto_approve = wanted.auto_approve
        self._usual_limits = services.settings.limits or LimitTexts()
        self._limits = with_usual(texts_of_command(wanted), self._usual_limits)
        self._store_url = store_of_command(wanted.store, services.settings.store)
        self._bound: Bound | None = None
        self._plan: LaunchPlan | None = None
        self._problem: Sequence[str] = ()
        self._notes: tuple[str, ...] = ()
        self._usual_notes: tuple[str, ...] = ()
        self._refusal = ""
        self._planning: Worker[None] | None = None
        settings = replace(services.settings, target=services.cluster.target)
        self._checks = LaunchChecks(settings, services.clock, self._show_plan)
        self._checking: Worker[None] | None = None
        self._tables = (PriceBook.usual(), InstanceTable.load())
        self._thread = NamedExecutor("plan")
        self._worded = partial(console_words, services=services)
        self._header = Lines(id="header")
        self._form = ParameterForm(
            self._fields(),
            shown=shown_fields(blueprint),
            values=self._entries(),
            check=lambda values: limit_mistakes(values, now=services.clock.now()),
        )
        self._lines = Lines(id="plan-lines")
        self._hints = Lines([(*_LAUNCH, *_HINT)], id="hints")

    def compose(self) -> ComposeResult:
        """Yield header, form and plan."""
        yield self._header
        with Vertical(id="form-slot") as slot:
            slot.border_title = Content(f"launch {self._blueprint.id}: {self._blueprint.title}")
            yield self._form
        with VerticalScroll(id="plan-slot", can_focus=False) as plan:
            plan.border_title = "duration and cost"
            yield self._lines
        yield self._hints

    def on_mount(self) -> None:
        """Focus the first field."""
        self.refresh_data()
        self._form.take_focus()

    def on_unmount(self) -> None:
        """Stop computing plans, and asking."""
        self._thread.close()
        self._checks.close()

    def refresh_data(self) -> None:
        """Refresh the header."""
        self._header.show([header_line(header_facts(self._services), self.size.width)])

    def action_leave(self) -> None:
        """Close without a launch."""
        self.dismiss(None)

    def action_page_plan(self, pages: int) -> None:
        """Scroll the plan by its height."""
        plan = self.query_one("#plan-slot", VerticalScroll)
        plan.scroll_relative(y=pages * max(1, plan.size.height - 1), animate=False)

    async def action_go_to_named(self) -> None:
        """Go to the next field with a mistake, or that the problem or a failed check names."""
        await self._form.go_to_next(self._to_change)

    @property
    def _to_change(self) -> list[str]:
        failed = [line for line in self._checks.lines if line.result is CheckResult.FAILED]
        sentences = (
            *reversed(self._problem),
            self._refusal,
            *(text for line in failed for text in (line.remedy, line.detail)),
        )
        return list(dict.fromkeys((*self._form.entries.mistakes, *named_parameters(self._blueprint, sentences))))

    @on(ParameterForm.Changed)
    def _edited(self, event: ParameterForm.Changed) -> None:
        event.stop()
        preset = str(event.values.get(PRESET, NO_PRESET)).replace(NO_PRESET, "")
        if PRESET in event.values and preset != self._preset:
            self._preset, self._values = preset, {}
            self._form.show(self._fields(), self._entries())
            return
        self._limits = texts_of_form(event.values)
        self._auto_approve = bool(event.values.get(APPROVAL, False))
        self._store_url = str(event.values.get(STORE, ""))
        self._existing = bool(event.values.get(EXISTING, False))
        known = known_parameters(self._services.cluster.place) if self._existing else ()
        self._form.leave_out(known)
        values = {key: value for key, value in event.values.items() if key not in known}
        self._values = chosen_values(self._blueprint, self._preset, values)
        if event.mistakes:
            self._bound = None
            wrong = ", ".join(self._form.entries.fields[key].title for key in event.mistakes)
            self._say(f"Fix first: {wrong}.")
        else:
            self._planning = self._plan_anew()

    @on(ParameterForm.Submitted)
    def _submitted(self, event: ParameterForm.Submitted) -> None:
        event.stop()
        self._review()

    @work(exclusive=True, group="review")
    async def _review(self) -> None:
        """Ask for confirmation, showing the plan; wait for plan and checks that are under way."""
        await self._settle()
        if self._bound is None or self._refusal:
            self.notify("The parameters cannot be used: see below the form.", severity="warning", markup=False)
            await self.action_go_to_named()
            return
        found = self._checks.lines
        if await self._confirm(self._bound, found):
            chosen = LaunchArguments(
                blueprint=self._blueprint.id,
                preset=self._preset,
                existing_cluster=self._existing,
                auto_approve=self._auto_approve,
                store=command_of_store(self._store_url, self._services.settings.store),
                waive=",".join(line.check for line in found if line.blocks),
                set=dict(self._values),
            )
            self.dismiss(with_limits(chosen, self._limits, self._usual_limits))

    async def _settle(self) -> None:
        """Wait for the newest plan, then for its checks, which end within seconds. The form takes no keys meanwhile."""
        self._form.disabled = True
        self._checks.check_at_once()
        try:
            while (worker := self._under_way()) is not None:
                with suppress(WorkerCancelled):  # a field was edited: there is a newer one
                    await worker.wait()
        finally:
            self._checks.check_after_pauses()
            self._form.disabled = False
            self._form.take_focus()

    def _under_way(self) -> Worker[None] | None:
        """Return the worker that computes a plan, else the one that makes its checks, if it is not finished."""
        workers = (self._planning, self._checking)
        return next((worker for worker in workers if worker is not None and not worker.is_finished), None)

    async def _confirm(self, bound: Bound, found: Sequence[DoctorLine]) -> bool:
        """Ask whether to launch: the names of the checks that refuse it, the cluster's where it costs, else a yes."""
        from actions.run.doctor.cluster import is_alone

        services, refusing = self._services, [line.check for line in found if line.blocks]
        is_simulated = services.settings.demo is not None or (self._plan is not None and self._plan.is_cost_simulated)
        title = launch_title(self._blueprint, self._plan, is_simulated=is_simulated, is_refused=bool(refusing))
        lines = place_lines(
            self._blueprint,
            bound,
            account=services.credentials.account or header_facts(services).account,  # Terraform's are the credentials
            context=services.cluster.context_name,
            region=services.cluster.place.region if self._existing else "",
            auto_approve=self._auto_approve,
            width=BODY_COLUMNS,
        )
        if refusing:
            lines = refusal_lines(found, BODY_COLUMNS, worded=self._worded) + lines
            word, word_is = ", ".join(refusing), "the names of the failed checks"
            if len(refusing) == 1:
                word_is = "the name of the failed check"
        else:
            lines = warning_lines(found, BODY_COLUMNS) + lines
            lines += cost_lines(self._plan, BODY_COLUMNS) if self._plan else []
            no_limits = () if self._limits.names_any else ("No limits.",)
            lost = loss_without_store(existing_cluster=self._existing, is_alone=is_alone(found))
            loss = () if self._store_url or is_simulated else (lost,)
            lines += note_lines((*no_limits, *self._usual_notes, *loss), BODY_COLUMNS)
            lines += chosen_lines(
                self._blueprint, self._values, preset=self._preset, is_existing=self._existing, width=BODY_COLUMNS
            )
            made = bound.text("cluster_name", self._blueprint.cluster.name)
            word, word_is = services.cluster.place.cluster if self._existing else made, "the cluster's name"
        if is_simulated and not refusing:
            return await self.app.push_screen_wait(ConfirmModal(Confirmation(title, lines)))
        return await self.app.push_screen_wait(TypeNameModal(Confirmation(title, lines, word=word, word_is=word_is)))

    @work(exclusive=True, group="plan")
    async def _plan_anew(self) -> None:
        """Check the values together and compute the plan, in a thread."""
        try:
            bound, plan, self._usual_notes = await self._thread.call(
                self._compute, dict(self._values), self._limits, self._store_url
            )
        except ConsoleError as error:
            self._bound = None
            self._say(*error.sentences())
        else:
            self._bound, self._plan, self._problem = bound, plan, ()
            self._refusal, self._notes = "", self._usual_notes
            self._show_plan()
            self._look_for_capacity(bound)
            self._checking = self._check(bound)

    @work(exclusive=True, group="checks")
    async def _check(self, bound: Bound) -> None:
        """Make the doctor's checks; the lines are shown as they come."""
        await self._checks.run(self._blueprint, bound, store=self._store_url, has_budget=bool(self._limits.budget))
        self._show_plan()

    @work(exclusive=True, group="capacity")
    async def _look_for_capacity(self, bound: Bound) -> None:
        """Ask AWS for the zone and the reservation, once the fields have been left alone for a while."""
        from actions.run.capacity_survey import capacity_request, has_credentials, survey_capacity

        request = capacity_request(self._blueprint, bound)
        if request is None or not has_credentials():
            return
        await self._services.clock.sleep(QUIET_SECONDS)
        try:
            found = await survey_capacity(request, now=self._services.clock.now())
        except ConsoleError as error:
            self._refusal = error.sentence()
        else:
            self._notes = (*self._usual_notes, found)
        self._show_plan()

    def on_resize(self) -> None:
        """Lay out header and plan for the new width."""
        self.refresh_data()
        self._show_plan()

    @on(events.DescendantFocus)
    def _show_plan(self) -> None:
        width, enters = self._plan_width, _FOLD if self._form.is_on_group else _LAUNCH
        self._hints.show([(*(_TO_CHANGE if self._problem or self._refusal else enters), *_HINT)])
        if self._problem or self._refusal:
            self._lines.show(problem_lines(" ".join(self._problem) or self._refusal, width))
        elif self._plan is not None:
            found, waiting = self._checks.lines, len(self._checks.waiting)
            plan = plan_lines(self._plan, width, self._checks.cost_text) + note_lines(self._notes, width)
            checks = check_lines(found, waiting, width, worded=self._worded)
            self._lines.show(plan[:1] + checks + plan[1:] + unknown_lines(found, width))  # the sums stay the first line

    def _say(self, *problem: str) -> None:
        self._problem = problem
        self._show_plan()

    @property
    def _plan_width(self) -> int:
        return self.size.width - _PLAN_FRAME

    def _compute(
        self, values: Mapping[str, Scalar], texts: LimitTexts, store: str
    ) -> tuple[Bound, LaunchPlan, tuple[str, ...]]:
        prices, instances = self._tables
        bound = bind(self._blueprint, values, preset=self._preset, existing_cluster=self._existing, instances=instances)
        now = self._services.clock.now()
        region = self._services.cluster.place.region if self._existing else ""  # of the cluster that is there
        require_together(self._blueprint, bound, now.date())
        plan = plan_of(self._blueprint, bound, prices, instances=instances, day=now.date(), region=region)
        limits = limits_of(texts, now=now)
        if texts.at_limit != (self._usual_limits.at_limit or "park"):
            require_limit(texts, limits)
        require_possible(limits, plan)
        if store:
            parse_store(store)
        place = namespace_note(self._blueprint, bound, self._services.cluster.target)
        notes = launch_notes(limits, plan, self._blueprint.under(bound.preset), now=now)
        return bound, plan, (*filter(None, [place]), *notes, *choice_notes(self._blueprint, bound, now.date()))

    def _fields(self) -> dict[str, Parameter]:
        place = self._services.cluster.place
        fields = fields_of(
            self._blueprint,
            preset=self._preset,
            usual_preset=self._usual_preset,
            store=self._services.settings.store,
            there=", ".join(filter(None, (place.cluster, place.region))),
        )
        return {**fields, **limit_fields(self._usual_limits)}

    def _entries(self) -> dict[str, Scalar]:
        """Return what the form begins with: the preset, and the parameters that differ from it."""
        return {
            PRESET: self._preset or NO_PRESET,
            EXISTING: self._existing,
            STORE: self._store_url,
            APPROVAL: self._auto_approve,
            **self._values,
            **limit_entries(self._limits),
        }
