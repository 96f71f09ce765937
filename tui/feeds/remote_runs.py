"""Runs of other machines: the feed of their records in the connected cluster, and the one that is on screen.

That has its history from its store, and beside it logs and curves of its pods. Neither waits for the other: a store
that is away or slow delays no log, and a cluster without the job no history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.run.state.view import Notice, NoticeKind
from tui.feeds.cluster import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.job_pods import JobRef
    from actions.cluster.watch.health import SourceHealth
    from actions.run.journal.reader import RunSummary
    from actions.run.presence.record import RemoteRun
    from actions.run.presence.remote_view import StoreRuns
    from actions.run.store.objects import StoreLease
    from tui.feeds.job import JobFeed

COPY_SECONDS = 5.0
"""Between two copies of what the store has got."""
OWNER_SECONDS = 1.5
"""Between two looks at the lease in the store: a takeover is there before it is in the cluster."""
OWNERS_SECONDS = 10.0
"""Between two looks at the leases of all runs that are listed."""
STORE_SECONDS = 30.0
"""Between two looks for runs that only the store has."""
LOOKS_AT_ALL = 20
"""Every so many looks, runs that were over are read again: a retry may have begun."""
FIRST_STORE_SECONDS = 3.0
"""Before the first one: what the operator has come for is read first."""
_ANSWER_SECONDS = 5.0
"""Limit of one of these looks."""
AGAIN_SECONDS = 10.0
"""After a store that did not answer, or refused."""
_LOOK_SECONDS = 1.0
_REST_SECONDS = 0.2


class RemoteRunFeed:
    """The runs recorded in the connected cluster. `run` is work for the supervisor. Used on the loop only.

    A watch with a label selector: while nothing changes there is no request, and a heartbeat costs one small event.

    Args:
        cluster: The cluster on screen.
        clock: Time.
        changed: Called when something that is shown has changed; not for a heartbeat alone.
        request_in: Asks for a paint in this many seconds, when a run will have been silent for too long.
    """

    def __init__(
        self,
        cluster: ClusterFeed,
        *,
        clock: Clock,
        changed: Callable[[], None],
        request_in: Callable[[float], None],
    ) -> None:
        self.runs: tuple[RemoteRun, ...] = ()
        """Newest first, each id once; those of this machine are among them."""
        self.listed = asyncio.Event()
        """Set once the runs of the cluster are known, or cannot be."""
        self.names: Mapping[str, str] = {}
        """Short names of the runs by id."""
        self.note = ""
        """The reason that runs of other machines are unknown; empty if they are not."""
        self.revision = 0
        """Number of changes of `runs`, heartbeats included."""
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._request_in = request_in
        self._held: dict[str, RemoteRun] = {}
        """By uid."""
        self._leases: dict[str, StoreLease] = {}
        """By id: leases in the operator's store that have a later epoch than the record in the cluster."""
        self._of_store: dict[str, RemoteRun] = {}
        """By id: runs that the operator's store has and the cluster, when it was asked last, had not."""
        self._store_ages: Mapping[str, float] = {}
        """By id: seconds since their last heartbeat, by the store's clock, when the store answered last."""
        self._signs: dict[str, tuple[str, float]] = {}
        """By id: the newest version, and its monotonic second: other machines' clocks may be wrong."""

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the records until cancelled; in the usual namespace alone where no others may be listed.

        Args:
            live: Called when the session is there.

        Raises:
            ConsoleError: There is no session.
        """
        from actions.cluster.http.errors import ApiAccessError
        from actions.cluster.watch.reflector import Reflector
        from actions.run.presence.listing import EVERYWHERE, IN_DEFAULT, PAGE_SIZE, run_in
        from actions.run.presence.record import SELECTOR

        await self._cluster.wait_connected()
        live()
        self.note = ""
        for path in (EVERYWHERE, IN_DEFAULT):
            reflector: Reflector[RemoteRun] = Reflector(
                self._cluster.session,
                path,
                decode=run_in,
                identify=lambda run: run.uid,
                sink=_Sink(self),
                label_selector=SELECTOR,
                clock=self._clock,
                page_size=PAGE_SIZE,
                prefers_watch_list=False,
                rest_seconds=_REST_SECONDS,
                ends_when_forbidden=True,
            )
            try:
                await reflector.run()
            except ApiAccessError as error:
                self.note = f"Runs of other machines are unknown: {error.message}"
        self.listed.set()
        self._changed()

    async def follow_owners(self, store: str, live: Callable[[], None]) -> None:
        """Look for runs that another machine has taken over, by the operator's store, until cancelled.

        A takeover is in the store before it is in the cluster: at once, or not for long if the new machine cannot reach
        that. There is no request, and no import, while no run of that store is listed.

        Args:
            store: `s3://BUCKET/PREFIX`.
            live: Called after each look.
        """
        await self._clock.sleep(OWNERS_SECONDS)  # what the operator has come for is read first
        while True:
            if any(run.presence is not None and run.presence.store == store for run in self.runs):
                self.take_leases(await in_thread("leases of runs", _later_leases, list(self._held.values()), store))
            live()
            await self._clock.sleep(OWNERS_SECONDS)

    async def follow_store(self, store: str, local: Callable[[], Collection[str]], live: Callable[[], None]) -> None:
        """Look for runs that only the operator's store has, until cancelled.

        Their first plan waits for an approval, so there is no cluster yet; or they are of another one.

        Args:
            store: `s3://BUCKET/PREFIX`.
            local: Returns the ids of the runs that this machine has.
            live: Called after each look.
        """
        await self._clock.sleep(FIRST_STORE_SECONDS)
        over: frozenset[str] = frozenset()
        torn_down: frozenset[str] = frozenset()
        for look in count(1):
            skipped = over.union(local(), (run.id for run in self._held.values()))
            found = await in_thread("runs of a store", _runs_of_store, store, skipped, tuple(self._of_store))
            if found is not None:
                torn_down |= found.torn_down
                over = torn_down if look % LOOKS_AT_ALL == 0 else over | found.over
                self.take_store(found)
            live()
            await self._clock.sleep(STORE_SECONDS)

    def take_store(self, found: StoreRuns) -> None:
        """Show the runs that only the operator's store has."""
        left = found.ids.difference(run.id for run in self._held.values())
        kept = {run_id: run for run_id, run in self._of_store.items() if run_id in left}
        self._of_store = {**kept, **{run.id: run for run in found.runs}}
        ages = {**self._store_ages, **found.ages}
        self._store_ages = {run_id: ages[run_id] for run_id in self._of_store if run_id in ages}
        self._publish()

    def take_leases(self, leases: Mapping[str, StoreLease]) -> None:
        """Show the machines that leases name where these have the later epoch."""
        self._leases = {**self._leases, **leases}
        now = self._clock.monotonic()
        for run_id, lease in leases.items():
            if run_id in self._signs and lease.is_live:
                self._signs[run_id] = self._signs[run_id][0], now - lease.age_seconds
        if leases:
            self._publish()

    def forget(self) -> None:
        """Drop everything: another cluster is connected to."""
        self._leases.clear()
        self.listed.clear()
        self._held.clear()
        self._signs.clear()
        self.note = ""
        self._publish()

    def find(self, run_id: str) -> RemoteRun | None:
        """Return the run with this id; `None` if the cluster has no record of it."""
        return next((run for run in self.runs if run.id == run_id), None)

    def own_at_work(self) -> str:
        """Return the newest run that this user has at work here, or had before heartbeats ended; empty for none.

        One that only the store has may be of another cluster.
        """
        from actions.run.context.operator import present_operator

        user = present_operator().user
        here = (run for run in self.runs if run.namespace and not run.is_over)
        own = (run for run in here if run.presence and run.presence.owner.user == user)
        return next((run.id for run in own), "")

    def elsewhere(self, local: Sequence[RunSummary]) -> tuple[RemoteRun, ...]:
        """Return the runs that other machines carry out; with `local`, those of this machine, without them."""
        here = {run.id: run.epoch for run in local}
        return tuple(run for run in self.runs if _is_elsewhere(run, here.get(run.id)))

    def is_silent(self, run: RemoteRun) -> bool:
        """Return whether heartbeats of a run that is not over are missing."""
        from actions.run.presence.record import SILENT_SECONDS

        if not run.namespace:
            return not run.is_over and self._store_ages.get(run.id, 0.0) > SILENT_SECONDS
        sign = self._signs.get(run.id)
        return not run.is_over and sign is not None and self._clock.monotonic() - sign[1] > SILENT_SECONDS

    def take_all(self, runs: Sequence[RemoteRun]) -> None:
        """Take a complete list."""
        from actions.run.presence.listing import MOST_RUNS

        self._held = {run.uid: run for run in runs[:MOST_RUNS]}
        wall, now = self._clock.now().timestamp(), self._clock.monotonic()
        for run in self._held.values():
            known = self._signs.get(run.id)
            if known is None or known[0] != run.version:
                self._signs[run.id] = run.version, now - max(0.0, wall - run.seen_at)
        self._publish()
        self.listed.set()

    def take(self, run: RemoteRun) -> None:
        """Take one run as it is now."""
        from actions.run.presence.listing import MOST_RUNS

        if run.uid in self._held or len(self._held) < MOST_RUNS:
            was_silent = self.is_silent(run)
            self._held[run.uid] = run
            self._signs[run.id] = run.version, self._clock.monotonic()
            self._publish()
            if was_silent:
                self._changed()

    def drop(self, run: RemoteRun) -> None:
        """Remove one run."""
        if self._held.pop(run.uid, None) is not None:
            self._publish()

    def _publish(self) -> None:
        from actions.run.journal.run_ids import short_ids
        from actions.run.presence.listing import ordered
        from actions.run.presence.record import SILENT_SECONDS

        before, self.runs = self.runs, ordered([*self._held.values(), *self._of_store.values()])
        if self._leases:
            from actions.run.presence.remote_view import with_lease

            self.runs = tuple(with_lease(run, self._leases.get(run.id)) for run in self.runs)
        self.names = short_ids([run.id for run in self.runs])
        self._signs = {run.id: self._signs[run.id] for run in self.runs if run.id in self._signs}
        self.revision += 1
        if list(map(_shown, before)) != list(map(_shown, self.runs)):
            self._changed()
        now = self._clock.monotonic()
        ages = [now - self._signs[run.id][1] for run in self.runs if not run.is_over and run.id in self._signs]
        waits = [SILENT_SECONDS - age for age in ages if age <= SILENT_SECONDS]
        if waits:
            self._request_in(min(waits) + 1.0)


