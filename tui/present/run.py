"""A run in words: its heading, stages, and pending approvals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from actions.base.clock import time_of_day
from actions.base.wording import counted, duration, duration_range, folded
from actions.fleet.cost import FleetCost, HourlyCost
from actions.run.checks.observation import said_once
from actions.run.paid import kept_sentence, kept_text, paid_by, state_words, unfinished_teardown
from actions.run.spending import spending_of
from actions.run.state.records import CheckResult, PlanOffer, StageFinding
from actions.run.state.view import (
    ENDED,
    OVER,
    Notice,
    NoticeKind,
    RunState,
    RunView,
    StageState,
    StageView,
    has_given_up,
    is_watched_only,
    notice_line,
)
from tui.present.cells import Cells, Span, Tone, width_of
from tui.present.limits import limit_lines
from tui.present.rail import GLYPHS, LOOKS, NO_PROGRESS, StageLook, warning_of
from tui.present.text import clock_text

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
_CHECK_SIGNS = {
    CheckResult.PASSED: ("✓", Tone.GOOD),
    CheckResult.FAILED: ("✗", Tone.BAD),
    CheckResult.UNKNOWN: ("?", Tone.WARN),
}
_DOT = Span(" · ", Tone.MUTED)
_PLAN_LINES = 12
_STALLED = "unknown, was running when its runner stalled"


def stage_state_text(state: StageState) -> str:
    """Return a stage's state in words."""
    return state.value.replace("_", " ")


def _doubt(view: RunView) -> Span | None:
    """Return the audit's objection to the run's state, if any."""
    audit = view.audit
    if audit is None or audit.is_clean:
        return None
    if audit.leftovers:
        return Span(f"{counted(len(audit.leftovers), 'object')} left", Tone.BAD)
    return Span("leftovers unknown", Tone.WARN)


RUNNER_STARTS = Span("its runner starts", Tone.MUTED)


def without_runner(resume_key: str, *, has_died: bool) -> Span:
    """Return the part of a heading on a run without a runner.

    Args:
        resume_key: Key that starts a runner; empty where that cannot be done.
        has_died: A runner ended in the middle of its work; else none has begun.
    """
    text = "▲ its runner has died" if has_died else "▲ it has no runner"
    return Span(text + (f"; press {resume_key} to resume" if resume_key else ""), Tone.BAD)


def run_heading(
    view: RunView,
    *,
    now: float,
    width: int = 160,
    runner: Span | None = None,
    hourly: HourlyCost | None = None,
    left: Mapping[str, float] = NO_PROGRESS,
) -> list[Cells]:
    """Return two lines, and below them the problems of its runner and journal.

    The lines are the run's identity and its state; on a narrow screen the last parts are left out, never cut.

    Args:
        view: The run.
        now: Seconds since the epoch.
        width: Terminal columns.
        runner: What is to be said of its runner, if anything.
        hourly: What it pays for by the hour; `None` for nothing.
        left: Seconds that stages still take by their own progress, which counts before what is expected.
    """
    chosen: list[Span | None] = [
        Span(view.title, Tone.STRONG),
        Span(f"preset {view.preset}") if view.preset else None,
        Span(f"cluster {view.cluster.name}"),
        Span(view.cluster.region or "no region"),
    ]
    state: list[Span | None] = [
        Span(state_words(view.state, paid_by(view)), RUN_TONES[view.state]),
        _doubt(view),
        Span("paused", Tone.WARN) if view.is_paused else None,
        runner,
        _warnings(view),
        _undone(view) or _stages_done(view),
        _remaining(view, now, left),
        money := _money(view, now),
        Span(f"costs {hourly.text}", Tone.WARN) if hourly is not None and view.state in OVER else None,
        Span(f"started {clock_text(view.created_at, now=now)} UTC"),
    ]
    limits, doubts = limit_lines(view, now=now, width=width)
    told = _noticed(view, width)
    below = [*told, *limits] if is_watched_only(view.notices) else [*limits, *told]  # who carries it out is cut last
    line = _joined(state, width)
    if money is not None and money not in line:
        short = Span(money.text.replace("at least ", "≥ ").removesuffix(" (simulated)"))  # the header says the latter
        line = _joined([short if part is money else part for part in state], width)
    return [_joined(chosen, width), line, *below, *doubts]


