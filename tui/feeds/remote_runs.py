"""Runs of other machines: the feed of their leases in stores, and the one that is on screen.

That has its history by a copy of its journal, and beside it logs and curves of its pods. Neither waits for the other: a
store that is away or slow delays no log, and a cluster without the job no history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.run.state.view import Notice, NoticeKind, RunView
from tui.feeds.cluster import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.job_pods import JobRef
    from actions.cluster.watch.health import SourceHealth
    from actions.run.journal.reader import RunSummary
    from actions.run.store.listing import StoreLook
    from actions.run.store.remote import RemoteRun
    from tui.feeds.job import JobFeed

COPY_SECONDS = 5.0
"""Between two copies of what the store has got."""
STORE_SECONDS = 10.0
"""Between two looks at the leases of the operator's store."""
FIRST_STORE_SECONDS = 3.0
"""Before the first one: what the operator has come for is read first."""
LOOKS_AT_ALL = 60
"""Every so many looks, runs that were over are read again: a retry may have begun."""
AGAIN_SECONDS = 10.0
"""After a store that did not answer, or refused."""
_ANSWER_SECONDS = 5.0
"""Limit of one of these looks."""
FIRST_OWN_SECONDS = 5.0
OWN_SECONDS = 30.0
"""Between two questions to the stores of this machine's runs."""
_OWN_ANSWER_SECONDS = 10.0
"""Limit of one round of these questions."""
_LOOK_SECONDS = 1.0
_REST_SECONDS = 0.2


