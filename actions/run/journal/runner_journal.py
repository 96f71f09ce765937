"""The runner's side of the journal: the view that it decides on, and the records and messages of its handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from actions.base.clock import Clock
from actions.base.errors import ConflictError, JournalError
from actions.base.guard import require_guard
from actions.run.journal.folder import RESERVE_BYTES, has_room, keep_reserve, release_reserve
from actions.run.journal.journal_file import RecordRow
from actions.run.journal.lease import Heartbeat, forget_starts, release_lease
from actions.run.journal.store import DiskFullError, Journal, JournalUnwritableError, Lease
from actions.run.state.fold import fold
from actions.run.state.records import (
    Body,
    Created,
    Identified,
    JournalRecord,
    NodesUsed,
    RunAccount,
    TerraformBody,
    record_kind,
)
from actions.run.state.view import Goal, NoticeKind, OwnedObject, RunView, TerraformMemory

T = TypeVar("T")

_OF_DISK = (NoticeKind.DISK_FULL, NoticeKind.READ_ONLY, NoticeKind.LOCKED)
"""The obstacles that are over when the journal could be used."""
_RETRY_SECONDS = 1.0
"""Pause between two attempts to use a journal that cannot be used at present."""


async def when_usable(
    call: Callable[[], T],
    *,
    folder: Path,
    heartbeat: Heartbeat,
    clock: Clock,
    make_room: Callable[[], bool] = lambda: False,
    allow: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Return the result of a call that uses the journal, repeated until it can be used, however long that takes.

    Args:
        call: Must be safe to repeat as long as it raises `JournalUnwritableError`.
        folder: The run's.
        heartbeat: Records the obstacle, and keeps beating meanwhile.
        clock: For the pauses.
        make_room: Called on a full disk; returns whether it has freed space.
        allow: Awaited before each attempt; raises if it may not be made, for which there may be a reason by then.
    """
    was_locked = False
    while True:
        if allow is not None:
            await allow()
        try:
            done = call()
        except JournalUnwritableError as error:
            was_locked = was_locked or error.kind is NoticeKind.LOCKED
            heartbeat.waits_for(error.kind)
            if isinstance(error, DiskFullError) and make_room():
                continue
        else:
            # A locked journal can be read: that it was says nothing of the lock.
            stays = {NoticeKind.DISK_FULL: not has_room(folder), NoticeKind.LOCKED: not was_locked}
            heartbeat.waits_no_more(*(kind for kind in _OF_DISK if not stays.get(kind)))
            return done
        heartbeat.beat()
        await clock.sleep(_RETRY_SECONDS)


_MOST_LOOKS = 3
"""Number of calls of `keep_alive` in a row that may find the journal missing."""


