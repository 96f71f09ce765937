"""A run in words: its row, heading, stages, and pending approvals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from actions.fleet.cost import FleetCost
from actions.run.spending import spending_of, unfinished_teardown
from actions.run.state.records import Action, CheckResult, PlanOffer, StageFinding
from actions.run.state.view import NoticeKind, RunState, RunView, StageState, StageView, has_given_up, notice_line
from tui.present.cells import Cells, CellValue, Span, Tone, width_of
from tui.present.text import age, duration, duration_range, moment_of

if TYPE_CHECKING:
    from actions.run.journal.reader import RunSummary  # the first frame needs no journal


class StageLook(StrEnum):
    """The state of a stage as the rail shows it."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    """For approval by the operator."""
    UNKNOWN = "unknown"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNDOING = "undoing"
    UNDONE = "undone"


class Glyph(msgspec.Struct, frozen=True):
    """A character with its tone."""

    sign: str
    tone: Tone


GLYPHS: dict[StageLook, Glyph] = {
    StageLook.PENDING: Glyph("○", Tone.MUTED),
    StageLook.RUNNING: Glyph("▶", Tone.BUSY),
    StageLook.WAITING: Glyph("◆", Tone.WARN),
    StageLook.UNKNOWN: Glyph("?", Tone.WARN),
    StageLook.DONE: Glyph("✔", Tone.GOOD),
    StageLook.FAILED: Glyph("✘", Tone.BAD),
    StageLook.SKIPPED: Glyph("–", Tone.MUTED),
    StageLook.CANCELLED: Glyph("■", Tone.MUTED),
    StageLook.UNDOING: Glyph("◀", Tone.BUSY),
    StageLook.UNDONE: Glyph("◌", Tone.MUTED),
}


class StageLine(msgspec.Struct, frozen=True):
    """A stage of a rail.

    Args:
        key: The stage's id.
        title: Name for people.
        look: State.
        elapsed_seconds: Time since its start, or its whole duration; `None` before it starts.
        expected_seconds: Low and high end of the expected duration; `None` if unknown.
        note: The most important detail: a reason, a count.
        is_warning: The note is a warning, independent of the state.
    """

    key: str
    title: str
    look: StageLook
    elapsed_seconds: float | None = None
    expected_seconds: tuple[float, float] | None = None
    note: str = ""
    is_warning: bool = False

    @property
    def share(self) -> float | None:
        """Elapsed time over the high end of the expectation; above 1 when overdue; `None` if unknown."""
        if self.elapsed_seconds is None or not self.expected_seconds or self.expected_seconds[1] <= 0:
            return None
        return self.elapsed_seconds / self.expected_seconds[1]


RUN_TONES = {
    RunState.WAITING: Tone.WARN,
    RunState.RUNNING: Tone.BUSY,
    RunState.AWAITING_APPROVAL: Tone.WARN,
    RunState.UNKNOWN: Tone.WARN,
    RunState.STALLED: Tone.BAD,
    RunState.SUCCEEDED: Tone.GOOD,
    RunState.FAILED: Tone.BAD,
    RunState.CANCELLED: Tone.WARN,
    RunState.PARKED: Tone.ACCENT,
    RunState.TEARING_DOWN: Tone.BUSY,
    RunState.TORN_DOWN: Tone.MUTED,
}
_LOOKS = {
    StageState.PENDING: StageLook.PENDING,
    StageState.RUNNING: StageLook.RUNNING,
    StageState.AWAITING_APPROVAL: StageLook.WAITING,
    StageState.UNKNOWN: StageLook.UNKNOWN,
    StageState.SUCCEEDED: StageLook.DONE,
    StageState.FAILED: StageLook.FAILED,
    StageState.SKIPPED: StageLook.SKIPPED,
    StageState.CANCELLED: StageLook.CANCELLED,
    StageState.UNDONE: StageLook.UNDONE,
}
_CHECK_SIGNS = {
    CheckResult.PASSED: ("✓", Tone.GOOD),
    CheckResult.FAILED: ("✗", Tone.BAD),
    CheckResult.UNKNOWN: ("?", Tone.WARN),
}
_DOT = Span(" · ", Tone.MUTED)
_PLAN_LINES = 12
_STALLED = "unknown, was running when its runner stalled"


def state_cell(state: RunState) -> Cells:
    """The run's state with its tone."""
    return (Span(state.value, RUN_TONES[state]),)


def stage_state_text(state: StageState) -> str:
    """Return a stage's state in words."""
    return state.value.replace("_", " ")


TEARDOWN_PREFIX = "teardown:"
"""Prefix of the ids of teardown steps, where stages and steps share a rail."""


