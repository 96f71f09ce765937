"""Runs as text and JSON, for the command line. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from actions.base.clock import timestamp_of
from actions.base.decoding import json_document
from actions.base.wording import aligned_text, duration, duration_range, listed
from actions.fleet.quantity import bounded, decimal_text, format_hourly, format_usd
from actions.run.checks.observation import said_once
from actions.run.journal.reader import RunSummary, printable
from actions.run.journal.run_ids import short_ids
from actions.run.limits.options import limits_text, moment_text
from actions.run.limits.rules import LimitStatus, reach_of, statuses_of
from actions.run.paid import PaidThing, RunPaid, kept_sentence, paid_by, state_words, unfinished_teardown
from actions.run.spending import Spending, last_moment, spending_fields, spending_of
from actions.run.state.records import LimitAction, Limits, Operator
from actions.run.state.view import (
    Goal,
    Notice,
    NoticeKind,
    RunState,
    RunView,
    StageState,
    StageView,
    is_watched_only,
    notice_line,
)

_LIMITS = "LIMITS"
"""The column of limits, which is left out if no run has any."""
_COLUMNS = (
    "RUN",
    "STATE",
    "STAGE",
    "TOOK",
    "LOSS",
    "SPENT",
    "$/H",
    _LIMITS,
    "BLUEPRINT",
    "CLUSTER",
    "CREATED",
)
_PAID_SHOWN = 20


def runs_table(runs: Sequence[RunSummary], *, now: float | None = None, is_short: bool = False) -> str:
    """Return a table with a heading and one line for each run.

    Args:
        runs: Newest first.
        now: Seconds since the epoch, for the time that runs under way have taken; without it, that is left out.
        is_short: Shorten ids to unambiguous prefixes, for a terminal.
    """
    if not runs:
        return "There are no runs on this machine.\n"
    has_limits = any(run.limits for run in runs)
    ids = [run.id for run in runs]
    names = short_ids(ids) if is_short else dict(zip(ids, ids, strict=True))
    rows = [
        (
            names[run.id],
            "unreadable" if run.error else _state(run),
            run.stage,
            took_text(None if now is None and run.ended_at is None else run.took_seconds(now or 0.0)),
            loss_text(run.last_loss),
            spent_text(run),
            rate_text(run.paid),
            *([run.limits] if has_limits else []),
            run.blueprint_id,
            run.cluster,
            timestamp_of(run.created_at or None) or "",
        )
        for run in runs
    ]
    notes = [f"{names[run.id]}: {run.error}" for run in runs if run.error]
    notes += _noted([(names[run.id], run.notices) for run in runs])
    columns = _COLUMNS if has_limits else tuple(name for name in _COLUMNS if name != _LIMITS)
    return aligned_text([columns, *rows]) + "".join(f"{note}\n" for note in notes)


def _noted(runs: Iterable[tuple[str, Sequence[Notice]]]) -> list[str]:
    """Return a line for each notice; equal notices about the disk only once."""
    lines: dict[str, None] = {}
    for name, notices in runs:
        for notice in notices:
            is_of_disk = notice.kind in (NoticeKind.DISK_FULL, NoticeKind.READ_ONLY) and notice.since is None
            lines[notice.text if is_of_disk else f"{name}: {notice_line(notice)}"] = None
    return list(lines)


def runs_json(runs: Sequence[RunSummary]) -> str:
    """Return a list of objects; times are RFC 3339, `null` where unknown."""
    return json_document(
        [
            {
                "id": run.id,
                "folder": printable(run.folder),
                "state": run.state.value,
                "stage": run.stage,
                "blueprint": run.blueprint_id,
                "title": run.title,
                "cluster": run.cluster,
                "created_at": timestamp_of(run.created_at or None),
                "began_at": timestamp_of(run.began_at),
                "ended_at": timestamp_of(run.ended_at),
                "last_loss": run.last_loss if run.last_loss is not None and math.isfinite(run.last_loss) else None,
                "spent": spending_fields(run.spending),
                "paid": paid_fields(run.paid.things if run.paid is not None else ()),
                "limits": run.limits,
                "leftovers": run.leftovers,
                "unknown": run.unknown,
                "error": run.error,
                "notices": _notice_fields(run.notices),
            }
            for run in runs
        ]
    )


def loss_text(loss: float | None) -> str:
    """Return a loss in four digits, `nan` or `inf`; empty for `None`."""
    return "" if loss is None else f"{loss:.4g}"


def spent_text(run: RunSummary) -> str:
    """Return the cost so far: `$12.34`, `≥ $12.34` where something has no known price; empty without prices."""
    if run.spending is None:
        return ""
    return bounded(format_usd(run.spending.usd), is_lower_bound=run.spending.is_lower_bound)


def rate_text(paid: RunPaid | None) -> str:
    """Return what a run pays for by the hour: `≥ $1.17/h`; empty for nothing."""
    return paid.hourly.text if paid is not None and paid.things else ""


def paid_fields(things: Iterable[PaidThing]) -> list[dict[str, object]]:
    """Return what is paid for by the hour as JSON has it; `exists` is `null` for what may exist, and in no sum."""
    return [
        {
            "title": one.title,
            "stage": one.stage,
            "usd_per_hour": None if one.usd_per_hour is None else decimal_text(one.usd_per_hour),
            "exists": one.is_certain or None,
        }
        for one in things
    ]


def _store_of(view: RunView) -> str:
    """Return where other machines find a run."""
    has_cluster = any("cluster_uid" in values for values in view.outputs.values())  # of its kubeconfig stage
    if view.store:
        return view.store
    if any(notice.kind is NoticeKind.STORE_REFUSED for notice in view.notices):
        return "this machine alone: its cluster refuses it"
    if has_cluster:
        return "its cluster, where its user may write there"
    return "none yet: the run is on this machine alone until it has a cluster"


def run_table(view: RunView, *, now: float | None = None) -> str:
    """Return one run as text: identity, state, stages, teardown and audit.

    Args:
        view: The run.
        now: Seconds since the epoch, for the time that running stages have taken; without it, that is left out.
    """
    paid = paid_by(view)
    head = [
        ("Run", view.id),
        ("Blueprint", f"{view.blueprint_id}{f' ({view.preset})' if view.preset else ''}: {view.title}"),
        ("Cluster", f"{view.cluster.name} {view.cluster.region}"),
        *([("Account", view.account.id)] if view.account else []),
        *([("Owner", _owner(view))] if view.owner else []),
        ("Store", _store_of(view)),
        ("State", state_words(view.state, paid) + (", paused" if view.is_paused else "") + _doubt(view)),
    ]
    spending = spending_of(view, last_moment(view) if now is None else now)
    if spending is not None:
        head.append(("Spent", spending.text))
    if paid.things:
        head.append(("Pays for", listed(_things(paid), _PAID_SHOWN)))
    if view.limits != Limits():
        head.append(("Limits", limits_text(view.limits)))
    at = last_moment(view) if now is None else now
    parts = [aligned_text(head), *_limited(view, at), *_noticed(view), _stages("STAGE", view.stages, now, spending)]
    parts += [_spent_otherwise(spending)] if spending is not None else []
    if view.teardown:
        parts.append(_stages("TEARDOWN", view.teardown, now))
    if view.state in (RunState.UNKNOWN, RunState.WAITING) and not is_watched_only(view.notices) and not view.is_paused:
        parts.append(_unattended(view))
    parts += [_asked(view)] if any(request.by for request in view.requests) else []
    plans = [stage for stage in view.stages if stage.plan and stage.state.value == "awaiting_approval"]
    parts += [_plan(stage) for stage in plans]
    parts += [_findings(stage) for stage in view.stages if stage.findings]
    parts += [_open_questions(view)] if any(_open_items(stage) for stage in view.stages) else []
    parts += [_audit(view)] if view.audit else []
    parts += ["".join(f"{line}\n" for line in unfinished_teardown(view))] if unfinished_teardown(view) else []
    return "\n".join(parts)


def limits_json(view: RunView, *, now: float) -> str:
    """Return one object: the run's id, and its limits as `run_json` has them."""
    return json_document({"id": view.id, **_limit_fields(view, now)})