class RunnerJournal:
    """The journal as the one runner sees it. Used from the runner's loop only.

    It waits for a full disk and for another process' lock, however long: no event may be lost, and the work that it is
    about continues elsewhere. No call blocks the loop for longer than the journal's `lock_seconds`.

    Args:
        journal: Opened under `lease`.
        lease: This process's.
        clock: For waiting.
        heartbeat: Carries messages and obstacles; one of its own if not given.
    """

    def __init__(self, journal: Journal, lease: Lease, clock: Clock, heartbeat: Heartbeat | None = None) -> None:
        self._journal = journal
        self._folder = journal.path.parent
        self._lease = lease
        self._clock = clock
        self._heartbeat = heartbeat or Heartbeat(self._folder, lease.holder, clock)
        self._records: Sequence[JournalRecord] = ()
        self._folded: tuple[JournalRecord | None, RunView] | None = None
        """The run up to its newest record: companions look at it several times a second."""
        self._foreign = -1
        self._notes: dict[str, str] = {}
        self._warnings: dict[str, str] = {}
        self._was_locked = False
        self._looks_in_vain = 0
        self._has_own_news = False
        self._is_released = False

    async def view(self) -> RunView:
        """Return the run as the newest record leaves it."""
        await self._retried(self._read)
        return self._known()

    def view_if_readable(self) -> RunView:
        """Return the run without waiting: as last read, if the journal cannot be read at present."""
        with suppress(JournalUnwritableError):
            self._read()
        return self._known()

    def created(self) -> Created:
        """Return the first record, which every journal has.

        Raises:
            JournalError: It has another one.
        """
        with suppress(JournalUnwritableError):
            self._read()
        body = self._records[0].body if self._records else None
        if not isinstance(body, Created):
            raise JournalError("the journal does not begin with the run's creation.", hint="The run cannot be used.")
        return body

    def has_news(self) -> bool:
        """Return whether another process, or a task beside the runner's, has written since the last call. Cheap."""
        is_own, self._has_own_news = self._has_own_news, False
        try:
            found = self._journal.foreign_records()
        except JournalUnwritableError:
            return is_own
        is_new, self._foreign = found != self._foreign, found
        return is_new or is_own

    def last_seq(self) -> int:
        """Return the number of the newest record. Cheap.

        Raises:
            JournalUnwritableError: The journal cannot be read at present.
        """
        return self._journal.last_seq()

    def rows(self, after: int, *, limit: int) -> list[RecordRow]:
        """Return at most `limit` rows of the journal with a number above `after`.

        Raises:
            JournalUnwritableError: The journal cannot be read at present.
        """
        return self._journal.rows(after, limit=limit)

    @property
    def token(self) -> str:
        """The writer of this runner's records."""
        return self._lease.token

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat that carries messages and obstacles."""
        return self._heartbeat

    async def write(self, body: Body, *, stage: str = "", attempt: int = 0) -> None:
        """Append a record; wait as long as it takes.

        Raises:
            ConflictError: Another runner has taken the lease, or this machine may no longer carry out the run.
        """
        await self._retried(lambda: self._journal.append(body, stage=stage, attempt=attempt), allow=_guard_of(body))

    async def write_at_limit(self, body: Body) -> None:
        """Append a record that ends work, on a full disk with the reserved space; then the runner has news.

        Raises:
            ConflictError: As `write`.
        """
        await when_usable(
            lambda: self._journal.append(body),
            folder=self._folder,
            heartbeat=self._heartbeat,
            clock=self._clock,
            make_room=lambda: release_reserve(self._folder),
            allow=_guard_of(body),
        )
        self._has_own_news = True

    async def release(self, seen: int) -> bool:
        """Give the lease back unless there is news. Returns whether it was given back.

        Args:
            seen: Number of the newest record by which the runner has found nothing to do: its companions read, too.
        """
        is_released = await self._retried(lambda: release_lease(self._journal, self._lease.token, seen=seen))
        if is_released:
            self._is_released = True
            forget_starts(self._folder)
        return is_released

    def note(self, stage: str, text: str) -> None:
        """Set the progress message of a stage; empty for none."""
        self._notes[stage] = text
        self._heartbeat.note(stage, _joined(self._notes, self._warnings, stage))

    def warn(self, stage: str, text: str) -> None:
        """Set the warning of a stage, shown behind its progress message; empty for none."""
        self._warnings[stage] = text
        self._heartbeat.note(stage, _joined(self._notes, self._warnings, stage))

    def trouble(self, stage: str, text: str) -> None:
        """Set what the pods of a stage suffer from now; empty for nothing."""
        self._heartbeat.trouble(stage, text)

    def flush_notes(self) -> None:
        """Write messages and warnings to the heartbeat if they have changed."""
        self._heartbeat.flush()

    def may_begin(self) -> bool:
        """Return whether a stage may begin: not on a full disk."""
        return has_room(self._folder)

    def keep_alive(self) -> None:
        """Write a heartbeat, and keep the reserved space on disk. To be called every few seconds.

        Raises:
            ConflictError: Another runner has taken the lease, or the journal was deleted or replaced.
        """
        self._require_place()
        if has_room(self._folder):
            self._heartbeat.waits_no_more(NoticeKind.DISK_FULL)
            keep_reserve(self._folder)
            self._journal.keep_room()
        else:
            self._heartbeat.waits_for(NoticeKind.DISK_FULL)
        self._note_lock(is_locked=self._journal.is_locked())
        self._heartbeat.beat()
        self.require_lease()

    def require_lease(self) -> None:
        """Require that this process still holds the lease in the journal, if that can be read at present.

        After `release` it need not be held: what is left then records the run's end, as in its cluster.

        Raises:
            ConflictError: Another runner has taken it.
        """
        with suppress(JournalUnwritableError):
            self._journal.require_lease(or_none=self._is_released)

    def _require_place(self) -> None:
        """Require the journal at its path; a file that is missing for a moment may be in the middle of a move."""
        self._looks_in_vain = 0 if self._journal.is_in_place() else self._looks_in_vain + 1
        if self._looks_in_vain >= _MOST_LOOKS:
            raise ConflictError(f"{self._journal.path} was deleted or replaced: its records would be lost.")

    def _note_lock(self, *, is_locked: bool) -> None:
        """Report a lock that is held at two calls in a row: a writer of one record is faster."""
        if not is_locked:
            self._heartbeat.waits_no_more(NoticeKind.LOCKED)
        elif self._was_locked:
            self._heartbeat.waits_for(NoticeKind.LOCKED)
        self._was_locked = is_locked

    def _read(self) -> None:
        self._records = self._journal.all_records()

    def _known(self) -> RunView:
        newest = self._records[-1] if self._records else None
        if self._folded is None or self._folded[0] is not newest:
            self._folded = newest, fold(self._records, holder=self._lease.token)
        return self._folded[1]

    async def _retried(self, call: Callable[[], T], *, allow: Callable[[], Awaitable[None]] | None = None) -> T:
        return await when_usable(
            call,
            folder=self._folder,
            heartbeat=self._heartbeat,
            clock=self._clock,
            make_room=self._uses_reserve,
            allow=allow,
        )

    def _uses_reserve(self) -> bool:
        """Release the reserved space, unless the run goes forward: then it waits until an operator frees some."""
        if not self._records or self._known().goal is Goal.FORWARD or not release_reserve(self._folder):
            return False
        self._journal.keep_room(RESERVE_BYTES // 2)
        return True


def _guard_of(body: Body) -> Callable[[], Awaitable[None]]:
    """Return the call that requires that this process may write a record now."""
    return partial(require_guard, f"the record {record_kind(body)}", stays_here=True)


def _joined(notes: Mapping[str, str], warnings: Mapping[str, str], stage: str) -> str:
    """Return the progress message of a stage with its warning behind it."""
    return f"{notes.get(stage, '')} {warnings.get(stage, '')}"


class StageRecorder:
    """The records and messages of one stage's handler; implements `StageJournal`."""

    def __init__(self, runner_journal: RunnerJournal, stage: str, attempt: int) -> None:
        self._journal = runner_journal
        self._stage = stage
        self._attempt = attempt

    def note(self, text: str) -> None:
        self._journal.note(self._stage, text)

    def warn(self, text: str) -> None:
        self._journal.warn(self._stage, text)

    def trouble(self, text: str) -> None:
        self._journal.trouble(self._stage, text)

    def owned(self) -> Sequence[OwnedObject]:
        return self._journal.view_if_readable().owned_by(self._stage)

    async def own(self, item: OwnedObject) -> None:
        await self._journal.write(item.announcement(), stage=self._stage, attempt=self._attempt)

    async def deleted(self, item: OwnedObject) -> None:
        await self._journal.write(item.deletion(), stage=self._stage, attempt=self._attempt)

    async def terraform(self) -> TerraformMemory:
        return (await self._journal.view()).stage(self._stage).terraform

    async def remember(self, body: TerraformBody | NodesUsed) -> None:
        await self._journal.write(body, stage=self._stage, attempt=self._attempt)

    async def identify(self, account: RunAccount) -> None:
        await self._journal.write(Identified(account))
