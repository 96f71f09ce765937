"""The companion of a runner that replicates its run to the store: records as they are written, small files and curves.

The local disk is the first copy and this the second: a store that does not answer delays nothing. What it lacks is
known from its own objects, not from memory, so that after an hour away, and after a runner that was killed, the next
writes go on where the last ones ended. Nothing is sent while nothing is new but the lease.

The end of a stage comes after the files and curves of that stage: a machine that takes the run over reads the logs of
stages whose end it has not recorded, and of no others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConflictError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.objects import PreconditionError
from actions.run.context.store_address import run_key
from actions.run.journal.elsewhere import note_elsewhere
from actions.run.journal.lease import Heartbeat
from actions.run.journal.machine import machine_id
from actions.run.journal.store import JournalUnwritableError, RecordRow
from actions.run.paid import paid_by
from actions.run.spending import spending_of
from actions.run.state.records import Operator, Outcome
from actions.run.state.view import NoticeKind, RunView, StageState
from actions.run.store.files import LAUNCHED, launched_archive, small_files
from actions.run.store.lease import RENEW_SECONDS, LeaseHeldError, about_run, claim_lease, renew_lease
from actions.run.store.objects import GuardedStore, RunStatus, RunStore, StoreLease, TakenError
from actions.run.store.rows import MOST_ROWS, RowWriter
from actions.run.store.series import OutputCopy

LOOK_SECONDS = 1.0
"""Interval at which the journal is looked at; costs one query."""
NEWS_SECONDS = 3.0
"""Interval at which the lease is renewed while records are written, as it carries the run's state."""
HELD_SECONDS = 2.0
"""Pause before the lease is claimed again that another machine with the same copy of the run has had."""
FILES_SECONDS = 10.0
"""Interval at which files are looked at; costs a `stat` for each."""
BEHIND_SECONDS = 24 * 3600.0
"""The longest time for which a runner without other work waits for a store that does not answer, or refuses."""
_LONGEST_PAUSE_SECONDS = 30.0
_QUIET_FAILURES = 2
"""Failures in a row from which on the store counts as away."""
_REASONS = 50
"""Number of different failures that are written to the runner's log."""
_OUTCOME = str(Outcome.__struct_config__.tag)
_UNDER_WAY = (StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN, StageState.FAILED)


class ToldError(ConsoleError):
    """A failure that has been shown, raised for the runner's log."""


class ReplicatedJournal(Protocol):
    """The part of the runner's journal that a replica uses. Used from the runner's loop; no call blocks for long."""

    @property
    def token(self) -> str: ...
    @property
    def heartbeat(self) -> Heartbeat: ...
    def last_seq(self) -> int: ...
    def rows(self, after: int, *, limit: int) -> Sequence[RecordRow]: ...
    def view_if_readable(self) -> RunView: ...