def run_json(view: RunView, *, now: float | None = None) -> str:
    """Return one object; times are RFC 3339, durations seconds, `null` where unknown."""
    audit = view.audit
    return json_document(
        {
            "id": view.id,
            "state": view.state.value,
            "goal": view.goal.value,
            "paused": view.is_paused,
            "blueprint": view.blueprint_id,
            "preset": view.preset,
            "title": view.title,
            "parameters": dict(view.parameters),
            "cluster": {"name": view.cluster.name, "region": view.cluster.region},
            "account": view.account.id if view.account else None,
            "owner": _operator(view.owner),
            "store": view.store,
            "epoch": view.epoch,
            "requests": [
                {"at": timestamp_of(request.at), "kind": request.kind.value, "by": _operator(request.by)}
                for request in view.requests
            ],
            "created_at": timestamp_of(view.created_at),
            "notices": _notice_fields(view.notices),
            "spent": spending_fields(spending_of(view, last_moment(view) if now is None else now)),
            "paid": paid_fields(paid_by(view).things),
            "limits": _limit_fields(view, last_moment(view) if now is None else now),
            "stages": [_stage_fields(stage) for stage in view.stages],
            "teardown": [_stage_fields(stage) for stage in view.teardown],
            "owned": [
                {
                    "stage": item.stage,
                    "kind": item.kind,
                    "namespace": item.namespace,
                    "name": item.name,
                    "uid": item.uid,
                    "existed": item.existed,
                    "deleted": item.is_deleted,
                }
                for item in view.owned
            ],
            "audit": audit
            and {
                "at": timestamp_of(audit.at),
                "leftovers": list(audit.leftovers),
                "retained": list(audit.retained),
                "unknown": list(audit.unknown),
            },
        }
    )


