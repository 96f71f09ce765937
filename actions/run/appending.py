"""Records that somebody else than the runner writes into a run's journal: a command, or the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from actions.base.clock import Clock, SystemClock
from actions.base.readonly import refuse_if_readonly
from actions.run.folder import journal_path
from actions.run.journal import DiskFullError, Journal
from actions.run.records import Body
from actions.run.room import release_reserve

T = TypeVar("T")


def append_record(
    folder: Path, body: Body, *, deed: str, clock: Clock | None = None, stage: str = "", attempt: int = 0
) -> None:
    """Append one record; on a full disk with the room that the run has set aside. Blocking disk I/O.

    Args:
        folder: The run's.
        body: The record.
        deed: What it stands for, for the refusal of a read-only process: the subject of a sentence.
        clock: Stamps it.
        stage: The stage that it is about, if it is about one.
        attempt: Of that stage.

    Raises:
        RefusedError: This process is read-only.
        JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
        JournalError: The journal is damaged.
    """
    refuse_if_readonly(deed)

    def write() -> None:
        journal = Journal(journal_path(folder), clock or SystemClock())
        try:
            journal.append(body, stage=stage, attempt=attempt)
        finally:
            journal.close()

    with_reserve(folder, write)


def with_reserve(folder: Path, write: Callable[[], T]) -> T:
    """The result of `write`; on a full disk it gets the room that the run has set aside.

    Raises:
        DiskFullError: That is used up as well.
    """
    try:
        return write()
    except DiskFullError:
        if not release_reserve(folder):
            raise
    return write()
