"""The compaction of runs that are over: their logs and curves take a tenth of the space, and are read as before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConfigError, ConsoleError, RefusedError
from actions.base.readonly import refuse_if_readonly
from actions.run.journal.folder import journal_path, logs_path, release_reserve, series_path
from actions.run.journal.lease import read_runner_lease
from actions.run.journal.reader import RunReader, RunSummary
from actions.run.journal.store import Journal
from actions.run.spool.compacted import Compaction, compact
from actions.run.spool.format import devices_file, lines_file, points_file
from actions.run.state.view import OVER, RunState, RunView

"""The states in which no runner writes, until an operator asks for something."""
SMALLEST_BYTES = 4 << 10
"""A file takes a block of the disk in any case."""
DAY_SECONDS = 86_400.0
BLOCK_BYTES = 512
"""The unit of `st_blocks`."""


class CompactedRun(msgspec.Struct, frozen=True):
    """The compaction of one run."""

    id: str
    files: int
    """The number of files that were compacted."""
    before_bytes: int
    """Of these files."""
    freed_bytes: int
    """Of the disk."""


def compactable_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a run's spools that compaction makes smaller."""
    stages = {
        path.name for base in (logs_path(folder, "x").parent, series_path(folder, "x").parent) for path in _in(base)
    }
    for stage in sorted(stages):
        for path_of in (lines_file, points_file, devices_file):
            path = path_of(folder, stage)
            if path.is_file() and not path.is_symlink() and path.stat().st_size >= SMALLEST_BYTES:
                yield path


def _in(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from folder.iterdir()


def compact_run(folder: Path, clock: Clock) -> CompactedRun:
    """Compact a run that is over. At every moment each file is there in one of its two forms.

    Its journal gets the present version first, so that no program that does not know compacted files opens it.

    Raises:
        RefusedError: It is not over, or a runner has begun to work on it meanwhile.
        JournalError: Its journal cannot be read or written.
        ConfigError: The disk refuses it.
    """
    refuse_if_readonly(f"the compaction of {folder.name}")
    view = _idle_view(folder)
    files, before, freed = 0, 0, 0
    journal = Journal(journal_path(folder), clock)
    try:
        with _without_runner(folder, journal):
            pass  # the first transaction migrates the journal
        for path in compactable_files(folder):
            prepared = compact(path)
            saved = prepared.saved_bytes
            if _replace(folder, journal, prepared, is_wanted=saved > 0):
                files, before, freed = files + 1, before + prepared.status.st_size, freed + saved
        if view.state is RunState.TORN_DOWN:
            freed += _release(folder, journal)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be compacted: {error.strerror or error}.", hint="Free some space, or check its rights."
        ) from error
    finally:
        journal.close()
    return CompactedRun(folder.name, files, before, freed)


def _replace(folder: Path, journal: Journal, prepared: Compaction, *, is_wanted: bool) -> bool:
    try:
        if not is_wanted:
            return False
        with _without_runner(folder, journal):
            return prepared.replace()
    finally:
        prepared.discard()


@contextmanager
def _without_runner(folder: Path, journal: Journal) -> Iterator[None]:
    """Keep runners from their lease for a moment.

    Raises:
        RefusedError: One has it.
    """
    with journal.transaction() as connection:
        lease = read_runner_lease(connection)
        if lease is not None and lease.is_alive:
            raise RefusedError(f"Run {folder.name} is carried out by process {lease.holder.pid}: it stays as it is.")
        yield


def _release(folder: Path, journal: Journal) -> int:
    """Return the space that was reserved for a run's last records, of which there will be none."""
    log = journal.path.with_name(f"{journal.path.name}-wal")
    before = log.stat().st_size if log.exists() else 0
    journal.truncate_log()
    released = before - (log.stat().st_size if log.exists() else 0)
    reserve = _size(folder / "reserve")
    return released + (reserve if release_reserve(folder) else 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _idle_view(folder: Path) -> RunView:
    reader = RunReader(folder)
    try:
        view = reader.poll()
        if view is None or reader.runner_alive or view.state not in OVER:
            state = view.state.value if view else "unknown"
            raise RefusedError(
                f"Run {folder.name} is {state}: it is compacted after it ends.",
                hint="Wait for its end, or cancel it.",
            )
        return view
    finally:
        reader.close()


def last_change(folder: Path) -> float:
    """Return when the newest record of a run was written, in seconds since the epoch.

    Raises:
        JournalError: Its journal cannot be read.
    """
    reader = RunReader(folder)
    try:
        return max((record.at for record in reader.records()[-1:]), default=0.0)
    finally:
        reader.close()


def compact_runs(
    runs: Iterable[RunSummary],
    clock: Clock,
    *,
    older_than_days: float = 0.0,
    is_enough: Callable[[], bool] = lambda: False,
) -> tuple[list[CompactedRun], list[str]]:
    """Compact the runs that are over, one after the other.

    Args:
        runs: In the order in which they are compacted.
        clock: Time.
        older_than_days: Skip runs whose newest record is younger.
        is_enough: Asked before each; no further one is compacted when it returns true.

    Returns:
        The runs of which something was compacted, and a sentence for each that could not be.
    """
    done, failures = list[CompactedRun](), list[str]()
    latest = clock.now().timestamp() - older_than_days * DAY_SECONDS
    for run in runs:
        if is_enough():
            break
        if run.error or run.state not in OVER or not any(compactable_files(run.folder)):
            continue
        try:
            if older_than_days and last_change(run.folder) > latest:
                continue
            compacted = compact_run(run.folder, clock)
        except RefusedError:
            continue  # another process has gone on with it
        except (ConsoleError, OSError) as error:
            failures.append(error.sentence() if isinstance(error, ConsoleError) else f"{run.id}: {error}.")
            continue
        if compacted.freed_bytes:
            done.append(compacted)
    return done, failures


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
