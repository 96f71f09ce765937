"""The companion of a runner that publishes its run: it holds the lease in the store, and writes there what is new.

The local disk is the first copy and the run's store the second: a store that does not answer delays nothing. Nothing is
sent while nothing is new but the lease. Beside a store in S3, a lease is kept in the run's cluster, for its watchdog.

The store in a cluster is left alone once the audit of the run's teardown has begun, which removes it, and while the
teardown removes the cluster.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from decimal import Decimal
from pathlib import Path

from actions.base.backoff import backoff_seconds
from actions.base.clock import Clock
from actions.base.errors import AccessError, ConflictError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.guard import require_guard
from actions.base.objects import PreconditionError
from actions.run.context.operator import present_operator
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import JournalUnwritableError
from actions.run.paid import paid_by
from actions.run.spending import spending_of
from actions.run.state.records import Action, Operator
from actions.run.state.view import OVER, Goal, NoticeKind, RunState, RunView, StageState
from actions.run.store.access import StoreAccess, known_store
from actions.run.store.contents import StoreContents
from actions.run.store.elsewhere import note_elsewhere
from actions.run.store.lease import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    LeaseHeldError,
    about_run,
    claim_lease,
    renew_lease,
    take_lease,
    this_holder,
)
from actions.run.store.objects import (
    DamagedError,
    LeaseConflictError,
    RunStatus,
    RunStore,
    StoreLease,
    TakenError,
    taken_by_epoch,
)

LOOK_SECONDS = 1.0
"""Interval at which the journal is looked at; costs one query."""
NEWS_SECONDS = 3.0
"""Interval at which the lease is renewed while records are written, as it carries the run's state."""
HELD_SECONDS = 2.0
"""Pause before the lease is claimed again that another machine has had at this epoch."""
BEAT_SECONDS = 30.0
"""Interval at which the lease beside a store in S3 is renewed in the cluster."""
POINTER_SECONDS = 3 * BEAT_SECONDS
"""Time for which that holds."""
LOSSES_SECONDS = 60.0
"""Interval at which a store in the cluster, where others delete objects, is searched for what is gone."""
BEHIND_SECONDS = 24 * 3600.0
"""The longest time for which a runner without other work waits for a store in S3 that does not answer, or refuses."""
_LONGEST_PAUSE_SECONDS = 30.0
_QUIET_FAILURES = 2
"""Failures in a row from which on the store counts as away."""
_REASONS = 50
"""Number of different failures that are written to the runner's log."""
_REMOVAL_SECONDS = 3.0
_UNDER_WAY = (StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN, StageState.FAILED)

Work = Callable[[], Awaitable[None]]


class ToldError(ConsoleError):
    """A failure that has been shown, raised for the runner's log."""


