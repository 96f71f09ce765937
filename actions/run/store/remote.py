"""A run of another machine, as the lease in its store tells it: read only, and shown here until it is taken over.

What a store says is foreign text of bounded size. Nothing is done by it but to show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import time_of_day
from actions.base.errors import FormatError, RefusedError
from actions.base.untrusted import one_line
from actions.cluster.job_pods import JobRef
from actions.cluster.kinds import full_name, is_watched_kind
from actions.cluster.watch.json_format import Raw
from actions.run.paid import PaidThing, is_same_cluster
from actions.run.state.fold import fold
from actions.run.state.records import ClusterName, Created, JournalRecord, StageOutline
from actions.run.state.view import OVER, Notice, NoticeKind, RunState, RunView, StageState, with_troubles
from actions.run.store.elsewhere import takeover_command, takeover_hint
from actions.run.store.lease_object import read_lease_object, run_id_of, stopped_note
from actions.run.store.objects import RunAbout, RunStatus, StoreLease

CLUSTER = "cluster"
"""The place of a run that was read from its cluster; any other place is the address of a store."""
MOST_RUNS = 500
"""Runs that are kept of one store."""
SILENT_SECONDS = 90.0
"""Silence after which a run that is not over counts as without a sign: some renewals may be lost."""
_MOST_DIGITS = 20
_MOST_DOLLARS = 10**12


class RemoteRun(msgspec.Struct, frozen=True):
    """A run as its store has it."""

    id: str
    lease: StoreLease | None = None
    """`None` if it cannot be read."""
    place: str = CLUSTER
    """The store that it was read from: `CLUSTER`, or `s3://…`."""
    error: str = ""
    """The reason why it cannot be read, in one sentence; else empty."""
    stopped: str = ""
    """The note of the watchdog on the jobs that it has suspended; empty without one."""
    namespace: str = ""
    """Of the Lease in the cluster, which its objects are in, too; empty for a run of another place."""
    uid: str = ""
    """Of the Lease in the cluster."""

    @property
    def owner(self) -> str:
        """`USER@HOST`; `?` if it is unknown."""
        return str(self.lease.owner) if self.lease else "?"

    @property
    def epoch(self) -> int:
        """Number of the machines that have carried it out; 0 if it is unknown."""
        return self.lease.epoch if self.lease else 0

    @property
    def about(self) -> RunAbout:
        """The run in a few words; without a lease nothing but its id."""
        return self.lease.about if self.lease else RunAbout(self.id)

    @property
    def status(self) -> RunStatus:
        """Its newest state; without a lease nothing is known of it."""
        return self.lease.status if self.lease else RunStatus()

    @property
    def state(self) -> RunState:
        """Its newest state; that of a run that no runner has begun yet is `WAITING`."""
        try:
            return RunState(self.status.state or RunState.WAITING)
        except ValueError:
            return RunState.UNKNOWN

    @property
    def store(self) -> str:
        """The store that a takeover is made from: `CLUSTER`, or `s3://…`. Only the operator's own is ever read."""
        return self.about.store or self.place

    @property
    def seen_at(self) -> float:
        """Time of its last sign, in seconds since the epoch, by the store's clock."""
        return self.lease.renewed_at if self.lease else 0.0

    @property
    def is_over(self) -> bool:
        """True if no heartbeat is expected."""
        return self.lease is None or self.state in OVER

    @property
    def spent_usd(self) -> Decimal | None:
        """Its cost so far; `None` if that is unknown."""
        return _dollars(self.status.spent_usd)

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Its price by the hour, nodes included; `None` if that is unknown."""
        return _dollars(self.status.usd_per_hour)

    def is_silent(self, now: float) -> bool:
        """Return whether heartbeats are missing at `now`, in seconds since the epoch."""
        return not self.is_over and now - self.seen_at > SILENT_SECONDS


def _dollars(text: str) -> Decimal | None:
    """Return an amount that another machine has written; `None` for anything but a sound one."""
    try:
        found = Decimal(text) if 0 < len(text) <= _MOST_DIGITS else None
    except InvalidOperation:
        return None
    return found if found is not None and found.is_finite() and 0 <= found <= _MOST_DOLLARS else None


def remote_in(raw: Raw) -> RemoteRun:
    """Decode a Lease of a watch.

    Raises:
        ValueError: It is not that of a run.
    """
    document = msgspec.json.decode(raw)
    run = remote_of(document) if isinstance(document, dict) else None
    if run is None:
        raise ValueError("it is not the lease of a run")
    return run


def remote_of(document: Mapping[str, Any]) -> RemoteRun | None:
    """Return the run whose Lease this is, with the reason if that cannot be read; `None` for another object."""
    run_id = run_id_of(document)
    if not run_id:
        return None
    metadata = document["metadata"]
    namespace, uid = str(metadata["namespace"]), one_line(str(metadata.get("uid") or ""))
    try:
        lease = read_lease_object(document)
    except FormatError as error:
        return RemoteRun(run_id, error=error.message, namespace=namespace, uid=uid)
    return RemoteRun(run_id, lease, stopped=stopped_note(document), namespace=namespace, uid=uid)


def newest_runs(runs: Iterable[RemoteRun]) -> tuple[RemoteRun, ...]:
    """Return runs, the newest first, each id once: by the place that has the later epoch, and the later sign."""
    by_id: dict[str, RemoteRun] = {}
    for run in sorted(runs, key=lambda one: (one.epoch, one.seen_at), reverse=True):
        by_id.setdefault(run.id, run)
    return tuple(sorted(by_id.values(), key=lambda one: (one.about.created_at, one.id), reverse=True)[:MOST_RUNS])


def refusal_of(run: RemoteRun) -> RefusedError:
    """Return the error of what would act on a run that another machine carries out."""
    return RefusedError(
        f"Run {run.id} is carried out by {run.owner}, and can only be watched here.",
        hint=takeover_hint(run.id, run.store),
    )


def stopped_sentence(run: RemoteRun) -> str:
    """Return what the watchdog in the cluster has stopped of a run; empty for nothing."""
    return f"The watchdog in the cluster acted: {run.stopped}" if run.stopped else ""


def sign_text(run: RemoteRun, *, is_silent: bool) -> str:
    """Return what is known of the last heartbeat: `silent since 14:02`, `over`, or nothing while it is at work."""
    if run.lease is None:
        return "cannot be read"
    if run.is_over:
        return "over"
    return f"silent since {time_of_day(run.seen_at)[:5]}" if is_silent else ""


def paid_elsewhere(run: RemoteRun, clusters: Iterable[tuple[str, str]]) -> PaidThing | None:
    """Return what a run of another machine pays for by the hour, as one thing; `None` if that is nothing.

    Args:
        run: The run.
        clusters: Names and regions of those whose nodes are seen: those of the run are not in it.
    """
    usd = run.usd_per_hour
    if usd is None:
        return None
    is_kept = run.state is RunState.TORN_DOWN
    place = (run.about.cluster, run.about.region)
    if usd and not is_kept and any(is_same_cluster(place, cluster) for cluster in clusters):
        nodes = _dollars(run.status.nodes_usd_per_hour)
        usd = usd - nodes if nodes is not None else None
    return (
        None
        if usd is not None and usd <= 0
        else PaidThing(f"{'kept by' if is_kept else 'run of'} {run.owner}", usd, run.id, is_kept=is_kept)
    )


def remote_view(
    run: RemoteRun,
    copy: RunView | None = None,
    *,
    is_silent: bool = False,
    is_gone: bool = False,
    troubles: Sequence[Notice] = (),
    pods: Mapping[str, str] | None = None,
) -> RunView:
    """Return the run as far as it is known here. It can only be watched.

    Args:
        run: As its store has it.
        copy: By a copy of its journal, which may be some seconds behind; `None` before there is one.
        is_silent: Its heartbeats are missing.
        is_gone: Its store does not have it any more.
        troubles: Notices on what cannot be read here.
        pods: The verdict on its pods, by stage, as far as the cluster shows them to everyone.
    """
    view = copy if copy is not None else _bare(run)
    is_lost = (is_silent or is_gone) and not run.is_over
    is_priced = copy is not None and bool(copy.prices)  # then its cost is summed up to now
    stages = view.stages
    if is_lost:
        stages = tuple(
            replace(stage, state=StageState.UNKNOWN) if stage.state is StageState.RUNNING else stage for stage in stages
        )
    notice = _gone(run) if is_gone else _notice(run, is_silent=is_silent, names_cost=not is_priced)
    seen = replace(
        view,
        state=RunState.UNKNOWN if is_lost else view.state if copy is not None else run.state,
        stages=stages,
        notices=(notice, *troubles),
    )
    return with_troubles(seen, pods or {})


def job_on_screen(view: RunView, stage_id: str = "") -> JobRef | None:
    """Return the job of a stage whose logs and curves its pods have; `None` if it has none that can be watched.

    Args:
        view: The run, by its journal.
        stage_id: Empty for the stage at work, else the last one with a job.
    """
    at_work = [stage.id for stage in view.stages if stage.state in (StageState.RUNNING, StageState.UNKNOWN)]
    wanted = [stage_id] if stage_id else [*at_work, *(stage.id for stage in reversed(view.stages))]
    for stage in wanted:
        named = [(full_name(item.api_version, item.kind), item) for item in view.owned_by(stage)]
        jobs = [JobRef(kind, item.namespace, item.name) for kind, item in named if is_watched_kind(kind)]
        if jobs:
            return jobs[-1]
    return None


def _gone(run: RemoteRun) -> Notice:
    where = "The cluster has" if run.place == CLUSTER else f"{run.place} has"
    return Notice(
        NoticeKind.ELSEWHERE, f"{where} nothing of it any more: {run.owner} has torn it down, or it was removed there."
    )


def _notice(run: RemoteRun, *, is_silent: bool, names_cost: bool) -> Notice:
    if run.lease is None:
        return Notice(NoticeKind.ELSEWHERE, f"Its lease cannot be read. {run.error}")
    spent = f" It has cost ${run.spent_usd:,.2f} so far." if names_cost and run.spent_usd is not None else ""
    told = f", {sign_text(run, is_silent=True)} UTC" if is_silent else ""
    stopped = f" {stopped_sentence(run)}" if run.stopped else ""
    verb = "Was carried out" if run.is_over else "Carried out"
    how = f"To act on it: {takeover_command(run.id, run.store)}"
    text = f"{verb} by {run.owner}{told}; here it can only be watched.{stopped}{spent} {how}"
    return Notice(NoticeKind.ELSEWHERE, text)


def _bare(run: RemoteRun) -> RunView:
    """Return the run by the words of its lease: of its stages, the one that is under way alone."""
    about, stage = run.about, run.status.stage
    created = Created(
        run_id=run.id,
        blueprint_id=about.blueprint_id,
        title=about.title or run.id,
        preset="",
        parameters={},
        cluster=ClusterName(about.cluster, about.region),
        stages=(StageOutline(stage, "", stage, (), 0.0, 0.0),) if stage else (),
        owner=run.lease.owner if run.lease else None,
        store=about.store,
    )
    view = fold([JournalRecord(1, about.created_at or run.seen_at, "", "", 0, created)])
    state = StageState.FAILED if run.state is RunState.FAILED else StageState.RUNNING
    return replace(view, epoch=run.epoch, stages=tuple(replace(one, state=state) for one in view.stages))