def _stages_done(view: RunView) -> Span:
    """Return how many stages are done; that is unknown where its journal is not read."""
    if not all(stage.kind for stage in view.stages) or not view.stages:
        return Span("its stages are not read here", Tone.MUTED)
    wanted = [stage for stage in view.stages if stage.state is not StageState.SKIPPED]
    return Span(f"{sum(stage.state is StageState.SUCCEEDED for stage in wanted)} of {len(wanted)} stages done")


def store_words(view: RunView) -> str:
    """Return where a run is kept beside this machine, and since when that is away: `store s3://…`; else empty."""
    trouble = next((one for one in view.notices if one.kind in (NoticeKind.STORE_AWAY, NoticeKind.STORE_REFUSED)), None)
    if trouble is None or not view.store:
        return f"store {view.store}" if view.store else ""
    since = f" since {time_of_day(trouble.since)[:5]}" if trouble.since is not None else ""
    return f"store {view.store} {'away' if trouble.kind is NoticeKind.STORE_AWAY else 'refuses'}{since}"


def _noticed(view: RunView, width: int) -> list[Cells]:
    notices = [one for one in view.notices if one.kind is not NoticeKind.NO_RUNNER or has_given_up(one)]
    return [(Span(line, tone),) for one in notices for line, tone in _notice_lines(one, max(20, width))]


def _notice_lines(notice: Notice, width: int) -> list[tuple[str, Tone]]:
    if notice.kind is NoticeKind.ELSEWHERE:
        return [(line, Tone.ACCENT) for line in folded(notice.text, width)]
    return [(line, Tone.BAD) for line in folded(f"▲ {notice_line(notice)}", width, further="  ")]


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
    wanted = [step for step in view.teardown if step.state is not StageState.SKIPPED]
    done = sum(step.state is StageState.SUCCEEDED for step in wanted)
    return Span(f"{done} of {len(wanted)} teardown steps done")


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


def _remaining(view: RunView, now: float, left: Mapping[str, float]) -> Span | None:
    """The remaining time: of a job by its own progress, of the other stages if they take as long as expected."""
    if view.state not in (RunState.RUNNING, RunState.WAITING, RunState.AWAITING_APPROVAL):
        return None
    if trouble_in(view.notices) and not left:
        return None  # pods that crash, of a job without progress, come to no end
    low = high = 0.0
    for stage in view.stages:
        spent = now - stage.started_at if stage.state is StageState.RUNNING and stage.started_at else 0.0
        if stage.id in left:
            low, high = low + left[stage.id], high + left[stage.id]
        elif stage.state in (StageState.PENDING, StageState.RUNNING, StageState.AWAITING_APPROVAL):
            low += max(0.0, stage.expect_low_seconds - spent)
            high += max(0.0, stage.expect_high_seconds - spent)
    if high <= 0:
        return None
    return Span(f"about {duration(low) if low == high else duration_range(low, high)} left", Tone.MUTED)