def rail_of(view: RunView, *, now: float, approve_key: str = "a") -> list[StageLine]:
    """Return the stages, and after them the steps of a teardown.

    Args:
        view: The run.
        now: Seconds since the epoch.
        approve_key: Key that approves a waiting plan.
    """
    asks = f"press {approve_key} to approve"
    looks = {**_LOOKS, StageState.RUNNING: StageLook.UNKNOWN} if view.state is RunState.STALLED else _LOOKS
    stages = [_line(stage, stage.id, looks[stage.state], now, asks=asks) for stage in view.stages]
    for step in view.teardown:
        look = looks[step.state]
        look = StageLook.UNDOING if look is StageLook.RUNNING else look
        stages.append(_line(step, f"{TEARDOWN_PREFIX}{step.id}", look, now))
    return stages


def _doubt(view: RunView) -> Span | None:
    """Return the audit's objection to the run's state, if any."""
    audit = view.audit
    if audit is None or audit.is_clean:
        return None
    if audit.leftovers:
        return Span(f"{len(audit.leftovers)} objects left", Tone.BAD)
    return Span("leftovers unknown", Tone.WARN)


def _line(stage: StageView, key: str, look: StageLook, now: float, *, asks: str = "") -> StageLine:
    elapsed = None if stage.started_at is None else max(0.0, (stage.ended_at or now) - stage.started_at)
    expects = (stage.expect_low_seconds, stage.expect_high_seconds) if stage.expect_high_seconds > 0 else None
    has_message = stage.state in (StageState.RUNNING, StageState.FAILED)
    warning = warning_of(stage)
    note = asks if look is StageLook.WAITING else stage.message if has_message else warning
    is_undo = key.startswith(TEARDOWN_PREFIX) and stage.kind not in (Action.DRAIN, Action.AUDIT)
    title = f"undo {stage.title}" if is_undo else stage.title
    return StageLine(key, title, look, elapsed, expects, note, is_warning=bool(warning))


def warning_of(stage: StageView) -> str:
    """Return the first failed check of a stage that succeeded; empty if there is none."""
    if stage.state is not StageState.SUCCEEDED:
        return ""
    wrong = next((found for found in stage.findings if found.result is CheckResult.FAILED), None)
    return "" if wrong is None else f"▲ {wrong.subject} {wrong.detail}"


def stage_of(view: RunView, key: str) -> StageView | None:
    """Return the stage or step of a rail's row."""
    if key.startswith(TEARDOWN_PREFIX):
        step_id = key.removeprefix(TEARDOWN_PREFIX)
        return next((step for step in view.teardown if step.id == step_id), None)
    return next((stage for stage in view.stages if stage.id == key), None)


def run_heading(view: RunView, *, now: float, width: int = 160, resume_key: str = "") -> list[Cells]:
    """Return two lines, and below them the problems of its runner and journal.

    The lines are the run's identity and its state; on a narrow screen the last parts are left out, never cut.

    Args:
        view: The run.
        now: Seconds since the epoch.
        width: Terminal columns.
        resume_key: Key that restarts its runner, if that has died; else empty.
    """
    chosen: list[Span | None] = [
        Span(view.title, Tone.STRONG),
        Span(f"preset {view.preset}") if view.preset else None,
        Span(f"cluster {view.cluster.name}"),
        Span(view.cluster.region or "no region"),
    ]
    wanted = [stage for stage in view.stages if stage.state is not StageState.SKIPPED]
    done = sum(stage.state is StageState.SUCCEEDED for stage in wanted)
    state: list[Span | None] = [
        Span(view.state.value, RUN_TONES[view.state]),
        _doubt(view),
        Span("paused", Tone.WARN) if view.is_paused else None,
        Span(f"▲ its runner has died; press {resume_key} to resume", Tone.BAD) if resume_key else None,
        _warnings(view),
        _undone(view) or Span(f"{done} of {len(wanted)} stages done"),
        _remaining(view, now),
        _money(view, now),
        Span(f"started {moment_of(view.created_at, now=now)} UTC"),
    ]
    return [_joined(chosen, width), _joined(state, width), *_noticed(view, width)]


def _noticed(view: RunView, width: int) -> list[Cells]:
    notices = [one for one in view.notices if one.kind is not NoticeKind.NO_RUNNER or has_given_up(one)]
    texts = (textwrap.wrap(f"▲ {notice_line(one)}", max(20, width), subsequent_indent="  ") for one in notices)
    return [(Span(line, Tone.BAD),) for lines in texts for line in lines]


def _money(view: RunView, now: float) -> Span | None:
    spending = spending_of(view, now)
    return None if spending is None else Span(spending.short_text)


def spent_in(view: RunView, key: str, now: float) -> str:
    """Return the money that a stage of a rail has cost so far: `$12.34 spent`; empty if there is none, or no price.

    Args:
        view: The run.
        key: Of the rail's row; steps of a teardown have no cost of their own.
        now: Seconds since the epoch.
    """
    spending = spending_of(view, now)
    usd = spending.by_stage.get(key) if spending else None
    return spending.stage_text(usd) if spending and usd else ""