def _later_leases(recorded: Sequence[RemoteRun], store: str) -> dict[str, StoreLease]:
    """Return what `later_leases` does. Blocking, as it is to import what reads a store."""
    from actions.run.presence.listing import ordered
    from actions.run.presence.remote_view import later_leases

    return asyncio.run(later_leases(ordered(recorded), store, at_most_seconds=_ANSWER_SECONDS))


def _runs_of_store(store: str, skipped: Collection[str], shown: Collection[str]) -> StoreRuns | None:
    """Return what `runs_of_store` does. Blocking, as it is to import what reads a store."""
    from actions.run.presence.remote_view import runs_of_store

    return asyncio.run(runs_of_store(store, skipped=skipped, shown=shown, at_most_seconds=_ANSWER_SECONDS))


def _is_elsewhere(run: RemoteRun, epoch: int | None) -> bool:
    """Return whether another machine carries the run out, by the epoch of the journal here; `None` if there is none."""
    return epoch is None or (run.presence is not None and run.presence.epoch > epoch)


def _shown(run: RemoteRun) -> RemoteRun:
    """Return a run without what every heartbeat changes."""
    presence = replace(run.presence, heartbeat="", spent_usd="") if run.presence else None
    return replace(run, presence=presence, seen_at=0.0, version="", uid="")


