"""The summaries of all runs of a machine, and the file beside each journal that spares its reading.

The state of a run is a fold over its journal. Most runs are over, and nothing of them changes but what is still paid
for. So whoever has folded the journal of a run that no runner carries out keeps the summary: in memory, and in the
run's folder unless this process is read-only. It is believed while the files that it was made of have the same inode,
size and times, and these were not younger than the tick of a file system's clock when it was made. A summary that is
damaged, of another version, or of another folder is ignored, and made again from the journal, which alone is the truth.

What changes with time is computed from the summary and the moment. Runs that have a runner, lack one, or near a limit
are read anew each time, as far as their journals have grown.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, ConsoleError, JournalError
from actions.base.files import read_file, write_private
from actions.base.readonly import is_readonly
from actions.run import paid, spending
from actions.run.journal import reader
from actions.run.journal.folder import journal_path, lease_path, runs_folder, watched_path
from actions.run.journal.reader import RunMonitor, RunReader, RunSummary, run_summary, unreadable
from actions.run.journal.run_ids import known_numbers
from actions.run.limits import options
from actions.run.state import fold, planner
from actions.run.state.view import Goal, Notice, NoticeKind, RunView

_NAME = "summary.json"
_MAKERS = (fold, planner, spending, paid, options, reader)
"""The modules by whose rules a summary is made: one that others have made is of another version."""
_MOST_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000
"""Coarser than the clock of any file system: two writes so far apart have different times."""
_OF_DISK = (NoticeKind.DISK_FULL, NoticeKind.READ_ONLY)

_FileState = tuple[int, int, int, int]
"""Inode, size, nanoseconds of the last change of the content and of the inode."""


class _Files(msgspec.Struct, frozen=True):
    """The files that a summary is made of; `None` for one that is not there."""

    journal: _FileState | None
    lease: _FileState | None
    watched: _FileState | None

    def is_settled(self, now_ns: int) -> bool:
        """Return whether a later write would show in the times."""
        states = (self.journal, self.lease, self.watched)
        return all(abs(now_ns - moment) > _SETTLED_NS for state in states if state is not None for moment in state[2:])


class _Kept(msgspec.Struct, frozen=True):
    """The content of a summary's file."""

    version: str
    name: str
    """Of the folder."""
    last_seq: int
    """Number of the journal's newest record."""
    files: _Files
    at: float
    """Seconds since the epoch: the moment of what has been spent."""
    run: RunSummary
    last_loss: str
    """A number as text, which may be `nan`; empty for none."""


class _Known(msgspec.Struct):
    """One run as this process knows it."""

    run: RunSummary
    at: float
    files: _Files | None
    """Those that `run` was made of; `None` if it has to be made anew at the next look."""
    reader: RunReader | None = None
    """While a runner is alive: by its heartbeat and its new records a fold may be spared."""
    inode: int = 0
    """Of the journal that the reader has read."""


class RunListing(NamedTuple):
    """The runs that were read, newest first, and the names of the folders of those that were not yet."""

    runs: list[RunSummary]
    unread: list[str]


class RunSummaries:
    """The reader of all runs in one folder. Any thread may use it; a run is read by one at a time.

    Args:
        home: The folder of all runs.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def listings(self, now: float, *, piece_seconds: float = float("inf")) -> Iterator[RunListing]:
        """Yield the list as it grows, at the end all of it. Blocking disk I/O.

        An unreadable run is listed with the reason, and hides no other.

        Args:
            now: Seconds since the epoch, for what the runs have cost so far.
            piece_seconds: Time after which what has been read is given out.

        Raises:
            ConfigError: The folder of all runs cannot be read.
        """
        names, numbers = self._names(), known_numbers(self._home)
        names.sort(key=lambda name: ((numbers or {}).get(name, 0), name), reverse=True)
        disks: dict[int, tuple[Notice, ...]] = {}
        found: list[RunSummary] = []
        due = time.monotonic() + piece_seconds
        for place, name in enumerate(names):
            if time.monotonic() >= due:
                yield RunListing(sorted(found, key=_age, reverse=True), names[place:])
                due = time.monotonic() + piece_seconds
            with self._lock:
                found.append(self._look(name, now, numbers, disks))
        with self._lock:
            self._known = {name: self._known[name] for name in names if name in self._known}
        yield RunListing(sorted(found, key=_age, reverse=True), [])

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._home) if not name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self._home} cannot be read: {error.strerror}.", hint="Check its rights.") from error

    def _look(
        self, name: str, now: float, numbers: Mapping[str, int] | None, disks: dict[int, tuple[Notice, ...]]
    ) -> RunSummary:
        files, device = _files_of(f"{self._home}/{name}")
        known, folder = self._known.get(name), self._home / name
        if known is None and files is not None:
            known = _read_kept(folder, files)
        if known is None or files is None or known.files != files or (known.at > now and _grows(known.run)):
            known = _read(folder, known, files, now)
        self._known[name] = known
        run, number = known.run, known.run.number if numbers is None else numbers.get(name, 0)
        if number != run.number:
            known.run = run = replace(run, number=number)
        if known.files is None or run.error:
            return run
        if device not in disks:
            disks[device] = RunMonitor(folder, SystemClock()).notices(None, None)
        if disks[device]:
            run = replace(run, notices=(*run.notices, *disks[device]))
        if run.spending is not None and _grows(run):
            run = replace(run, spending=run.spending.later(known.at, now))
        return run


@cache
def summaries_in(home: Path) -> RunSummaries:
    """Return the reader of a folder of runs, one for the whole process."""
    return RunSummaries(home)


def list_runs(home: Path | None = None, *, now: float | None = None) -> list[RunSummary]:
    """Return all runs on this machine, newest first, by the order of their creation whatever the clock was.

    An unreadable run is listed with the reason, and hides no other.

    Args:
        home: The folder of all runs; empty for the usual one.
        now: Seconds since the epoch, for what they have cost so far.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    moment = SystemClock().now().timestamp() if now is None else now
    *_, listing = summaries_in(home or runs_folder()).listings(moment)
    return listing.runs