def _undone(view: RunView) -> Span | None:
    """The progress of a teardown."""
    if view.state not in (RunState.TEARING_DOWN, RunState.TORN_DOWN) or not view.teardown:
        return None
    done = sum(step.state is StageState.SUCCEEDED for step in view.teardown)
    return Span(f"{done} of {len(view.teardown)} teardown steps done")


def _warnings(view: RunView) -> Span | None:
    count = sum(bool(warning_of(stage)) for stage in view.stages)
    return Span(f"▲ {count} warning{'s' * (count > 1)}", Tone.WARN) if count else None


def _joined(parts: Iterable[Span | None], width: int, *, begin: Cells = ()) -> Cells:
    """Join parts with dots after `begin`, as many as fit; the first one always."""
    line = begin
    for part in parts:
        if part is not None:
            longer = (*line, _DOT, part) if line else (part,)
            if line and width_of(longer) > width:
                break
            line = longer
    return line


def _remaining(view: RunView, now: float) -> Span | None:
    """The remaining time, if the stages take as long as expected."""
    if view.state not in (RunState.RUNNING, RunState.WAITING, RunState.AWAITING_APPROVAL):
        return None
    low = high = 0.0
    for stage in view.stages:
        spent = now - stage.started_at if stage.state is StageState.RUNNING and stage.started_at else 0.0
        if stage.state in (StageState.PENDING, StageState.RUNNING, StageState.AWAITING_APPROVAL):
            low += max(0.0, stage.expect_low_seconds - spent)
            high += max(0.0, stage.expect_high_seconds - spent)
    return Span(f"about {duration_range(low, high)} left", Tone.MUTED) if high > 0 else None


def stage_detail(
    stage: StageView,
    *,
    now: float,
    width: int = 80,
    approve_key: str = "a",
    is_stalled: bool = False,
    spent: str = "",
) -> list[Cells]:
    """Return the details of a stage: title, duration, cost so far, message, plan, findings, outputs.

    Args:
        stage: The stage, or a step of a teardown.
        now: Seconds since the epoch.
        width: Terminal columns; longer lines are wrapped, or parts left out.
        approve_key: Key that approves a waiting plan.
        is_stalled: The run's runner does not respond: the state of a stage at work is what was last heard of it.
        spent: The money that it has cost so far; empty if that is unknown.
    """
    is_unknown = is_stalled and stage.state is StageState.RUNNING
    glyph = GLYPHS[StageLook.UNKNOWN if is_unknown else _LOOKS[stage.state]]
    width = max(20, width)
    title = (Span(f"{glyph.sign} ", glyph.tone), Span(stage.title, Tone.STRONG))
    state = Span(_STALLED if is_unknown else stage_state_text(stage.state), glyph.tone)
    cost = [Span(spent)] if spent else []
    parts = [state, *_spent(stage, now), *cost, Span(stage.kind, Tone.MUTED)]
    lines: list[Cells] = [_joined(parts, width, begin=title)]
    offer = stage.plan if stage.state is StageState.AWAITING_APPROVAL else None
    if stage.message and offer is None:
        tone = Tone.BAD if stage.state is StageState.FAILED else Tone.PLAIN
        lines += [(Span(line, tone),) for line in textwrap.wrap(stage.message, width)]
    if stage.needs and stage.state is StageState.PENDING:
        lines.append((Span(f"Starts after {', '.join(stage.needs)}.", Tone.MUTED),))
    if offer is not None:
        lines += _offer(offer, width, is_wished=stage.is_approval_wished, approve_key=approve_key)
    lines += _findings(stage.findings, width)
    lines += [(Span(f"{name} ", Tone.MUTED), Span(value)) for name, value in (stage.outputs or {}).items()]
    return lines


def _spent(stage: StageView, now: float) -> list[Span]:
    expected = ""
    if stage.expect_high_seconds > 0:
        expected = f"expected {duration_range(stage.expect_low_seconds, stage.expect_high_seconds)}"
    spans = []
    if stage.started_at is not None:
        spent = duration((stage.ended_at or now) - stage.started_at)
        spans.append(Span(spent))
    if expected:
        spans.append(Span(expected, Tone.MUTED))
    if stage.attempt > 1:
        spans.append(Span(f"attempt {stage.attempt}", Tone.WARN))
    return spans


