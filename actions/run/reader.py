"""A run as a console reads it: polled, cheap while nothing changes, without a lock and without writing."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConsoleError, JournalError
from actions.base.process import ProcessIdentity
from actions.base.untrusted import one_line
from actions.run.fold import fold
from actions.run.folder import journal_path, runs_home
from actions.run.journal import records_in, require_version, translated
from actions.run.lease import Lease, read_lease
from actions.run.notices import Watch, is_unattended, no_runner, state_with
from actions.run.order import known_numbers
from actions.run.records import Created, Record
from actions.run.snapshot import SnapshotReader
from actions.run.view import Notice, NoticeKind, RunState, RunView, StageState, StageView

_LONGEST_PATH = 5000


class RunReader:
    """Reads one run, for one thread at a time. Costs some small reads while nothing changes, and holds no file open.

    Args:
        folder: The run's folder.
        clock: Time.

    Raises:
        JournalError: Its journal cannot be read.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()
        self._path = journal_path(folder)
        self._snapshots = SnapshotReader(self._path)
        self._watch = Watch(folder, self._clock)
        self._records: list[Record] = []
        self._lease: Lease | None = None
        self._seen: object = None
        self._guard = threading.Lock()
        self.newest: RunView | None = None
        """The result of the last poll that found something."""
        self._is_alive = False
        self._take(only_news=False)

    @property
    def runner_alive(self) -> bool:
        """True if a runner was there at the last poll, stalled or not."""
        return self._is_alive

    @property
    def holder(self) -> ProcessIdentity | None:
        """The process that holds the lease, dead or alive."""
        return self._lease.holder if self._lease else None

    def poll(self) -> RunView | None:
        """The run, or `None` if it is as it was at the last poll.

        Raises:
            JournalError: The journal is damaged.
        """
        with self._guard:
            return self._poll()

    def _poll(self) -> RunView | None:
        self._take(only_news=True)
        lease = self._lease if self._lease is not None and self._lease.is_alive else None
        beat = self._watch.beat_of(lease)
        notices = self._watch.notices(lease, beat)
        notes = dict(beat.notes) if beat else dict(lease.notes) if lease else {}
        seen = (len(self._records), lease, notices, notes)
        if seen == self._seen:
            return None
        self._seen, self._is_alive = seen, lease is not None
        view = fold(self._records, holder=lease.token if lease else "")
        if lease is None and is_unattended(view):
            notices = (no_runner(self.folder, self._clock), *notices)
        view = replace(view, state=state_with(view.state, notices), notices=notices)
        self.newest = _with_notes(view, notes)
        return self.newest

    def records(self) -> tuple[Record, ...]:
        """All records as of the last poll."""
        return tuple(self._records)

    def close(self) -> None:
        """Let what was read go."""
        self._records.clear()

    def _take(self, *, only_news: bool) -> None:
        with translated(self._path):
            connection = self._snapshots.connect(only_news=only_news)
            if connection is None:
                return
            with closing(connection):
                self._take_from(connection)

    def _take_from(self, connection: sqlite3.Connection) -> None:
        require_version(connection, self._path)
        newest = int(connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()[0])
        if newest < len(self._records):  # another file has its name: somebody has put a copy back
            self._records.clear()
        self._records.extend(records_in(connection, self._path, after=len(self._records)))
        self._lease = read_lease(connection)


def load_run(folder: Path) -> RunView:
    """The run as it is.

    Raises:
        JournalError: Its journal cannot be read.
    """
    return _load(folder)[0]


def _load(folder: Path) -> tuple[RunView, int]:
    """The run, and its number in the order of creation as the journal has it."""
    reader = RunReader(folder)
    view = reader.poll()
    if view is None:
        raise JournalError(f"{folder} cannot be read.")
    created = reader.records()[0].body
    return view, created.number if isinstance(created, Created) else 0


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
    number: int = 0
    """Its place in the order of creation; 0 if nobody knows, as of runs of earlier versions."""
    notices: tuple[Notice, ...] = ()
    """See `RunView.notices`."""
    unknown: int = 0
    """How many things the audit could not ask."""


def list_runs(home: Path | None = None) -> list[RunSummary]:
    """All runs on this machine, newest first, by the order of their creation whatever the clock said.

    What cannot be read is there too, with the reason, and hides nothing else.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    base = home or runs_home()
    try:
        names = [name for name in os.listdir(base) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{base} cannot be read: {error.strerror}.", hint="Check its rights.") from error
    numbers = known_numbers(base)
    return sorted((_summary(base / name, numbers) for name in names), key=_age, reverse=True)


def _age(run: RunSummary) -> tuple[int, float, str]:
    """Runs without a number are older than those that have one. Of them, one that cannot be read may be the newest."""
    return run.number, float("inf") if run.error else run.created_at, run.id


def _summary(folder: Path, numbers: Mapping[str, int] | None) -> RunSummary:
    known = (numbers or {}).get(folder.name, 0)
    try:
        _require_folder(folder)
        view, own_number = _load(folder)
    except (ConsoleError, OSError, ValueError) as error:
        return _unreadable(folder, error.sentence() if isinstance(error, ConsoleError) else str(error), known)
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
        is_interrupted=any(notice.kind is NoticeKind.NO_RUNNER for notice in view.notices),
        error="",
        number=own_number if numbers is None else known,
        notices=view.notices,
        unknown=len(view.audit.unknown) if view.audit else 0,
    )


def printable(path: Path | str) -> str:
    """A path, or a text that names one, as it may be printed: names of files are bytes, and not always text."""
    return one_line(os.fsencode(path).decode(errors="backslashreplace"), limit=_LONGEST_PATH)


def _unreadable(folder: Path, reason: str, number: int) -> RunSummary:
    return RunSummary(
        printable(folder.name),
        folder,
        "",
        "",
        "",
        0.0,
        RunState.UNKNOWN,
        "",
        0,
        is_interrupted=False,
        error=printable(reason),
        number=number,
    )


def _require_folder(folder: Path) -> None:
    """Say what stands there instead of a run's folder, or why it cannot be entered.

    Raises:
        JournalError: With the reason.
    """
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise JournalError(f"{folder} is no folder.", hint="Move it away.")
        if not os.access(folder, os.X_OK | os.R_OK):
            raise JournalError(f"{folder} may not be entered.", hint="Check whose it is: `sudo` leaves such folders.")
    except OSError as error:
        raise JournalError(f"{folder} cannot be looked at: {error.strerror}.", hint="Move it away.") from error


_UNDER_WAY = frozenset({StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN})


def _with_notes(view: RunView, notes: Mapping[str, str]) -> RunView:
    if not notes:
        return view

    def noted(stage: StageView) -> StageView:
        note = notes.get(stage.id, "") or (notes.get("", "") if stage.kind == stage.id else "")
        return replace(stage, message=note) if note and stage.state is StageState.RUNNING else stage

    return replace(view, stages=tuple(noted(stage) for stage in view.stages), teardown=tuple(map(noted, view.teardown)))
