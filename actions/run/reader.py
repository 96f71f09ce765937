"""A run as a console reads it: polled, cheap while nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import JournalError
from actions.run.fold import fold
from actions.run.folder import journal_path, runs_home
from actions.run.journal import Journal
from actions.run.lease import Lease, read_lease
from actions.run.moves import Finish, next_move
from actions.run.records import Record
from actions.run.view import RunState, RunView, StageState, StageView


class RunReader:
    """Reads one run. One thread may use it; costs one PRAGMA and one look at `/proc` while nothing changes.

    Args:
        folder: The run's folder.

    Raises:
        JournalError: Its journal cannot be read.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self.folder = folder
        self._journal = Journal(journal_path(folder), clock or SystemClock())
        self._records: list[Record] = []
        self._lease: Lease | None = None
        self._seen: tuple[int, bool] | None = None

    @property
    def runner_alive(self) -> bool:
        """Whether a runner was at work at the last poll."""
        return self._seen is not None and self._seen[1]

    def poll(self) -> RunView | None:
        """The run, or `None` if it is as it was at the last poll.

        Raises:
            JournalError: The journal is damaged.
        """
        version = self._journal.data_version()
        is_new = self._seen is None or self._seen[0] != version
        if is_new:
            self._lease = read_lease(self._journal)
        is_alive = self._lease is not None and self._lease.is_alive
        if not is_new and self._seen == (version, is_alive):
            return None
        self._seen = (version, is_alive)
        return self._view(self._lease if is_alive else None)

    def records(self) -> tuple[Record, ...]:
        """All records as of the last poll."""
        return tuple(self._records)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _view(self, lease: Lease | None) -> RunView:
        seen = self._records[-1].seq if self._records else 0
        self._records.extend(self._journal.records(after=seen))
        view = fold(self._records, holder=lease.token if lease else "")
        return _with_notes(view, lease.notes) if lease and lease.notes else view


def load_run(folder: Path) -> RunView:
    """The run as it is.

    Raises:
        JournalError: Its journal cannot be read.
    """
    return _load(folder)[0]


def _load(folder: Path) -> tuple[RunView, bool]:
    """The run, and whether a runner is alive."""
    reader = RunReader(folder)
    try:
        view = reader.poll()
        if view is None:
            raise JournalError(f"{folder} cannot be read.")
        return view, reader.runner_alive
    finally:
        reader.close()


class RunSummary(msgspec.Struct, frozen=True):
    """One run in a list."""

    id: str
    folder: Path
    blueprint_id: str
    title: str
    cluster: str
    created_at: float
    """Seconds since the epoch; 0.0 if the journal cannot be read."""
    state: RunState
    stage: str
    """Id of the stage that is under way or waits, else empty."""
    leftovers: int
    is_interrupted: bool
    """There is something to do, it was begun, and no runner is alive: after a crash or a reboot."""
    error: str
    """Why it cannot be read; empty otherwise."""


def list_runs(home: Path | None = None) -> list[RunSummary]:
    """All runs on this machine, newest first. Unreadable ones are there too, with the reason."""
    base = home or runs_home()
    folders = [path for path in base.iterdir() if path.is_dir()] if base.is_dir() else []
    found = [_summary(folder) for folder in folders if journal_path(folder).exists()]
    return sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)


def _summary(folder: Path) -> RunSummary:
    try:
        view, is_alive = _load(folder)
    except JournalError as error:
        return RunSummary(
            folder.name, folder, "", "", "", 0.0, RunState.UNKNOWN, "", 0, is_interrupted=False, error=error.sentence()
        )
    return RunSummary(
        id=view.id,
        folder=folder,
        blueprint_id=view.blueprint_id,
        title=view.title,
        cluster=view.cluster.name,
        created_at=view.created_at,
        state=view.state,
        stage=next((stage.id for stage in (*view.stages, *view.teardown) if stage.state in _UNDER_WAY), ""),
        leftovers=len(view.audit.leftovers) if view.audit else 0,
        is_interrupted=not is_alive and view.last_seq > 1 and not isinstance(next_move(view), Finish),
        error="",
    )


_UNDER_WAY = frozenset({StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN})


def _with_notes(view: RunView, notes: Mapping[str, str]) -> RunView:
    def noted(stage: StageView) -> StageView:
        note = notes.get(stage.id, "") or (notes.get("", "") if stage.kind == stage.id else "")
        return replace(stage, message=note) if note and stage.state is StageState.RUNNING else stage

    return replace(view, stages=tuple(noted(stage) for stage in view.stages), teardown=tuple(map(noted, view.teardown)))
