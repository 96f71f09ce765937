"""Copies of runs on this machine that are of no more use: those of other machines' runs that are not opened any more,
and those that a takeover has put aside, once the newer journal has all of their records.

A folder that was put aside may have output that never came to the store. So it stays for some days after the takeover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConsoleError
from actions.base.files import read_file
from actions.base.readonly import refuse_if_readonly
from actions.base.wording import counted
from actions.run.journal.folder import (
    allocated_bytes,
    folders_in,
    journal_path,
    remove_folder,
    run_put_aside,
    runs_folder,
)
from actions.run.journal.journal_file import read_stored
from actions.run.journal.reader import RunReader, load_run
from actions.run.state.view import RunState
from actions.run.store.copy import copies_folder, read_mark
from actions.run.store.rows import is_same_row

DAY_SECONDS = 86_400.0
KEPT_DAYS = 14.0
"""The usual time for which a copy stays after it was of use."""
_IN_USE_SECONDS = 600.0
"""A copy that was brought up to date within this time may be on a screen."""
_REMOVING = re.compile(r"\.(?P<run>.+)\.(?P<pid>[0-9]{1,9})\.forgotten")


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


def survey_copies(now: float, *, older_than_days: float = KEPT_DAYS, store: Path | None = None) -> list[SpareCopy]:
    """Return all copies, the largest first. Changes nothing.

    Args:
        now: Seconds since the epoch.
        older_than_days: Days since a copy was opened, or put aside, from which on it may go.
        store: The folder of all runs, if not the usual one.
    """
    found = []
    for folder in (*folders_in(copies_folder()), *folders_in(store or runs_folder())):
        if match := _REMOVING.fullmatch(folder.name):
            is_over = not Path(f"/proc/{match['pid']}").exists()
            why = "nothing reads it" if is_over else f"process {match['pid']} removes it"
            found.append(_copy(folder, match["run"], SpareKind.REMOVED, is_removable=is_over, why=why))
        elif run_id := run_put_aside(folder.name):
            found.append(_aside(folder, run_id, now, older_than_days))
        elif folder.parent == copies_folder():
            found.append(_mirror(folder, now, older_than_days))
    return sorted(found, key=lambda copy: (-copy.size_bytes, str(copy.folder)))


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


def _copy(folder: Path, run_id: str, kind: SpareKind, *, is_removable: bool, why: str) -> SpareCopy:
    return SpareCopy(run_id, folder, kind, allocated_bytes(folder), is_removable, why)


def _is_in_use(folder: Path, now: float) -> bool:
    mark = read_mark(folder)
    return mark is not None and abs(now - mark.fetched_at) < _IN_USE_SECONDS


def _mirror(folder: Path, now: float, older_than_days: float) -> SpareCopy:
    """Judge the copy of another machine's run."""
    mark = read_mark(folder)
    days = (now - mark.fetched_at) / DAY_SECONDS if mark else 0.0
    if mark is None:
        is_removable, why = False, "it is not marked as a copy"
    elif _is_in_use(folder, now):
        is_removable, why = False, "it is in use"
    elif days >= older_than_days:
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


def _aside(folder: Path, run_id: str, now: float, older_than_days: float) -> SpareCopy:
    """Judge a folder that a takeover has put aside."""
    try:
        why = next(_obstacles(folder, run_id, (now - folder.stat().st_ctime) / DAY_SECONDS, older_than_days), "")
    except (ConsoleError, OSError) as error:
        reason = error.message if isinstance(error, ConsoleError) else str(error)
        why = f"what it has cannot be compared: {reason.rstrip('.')}"
    done = "the newer journal has all of its records"
    return _copy(folder, run_id, SpareKind.ASIDE, is_removable=not why, why=why or done)


def _obstacles(folder: Path, run_id: str, days: float, older_than_days: float) -> Iterator[str]:
    """Yield what stands against the removal of a folder that was put aside, so many days ago; clauses.

    Raises:
        ConsoleError: A journal cannot be read.
    """
    reader = RunReader(folder)
    reader.poll()
    reader.close()
    if reader.runner_alive and reader.holder is not None:
        yield f"its runner, process {reader.holder.pid}, is alive"
    newer = folder.with_name(run_id)
    theirs = {row.seq: row for row in (read_stored(journal_path(newer)) if journal_path(newer).exists() else [])}
    missing = sum(
        row.seq not in theirs or not is_same_row(row, theirs[row.seq]) for row in read_stored(journal_path(folder))
    )
    if missing:
        yield f"{counted(missing, 'record')} of it {'is' if missing == 1 else 'are'} in no newer journal"
    if days < older_than_days:
        yield f"it was put aside {counted(max(int(days), 0), 'day')} ago"
    if state := _lone_state(folder, newer):
        yield f"{state} is a Terraform state that the run's folder does not have"


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