class RemoteRunFeed:
    """The runs in the stores that this console can see. `run` is work for the supervisor. Used on the loop only.

    Those of the connected cluster are watched with a label selector: while nothing changes there is no request, and a
    heartbeat costs one small event. Those of the operator's store are read every few seconds.

    Args:
        cluster: Returns the cluster on screen.
        clock: Time.
        changed: Called when something that is shown has changed; not for a heartbeat alone.
        request_in: Asks for a paint in this many seconds, when a run will have been silent for too long.
    """

    def __init__(
        self,
        cluster: Callable[[], ClusterFeed],
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
        self._of_cluster: dict[str, RemoteRun] = {}
        """By uid."""
        self._of_store: dict[str, RemoteRun] = {}
        """By id."""
        self._signs: dict[str, tuple[str, float]] = {}
        """By id: the newest tag, and its monotonic second: other machines' clocks may be wrong."""

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the leases in the cluster until cancelled; in one namespace where no others may be listed.

        Args:
            live: Called when the session is there.

        Raises:
            ConsoleError: There is no session.
        """
        from actions.cluster.http.errors import ApiAccessError
        from actions.cluster.watch.reflector import Reflector
        from actions.run.store.lease_object import SELECTOR
        from actions.run.store.listing import PAGE_SIZE, paths_of
        from actions.run.store.remote import remote_in

        cluster = self._cluster()
        await cluster.wait_connected()
        live()
        self.note = ""
        for path in paths_of(cluster.namespace):
            reflector: Reflector[RemoteRun] = Reflector(
                cluster.session,
                path,
                decode=remote_in,
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

    async def follow_store(self, store: str, local: Callable[[], Collection[str]], live: Callable[[], None]) -> None:
        """Look at the leases of the operator's store, until cancelled; none is read for a run that stays over.

        Args:
            store: `s3://BUCKET/PREFIX`.
            local: Returns the ids of the runs that this machine has.
            live: Called after each look.
        """
        await self._clock.sleep(FIRST_STORE_SECONDS)
        over: frozenset[str] = frozenset()
        for look in count(1):
            skipped = over.union(local()) if look % LOOKS_AT_ALL else frozenset(local())
            found = await in_thread("runs of a store", _look_at, store, skipped)
            if found is not None:
                over = (over & found.ids) | found.over
                self.take_store(found)
            live()
            await self._clock.sleep(STORE_SECONDS)

    async def follow_own(
        self,
        listed: Callable[[], Sequence[RunSummary]],
        refresh: Callable[[], Awaitable[None]],
        live: Callable[[], None],
    ) -> None:
        """Ask who carries out this machine's runs that have a store but no runner, until cancelled.

        Args:
            listed: Returns the runs of this machine.
            refresh: Reads their list again.
            live: Called after each round.
        """
        await self._clock.sleep(FIRST_OWN_SECONDS)
        while True:
            if await has_taken_over(listed()):
                await refresh()
            live()
            await self._clock.sleep(OWN_SECONDS)

    def take_store(self, found: StoreLook) -> None:
        """Show the runs of the operator's store."""
        left = {run_id: run for run_id, run in self._of_store.items() if run_id in found.ids}
        self._of_store = {**left, **{run.id: run for run in found.runs}}
        now = self._clock.monotonic()
        for run in found.runs:
            known = self._signs.get(run.id)
            if run.lease is not None and (known is None or known[0] != run.lease.tag):
                self._signs[run.id] = run.lease.tag, now - run.lease.age_seconds
        self._publish()

    def forget(self) -> None:
        """Drop what is of the cluster: another one is connected to."""
        self.listed.clear()
        self._of_cluster.clear()
        self.note = ""
        self._publish()

    def find(self, run_id: str) -> RemoteRun | None:
        """Return the run with this id; `None` if no store has it."""
        return next((run for run in self.runs if run.id == run_id), None)

    def own_at_work(self) -> str:
        """Return the newest run that this user has at work here, or had before heartbeats ended; empty for none.

        One that only the operator's store has may be of another cluster.
        """
        from actions.run.context.operator import present_operator

        user = present_operator().user
        here = (run for run in self._of_cluster.values() if not run.is_over and run.lease is not None)
        own = {run.id for run in here if run.lease is not None and run.lease.owner.user == user}
        return next((run.id for run in self.runs if run.id in own), "")

    def elsewhere(self, local: Sequence[RunSummary]) -> tuple[RemoteRun, ...]:
        """Return the runs that other machines carry out; with `local`, those of this machine, without them."""
        here = {run.id: run.epoch for run in local}
        return tuple(run for run in self.runs if run.id not in here or run.epoch > here[run.id])

    def is_silent(self, run: RemoteRun) -> bool:
        """Return whether heartbeats of a run that is not over are missing."""
        from actions.run.store.remote import SILENT_SECONDS

        sign = self._signs.get(run.id)
        return not run.is_over and sign is not None and self._clock.monotonic() - sign[1] > SILENT_SECONDS

    def take_all(self, runs: Sequence[RemoteRun]) -> None:
        """Take a complete list of the cluster."""
        from actions.run.store.remote import MOST_RUNS

        self._of_cluster = {run.uid: run for run in runs[:MOST_RUNS]}
        wall, now = self._clock.now().timestamp(), self._clock.monotonic()
        for run in self._of_cluster.values():
            known = self._signs.get(run.id)
            if known is None or known[0] != _tag(run):
                self._signs[run.id] = _tag(run), now - max(0.0, wall - run.seen_at)
        self._publish()
        self.listed.set()

    def take(self, run: RemoteRun) -> None:
        """Take one run of the cluster as it is now."""
        from actions.run.store.remote import MOST_RUNS

        if run.uid in self._of_cluster or len(self._of_cluster) < MOST_RUNS:
            was_silent = self.is_silent(run)
            self._of_cluster[run.uid] = run
            self._signs[run.id] = _tag(run), self._clock.monotonic()
            self._publish()
            if was_silent:
                self._changed()

    def drop(self, run: RemoteRun) -> None:
        """Remove one run of the cluster."""
        if self._of_cluster.pop(run.uid, None) is not None:
            self._publish()

    def _publish(self) -> None:
        from actions.run.journal.run_ids import short_ids
        from actions.run.store.remote import SILENT_SECONDS, newest_runs

        before, self.runs = self.runs, newest_runs([*self._of_cluster.values(), *self._of_store.values()])
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


async def has_taken_over(listed: Sequence[RunSummary]) -> bool:
    """Return whether a store names another machine for one of these runs, which is noted with the run.

    Nothing is read, and nothing imported, while none of them has a store. The connected cluster is watched beside this.
    """
    runs = [run for run in listed if run.store]
    if not runs:
        return False
    from actions.run.store.elsewhere import note_taken

    return bool(await note_taken(runs, at_most_seconds=_OWN_ANSWER_SECONDS))


def _look_at(store: str, skipped: Collection[str]) -> StoreLook | None:
    """Return the runs of a store; `None` if it does not answer. Blocking, as it is to import what reads one."""
    from actions.run.store.copy import look_at_store

    return look_at_store(store, skipped=skipped, at_most_seconds=_ANSWER_SECONDS)


def _tag(run: RemoteRun) -> str:
    return run.lease.tag if run.lease else ""


def _shown(run: RemoteRun) -> RemoteRun:
    """Return a run without what every heartbeat changes."""
    if run.lease is None:
        return replace(run, uid="")
    status = replace(run.status, spent_usd="", last_seq=0, notes={})
    document = replace(run.lease.document, renewed_at="", nonce="", status=status)
    return replace(run, uid="", lease=replace(run.lease, document=document, tag="", renewed_at=0.0, age_seconds=0.0))


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

    @property
    def view(self) -> RunView | None:
        """The run as it is shown."""
        ...

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
        cluster: Has the session by which the store in the cluster is read.
        jobs: Shows its job.
        clock: Time.
        store: The operator's, `s3://BUCKET/PREFIX`; empty for none.
    """

    def __init__(
        self, runs: RunOnScreen, cluster: ClusterFeed, jobs: JobsOnScreen, clock: Clock, *, store: str
    ) -> None:
        self._runs = runs
        self._cluster = cluster
        self._jobs = jobs
        self._clock = clock
        self._store = store
        self._id = runs.remote.id if runs.remote is not None else ""
        self.begun = asyncio.Event()
        """Set once the store was asked for the first time, whatever came of it."""

    async def follow_pods(self) -> None:
        """Show the job of the stage that is wanted, until another run is on screen."""
        from actions.run.store.remote import job_on_screen

        shown: JobRef | None = None
        try:
            while self._on_screen() is not None:
                view = self._runs.view
                job = job_on_screen(view, self._runs.remote_stage) if view is not None else None
                if job != shown or (job is not None and self._jobs.watched is None):
                    shown = job
                    await self._show(job)
                await self._clock.sleep(_LOOK_SECONDS)
        finally:
            watched = self._jobs.watched
            if watched is not None and shown is not None and watched.title == shown.key:
                self._jobs.unwatch()

    async def follow_store(self) -> None:
        """Bring the copy of the run up to date, every few seconds, until another run is on screen.

        A store that does not answer is shown with the run, and asked again.
        """
        while (run := self._on_screen()) is not None:
            wait = COPY_SECONDS
            try:
                folder = await self._copied(run)
                if folder is not None and self._on_screen() is not None:
                    self._runs.use_copy(folder)
                self._note(None)
            except ConsoleError as error:
                wait = AGAIN_SECONDS
                if self._on_screen() is not None:
                    self._note(self._trouble(run, error))
            self.begun.set()
            await self._clock.sleep(wait)

    async def _copied(self, run: RemoteRun) -> Path | None:
        """Return the folder of the copy, brought up to date; `None` if no store of it is read here.

        What a lease says is foreign text: of other addresses than the operator's nothing is read because of it.
        """
        from actions.run.store.remote import CLUSTER

        if run.store == self._store:
            from actions.run.store.copy import refreshed_copy

            return await in_thread("store of a run", refreshed_copy, self._store, run.id)
        if run.store != CLUSTER:
            return None
        from actions.run.store.copy import copied_from
        from actions.run.store.kubernetes import open_cluster_store

        store = await open_cluster_store(self._cluster.session, run.namespace)
        return await copied_from(store, run.id)

    def _note(self, trouble: Notice | None) -> None:
        """Show whether the store can be read here; `None` if it can, or there is none."""
        if trouble != self._runs.store_trouble:
            self._runs.store_trouble = trouble
            self._runs.take_others()

    def _on_screen(self) -> RemoteRun | None:
        run = self._runs.remote
        return run if run is not None and run.id == self._id else None

    async def _show(self, job: JobRef | None) -> None:
        """Show a job; nothing if it does not exist (any more)."""
        self._jobs.unwatch()
        if job is not None:
            with suppress(ConsoleError):
                await self._jobs.watch(job)

    def _trouble(self, run: RemoteRun, error: ConsoleError) -> Notice:
        """Return the notice of a store that fails, since the first failure."""
        is_refused = isinstance(error, AccessError | MissingError | RefusedError)
        kind, does = (
            (NoticeKind.STORE_REFUSED, "refuses this machine")
            if is_refused
            else (NoticeKind.STORE_AWAY, "does not answer here")
        )
        known = self._runs.store_trouble
        since = known.since if known is not None and known.kind is kind else self._clock.now().timestamp()
        return Notice(
            kind, f"Its store ({run.store}) {does}: the run is shown as it was read last. {error.message}", since
        )
