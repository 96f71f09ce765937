"""The journal of a run that comes to this machine, written before it has a runner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import JournalError
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.state.fold import fold
from actions.run.state.records import (
    Body,
    ClusterName,
    ContextChosen,
    Created,
    Identified,
    RunAccount,
    TerraformBody,
)
from actions.run.state.view import OwnedObject, RunView, StageView, TerraformMemory


class SetClock:
    """A clock that stands at the time of the record to write.

    Args:
        clock: Keeps the other times.
        at: Seconds since the epoch.
    """

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock = clock
        self.at = at

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class ArrivalRecords:
    """The journal of a run without a runner: records with times of their own.

    Args:
        folder: The run's.
        clock: The machine's.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._times = SetClock(clock, clock.now().timestamp())
        self._journal = Journal(journal_path(folder), self._times)

    def write(self, body: Body, *, stage: str = "", attempt: int = 0, at: float = 0.0) -> None:
        """Append a record.

        Args:
            body: The record.
            stage: The stage that it belongs to, if any.
            attempt: The attempt of that.
            at: Seconds since the epoch; 0.0 for now.
        """
        self._times.at = at or self._clock.now().timestamp()
        self._journal.append(body, stage=stage, attempt=attempt)

    def view(self) -> RunView:
        """Return the run as the newest record leaves it."""
        return fold(self._journal.records())

    def created(self) -> Created:
        """Return the first record.

        Raises:
            JournalError: It is of another kind.
        """
        first = next(iter(self._journal.records()), None)
        if first is None or not isinstance(first.body, Created):
            raise JournalError("The journal does not begin with the run.")
        return first.body

    def newest_at(self, *, before: type[Body]) -> float:
        """Return the time of the newest record, in seconds since the epoch.

        Args:
            before: A kind of record at the end of the journal that does not count.
        """
        found = [record.at for record in self._journal.records() if not isinstance(record.body, before)]
        return found[-1] if found else 0.0

    def contexts(self) -> list[ClusterName]:
        """Return the contexts by which machines have reached the run's cluster, the newest first; none if it is from
        EKS."""
        found: list[ClusterName] = []
        for record in self._journal.records():
            if isinstance(record.body, Created):
                found.append(record.body.cluster)
            elif isinstance(record.body, ContextChosen):
                found.append(replace(found[0], context=record.body.context, kubeconfig=record.body.kubeconfig))
        return [each for each in reversed(found) if each.context or each.kubeconfig]

    def stage(self, stage: StageView) -> StageRecords:
        """Return the journal of one stage, for its handler."""
        return StageRecords(self, stage)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


class StageRecords:
    """The journal of one stage of a run without a runner; implements `StageJournal`."""

    def __init__(self, records: ArrivalRecords, stage: StageView) -> None:
        self._records = records
        self._stage = stage

    def note(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        return

    def trouble(self, text: str) -> None:
        return

    def owned(self) -> Sequence[OwnedObject]:
        return self._records.view().owned_by(self._stage.id)

    async def own(self, item: OwnedObject) -> None:
        self._records.write(item.announcement(), stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def deleted(self, item: OwnedObject) -> None:
        self._records.write(item.deletion(), stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def terraform(self) -> TerraformMemory:
        return self._records.view().stage(self._stage.id).terraform

    async def remember(self, body: TerraformBody) -> None:
        self._records.write(body, stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def identify(self, account: RunAccount) -> None:
        self._records.write(Identified(account))


@contextmanager
def arrival_records(folder: Path, clock: Clock) -> Iterator[ArrivalRecords]:
    """Open the journal of a run without a runner, and close it at the end."""
    records = ArrivalRecords(folder, clock)
    try:
        yield records
    finally:
        records.close()