def _offer(plan: PlanOffer, width: int, *, is_wished: bool, approve_key: str) -> list[Cells]:
    counts = f"Plan: {plan.add} to add, {plan.change} to change, {plan.destroy} to destroy."
    asks = "Approved; waiting for the runner." if is_wished else f"Press {approve_key} to approve."
    summary, prompt = Span(counts, Tone.WARN if plan.destroy else Tone.STRONG), Span(asks, Tone.ACCENT)
    whole = (summary, Span(" "), prompt)
    lines: list[Cells] = [whole] if width_of(whole) <= width else [(summary,), (prompt,)]
    lines += [(Span(f"  {line}"),) for line in plan.lines[:_PLAN_LINES]]
    if len(plan.lines) > _PLAN_LINES:
        lines.append((Span(f"  … {len(plan.lines) - _PLAN_LINES} more", Tone.MUTED),))
    return lines


def _findings(findings: Iterable[StageFinding], width: int) -> list[Cells]:
    lines: list[Cells] = []
    for finding in findings:
        sign, tone = _CHECK_SIGNS[finding.result]
        first, *rest = textwrap.wrap(f"{finding.subject} {finding.detail}", width - 2) or [""]
        subject = first[: len(finding.subject)]
        lines.append((Span(f"{sign} ", tone), Span(subject, Tone.STRONG), Span(first[len(subject) :])))
        lines += [(Span(f"  {line}"),) for line in rest]
        if finding.fix:
            fix = textwrap.wrap(f"→ {finding.fix}", width - 2, subsequent_indent="  ")
            lines += [(Span(f"  {line}", Tone.ACCENT),) for line in fix]
    return lines


def idle_lines(
    view: RunView, cost: FleetCost | None, *, park_key: str, teardown_key: str, width: int = 80
) -> list[Cells]:
    """Return what still costs money after the run has ended, and the keys that end it.

    Accelerators that the run still holds count, even if a pod that is idle by now has requested them.
    """
    if view.state not in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED):
        return []
    held = ", ".join(stage.title for stage in holders_of(view))
    idle = cost.idle_text if cost is not None and cost.idle_accelerators else ""
    warnings = [f"It still holds accelerators: {held}."] * bool(held) + [f"{idle}."] * bool(idle)
    if not warnings:
        return []
    way_out = f"Press {park_key} to park the run (frees them, keeps the data), {teardown_key} to tear it down."
    room = max(20, width - 2)
    warned = [
        (Span(line, Tone.WARN),) for line in textwrap.wrap(f"▲ {' '.join(warnings)}", room, subsequent_indent="  ")
    ]
    return [*warned, *((Span(f"  {line}"),) for line in textwrap.wrap(way_out, room))]


def holders_of(view: RunView) -> list[StageView]:
    """Return the stages that hold accelerators, which parking undoes."""
    return [stage for stage in view.stages if stage.holds_accelerators and stage.state is StageState.SUCCEEDED]


def ending_lines(view: RunView, *, width: int = 80) -> list[Cells]:
    """Return the end of a teardown: what stopped it, or the result of its audit with what is kept on purpose."""
    audit = view.audit
    if audit is None:
        room = max(20, width)
        stopped = [line for text in unfinished_teardown(view) for line in textwrap.wrap(text, room)]
        return [(Span(line, Tone.BAD),) for line in stopped]
    lines: list[Cells] = []
    if audit.is_clean:
        lines.append((Span("✓ The audit found nothing left.", Tone.GOOD),))
    if audit.leftovers:
        lines.append((Span(f"✗ The audit found {len(audit.leftovers)} objects left.", Tone.BAD),))
        lines += [(Span(f"  {name}", Tone.BAD),) for name in audit.leftovers]
    if audit.unknown:
        lines.append((Span("▲ The audit could not check everything: more may be left.", Tone.WARN),))
        room = max(20, width - 2)
        sentences = [
            line for sentence in audit.unknown for line in textwrap.wrap(sentence, room, subsequent_indent="  ")
        ]
        lines += [(Span(f"  {line}", Tone.WARN),) for line in sentences]
    return lines + [(Span(f"  kept: {name}", Tone.MUTED),) for name in audit.retained]


def search_text(run: RunSummary) -> str:
    """Return the text that a filter on runs matches."""
    return " ".join((run.id, run.blueprint_id, run.title, run.cluster, run.state.value, run.stage, run.error))


def summary_state_cell(run: RunSummary) -> CellValue:
    """The run's state, or `unreadable`."""
    return Span("unreadable", Tone.BAD) if run.error else state_cell(run.state)


def stage_cell(run: RunSummary) -> CellValue:
    """The stage at work, the number of leftovers, or the reason why the run cannot be read."""
    if run.error:
        return Span(run.error, Tone.BAD)
    if run.leftovers:
        return Span(f"{run.leftovers} objects left", Tone.BAD)
    if run.unknown:
        return Span("leftovers unknown", Tone.WARN)
    return run.stage or Span("-", Tone.MUTED)


def age_text(run: RunSummary, now: float) -> str:
    """The run's age."""
    return age(now, run.created_at)