def stage_detail(
    stage: StageView,
    *,
    now: float,
    width: int = 80,
    approve_key: str = "a",
    no_changes: str = "",
    is_stalled: bool = False,
    spent: str = "",
    left_seconds: float | None = None,
    title: str = "",
) -> list[Cells]:
    """Return the details of a stage: title, duration, cost so far, message, plan, findings, outputs.

    Args:
        stage: The stage, or a step of a teardown.
        now: Seconds since the epoch.
        width: Terminal columns; longer lines are wrapped, or parts left out.
        approve_key: Key that approves a waiting plan.
        no_changes: The reason why a plan cannot be approved here, as a sentence; empty where it can.
        is_stalled: The run's runner does not respond: the state of a stage at work is what was last heard of it.
        spent: The money that it has cost so far; empty if that is unknown.
        left_seconds: The time that it still takes by its own progress; `None` without any.
        title: Another one than the stage's own.
    """
    is_unknown = is_stalled and stage.state is StageState.RUNNING
    glyph = GLYPHS[StageLook.UNKNOWN if is_unknown else LOOKS[stage.state]]
    width = max(20, width)
    begin = (Span(f"{glyph.sign} ", glyph.tone), Span(title or stage.title, Tone.STRONG))
    state = Span(_STALLED if is_unknown else _state_words(stage, now), glyph.tone)
    cost = [Span(spent)] if spent else []
    approved = [Span(f"approved by {stage.approved_by}", Tone.MUTED)] if stage.approved_by else []
    kind = [] if stage.kind == stage.title.lower() else [Span(stage.kind, Tone.MUTED)]
    parts = [state, *_spent(stage, now, left_seconds), *cost, *kind, *approved]
    lines: list[Cells] = [_joined(parts, width, begin=begin)]
    offer = stage.plan if stage.state is StageState.AWAITING_APPROVAL else None
    if stage.trouble:  # pods that are ready between two crashes are no comfort: their number comes after it, dim
        lines += [(Span(line, Tone.BAD),) for line in folded(f"▲ {stage.trouble}", width, further="  ")]
    if stage.message and offer is None:
        tone = Tone.BAD if stage.state is StageState.FAILED else Tone.MUTED if stage.trouble else Tone.PLAIN
        lines += [(Span(line, tone),) for line in folded(stage.message, width)]
    if stage.needs and stage.state is StageState.PENDING:
        lines.append((Span(f"Starts after {', '.join(stage.needs)}.", Tone.MUTED),))
    if offer is not None:
        asks = "Approved; waiting for the runner." if stage.is_approval_wished else f"Press {approve_key} to approve."
        lines += _offer(offer, width, no_changes or asks)
    lines += _findings(stage.findings, width)
    lines += [(Span(f"{name} ", Tone.MUTED), Span(value)) for name, value in (stage.outputs or {}).items()]
    return lines


def _state_words(stage: StageView, now: float) -> str:
    """Return the state; of a plan that waits also for how long, as the time of its stage stands still meanwhile."""
    words = stage_state_text(stage.state)
    if stage.state is StageState.AWAITING_APPROVAL and stage.ended_at is not None:
        return f"{words} for {duration(max(0.0, now - stage.ended_at))}"
    return words


def _spent(stage: StageView, now: float, left_seconds: float | None) -> list[Span]:
    expected = ""
    if left_seconds is not None:
        expected = f"{duration(left_seconds)} to go by its own progress"
    elif stage.expect_high_seconds > 0:
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


def _offer(plan: PlanOffer, width: int, asks: str) -> list[Cells]:
    counts = f"Plan: {plan.add} to add, {plan.change} to change, {plan.destroy} to destroy."
    summary, prompt = Span(counts, Tone.WARN if plan.destroy else Tone.STRONG), Span(asks, Tone.ACCENT)
    whole = (summary, Span(" "), prompt)
    apart = [(replace(one, text=line),) for one in (summary, prompt) for line in folded(one.text, width)]
    lines: list[Cells] = [whole] if width_of(whole) <= width else [*apart]
    lines += [(Span(f"  {line}"),) for line in plan.lines[:_PLAN_LINES]]
    if len(plan.lines) > _PLAN_LINES:
        lines.append((Span(f"  … {len(plan.lines) - _PLAN_LINES} more", Tone.MUTED),))
    return lines


