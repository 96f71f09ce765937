"""Copies of runs on this machine that are of no more use: those of other machines' runs that are not opened any more,
and those that a takeover has put aside, once a newer journal has all of their records.

A folder that was put aside may have output that never came to the store. So it stays for some days after the takeover.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, ConsoleError, JournalError
from actions.base.files import read_file
from actions.base.readonly import refuse_if_readonly
from actions.base.wording import counted
from actions.run.journal.folder import journal_path, runs_folder
from actions.run.journal.mirrored import copies_folder, read_mark
from actions.run.journal.reader import RunReader, load_run
from actions.run.journal.snapshot import SnapshotReader
from actions.run.journal.store import RecordRow, translated
from actions.run.state.records import TakenOver, decode_body
from actions.run.state.view import RunState
from actions.run.store.drivers import open_store
from actions.run.store.rows import is_same_row, read_rows

DAY_SECONDS = 86_400.0
KEPT_DAYS = 14.0
"""The usual time for which a copy stays after it was of use."""
BLOCK_BYTES = 512
"""The unit of `st_blocks`."""
_IN_USE_SECONDS = 600.0
"""A copy that was brought up to date within this time may be on a screen."""
_HOME_SECONDS = 20.0
"""Limit of one question to a store."""
_ASIDE = re.compile(r"\.(?P<run>.+)\.before-epoch-(?P<epoch>[0-9]{1,9})")
_REMOVING = re.compile(r"\.(?P<run>.+)\.(?P<pid>[0-9]{1,9})\.forgotten")

HomeRows = Callable[[str, str], Sequence[RecordRow]]
"""Returns the records that a store has of a run, by address and id."""


class SpareKind(Enum):
    """The kinds of copies."""

    MIRROR = "copy of another machine's run"
    ASIDE = "put aside by a takeover"
    REMOVED = "left by an interrupted removal"


class SpareCopy(msgspec.Struct, frozen=True):
    """One copy of a run."""

    run_id: str
    folder: Path
    kind: SpareKind
    size_bytes: int
    """On the disk."""
    is_removable: bool
    why: str
    """A clause: the reason why it may go, or stays."""


class _Rules(msgspec.Struct, frozen=True):
    """The present, and what counts as old."""

    now: float
    older_than_days: float
    home_rows: HomeRows


def survey_copies(
    now: float, *, older_than_days: float = KEPT_DAYS, store: Path | None = None, home_rows: HomeRows | None = None
) -> list[SpareCopy]:
    """Return all copies, the largest first. Changes nothing.

    Args:
        now: Seconds since the epoch.
        older_than_days: Days since a copy was opened, or put aside, from which on it may go.
        store: The folder of all runs, if not the usual one.
        home_rows: Asks a store, where no newer journal here has the records; by default the run's own.
    """
    rules = _Rules(now, older_than_days, home_rows or rows_in_store)
    found = []
    for folder in (*_folders(copies_folder()), *_folders(store or runs_folder())):
        if match := _REMOVING.fullmatch(folder.name):
            is_over = not Path(f"/proc/{match['pid']}").exists()
            why = "nothing reads it" if is_over else f"process {match['pid']} removes it"
            found.append(_copy(folder, match["run"], SpareKind.REMOVED, is_removable=is_over, why=why))
        elif match := _ASIDE.fullmatch(folder.name):
            found.append(_aside(folder, match["run"], int(match["epoch"]), rules))
        elif folder.parent == copies_folder():
            found.append(_mirror(folder, rules))
    return sorted(found, key=lambda copy: (-copy.size_bytes, str(copy.folder)))


def copies_of(run_id: str, store: Path) -> list[Path]:
    """Return the folders of a run that takeovers have put aside, in the order of their epochs."""
    matches = [_ASIDE.fullmatch(folder.name) for folder in _folders(store)]
    found = [match for match in matches if match is not None and match["run"] == run_id]
    return [store / match[0] for match in sorted(found, key=lambda match: int(match["epoch"]))]


def allocated_bytes(folder: Path) -> int:
    """Return the bytes of the disk that a folder takes, with all below it; links are not followed."""
    total = 0
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
        except OSError:
            continue
    return total


def remove_copies(copies: Sequence[SpareCopy], now: float) -> int:
    """Remove those that may go. Returns the bytes that were freed.

    Args:
        copies: As surveyed.
        now: Seconds since the epoch.

    Raises:
        ConfigError: One cannot be removed.
    """
    refuse_if_readonly("the removal of copies of runs")
    freed = 0
    for copy in copies:
        if not copy.is_removable or (copy.kind is SpareKind.MIRROR and _is_in_use(copy.folder, now)):
            continue
        remove_folder(copy.folder)
        freed += copy.size_bytes
    return freed


def remove_folder(folder: Path) -> None:
    """Remove a folder of a run: in one step for whoever lists runs.

    Raises:
        ConfigError: It cannot be removed.
    """
    gone = folder.with_name(f".{folder.name.removeprefix('.')}.{os.getpid()}.forgotten")
    try:
        folder.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be removed: {error.strerror}.", hint="Check its permissions.") from error


def rows_in_store(url: str, run_id: str) -> Sequence[RecordRow]:
    """Return the records that a store has of a run. Blocking, for a thread without a loop.

    Raises:
        ConsoleError: It does not answer, or has damaged ones.
    """

    async def ask() -> Sequence[RecordRow]:
        async with asyncio.timeout(_HOME_SECONDS):
            return await read_rows(store, run_id)

    store = open_store(url)
    try:
        return asyncio.run(ask())
    except TimeoutError as error:
        raise ConsoleError(f"{url} did not answer.") from error
    finally:
        store.close()


def _folders(base: Path) -> list[Path]:
    try:
        return [base / entry.name for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _copy(folder: Path, run_id: str, kind: SpareKind, *, is_removable: bool, why: str) -> SpareCopy:
    return SpareCopy(run_id, folder, kind, allocated_bytes(folder), is_removable, why)


def _is_in_use(folder: Path, now: float) -> bool:
    mark = read_mark(folder)
    return mark is not None and abs(now - mark.fetched_at) < _IN_USE_SECONDS


def _mirror(folder: Path, rules: _Rules) -> SpareCopy:
    """Judge the copy of another machine's run."""
    now = rules.now
    mark = read_mark(folder)
    days = (now - mark.fetched_at) / DAY_SECONDS if mark else 0.0
    if mark is None:
        is_removable, why = False, "it is not marked as a copy"
    elif _is_in_use(folder, now):
        is_removable, why = False, "it is in use"
    elif days >= rules.older_than_days:
        is_removable, why = True, f"it was not opened for {counted(int(days), 'day')}"
    elif _is_torn_down(folder):
        is_removable, why = True, "its run is torn down"
    else:
        is_removable, why = False, f"it was opened {counted(max(int(days), 0), 'day')} ago"
    return _copy(folder, folder.name, SpareKind.MIRROR, is_removable=is_removable, why=why)


