"""The runs of a capture as folders: made again below a private folder, as far as they had come at a moment.

Readers of runs read them as they read any run. A runner that lived at the moment is this process in the lease, with
heartbeats, so that the run is shown as it was; nothing carries it out.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import APPLICATION, private_directory
from actions.base.process import ProcessIdentity, own_identity
from actions.capture.entries import JournalRow, RunFile, RunLived, RunWritten
from actions.replay.index import CaptureIndex
from actions.run.journal.folder import heartbeat_path, journal_path, write_block
from actions.run.journal.lease import STALLED_SECONDS, HeartbeatState
from actions.run.journal.schema import make_tables

_DEAD = ProcessIdentity(0x3FFFFFFF, 1, "no boot of this machine")


class ReplayedRuns:
    """The folders of a capture's runs. One thread may use it at a time.

    Args:
        index: The capture.
    """

    def __init__(self, index: CaptureIndex) -> None:
        self._index = index
        try:
            self._top = Path(tempfile.mkdtemp(prefix="eksml-replay-"))
        except OSError as error:
            raise ConfigError(f"There is no room for the runs of a replay: {error.strerror}.") from error
        self._generation = 0
        self._taken: dict[str, int] = {}
        self._lives: dict[str, RunLived] = {}
        self._own = own_identity()
        self.state_home = self._begin()
        """For `XDG_STATE_HOME`; another one after a return to an earlier moment."""

    def show(self, at: float) -> bool:
        """Bring the folders to a moment, which must not be earlier than before; return whether anything is new.

        Raises:
            ConfigError: There is no room.
        """
        is_new = False
        try:
            for run in self._index.runs:
                is_new |= self._bring(run, at)
            for run, life in self._lives.items():
                self._beat(run, life)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"The runs of the replay cannot be written: {error}.") from error
        return is_new

    def begin_again(self) -> Path:
        """Begin with empty folders, to show an earlier moment; return the new `state_home`."""
        before = self.state_home
        self._taken.clear()
        self._lives.clear()
        self._generation += 1
        self.state_home = self._begin()
        shutil.rmtree(before, ignore_errors=True)
        return self.state_home

    def close(self) -> None:
        """Remove the folders."""
        shutil.rmtree(self._top, ignore_errors=True)

    def _begin(self) -> Path:
        base = self._top / str(self._generation)
        private_directory(base / APPLICATION / "runs")
        return base

    def _folder(self, run: str) -> Path:
        return self.state_home / APPLICATION / "runs" / run

    def _bring(self, run: str, at: float) -> bool:
        since = self._taken.get(run, 0)
        rows: list[JournalRow] = []
        count = 0
        for entry in self._index.run_entries(run, since, at):
            count += 1
            match entry:
                case RunWritten():
                    rows += entry.rows
                case RunFile():
                    self._write(run, entry)
                case RunLived():
                    self._lives[run] = entry
        if not count:
            return False
        self._taken[run] = since + count
        self._write_journal(run, rows)
        return True

    def _write(self, run: str, entry: RunFile) -> None:
        path = self._folder(run) / entry.path
        private_directory(path.parent)
        with path.open("wb" if entry.is_new else "ab") as file:
            file.write(entry.data)

    def _write_journal(self, run: str, rows: list[JournalRow]) -> None:
        path = journal_path(private_directory(self._folder(run)))
        is_first = not path.exists()
        if is_first and not rows:
            return
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            if is_first:
                make_tables(connection, run)
            connection.execute("BEGIN")
            for row in rows:
                with suppress(sqlite3.IntegrityError):  # of a capture whose console was given a copy of the run
                    values = (row.seq, row.at, row.writer, row.kind, row.stage, row.attempt, row.json)
                    connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            if (life := self._lives.get(run)) is not None:
                holder = self._own if life.is_alive else _DEAD
                connection.execute("DELETE FROM lease")
                if life.token:
                    connection.execute(
                        "INSERT INTO lease VALUES (1, ?, ?, ?, ?, 0)",
                        (holder.pid, holder.start_ticks, holder.boot_id, life.token),
                    )
            connection.execute("COMMIT")

    def _beat(self, run: str, life: RunLived) -> None:
        if not life.is_alive or not self._folder(run).is_dir():
            return
        at = time.monotonic() - (2 * STALLED_SECONDS if life.is_stalled else 0.0)
        beat = HeartbeatState(self._own, at, notes=dict(life.notes), troubles=dict(life.troubles))
        write_block(heartbeat_path(self._folder(run)), msgspec.json.encode(beat))
