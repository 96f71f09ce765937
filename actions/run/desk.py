"""The runner's side of the journal: the view it decides on, and what its handlers tell."""

from __future__ import annotations

from collections.abc import Sequence

from actions.base.clock import Clock
from actions.base.untrusted import one_line, redact
from actions.run.fold import fold
from actions.run.journal import DiskFullError, Journal
from actions.run.lease import Lease, release_lease, write_notes
from actions.run.records import Body, Deleted, Owned, Record
from actions.run.view import OwnedObject, RunView

_DISK_FULL_PAUSE_SECONDS = 2.0


class Desk:
    """The journal as the one runner sees it. Used from the runner's loop only."""

    def __init__(self, journal: Journal, lease: Lease, clock: Clock) -> None:
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._records: list[Record] = []
        self._version = -1
        self._notes: dict[str, str] = {}
        self._written_notes: dict[str, str] = {}

    def view(self) -> RunView:
        """The run as the newest record leaves it."""
        self._read()
        return fold(self._records, holder=self._lease.token)

    def has_news(self) -> bool:
        """Whether somebody else has written since the last look. Cheap."""
        version = self._journal.data_version()
        is_new, self._version = version != self._version, version
        return is_new

    async def write(self, body: Body, *, stage: str = "", attempt: int = 0) -> None:
        """Append a record; waits as long as the disk is full, for what has happened must not be forgotten."""
        while True:
            try:
                self._journal.append(body, stage=stage, attempt=attempt)
                return
            except DiskFullError:
                await self._clock.sleep(_DISK_FULL_PAUSE_SECONDS)

    def note(self, stage: str, text: str) -> None:
        """Remember what a stage waits for; empty for nothing."""
        line = one_line(redact(text))
        if line:
            self._notes[stage] = line
        else:
            self._notes.pop(stage, None)

    def flush_notes(self) -> None:
        """Write the notes if they have changed. A full disk only makes them old."""
        if self._notes == self._written_notes:
            return
        try:
            write_notes(self._journal, self._lease.token, self._notes)
        except DiskFullError:
            return
        self._written_notes = dict(self._notes)

    def release(self) -> bool:
        """Give the lease back unless there is news. Returns whether it was given back."""
        seen = self._records[-1].seq if self._records else 0
        return release_lease(self._journal, self._lease.token, seen=seen)

    def _read(self) -> None:
        seen = self._records[-1].seq if self._records else 0
        self._records.extend(self._journal.records(after=seen))


class StageDesk:
    """What one stage's handler may write; implements `StageJournal`."""

    def __init__(self, desk: Desk, stage: str, attempt: int) -> None:
        self._desk = desk
        self._stage = stage
        self._attempt = attempt

    def note(self, text: str) -> None:
        self._desk.note(self._stage, text)

    def owned(self) -> Sequence[OwnedObject]:
        return self._desk.view().owned_by(self._stage)

    async def own(self, item: OwnedObject) -> None:
        body = Owned(
            api_version=item.api_version,
            object_kind=item.kind,
            namespace=item.namespace,
            name=item.name,
            uid=item.uid,
            existed=item.existed,
        )
        await self._desk.write(body, stage=self._stage, attempt=self._attempt)

    async def deleted(self, item: OwnedObject) -> None:
        body = Deleted(api_version=item.api_version, object_kind=item.kind, namespace=item.namespace, name=item.name)
        await self._desk.write(body, stage=self._stage, attempt=self._attempt)
