"""Runs of this machine and of stores in one list, as text and JSON, for the command line. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from actions.base.clock import timestamp_of
from actions.base.wording import aligned, rough_duration
from actions.fleet.quantity import format_usd
from actions.run.journal.reader import RunSummary, printable
from actions.run.journal.run_ids import short_ids
from actions.run.store.remote import RemoteRun, stopped_sentence

COLUMNS = ("RUN", "STATE", "STAGE", "WHO", "SIGN", "EPOCH", "SPENT", "BLUEPRINT", "CLUSTER", "STORE", "CREATED")
FIELDS = (
    "id", "here", "owner", "state", "stage", "heartbeat", "heartbeat_age_seconds", "over", "silent", "epoch", "store",
    "blueprint", "cluster", "region", "account", "created_at", "spent_usd", "usd_per_hour", "folder", "error",
)  # fmt: skip
"""Keys of the JSON objects."""


class KnownRun(msgspec.Struct, frozen=True):
    """A run on this machine, in a store, or both.

    Args:
        local: As this machine has it.
        remote: As its store has it.
    """

    local: RunSummary | None
    remote: RemoteRun | None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.local.id if self.local else self.remote.id if self.remote else ""

    @property
    def is_here(self) -> bool:
        """True if this machine carries it out."""
        return self.local is not None and (self.remote is None or self.remote.epoch <= self.local.epoch)


def known_runs(local: Sequence[RunSummary], remote: Sequence[RemoteRun]) -> tuple[KnownRun, ...]:
    """Return one entry for each run: those of this machine first, each newest first."""
    by_id = {run.id: run for run in remote}
    here = [KnownRun(run, by_id.pop(run.id, None)) for run in local]
    return (*here, *(KnownRun(None, run) for run in by_id.values()))


def known_runs_table(runs: Sequence[KnownRun], *, now: float, note: str = "", is_short: bool = False) -> str:
    """Return a table with a heading and one line for each run, and below it what could not be read.

    Args:
        runs: See `known_runs`.
        now: Seconds since the epoch.
        note: A sentence that is put below.
        is_short: Shorten ids to unambiguous prefixes, for a terminal.
    """
    if not runs:
        return f"{note or 'There is no run here.'}\n"
    ids = [run.id for run in runs]
    names = short_ids(ids) if is_short else dict(zip(ids, ids, strict=True))
    rows = [COLUMNS, *(_cells(run, names[run.id], now) for run in runs)]
    lines = aligned(rows)
    lines += [f"{names[run.id]}: {text}" for run in runs if (text := _error(run) or _stopped(run))]
    return "".join(f"{line}\n" for line in (*lines, *([note] if note else [])))


def known_runs_json(runs: Sequence[KnownRun], *, now: float) -> str:
    """Return a list of objects; times are RFC 3339, `null` where unknown."""
    return json.dumps([_fields(run, now) for run in runs], indent=2, ensure_ascii=False) + "\n"


def sign_of(run: KnownRun, now: float) -> str:
    """Return the age of the newest heartbeat: `12s ago`, `silent since 14:02`, `over`; `-` without a lease."""
    if run.remote is None or run.remote.lease is None:
        return "-"
    if run.remote.is_over:
        return "over"
    if run.remote.is_silent(now):
        return f"silent since {datetime.fromtimestamp(run.remote.seen_at, UTC):%H:%M}"
    return f"{rough_duration(now - run.remote.seen_at)} ago"


def _cells(run: KnownRun, name: str, now: float) -> tuple[str, ...]:
    fields = _fields(run, now)
    state = "unreadable" if _error(run) else str(fields["state"])
    spent = str(fields["spent_usd"] or "")
    return (
        name,
        state,
        str(fields["stage"] or "-"),
        str(fields["owner"] or "-"),
        sign_of(run, now),
        str(fields["epoch"] or "-"),
        format_usd(Decimal(spent)) if spent else "-",
        str(fields["blueprint"] or "-"),
        str(fields["cluster"] or "-"),
        str(fields["store"] or "-"),
        str(fields["created_at"] or "-"),
    )


def _error(run: KnownRun) -> str:
    if run.local is not None and run.is_here:
        return run.local.error
    return run.remote.error if run.remote is not None else ""


def _stopped(run: KnownRun) -> str:
    """Return what the watchdog has done to a run of another machine; this one's list names it by itself."""
    return stopped_sentence(run.remote) if run.remote is not None and not run.is_here else ""


def _fields(run: KnownRun, now: float) -> dict[str, object]:
    local, remote = run.local, run.remote
    here = local if run.is_here else None
    lease = remote.lease if remote else None
    created = local.created_at if local else remote.about.created_at if remote else 0.0
    spending = here.spending if here else None
    spent = spending.usd if spending else remote.spent_usd if remote else None
    rate = spending.usd_per_hour if spending and spending.is_rate_known else None
    if remote is not None and here is None:
        rate = remote.usd_per_hour
    return {
        "id": run.id,
        "here": run.is_here,
        "owner": str(lease.owner) if lease else (local.owner or None) if local else None,
        "state": here.state.value if here else remote.state.value if remote and lease else None,
        "stage": here.stage if here else remote.status.stage if remote and lease else None,
        "heartbeat": timestamp_of(lease.renewed_at) if lease else None,
        "heartbeat_age_seconds": max(0, round(now - lease.renewed_at)) if lease else None,
        "over": remote.is_over if remote and lease else None,
        "silent": remote.is_silent(now) if remote and lease else None,
        "epoch": lease.epoch if lease else local.epoch if local else None,
        "store": (remote.store if remote else local.store if local else "") or None,
        "blueprint": local.blueprint_id if local else remote.about.blueprint_id if remote and lease else None,
        "cluster": local.cluster if local else remote.about.cluster if remote and lease else None,
        "region": lease.about.region if lease else None,
        "account": lease.about.account if lease else None,
        "created_at": timestamp_of(created) if created else None,
        "spent_usd": f"{spent:.4f}" if spent is not None else None,
        "usd_per_hour": f"{rate:.4f}" if rate is not None else None,
        "folder": printable(local.folder) if local else None,
        "error": _error(run),
    }
