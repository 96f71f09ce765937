"""The runs of a cluster and of this machine in one list, as text and JSON, for the command line. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from actions.base.clock import format_rfc3339
from actions.base.wording import aligned, rough_duration
from actions.fleet.quantity import format_usd
from actions.run.journal.reader import RunSummary, printable
from actions.run.journal.run_ids import short_ids
from actions.run.presence.record import RemoteRun, RunPresence, stopped_sentence

COLUMNS = ("RUN", "STATE", "STAGE", "WHO", "SIGN", "EPOCH", "SPENT", "BLUEPRINT", "CLUSTER", "HOME", "CREATED")
FIELDS = (
    "id", "here", "owner", "state", "stage", "heartbeat", "heartbeat_age_seconds", "over", "silent", "epoch", "store",
    "blueprint", "cluster", "region", "account", "created_at", "spent_usd", "usd_per_hour", "version", "folder",
    "error",
)  # fmt: skip
"""Keys of the JSON objects."""


class KnownRun(msgspec.Struct, frozen=True):
    """A run on this machine, recorded in the cluster, or both.

    Args:
        local: As this machine has it.
        remote: As the cluster has it.
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
        presence = self.remote.presence if self.remote else None
        return self.local is not None and (presence is None or presence.epoch <= self.local.epoch)

    @property
    def presence(self) -> RunPresence | None:
        """The record that its runner has published; `None` if there is none."""
        return self.remote.presence if self.remote else None


def known_runs(local: Sequence[RunSummary], remote: Sequence[RemoteRun]) -> tuple[KnownRun, ...]:
    """Return one entry for each run: those of this machine first, each newest first."""
    by_id = {run.id: run for run in remote}
    here = [KnownRun(run, by_id.pop(run.id, None)) for run in local]
    return (*here, *(KnownRun(None, run) for run in by_id.values()))


def cluster_runs_table(runs: Sequence[KnownRun], *, now: float, note: str = "", is_short: bool = False) -> str:
    """Return a table with a heading and one line for each run, and below it what could not be read.

    Args:
        runs: See `known_runs`.
        now: Seconds since the epoch.
        note: A sentence that is put below.
        is_short: Shorten ids to unambiguous prefixes, for a terminal.
    """
    if not runs:
        return f"{note or 'There is no run on this machine or in the cluster.'}\n"
    ids = [run.id for run in runs]
    names = short_ids(ids) if is_short else dict(zip(ids, ids, strict=True))
    rows = [COLUMNS, *(_cells(run, names[run.id], now) for run in runs)]
    lines = aligned(rows)
    lines += [f"{names[run.id]}: {text}" for run in runs if (text := _error(run) or _stopped(run))]
    return "".join(f"{line}\n" for line in (*lines, *([note] if note else [])))


def cluster_runs_json(runs: Sequence[KnownRun], *, now: float) -> str:
    """Return a list of objects; times are RFC 3339, `null` where unknown."""
    return json.dumps([_fields(run, now) for run in runs], indent=2, ensure_ascii=False) + "\n"


def sign_of(run: KnownRun, now: float) -> str:
    """Return the age of the newest heartbeat: `12s ago`, `silent since 14:02`, `over`; `-` without a record."""
    if run.remote is None or run.presence is None:
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
    local, remote, presence = run.local, run.remote, run.presence
    here = local if run.is_here else None
    created = local.created_at if local else presence.created_at if presence else 0.0
    spending = here.spending if here else None
    return {
        "id": run.id,
        "here": run.is_here,
        "owner": str(presence.owner) if presence else (local.owner or None) if local else None,
        "state": here.state.value if here else presence.state.value if presence else None,
        "stage": here.stage if here else presence.stage if presence else None,
        "heartbeat": _moment(remote.seen_at) if remote and presence else None,
        "heartbeat_age_seconds": max(0, round(now - remote.seen_at)) if remote and presence else None,
        "over": remote.is_over if remote and presence else None,
        "silent": remote.is_silent(now) if remote and presence else None,
        "epoch": presence.epoch if presence else local.epoch if local else None,
        "store": presence.store if presence else local.store if local else None,
        "blueprint": local.blueprint_id if local else presence.blueprint if presence else None,
        "cluster": local.cluster if local else presence.cluster if presence else None,
        "region": presence.region if presence else None,
        "account": presence.account if presence else None,
        "created_at": _moment(created) if created else None,
        "spent_usd": f"{spending.usd:.4f}" if spending else presence.spent_usd or None if presence else None,
        "usd_per_hour": f"{spending.usd_per_hour:.4f}"
        if spending and spending.is_rate_known
        else presence.usd_per_hour or None
        if presence and not here
        else None,
        "version": presence.version if presence else None,
        "folder": printable(local.folder) if local else None,
        "error": _error(run),
    }


def _moment(at: float) -> str:
    return format_rfc3339(datetime.fromtimestamp(at, UTC))
