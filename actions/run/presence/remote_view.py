"""A run of another machine as a view: from its record in the cluster, from its store, or from a copy of its journal.

Such a view is read only. Nothing in it may be acted on: it is what another machine last published about its run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import format_rfc3339, time_of_day
from actions.base.decoding import convert
from actions.base.errors import ConsoleError
from actions.base.executors import at_once
from actions.base.names import is_subdomain
from actions.cluster.job_pods import JobRef
from actions.cluster.kinds import is_watched_kind
from actions.run.journal.elsewhere import takeover_command
from actions.run.presence.record import RemoteRun, RunPresence, StagePresence, job_parts, stopped_sentence
from actions.run.state.fold import fold
from actions.run.state.records import Action, ClusterName, Created, JournalRecord, StageOutline
from actions.run.state.view import Notice, NoticeKind, RunState, RunView, StageState, StageView, with_troubles
from actions.run.store.copy import is_lease_news, kept_store, refreshed_copy
from actions.run.store.listing import StoredRun, read_stored_run
from actions.run.store.objects import StoreLease
from actions.run.store.taken import MOST_ASKED


def open_remote(run: RemoteRun, store: str) -> Path | None:
    """Return a folder with a copy of the run's journal, spools and blueprint, brought up to date from its store.

    Called in a thread, again every few seconds while the run is on screen. The record's `store` is foreign text: only
    the store that the operator has chosen is read because of it.

    Args:
        run: As its cluster records it.
        store: The operator's store, `s3://BUCKET/PREFIX`; empty for none.

    Returns:
        The folder, for `RunReader` and `SpoolReader`; `None` if the run has no store that can be read from here: then
        it is shown from its record, and its logs and curves from its pods.

    Raises:
        ConsoleError: The store does not answer.
    """
    return refreshed_copy(store, run.id) if _is_read(run, store) else None


def is_taken_over(run: RemoteRun, store: str) -> bool:
    """Return whether the run's store names another machine, or a later epoch, than the copy that is here.

    One small request. Called in a thread; see `open_remote`.

    Raises:
        ConsoleError: The store does not answer.
    """
    return _is_read(run, store) and is_lease_news(store, run.id)


def _is_read(run: RemoteRun, store: str) -> bool:
    return bool(store) and run.presence is not None and run.presence.store == store


async def later_leases(
    runs: Sequence[RemoteRun], store: str, *, at_most_seconds: float, region: str = ""
) -> dict[str, StoreLease]:
    """Return the leases that a store has of runs of a cluster with a later epoch than their records, by run id.

    A takeover is in the store before it is in the cluster. Runs that are not over come first, the newest of them
    before others. A store that does not answer in time changes nothing.

    Args:
        runs: As the cluster records them, the newest first.
        store: The operator's; empty for none. Records are foreign text: no other store is read because of one.
        at_most_seconds: Limit of all questions together.
        region: Of the bucket, if known.
    """
    asked = sorted((run for run in runs if _is_read(run, store)), key=lambda run: run.is_over)[:MOST_ASKED]
    leases: dict[str, StoreLease] = {}

    async def ask(run: RemoteRun) -> None:
        with suppress(ConsoleError):
            lease = await opened.lease(run.id)
            if lease is not None and lease.epoch > run.epoch:
                leases[run.id] = lease

    if asked:
        with suppress(ConsoleError, TimeoutError):
            opened = kept_store(store, region)
            async with asyncio.timeout(at_most_seconds):
                await at_once(asked, ask)
    return leases


class StoreRuns(msgspec.Struct, frozen=True):
    """The runs that one look at the operator's store has found and the cluster does not have."""

    ids: frozenset[str]
    """Of all runs that the store has."""
    runs: tuple[RemoteRun, ...] = ()
    ages: Mapping[str, float] = {}
    """Seconds since the last heartbeat of each of them, by the store's clock."""
    over: frozenset[str] = frozenset()
    """Ids of runs that are over and cost nothing, and of damaged ones: they are not shown, but may be retried."""
    torn_down: frozenset[str] = frozenset()
    """Ids of those among them that stay so."""