def _owner(view: RunView) -> str:
    """Return who carries the run out, and whether another machine did before."""
    return f"{view.owner}" + (f", who took it over (epoch {view.epoch})" if view.epoch > 1 else "")


def _operator(operator: Operator | None) -> str | None:
    return None if operator is None else str(operator)


def _asked(view: RunView) -> str:
    """Return a line for each request whose author is known, and each approval."""
    rows = [
        (timestamp_of(request.at) or "", request.kind.value, f"by {request.by}")
        for request in view.requests
        if request.by
    ]
    approved = "".join(f"{stage.id}: approved by {stage.approved_by}\n" for stage in view.stages if stage.approved_by)
    return f"Asked:\n{aligned_text([(f'  {at}', kind, who) for at, kind, who in rows])}{approved}"


def _limited(view: RunView, now: float) -> list[str]:
    """Return lines on its limits: each with its value and the time at which the runner acts, and where they hold."""
    reached = [f"  Reached: {one.text}" for one in view.limits_reached]
    if view.limits == Limits() or view.state is RunState.TORN_DOWN:
        return ["".join(f"{line}\n" for line in reached)] if reached else []
    if is_watched_only(view.notices):  # what is known of its cost here may be old, or nothing
        return ["".join(f"{line}\n" for line in (*reached, "  Its limits hold on the machine that carries it out."))]
    is_over = view.goal is Goal.TEARDOWN or (view.goal is Goal.PARK and view.limits.action is LimitAction.PARK)
    lines = [f"  {_limit_line(replace(one, at=None) if is_over else one)}" for one in statuses_of(view, now)]
    return ["".join(f"{line}\n" for line in (*lines, *reached, f"  {reach_of(view)}"))]