def _is_torn_down(folder: Path) -> bool:
    try:
        return load_run(folder).state is RunState.TORN_DOWN
    except ConsoleError:
        return False


def _aside(folder: Path, run_id: str, epoch: int, rules: _Rules) -> SpareCopy:
    """Judge a folder that a takeover has put aside."""
    try:
        why = next(_obstacles(folder, run_id, epoch, rules), "")
    except ConsoleError as error:
        why = f"what it has cannot be compared: {error.message.rstrip('.')}"
    done = "a newer journal has all of its records"
    return _copy(folder, run_id, SpareKind.ASIDE, is_removable=not why, why=why or done)


def _obstacles(folder: Path, run_id: str, epoch: int, rules: _Rules) -> Iterator[str]:
    """Yield what stands against the removal of a folder that was put aside; clauses.

    Raises:
        ConsoleError: A journal cannot be read, or the store does not answer.
    """
    reader = RunReader(folder)
    try:
        view = reader.poll()
        if reader.runner_alive and reader.holder is not None:
            yield f"its runner, process {reader.holder.pid}, is alive"
    finally:
        reader.close()
    ours, newer = _rows(folder), folder.with_name(run_id)
    theirs: Sequence[RecordRow] = _rows(newer) if journal_path(newer).exists() else []
    if _missing(ours, theirs) and view is not None and view.store:
        theirs = rules.home_rows(view.store, run_id)
    if missing := _missing(ours, theirs):
        yield f"{counted(missing, 'record')} of it {'is' if missing == 1 else 'are'} in no newer journal"
    taken_at = _taken_at(theirs, epoch)
    if taken_at is None:
        yield f"no newer journal has the takeover with epoch {epoch}"
    elif (days := (rules.now - taken_at) / DAY_SECONDS) < rules.older_than_days:
        yield f"it was put aside {counted(max(int(days), 0), 'day')} ago"
    if state := _lone_state(folder, newer):
        yield f"{state} is a Terraform state that the run's folder does not have"


def _rows(folder: Path) -> list[RecordRow]:
    """Return the records of a journal as they are stored. Takes no lock.

    Raises:
        JournalError: It cannot be read.
    """
    path = journal_path(folder)
    connection = SnapshotReader(path).connect()
    if connection is None:
        raise JournalError(f"{path} cannot be read.")
    with closing(connection), translated(path):
        found = connection.execute("SELECT seq, at, writer, kind, stage, attempt, json FROM record ORDER BY seq")
        return [RecordRow(*row) for row in found]


def _missing(ours: Sequence[RecordRow], theirs: Sequence[RecordRow]) -> int:
    """Return how many records are not among others, at the same place."""
    known = {row.seq: row for row in theirs}
    return sum(row.seq not in known or not is_same_row(row, known[row.seq]) for row in ours)


def _taken_at(rows: Sequence[RecordRow], epoch: int) -> float | None:
    """Return the time of the first takeover with this epoch or a later one; seconds since the epoch."""
    for row in rows:
        if row.kind == "taken_over":
            body = decode_body(row.json)
            if isinstance(body, TakenOver) and body.epoch >= epoch:
                return row.at
    return None


class _State(msgspec.Struct):
    """The part of a Terraform state that shows which of two is the later one."""

    lineage: str = ""
    serial: int = 0
    resources: list[msgspec.Raw] = []


def _lone_state(folder: Path, newer: Path) -> str:
    """Return the first state of Terraform in a folder that is not in another one, as it was or as it is later; empty if
    there is none."""
    for path in sorted(folder.glob("terraform/*/*.tfstate*")):
        name = path.relative_to(folder)
        state, later = _state(path), _state(newer / name)
        if state is not None and not state.resources:
            continue
        if state is None or later is None or later.lineage != state.lineage or later.serial < state.serial:
            return str(name)
    return ""


def _state(path: Path) -> _State | None:
    """Return a state; `None` if it cannot be read."""
    try:
        return decode_json(read_file(path), _State)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