class _Sink:
    """The reflector's sink of a feed."""

    def __init__(self, feed: RemoteRunFeed) -> None:
        self._feed = feed

    async def replace(self, items: Sequence[RemoteRun]) -> None:
        self._feed.take_all(items)

    def upsert(self, item: RemoteRun) -> None:
        self._feed.take(item)

    def remove(self, item: RemoteRun) -> None:
        self._feed.drop(item)

    def health(self, health: SourceHealth) -> None:
        del health  # the cluster's own is in the borders


class RunOnScreen(Protocol):
    """The feed of the run on screen, as far as a run of another machine needs it."""

    remote: RemoteRun | None
    remote_stage: str
    store_trouble: Notice | None

    def use_copy(self, folder: Path) -> None:
        """Read the run from a copy of its folder."""
        ...

    def take_others(self) -> None:
        """Show what has changed."""
        ...


class JobsOnScreen(Protocol):
    """The panes that show a job: log, accelerators, charts."""

    watched: JobFeed | None

    async def watch(self, job: JobRef) -> None:
        """Show a job. A `ConsoleError`: there is none, or it cannot be read."""
        ...

    def unwatch(self) -> None:
        """Show the run again."""
        ...


class RemoteOnScreen:
    """One run of another machine, followed while it is on screen. Both methods are work for the supervisor.

    Args:
        runs: Has it on screen; shows the copy.
        records: The runs recorded in the cluster.
        jobs: Shows its job.
        clock: Time.
        store: The operator's, `s3://BUCKET/PREFIX`; empty for none.
    """

    def __init__(
        self, runs: RunOnScreen, records: RemoteRunFeed, jobs: JobsOnScreen, clock: Clock, *, store: str
    ) -> None:
        self._runs = runs
        self._records = records
        self._jobs = jobs
        self._clock = clock
        self._store = store
        self._id = runs.remote.id if runs.remote is not None else ""
        self._places = {"home", "pods"}
        self.begun = asyncio.Event()
        """Set once store and pods were asked for the first time, whatever came of it."""

    async def follow_pods(self) -> None:
        """Show the job of the stage that is wanted, until another run is on screen."""
        from actions.run.presence.remote_view import job_on_screen

        shown: tuple[JobRef | None, int] | None = None
        try:
            while (run := self._on_screen()) is not None:
                job = job_on_screen(run, self._runs.remote_stage)
                wanted = job, self._records.revision
                if shown is None or job != shown[0] or (self._jobs.watched is None and wanted != shown):
                    shown = wanted
                    await self._show(job)
                    self._note_asked("pods")
                await self._clock.sleep(_LOOK_SECONDS)
        finally:
            watched = self._jobs.watched
            if watched is not None and shown is not None and shown[0] is not None and watched.title == shown[0].key:
                self._jobs.unwatch()

    async def follow_store(self) -> None:
        """Bring the copy of the run up to date, every few seconds and after a takeover, until another run is on screen.

        A store that does not answer is shown with the run, and asked again.
        """
        from actions.run.presence.remote_view import is_taken_over, open_remote

        copied_at, wait = float("-inf"), OWNER_SECONDS
        while (run := self._on_screen()) is not None:
            try:
                is_due = self._clock.monotonic() - copied_at >= COPY_SECONDS
                if is_due or await in_thread("lease of a run", is_taken_over, run, self._store):
                    copied_at = self._clock.monotonic()
                    folder = await in_thread("store of a run", open_remote, run, self._store)
                    if folder is not None and self._on_screen() is not None:
                        self._runs.use_copy(folder)
                self._note(None)
                wait = OWNER_SECONDS
            except ConsoleError as error:
                copied_at, wait = float("-inf"), AGAIN_SECONDS
                if self._on_screen() is not None:
                    self._note(self._trouble(error))
            self._note_asked("home")
            await self._clock.sleep(wait)

    def _note(self, trouble: Notice | None) -> None:
        """Show whether the store can be read here; `None` if it can, or there is none."""
        if trouble != self._runs.store_trouble:
            self._runs.store_trouble = trouble
            self._runs.take_others()

    def _note_asked(self, place: str) -> None:
        self._places.discard(place)
        if not self._places:
            self.begun.set()

    def _on_screen(self) -> RemoteRun | None:
        run = self._runs.remote
        return run if run is not None and run.id == self._id else None

    async def _show(self, job: JobRef | None) -> None:
        """Show a job; nothing if it does not exist (any more)."""
        self._jobs.unwatch()
        if job is not None:
            with suppress(ConsoleError):
                await self._jobs.watch(job)

    def _trouble(self, error: ConsoleError) -> Notice:
        """Return the notice of a store that fails, since the first failure."""
        is_refused = isinstance(error, AccessError | MissingError | RefusedError)
        kind, does = (
            (NoticeKind.STORE_REFUSED, "refuses this machine")
            if is_refused
            else (NoticeKind.STORE_AWAY, "does not answer here")
        )
        known = self._runs.store_trouble
        since = known.since if known is not None and known.kind is kind else self._clock.now().timestamp()
        is_recorded = self._runs.remote is None or bool(self._runs.remote.namespace)
        left = "by its cluster, without what only the store has" if is_recorded else "as it was there last"
        text = f"Its store {does}: the run is shown {left}. {error.message}"
        return Notice(kind, text, since)