def _limit_line(status: LimitStatus) -> str:
    acts = f" The runner acts at {moment_text(status.at)}." if status.at is not None and not status.is_reached else ""
    doubt = f" {status.doubt}" if status.doubt and status.doubt != status.text else ""
    return f"{status.text}{acts}{doubt}"


def _limit_fields(view: RunView, now: float) -> dict[str, object]:
    limits = view.limits
    return {
        "until": timestamp_of(limits.until),
        "budget_usd": limits.budget_usd or None,
        "max_usd_per_hour": limits.max_usd_per_hour or None,
        "credentials_end": limits.credentials_end,
        "capacity_end": limits.capacity_end,
        "idle_minutes": limits.idle_minutes,
        "idle_below_pct": limits.idle_below_pct if limits.idle_minutes else None,
        "action": limits.action.value,
        "watchdog_minutes": limits.watchdog_minutes,
        "idle_since": timestamp_of(view.idle.since),
        "ends": {
            "credentials": timestamp_of(view.ends.credentials_end),
            "capacity": timestamp_of(view.ends.capacity_end),
        },
        "status": [
            {"limit": one.name.value, "text": one.text, "acts_at": timestamp_of(one.at), "reached": one.is_reached,
             "doubt": one.doubt}
            for one in statuses_of(view, now)
        ],
        "reached": [{"limit": one.limit, "text": one.text} for one in view.limits_reached],
    }  # fmt: skip


def _noticed(view: RunView) -> list[str]:
    """Return lines on its runner, disk and journal. The notice of a missing runner comes further down, limits above."""
    hidden = (NoticeKind.NO_RUNNER, NoticeKind.LIMIT)
    lines = [notice_line(notice) for notice in view.notices if notice.kind not in hidden]
    if view.state is RunState.STALLED:
        lines.append(f"To end it and start another, see: eksml-tui runs resume {view.id}")
    return ["".join(f"{line}\n" for line in lines)] if lines else []


def _unattended(view: RunView) -> str:
    if view.is_starting:
        return "Its runner is starting.\n"
    texts = [notice.text for notice in view.notices if notice.kind is NoticeKind.NO_RUNNER]
    return f"{texts[0] if texts else 'It has no runner.'} Resume it with: eksml-tui runs resume {view.id}\n"


def _notice_fields(notices: Iterable[Notice]) -> list[dict[str, object]]:
    return [{"kind": notice.kind.value, "text": notice.text, "since": timestamp_of(notice.since)} for notice in notices]


def took_text(seconds: float | None) -> str:
    """Return a duration as it stands in a table; empty for `None`."""
    return "" if seconds is None else duration(int(seconds))


def _stage_fields(stage: StageView) -> dict[str, object]:
    return {
        "id": stage.id,
        "title": stage.title,
        "kind": stage.kind,
        "state": stage.state.value,
        "attempt": stage.attempt,
        "started_at": timestamp_of(stage.started_at),
        "ended_at": timestamp_of(stage.ended_at),
        "seconds": _took(stage),
        "expect_seconds": [stage.expect_low_seconds, stage.expect_high_seconds],
        "message": stage.message,
        "outputs": dict(stage.outputs or {}),
        "plan": stage.plan and msgspec.to_builtins(stage.plan),
        "approved_by": _operator(stage.approved_by),
        "findings": [msgspec.to_builtins(finding) for finding in stage.findings],
        "pending": _open_items(stage),
    }


def _stages(heading: str, stages: Iterable[StageView], now: float | None, spending: Spending | None = None) -> str:
    rows = [
        (
            stage.id,
            stage.state.value.replace("_", " "),
            took_text(_took(stage) if stage.state is not StageState.RUNNING else _so_far(stage, now)),
            _expected(stage),
            *([_spent(stage, spending)] if spending else []),
            stage.message,
        )
        for stage in stages
    ]
    return aligned_text([(heading, "STATE", "TOOK", "EXPECTED", *(["SPENT"] if spending else []), "MESSAGE"), *rows])