async def runs_of_store(
    store: str, *, skipped: Collection[str], shown: Collection[str], at_most_seconds: float, region: str = ""
) -> StoreRuns | None:
    """Return runs that only a store has: they have no cluster yet, or are of another one.

    Args:
        store: The operator's.
        skipped: Ids of runs that are known otherwise, and are not read.
        shown: Ids of runs that are returned also when they are over.
        at_most_seconds: Limit of the whole look; what it has not come to is left to the next one.
        region: Of the bucket, if known.

    Returns:
        The runs, without those that cannot be read now; `None` if the store does not answer.
    """
    runs: dict[str, RemoteRun] = {}
    ages: dict[str, float] = {}
    over, torn_down = set[str](), set[str]()
    names: list[str] | None = None

    async def read(name: str) -> None:
        with suppress(ConsoleError):
            found = await read_stored_run(opened, name)
            run = _of_store(found, store)
            if run is None or run.presence is None:
                over.update([name] if found.error else [])
            elif run.is_over and not float(run.presence.usd_per_hour or 0) and run.id not in shown:
                over.add(name)
                torn_down.update([name] if run.presence.state is RunState.TORN_DOWN else [])
            else:
                runs[name] = run
                ages[name] = found.lease.age_seconds if found.lease else 0.0

    with suppress(ConsoleError, TimeoutError):
        opened = kept_store(store, region)
        async with asyncio.timeout(at_most_seconds):
            names = [name for name in await opened.run_ids() if is_subdomain(name)]
            await at_once([name for name in names if name not in skipped], read)
    if names is None:
        return None
    return StoreRuns(frozenset(names), tuple(runs.values()), ages, frozenset(over), frozenset(torn_down))


def _of_store(run: StoredRun, store: str) -> RemoteRun | None:
    """Return a run of a store as a cluster would record it; `None` if no runner has written of it, or it is damaged."""
    lease = run.lease
    if lease is None or run.error:
        return None
    content = {
        "id": run.id,
        "blueprint": run.blueprint_id,
        "version": "",
        "owner": msgspec.to_builtins(lease.owner),
        "account": run.account,
        "region": run.region,
        "cluster": run.cluster,
        "store": store,
        "state": lease.status.state,
        "stage": lease.status.stage,
        "epoch": lease.epoch,
        "heartbeat": format_rfc3339(datetime.fromtimestamp(lease.renewed_at, UTC)),
        "spent_usd": lease.status.spent_usd,
        "usd_per_hour": lease.status.usd_per_hour,
        "created_at": run.created_at,
    }
    try:
        presence = convert(content, RunPresence)
    except msgspec.ValidationError:
        return None
    return RemoteRun(run.id, presence, lease.renewed_at, namespace="", version=lease.tag)


def with_lease(run: RemoteRun, lease: StoreLease | None) -> RemoteRun:
    """Return a run with the machine that its store names, if that has the later epoch."""
    if lease is None or run.presence is None or lease.epoch <= run.epoch:
        return run
    presence = replace(run.presence, owner=lease.owner, epoch=lease.epoch)
    return replace(run, presence=presence, seen_at=max(run.seen_at, lease.renewed_at))


NO_TROUBLE: Mapping[str, str] = {}


def remote_view(
    run: RemoteRun,
    copy: RunView | None = None,
    *,
    is_silent: bool = False,
    is_gone: bool = False,
    troubles: Sequence[Notice] = (),
    pods: Mapping[str, str] = NO_TROUBLE,
) -> RunView:
    """Return the run as far as it is known here: by the place that has its later epoch.

    Args:
        run: As its cluster has it.
        copy: As its store has it; it has messages, plans and findings, too, and may be some seconds behind. After a
            takeover it is ahead until the new machine has reached the cluster.
        is_silent: Its heartbeats are missing.
        is_gone: The cluster has no record of it any more.
        troubles: Notices on what cannot be read here.
        pods: The verdict on its pods, by stage, as far as the cluster shows them to everyone.
    """
    presence = run.presence
    is_priced = copy is not None and bool(copy.prices)  # then its cost is summed up to now
    notice = _gone(run) if is_gone else _notice(run, is_silent=is_silent, names_cost=not is_priced)
    if presence is None:
        return replace(_bare(run), notices=(notice, *troubles))
    if copy is not None and copy.epoch > presence.epoch:
        return with_troubles(replace(copy, notices=(*copy.notices, *troubles)), pods)
    view = copy if copy is not None else _bare(run)
    known = {stage.id: stage for stage in presence.stages}
    titles, is_lost = {stage.id: stage.title for stage in view.stages}, is_silent or is_gone
    seen = replace(
        view,
        state=RunState.UNKNOWN if is_lost and not presence.is_over else presence.state,
        stages=tuple(_present(stage, known.get(stage.id), is_lost=is_lost) for stage in view.stages),
        teardown=view.teardown if copy is view else tuple(_step(one, titles, is_lost) for one in presence.steps),
        owner=presence.owner,
        epoch=presence.epoch,
        store=presence.store,
        prices=view.prices if copy is view else (),  # from the record alone, nothing is known of what was paid when
        notices=(notice, *troubles),
    )
    return with_troubles(seen, pods)