def _age(run: RunSummary) -> tuple[int, float, str]:
    """Return the sort key: runs without a number are oldest, and among these an unreadable one may be the newest."""
    return run.number, float("inf") if run.error else run.created_at, run.id


def _grows(run: RunSummary) -> bool:
    spending = run.spending
    return spending is not None and bool(spending.usd_per_hour or spending.may_usd_per_hour)


_JOURNAL, *_BESIDE = (path(Path()).name for path in (journal_path, lease_path, watched_path))


def _files_of(folder: str) -> tuple[_Files | None, int]:
    """Return the files that the summary of a run is made of, and the disk of its journal; `None` if one is unknown.

    A few microseconds: all that a run that is over costs at rest.
    """
    try:
        status = os.stat(f"{folder}/{_JOURNAL}")
        return _Files(_state_in(status), *[_state_of(f"{folder}/{name}") for name in _BESIDE]), status.st_dev
    except OSError:
        return None, 0


def _state_of(path: str) -> _FileState | None:
    try:
        return _state_in(os.stat(path))
    except FileNotFoundError:
        return None


def _state_in(status: os.stat_result) -> _FileState:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(folder: Path, known: _Known | None, files: _Files | None, now: float) -> _Known:
    """Read a run's journal, as far as it has grown, and keep the summary if it lasts."""
    inode = files.journal[0] if files is not None and files.journal is not None else 0
    source = known.reader if known is not None and known.inode == inode else None
    is_settled = files is not None and files.is_settled(round(SystemClock().now().timestamp() * 1e9))
    try:
        _require_folder(folder)
        source = source or RunReader(folder)
        source.poll()
        view = source.newest
        if view is None:
            raise JournalError(f"{folder} cannot be read.")
        run = replace(run_summary(source, view, now), last_loss=_last_loss(folder))
    except (ConsoleError, OSError, ValueError) as error:
        reason = error.sentence() if isinstance(error, ConsoleError) else str(error)
        return _Known(unreadable(folder, reason), now, files if is_settled else None)
    is_lasting = files is not None and is_settled and _is_lasting(source, view, files, now)
    if files is None or not is_lasting or _files_of(str(folder))[0] != files:
        return _Known(run, now, None, source if source.runner_alive else None, inode)
    has_room = not any(notice.kind in _OF_DISK for notice in run.notices)
    run = replace(run, notices=tuple(notice for notice in run.notices if notice.kind not in _OF_DISK))
    if has_room:
        _keep(folder, run, files, now, view.last_seq)
    return _Known(run, now, files)


def _is_lasting(source: RunReader, view: RunView, files: _Files, now: float) -> bool:
    """Return whether nothing of a summary changes, while its files do not, but what is spent at the present rate."""
    is_timed = view.limits.is_set and view.goal in (Goal.FORWARD, Goal.CANCEL)
    is_interrupted = any(notice.kind is NoticeKind.NO_RUNNER for notice in view.notices)
    is_still = not (source.runner_alive or view.is_starting or is_interrupted or is_timed)
    is_past = all(record.at <= now for record in source.records())
    return is_still and is_past and spending.is_steady(view, now)


def _last_loss(folder: Path) -> float | None:
    if not (folder / "output").is_dir():
        return None
    from actions.run.output.reader import last_loss  # imports the readers of logs

    return last_loss(folder)


def _require_folder(folder: Path) -> None:
    """Refuse a path that is not a folder or cannot be entered.

    Raises:
        JournalError: With the reason.
    """
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise JournalError(f"{folder} is not a folder.", hint="Move it away.")
        if not os.access(folder, os.X_OK | os.R_OK):
            raise JournalError(f"{folder} cannot be entered.", hint="Check its owner: `sudo` leaves such folders.")
    except OSError as error:
        raise JournalError(f"{folder} cannot be read: {error.strerror}.", hint="Move it away.") from error


def _keep(folder: Path, run: RunSummary, files: _Files, now: float, last_seq: int) -> None:
    """Write the summary beside its journal. It only spares work: a failure is ignored."""
    loss = "" if run.last_loss is None else repr(run.last_loss)
    stored = replace(run, folder=Path(), last_loss=None)
    with suppress(OSError, ValueError, msgspec.MsgspecError):
        if is_readonly() or folder.stat().st_uid != os.geteuid():
            return
        data = msgspec.json.encode(_Kept(_version(), folder.name, last_seq, files, now, stored, loss), enc_hook=str)
        write_private(folder / _NAME, b"%08x\n" % zlib.crc32(data), data, is_synced=False)


@cache
def _version() -> str:
    """Return the version of the rules: size and time of the modules that have them, as no one counts every change."""
    files = [Path(module.__file__) for module in _MAKERS if module.__file__]
    return " ".join(f"{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in files)


def _read_kept(folder: Path, files: _Files) -> _Known | None:
    """Return the summary beside a journal; `None` if there is none that can be believed."""
    try:
        checksum, _, data = read_file(folder / _NAME, _MOST_BYTES).partition(b"\n")
        if checksum != b"%08x" % zlib.crc32(data):
            return None
        kept = decode_json(data, _Kept)
        if (kept.version, kept.name, kept.files) != (_version(), folder.name, files):
            return None
        loss = float(kept.last_loss) if kept.last_loss else None
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return _Known(replace(kept.run, folder=folder, last_loss=loss), kept.at, files)