def _findings(findings: Iterable[StageFinding], width: int) -> list[Cells]:
    lines: list[Cells] = []
    for finding in said_once(findings, lambda finding: finding.subject):
        sign, tone = _CHECK_SIGNS[finding.result]
        first, *rest = folded(f"{finding.subject} {finding.detail}", width - 2) or [""]
        subject = first[: len(finding.subject)]
        lines.append((Span(f"{sign} ", tone), Span(subject, Tone.STRONG), Span(first[len(subject) :])))
        lines += [(Span(f"  {line}"),) for line in rest]
        if finding.fix:
            fix = folded(f"→ {finding.fix}", width - 2, further="  ")
            lines += [(Span(f"  {line}", Tone.ACCENT),) for line in fix]
    return lines


def idle_lines(
    view: RunView, nodes: FleetCost | None, *, park_key: str, teardown_key: str, no_changes: str = "", width: int = 80
) -> list[Cells]:
    """Return what of the run still costs money after it has ended, and the keys that end it.

    Accelerators that the run still holds count, even if a pod that is idle by now has requested them.

    Args:
        view: The run.
        nodes: The nodes that the run has made, as they are seen; `None` if none are.
        park_key: Key that parks the run.
        teardown_key: Key that tears it down.
        no_changes: The reason why neither can be done here, as a sentence; empty where they can.
        width: Terminal columns.
    """
    if view.state not in ENDED:
        return []
    held = ", ".join(stage.title for stage in holders_of(view))
    idle = nodes.idle_text if nodes is not None and nodes.idle_accelerators else ""
    warnings = [f"It still holds accelerators: {held}."] * bool(held) + [f"{idle}."] * bool(idle)
    if not warnings:
        return []
    keys = f"Press {park_key} to park the run (frees them, keeps the data), {teardown_key} to tear it down."
    way_out = no_changes or keys
    room = max(20, width - 2)
    warned = [(Span(line, Tone.WARN),) for line in folded(f"▲ {' '.join(warnings)}", room, further="  ")]
    return [*warned, *((Span(f"  {line}"),) for line in folded(way_out, room))]


def holders_of(view: RunView) -> list[StageView]:
    """Return the stages that hold accelerators, which parking undoes."""
    return [stage for stage in view.stages if stage.holds_accelerators and stage.state is StageState.SUCCEEDED]


def ending_lines(view: RunView, *, width: int = 80, worded: Callable[[str], str] = str) -> list[Cells]:
    """Return the end of a teardown: what stopped it, or the result of its audit with what is kept on purpose.

    Args:
        view: The run.
        width: Terminal columns.
        worded: Gives remedies the words of the console.
    """
    audit = view.audit
    if audit is None:
        room = max(20, width)
        stopped = [line for text in unfinished_teardown(view) for line in folded(worded(text), room)]
        return [(Span(line, Tone.BAD),) for line in stopped]
    lines: list[Cells] = []
    if audit.is_clean:
        text, tone = f"✓ {kept_sentence(view)}", Tone.WARN if kept_text(view) else Tone.GOOD
        lines += [(Span(line, tone),) for line in folded(text, max(20, width), further="  ")]
    if audit.leftovers:
        lines.append((Span(f"✗ The audit found {counted(len(audit.leftovers), 'object')} left.", Tone.BAD),))
        lines += _listed(audit.leftovers, Tone.BAD, width)
    if audit.unknown:
        lines.append((Span("▲ The audit could not check everything: more may be left.", Tone.WARN),))
        lines += _listed(audit.unknown, Tone.WARN, width)
    return lines + _listed([f"kept: {name}" for name in audit.retained], Tone.MUTED, width)


def _listed(texts: Iterable[str], tone: Tone, width: int) -> list[Cells]:
    """Fold texts below a heading."""
    room = max(20, width - 2)
    lines: list[Cells] = []
    for text in texts:
        lines += [(Span(f"  {line}", tone),) for line in folded(text, room, further=" ")]
    return lines


def trouble_in(notices: Iterable[Notice]) -> str:
    """Return which stage's pods crash, restart or were killed: `Pre-training: worker-7 restarted 7×, …`; or nothing."""
    return next((notice.text for notice in notices if notice.kind is NoticeKind.PODS), "")