def job_on_screen(run: RemoteRun, stage_id: str = "") -> JobRef | None:
    """Return the job of a stage whose logs and curves its pods have; `None` if it has none that can be watched.

    Args:
        run: The run.
        stage_id: Empty for the stage at work, else the last one with a job.
    """
    if run.presence is None:
        return None
    stages = run.presence.stages
    if stage_id:
        wanted: Sequence[StagePresence] = [stage for stage in stages if stage.id == stage_id]
    else:
        at_work = [stage for stage in stages if stage.id == run.presence.stage]
        wanted = [*at_work, *reversed(stages)]
    for stage in wanted:
        parts = job_parts(stage.job)
        if parts is not None and is_watched_kind(parts[0]):
            return JobRef(*parts)
    return None


def sign_text(run: RemoteRun, *, is_silent: bool) -> str:
    """Return what is known of the last heartbeat: `silent since 14:02`, `over`, or nothing while it is at work."""
    if run.presence is None:
        return "cannot be read"
    if run.is_over:
        return "over"
    return f"silent since {time_of_day(run.seen_at)[:5]}" if is_silent else ""


def _gone(run: RemoteRun) -> Notice:
    text = f"The cluster has no record of it any more: {run.owner} has torn it down, or this is another cluster."
    if not run.namespace:
        text = "Its store has it no more: it was removed there."
    return Notice(NoticeKind.ELSEWHERE, text)


def _notice(run: RemoteRun, *, is_silent: bool, names_cost: bool) -> Notice:
    if run.presence is None:
        return Notice(NoticeKind.ELSEWHERE, f"Its record in the cluster cannot be read. {run.error}")
    spent = f" It has cost ${_money(run.presence)} so far." if names_cost and run.presence.spent_usd else ""
    sign = sign_text(run, is_silent=is_silent)
    told = f", {sign} UTC" if is_silent else ""
    stopped = f" {stopped_sentence(run)}" if run.stopped else ""
    how = f"To act on it: {takeover_command(run.id, run.presence.store)}"
    verb = "Was carried out" if run.is_over else "Carried out"
    text = f"{verb} by {run.owner}{told}; here it can only be watched.{stopped}{spent} {how}"
    return Notice(NoticeKind.ELSEWHERE, text)


def _money(presence: RunPresence) -> str:
    return f"{float(presence.spent_usd):,.2f}"


def _bare(run: RemoteRun) -> RunView:
    """Return the run from its first record; without one, from the names that are published."""
    created, presence = run.created, run.presence
    if created is None:
        stages = presence.stages if presence else ()
        created = Created(
            run_id=run.id,
            blueprint_id=presence.blueprint if presence else "",
            title=presence.blueprint if presence else run.id,
            preset="",
            parameters={},
            cluster=ClusterName(presence.cluster if presence else "", presence.region if presence else ""),
            stages=tuple(StageOutline(one.id, "", one.id, (), 0.0, 0.0) for one in stages),
        )
    at = presence.created_at if presence else run.seen_at
    return fold([JournalRecord(1, at, "", "", 0, created)])


def _present(stage: StageView, known: StagePresence | None, *, is_lost: bool) -> StageView:
    if known is None:
        return stage
    return replace(
        stage,
        state=StageState.UNKNOWN if is_lost and known.state is StageState.RUNNING else known.state,
        attempt=known.attempt,
        started_at=known.started_at,
        ended_at=known.ended_at,
    )


def _step(step: StagePresence, titles: Mapping[str, str], is_lost: bool) -> StageView:
    title = titles.get(step.id) or _STEP_TITLES.get(step.id, step.id)
    return _present(StageView(step.id, title, step.id, step.state), step, is_lost=is_lost)


_STEP_TITLES = {Action.DRAIN.value: "Drain nodes", Action.AUDIT.value: "Audit"}