class Publisher:
    """Publishes one run in its store; a `Companion`.

    Args:
        access: The way to the store; closed at the end.
        folder: The run's.
        journal: The run's.
        owner: Who carries it out.
        clock: For waiting.
    """

    name = "store"

    def __init__(
        self, access: StoreAccess, folder: Path, journal: RunnerJournal, owner: Operator, clock: Clock
    ) -> None:
        self._access = access
        self._folder = folder
        self._journal = journal
        self._owner = owner
        self._clock = clock
        self._run_id = folder.name
        self._holder = ""
        self._told = 0
        """Number of the newest record that the lease's status includes."""
        self._failures: dict[str, int] = {}
        self._told_reasons: set[str] = set()
        self._failing: dict[str, tuple[NoticeKind, str]] = {}
        """The trouble of each part of the work, and its reason."""
        self.contents = StoreContents(folder, journal, journal.view_if_readable().epoch, clock)
        self.lease: StoreLease | None = None
        """The lease as last renewed; `None` before the store has answered."""
        self._held: StoreLease | None = None
        """That of another machine at this epoch, which may live."""
        self._turn = asyncio.Lock()
        """Of the works that have one connection."""
        self._searched_at = clock.monotonic()
        self._pointed_at = -math.inf
        self._pointed: tuple[object, ...] = ()
        self._behind_since: float | None = None
        self.renewed_at: float | None = None
        """Monotonic second before the last renewal was sent."""

    @property
    def sent(self) -> int:
        """Number of the newest record in the store; -1 while that is not known."""
        return self.contents.sent

    async def accompany(self) -> None:
        """Publish until cancelled. The lease is renewed by itself, however long a write takes.

        Raises:
            ConflictError: Another machine has taken the run over.
            ToldError: The store has failed for a new reason; call it again.
        """
        beside = self._keep_states if self._access.is_in_cluster else self._point
        tasks = [asyncio.ensure_future(self._repeated(work)) for work in (self._hold_lease, self._push, beside)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeated(self, work: Work) -> None:
        """Work without end, after failures with growing pauses; each new reason is raised once, for the log."""
        while True:
            pause, kind, reason = LOOK_SECONDS, None, ""
            try:
                await self._worked(work)
            except PreconditionError as error:
                kind, reason = NoticeKind.STORE_REFUSED, error.sentence()
                self.contents.forget()  # what is there is not what was written: it is looked at
            except ConflictError as error:
                await self._note_taken(error)
                raise
            except LeaseHeldError as error:
                pause, self._held = HELD_SECONDS, error.lease  # the runner's fence sees whether that machine lives
            except (JournalUnwritableError, OSError):
                pass  # the runner reports its disk; a file that was just replaced is there at the next look
            except ConsoleError as error:
                is_refused = isinstance(error, AccessError | MissingError | RefusedError)
                kind, reason = NoticeKind.STORE_REFUSED if is_refused else NoticeKind.STORE_AWAY, error.sentence()
            failures = self._failures.get(work.__name__, 0) + 1 if kind else 0
            self._failures[work.__name__] = failures
            if kind:
                pause = backoff_seconds(failures, first_seconds=2.0, longest_seconds=_LONGEST_PAUSE_SECONDS)
            self._show(work, kind if failures >= _QUIET_FAILURES else None, reason)
            if failures >= _QUIET_FAILURES and reason not in self._told_reasons and len(self._told_reasons) < _REASONS:
                self._told_reasons.add(reason)
                raise ToldError(reason)
            await self._clock.sleep(pause)

    async def _worked(self, work: Work) -> None:
        """Do one part of the work; after a failure the next try has the kubeconfig and the credentials of then."""
        async with self._turn if self._access.is_in_cluster else nullcontext():
            try:
                await work()
            except ConsoleError as error:
                is_failure = not isinstance(error, ConflictError | LeaseHeldError)
                if is_failure and (self._access.is_in_cluster or work == self._point):
                    await self._access.reconnect()
                if is_failure and self._access.is_in_cluster:
                    self.contents.reopen()
                raise

    def _show(self, work: Work, kind: NoticeKind | None, reason: str) -> None:
        """Show what a part of the work suffers from now, and why; a cluster that is away is shown by its stage."""
        is_shown = work != self._point and not (kind is NoticeKind.STORE_AWAY and self._access.is_in_cluster)
        if kind is None or not is_shown:
            self._failing.pop(work.__name__, None)
        else:
            self._failing[work.__name__] = kind, reason
        now = dict(self._failing.values())
        self._journal.heartbeat.waits_no_more(*({NoticeKind.STORE_AWAY, NoticeKind.STORE_REFUSED} - now.keys()))
        for failing, why in now.items():
            self._journal.heartbeat.waits_for(failing, why)

    def is_behind(self) -> bool:
        """Return whether a store in S3 lacks records, or does not take what is written now; after a day no more.

        The end of a run is not in its store before this is false: others would see it at work, and lost.
        """
        if self._access.is_in_cluster:
            return False
        try:
            works = self._hold_lease, self._push
            has_failed = any(self._failures.get(work.__name__) for work in works)
            is_behind = has_failed or self.sent < self._journal.last_seq()
        except JournalUnwritableError:
            return False
        now = self._clock.monotonic()
        self._behind_since = (self._behind_since or now) if is_behind else None
        return self._behind_since is not None and now - self._behind_since < BEHIND_SECONDS

    async def finish(self, view: RunView) -> None:
        """Write what is left, and give the lease back; after a teardown, remove what was on its way to the cluster.

        Raises:
            ConflictError: Another machine has taken the run over.
        """
        try:
            if self._may_write():
                await self._hold_lease()
                self.contents.look_again()
                await self._push()
            if self.lease is not None and self._may_write():
                store, status = await self._access.open(), self._status_of(view)
                self.lease = await renew_lease(store, self._run_id, self.lease, status=status, seconds=0.0)
            if not self._access.is_in_cluster:
                await self._point()
            if view.state is RunState.TORN_DOWN and self._access.has_cluster() and not self._access.removes_cluster():
                async with asyncio.timeout(_REMOVAL_SECONDS):
                    await (await self._access.open_cluster()).remove_run(self._run_id)
        except ConflictError as error:
            await self._note_taken(error)
            raise
        finally:
            await self._access.aclose()

    async def _note_taken(self, error: ConflictError) -> None:
        """Note the other machine in the run's folder, where every command that acts on the run looks for it.

        If need be, its name is read from the store after that: this runner is about to end, whatever the answer.
        """
        view = self._journal.view_if_readable()
        if not isinstance(error, TakenError) or error.epoch < view.epoch:
            return
        note_elsewhere(self._folder, error.owner, error.epoch, view.store, is_copy=error.epoch == view.epoch)
        if error.owner is None:
            with suppress(ConsoleError):
                lease = await self._access.read()
                if lease is not None and lease.epoch >= error.epoch:
                    is_copy = lease.epoch == view.epoch
                    note_elsewhere(self._folder, lease.owner, lease.epoch, view.store, is_copy=is_copy)

    def _may_write(self) -> bool:
        """Return whether the run has a store, and is not about to remove it."""
        return self._access.exists() and not (self._access.is_in_cluster and self._leaves_cluster())

    def _leaves_cluster(self) -> bool:
        """Return whether the teardown removes the run's objects from its cluster, or that itself."""
        view = self._journal.view_if_readable()
        is_searched = view.goal is Goal.TEARDOWN and (Action.AUDIT, "") in view.ending
        return is_searched or known_store(self._folder).is_removed or self._access.removes_cluster()

    async def _push(self) -> None:
        """Write what the store lacks."""
        if self.lease is None or not self._may_write():
            return
        store = await self._access.open()
        now = self._clock.monotonic()
        if self._access.is_in_cluster and now - self._searched_at >= LOSSES_SECONDS:
            self._searched_at = now
            await self.contents.look_for_losses(store)
        await self.contents.push(store)

    async def _keep_states(self) -> None:
        """Write Terraform's states, also while it works; those of a run in S3 are in its backend."""
        if self.lease is not None and self._may_write():
            await self.contents.push_states(await self._access.open())

    async def _hold_lease(self) -> None:
        if not self._may_write():
            return
        now = self._clock.monotonic()
        age = math.inf if self.lease is None or self.renewed_at is None else now - self.renewed_at
        if age < (RENEW_SECONDS if self._journal.last_seq() == self._told else NEWS_SECONDS):
            return
        self._told = self._journal.last_seq()
        view = self._journal.view_if_readable()
        store, status = await self._access.open(), self._status_of(view)
        try:
            if self.lease is not None:
                self.lease = await renew_lease(store, self._run_id, self.lease, status=status)
            else:
                self.lease = await self._claimed(store, view)
        except LeaseConflictError:  # somebody has removed it, perhaps with all else
            self.lease = None
            self.contents.forget()
            self.lease = await self._claimed(store, view)
        except DamagedError as error:
            self.contents.forget()
            self.lease = await self._written_again(store, view, error)
        self.renewed_at = now

    async def _claimed(self, store: RunStore, view: RunView) -> StoreLease:
        """Take the lease that this machine has by its journal; not where the run may have been torn down.

        Raises:
            TakenError: Another machine has it, or there is none, and one has written a record.
        """
        if await self._access.read() is None:
            await self.contents.compare(store)  # it was removed, perhaps another machine's
        return await claim_lease(
            store,
            self._run_id,
            self._owner,
            epoch=view.epoch,
            holder=await self._this_holder(),
            status=self._status_of(view),
            about=about_run(view),
            held=self._held,
        )

    async def _written_again(self, store: RunStore, view: RunView, damaged: DamagedError) -> StoreLease:
        """Write our lease over a damaged one. Who has taken the run over has written a record, too.

        Raises:
            TakenError: Another machine has.
        """
        if damaged.epoch > view.epoch:
            raise taken_by_epoch(self._run_id, damaged.epoch)
        await self.contents.compare(store)
        return await self._taken_over(store, view, damaged.lease(self._owner, view.epoch), LEASE_SECONDS)

    async def _taken_over(self, store: RunStore, view: RunView, after: StoreLease | None, seconds: float) -> StoreLease:
        """Write a lease over one that is none of another machine."""
        return await take_lease(
            store,
            self._run_id,
            self._owner,
            after=after,
            epoch=view.epoch,
            holder=await self._this_holder(),
            status=self._status_of(view),
            about=about_run(view),
            seconds=seconds,
        )

    async def _point(self) -> None:
        """Keep the lease in the cluster beside that in S3, unless a later one is there."""
        if self.lease is None:
            return  # another machine may have the run
        view = self._journal.view_if_readable()
        now, state = self._clock.monotonic(), (view.state, view.epoch)
        is_due = now - self._pointed_at >= BEAT_SECONDS or state != self._pointed
        if not is_due or not self._access.has_cluster() or self._leaves_cluster():
            return
        store = await self._access.open_cluster()
        try:
            found = await store.lease(self._run_id)
        except DamagedError as error:
            found = error.lease(self._owner, max(error.epoch, 1))
        await require_guard("the lease in the cluster", in_cluster=True)  # its conditions are no fence: that is in S3
        with suppress(TakenError):  # another write came first
            if found is None or found.epoch <= view.epoch:
                await self._taken_over(store, view, found, 0.0 if view.state in OVER else POINTER_SECONDS)
        self._pointed_at, self._pointed = now, state

    async def _this_holder(self) -> str:
        if not self._holder:
            self._holder = await in_thread("store-read", this_holder, present_operator())
        return self._holder

    def _status_of(self, view: RunView) -> RunStatus:
        spending = spending_of(view, self._clock.now().timestamp())
        beat = self._journal.heartbeat.state
        return RunStatus(
            state=view.state.value,
            stage=next((stage.id for stage in (*view.teardown, *view.stages) if stage.state in _UNDER_WAY), ""),
            last_seq=max(self.sent, 0),
            writer=self._journal.token,
            spent_usd=_rounded(spending.usd) if spending else "",
            usd_per_hour=_rounded(spending.usd_per_hour) if spending else "",
            nodes_usd_per_hour=_rounded(paid_by(view).nodes_usd_per_hour) if spending else "",
            notes=dict(beat.notes),
            troubles=dict(beat.troubles),
        )


def _rounded(usd: Decimal) -> str:
    return str(usd.quantize(Decimal("0.0001")))
