"""Invariants at the end of the life of a run with a home, and of one that has moved to another machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from actions.run.journal.journal_file import RecordRow
from actions.run.journal.reader import RunReader
from actions.run.state.records import OPERATOR, JournalRecord, encode_body
from actions.run.store.lease_object import lease_name
from tests.schedules.audited import changes_of
from tests.schedules.life import Story
from tests.schedules.machine import Machine
from tests.schedules.moving import Moved, rows_in_store
from tests.schedules.schedule import STOPS


def stored_that_is_left(story: Story, machine: Machine) -> Iterator[str]:
    """Yield what the store in the cluster has of the run, if it is there and the audit does not say so."""
    audit = story.view.audit if story.view else None
    told = [*audit.leftovers, *getattr(audit, "unknown", ())] if audit else []
    name = lease_name(story.folder.name)
    for seen in machine.history.seen():
        is_left = seen.name.startswith(name) and not seen.gone_at
        if is_left and not any("of the run" in line for line in told):
            yield f"{seen.key} is there; told: {told}"


def differences_from_home(story: Story, machine: Machine) -> Iterator[str]:
    """Yield the first record in which the home differs from the journal of the machine that has the run."""
    if not machine.has_store:
        return
    there, here = rows_in_store(machine.account, story.folder.name), story.records
    for row, record in zip(there, here, strict=False):
        if not _is_same(row, record):
            ours = f"{type(record.body).__name__} of {record.writer}"
            yield f"record {row.seq} is {row.kind} of {row.writer} there, {ours} here"
            return
    if len(there) != len(here):
        yield f"the home has {len(there)} records, the machine {len(here)}"


def _is_same(row: RecordRow, record: JournalRecord) -> bool:
    ours = (record.seq, record.writer, record.stage, record.attempt, encode_body(record.body))
    return ours == (row.seq, row.writer, row.stage, row.attempt, row.json) and abs(row.at - record.at) < 0.001


def changes_by_fenced(story: Story, machine: Machine) -> Iterator[str]:
    """Yield what a machine has changed after another had taken the run over, and before it had it again."""
    for number, moved in enumerate(story.moves):
        back = [move for move in story.moves[number + 1 :] if move.target is moved.origin]
        began_at = min((move.began_at for move in back), default=float("inf"))
        for request in moved.origin.requests():
            if moved.at < request.at < began_at and not _is_terraforms(request.text):
                yield f"{moved.origin.user} sent {request.text} {request.at - moved.at:.1f} s after the takeover"
        began_line = min((move.began_line for move in back), default=math.inf)
        for change in changes_of(machine, moved.origin):
            if moved.line <= change.line < began_line:
                yield f"{moved.origin.user} sent {change.text} after the takeover: {change.code}"
        if not back and not moved.was_cut_off:
            yield from _written_late(story, moved)


def _is_terraforms(text: str) -> bool:
    """Return whether it is of Terraform, which is a process of its own and goes on: its lock keeps others out."""
    return "/terraform/" in text


def _written_late(story: Story, moved: Moved) -> Iterator[str]:
    """Yield that the fenced runner went on in its own journal.

    Of one that was stopped between the fence's check and what it was about to do, one record may be on its way.
    """
    was_stopped = any(item.fault.kind in STOPS and item.begun_at for item in story.injected)
    written = sum(record.writer != OPERATOR for record in records_of(moved.folder))
    if written > moved.records + was_stopped:
        yield f"{moved.origin.user}'s runner wrote {written - moved.records} records after the takeover"


def copies_of(story: Story) -> list[Path]:
    """Return all folders of the run: that of the machine that has it first, and what a takeover has put aside."""
    folders = dict.fromkeys((story.folder, *(move.folder for move in story.moves)))
    aside = [each for folder in folders for each in folder.parent.glob(f".{folder.name}.before-epoch-*")]
    return [*folders, *aside]


def records_of(folder: Path) -> tuple[JournalRecord, ...]:
    """Return the records of a run's folder."""
    reader = RunReader(folder)
    try:
        reader.poll()
        return reader.records()
    finally:
        reader.close()


def requests_from_elsewhere(story: Story) -> Iterator[str]:
    """Yield requests that a machine has made which did not have the run."""
    for asked in story.elsewhere:
        if asked.code == 0 and not asked.has_folder:
            yield f"{asked.user} could {asked.verb} without having the run"
