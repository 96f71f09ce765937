"""The journal of a run that comes to this machine, written before it has a runner."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.state.fold import fold
from actions.run.state.records import (
    Body,
    ClusterName,
    ContextChosen,
    Created,
)
from actions.run.state.view import RunView


class ArrivalRecords:
    """The journal of a run without a runner.

    Args:
        folder: The run's.
        clock: The machine's.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._journal = Journal(journal_path(folder), clock)

    def write(self, body: Body, *, stage: str = "", attempt: int = 0) -> None:
        """Append a record.

        Args:
            body: The record.
            stage: The stage that it belongs to, if any.
            attempt: The attempt of that.
        """
        self._journal.append(body, stage=stage, attempt=attempt)

    def view(self) -> RunView:
        """Return the run as the newest record leaves it."""
        return fold(self._journal.records())

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

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def arrival_records(folder: Path, clock: Clock) -> closing[ArrivalRecords]:
    """Open the journal of a run without a runner, and close it at the end."""
    return closing(ArrivalRecords(folder, clock))