def _spent(stage: StageView, spending: Spending) -> str:
    usd = spending.by_stage.get(stage.id)
    return spending.sum_text(usd) if usd else ""


def _spent_otherwise(spending: Spending) -> str:
    lines = []
    if spending.unpriced:
        lines.append(f"Not in it, as no price is known: {', '.join(spending.unpriced)}\n")
    if spending.by_use:
        lines.append(f"Not in it, as it is paid by use: {', '.join(spending.by_use)}\n")
    return "".join([*lines, "Prices are those of the launch.\n"])


def _so_far(stage: StageView, now: float | None) -> float | None:
    return None if now is None or stage.started_at is None else now - stage.started_at


def _expected(stage: StageView) -> str:
    low, high = stage.expect_low_seconds, stage.expect_high_seconds
    return duration_range(low, high, is_rough=False) if high else ""


def _plan(stage: StageView) -> str:
    plan = stage.plan
    if plan is None:
        return ""
    lines = "".join(f"  {line}\n" for line in plan.lines)
    counts = f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy"
    return f"The plan {plan.plan_hash[:12]} of {stage.id} waits for approval: {counts}.\n{lines}"


def _findings(stage: StageView) -> str:
    found = said_once(stage.findings, lambda item: item.subject)
    rows = [(f"  {item.result.value}", item.subject, item.detail, item.fix) for item in found]
    what = "Resources" if stage.kind == "terraform" else "Checks"
    return f"{what} of {stage.id}:\n{aligned_text(rows)}"


def _open_items(stage: StageView) -> list[str]:
    return [item.address for item in stage.terraform.pending if item.is_open]


def _open_questions(view: RunView) -> str:
    lines = [f"  {stage.id}: {address}\n" for stage in view.stages for address in _open_items(stage)]
    more = f"See: eksml-tui runs terraform {view.id}\n"
    return f"May exist outside of Terraform's state:\n{''.join(lines)}{more}"


def _audit(view: RunView) -> str:
    audit = view.audit
    if audit is None:
        return ""
    parts = (
        (f"Still there, {len(audit.leftovers)}", audit.leftovers),
        (f"Could not be searched, so more may be left, {len(audit.unknown)}", audit.unknown),
        ("Kept on purpose", audit.retained),
    )
    text = f"{kept_sentence(view)}\n" if audit.is_clean else ""
    return text + "".join(f"{head}:\n" + "".join(f"  {line}\n" for line in lines) for head, lines in parts if lines)


def _state(run: RunSummary) -> str:
    """Return its state, with the counts of what its audit found left or unknown."""
    found = [f"{run.leftovers} left"] * bool(run.leftovers) + [f"{run.unknown} unknown"] * bool(run.unknown)
    return ", ".join([*["copy"] * run.is_copy, state_words(run.state, run.paid), *found])


def _things(paid: RunPaid) -> list[str]:
    """Return a clause for each thing that a run pays for: `NAT gateway $0.05/h`, `2 × p5.48xlarge, if it exists`."""
    prices = [format_hourly(one.usd_per_hour) for one in paid.things]
    return [
        f"{one.title} {price}{'' if one.is_certain else ', if it exists'}"
        for one, price in zip(paid.things, prices, strict=True)
    ]


def _doubt(view: RunView) -> str:
    """Return a clause that qualifies the state after a teardown whose audit is not clean."""
    audit = view.audit
    if audit is None or audit.is_clean:
        return ""
    return ", but its audit found something left" if audit.leftovers else ", but what is left is unknown"


def _took(stage: StageView) -> float | None:
    if stage.started_at is None or stage.ended_at is None:
        return None
    return max(0.0, stage.ended_at - stage.started_at)  # the clock may have been set back meanwhile


def _day(run: RunSummary) -> str:
    return timestamp_of(run.created_at) or "" if run.created_at else ""