class Replica:
    """Replicates one run to its store; a `Companion`.

    Args:
        store: The store; closed at the end.
        folder: The run's.
        journal: The run's.
        owner: Who carries it out.
        clock: For waiting.
    """

    name = "store"

    def __init__(
        self, store: RunStore, folder: Path, journal: ReplicatedJournal, owner: Operator, clock: Clock
    ) -> None:
        self._store = store
        self._guarded = GuardedStore(store)
        self._folder = folder
        self._journal = journal
        self._owner = owner
        self._clock = clock
        self._run_id = folder.name
        self._told = 0
        """Number of the newest record that the lease's status includes."""
        self._failures: dict[str, int] = {}
        self._told_reasons: set[str] = set()
        self._failing: dict[str, tuple[NoticeKind, str]] = {}
        """The trouble of each part of the work, and its reason."""
        self._writer = RowWriter(self._guarded, self._run_id, lambda after, limit: journal.rows(after, limit=limit))
        self.sent = -1
        """Number of the newest record in the store; -1 while that is not known."""
        self._output = OutputCopy(self._guarded, self._put, self._run_id, folder)
        self._kept: dict[str, bytes] | None = None
        """The small files as the store has them; `None` before the first look."""
        self._etags: dict[str, str] = {}
        """Of the small files that this runner has written."""
        self._looked_at = -math.inf
        self._complete_to = 0
        """Number of the newest record that was in the journal before files and curves were last written."""
        self.lease: StoreLease | None = None
        """The lease as last renewed; `None` before the store has answered."""
        self._behind_since: float | None = None
        self.renewed_at: float | None = None
        """Monotonic second before the last renewal was sent."""

    async def accompany(self) -> None:
        """Replicate until cancelled. The lease is renewed by itself, however long a write takes.

        Raises:
            ConflictError: Another machine has taken the run over.
            ToldError: The store has failed for a new reason; call it again.
        """
        tasks = [asyncio.ensure_future(self._repeated(work)) for work in (self._hold_lease, self._replicate)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeated(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work without end, after failures with growing pauses; each new reason is raised once, for the log."""
        while True:
            pause, kind, reason = LOOK_SECONDS, None, ""
            try:
                await work()
            except PreconditionError as error:
                kind, reason = NoticeKind.STORE_REFUSED, error.sentence()
            except ConflictError as error:
                await self._note_taken(error)
                raise
            except LeaseHeldError:
                pause = HELD_SECONDS  # the runner's fence sees whether that machine lives
            except (JournalUnwritableError, OSError):
                pass  # the runner reports its disk; a file that was just replaced is there at the next look
            except ConsoleError as error:
                is_refused = isinstance(error, AccessError | MissingError | RefusedError)
                kind, reason = NoticeKind.STORE_REFUSED if is_refused else NoticeKind.STORE_AWAY, error.sentence()
            failures = self._failures.get(work.__name__, 0) + 1 if kind else 0
            self._failures[work.__name__] = failures
            if kind:
                pause = float(min(2 ** min(failures, 9), _LONGEST_PAUSE_SECONDS))
            self._show(work, kind if failures >= _QUIET_FAILURES else None, reason)
            if failures >= _QUIET_FAILURES and reason not in self._told_reasons and len(self._told_reasons) < _REASONS:
                self._told_reasons.add(reason)
                raise ToldError(reason)
            await self._clock.sleep(pause)

    def _show(self, work: Callable[[], Awaitable[None]], kind: NoticeKind | None, reason: str) -> None:
        """Show what a part of the work suffers from now, and why."""
        if kind is None:
            self._failing.pop(work.__name__, None)
        else:
            self._failing[work.__name__] = kind, reason
        now = dict(self._failing.values())
        self._journal.heartbeat.waits_no_more(*({NoticeKind.STORE_AWAY, NoticeKind.STORE_REFUSED} - now.keys()))
        for failing, why in now.items():
            self._journal.heartbeat.waits_for(failing, why)

    def is_behind(self) -> bool:
        """Return whether the store lacks records, or does not take what is written now; after a day without it no more.

        The end of a run is not in its store before this is false: others would see it at work, and lost.
        """
        try:
            is_behind = any(self._failures.values()) or self.sent < self._journal.last_seq()
        except JournalUnwritableError:
            return False
        now = self._clock.monotonic()
        self._behind_since = (self._behind_since or now) if is_behind else None
        return self._behind_since is not None and now - self._behind_since < BEHIND_SECONDS

    async def finish(self, view: RunView) -> None:
        """Write what is left, and give the lease back.

        Raises:
            ConflictError: Another machine has taken the run over.
        """
        try:
            await self._hold_lease()
            self._looked_at = -math.inf
            await self._replicate()
            if self.lease is not None:
                status = self._status_of(view)
                self.lease = await renew_lease(self._store, self._run_id, self.lease, status=status, seconds=0.0)
        except ConflictError as error:
            await self._note_taken(error)
            raise
        finally:
            self._store.close()

    async def _note_taken(self, error: ConflictError) -> None:
        """Note the other machine in the run's folder, where every command that acts on the run looks for it.

        If need be, its name is read from the store after that: this runner is about to end, whatever the answer.
        """
        epoch = self._journal.view_if_readable().epoch
        if not isinstance(error, TakenError) or error.epoch < epoch:
            return
        note_elsewhere(self._folder, error.owner, error.epoch, is_copy=error.epoch == epoch)
        if error.owner is None:
            with suppress(ConsoleError):
                lease = await self._store.lease(self._run_id)
                if lease is not None and lease.epoch >= error.epoch:
                    note_elsewhere(self._folder, lease.owner, lease.epoch, is_copy=lease.epoch == epoch)

    async def _replicate(self) -> None:
        """Write what the store lacks."""
        if self.lease is None:
            return
        if self.sent < 0:
            end = await self._writer.begin(epoch=self._epoch)
            await self._push_all_files()  # before the first record: whoever can read that has all that a launch made
            self.sent = end
        while self.sent < self._journal.last_seq():
            rows = self._journal.rows(self.sent, limit=MOST_ROWS)
            ready = rows[: self._before_stage_end(rows)]
            if ready:
                self.sent = await self._writer.append(ready, epoch=self._epoch)
            else:
                await self._push_all_files()
        if self._clock.monotonic() - self._looked_at >= FILES_SECONDS:
            await self._push_all_files()

    def _before_stage_end(self, rows: Sequence[RecordRow]) -> int:
        """Return the number of rows before the first end of a stage whose files the store may lack."""
        unsure = ((place, row) for place, row in enumerate(rows) if row.seq > self._complete_to)
        return next((place for place, row in unsure if row.stage and row.kind == _OUTCOME), len(rows))

    async def _push_all_files(self) -> None:
        """Write files and output, and note the records whose stages' files are in the store from then on."""
        newest = self._journal.last_seq()
        await self._push_files()
        self._complete_to = newest
        self._looked_at = self._clock.monotonic()

    @property
    def _epoch(self) -> int:
        return self.lease.epoch if self.lease else 1

    async def _hold_lease(self) -> None:
        now = self._clock.monotonic()
        age = math.inf if self.lease is None or self.renewed_at is None else now - self.renewed_at
        if age < (RENEW_SECONDS if self._journal.last_seq() == self._told else NEWS_SECONDS):
            return
        self._told = self._journal.last_seq()
        view = self._journal.view_if_readable()
        status = self._status_of(view)
        if self.lease is None:
            machine = await in_thread("store-read", machine_id, self._folder)
            self.lease = await claim_lease(
                self._store,
                self._run_id,
                self._owner,
                epoch=view.epoch,
                holder=machine,
                status=status,
                about=about_run(view),
            )
        else:
            self.lease = await renew_lease(self._store, self._run_id, self.lease, status=status)
        self.renewed_at = now

    async def _push_files(self) -> None:
        """Write small files and output; one that cannot be read now is looked at again the next time."""
        with suppress(OSError):
            await self._push_small()
        with suppress(OSError):
            await self._output.push()

    async def _push_small(self) -> None:
        if self._kept is None:
            await self._push_launched()
            self._kept = {}
        wanted = await in_thread("store-read", small_files, self._folder)
        for name, data in wanted.items():
            if self._kept.get(name) != data:
                await self._put(run_key(self._run_id, f"files/{name}"), data)
                self._kept[name] = data

    async def _push_launched(self) -> None:
        name = run_key(self._run_id, f"files/{LAUNCHED}")
        if not await self._store.objects(name):
            data = await in_thread("store-read", launched_archive, self._folder)
            await self._put(name, data)

    async def _put(self, name: str, data: bytes) -> None:
        """Write a small file, whatever is there; first over what this runner has written, if it has."""
        try:
            if etag := self._etags.get(name):
                written = await self._guarded.replace(name, data, etag=etag)
            else:
                written = await self._guarded.put_if_absent(name, data)
        except PreconditionError as error:
            self._etags.pop(name, None)
            if error.found is not None:
                written = await self._guarded.replace(name, data, etag=error.found.etag)
            else:  # it was removed
                written = await self._guarded.put_if_absent(name, data)
        self._etags[name] = written.etag

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
