"""Records of commands and of the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.base.readonly import promise_readonly
from actions.run.journal.folder import journal_path, keep_reserve, reserve_path
from actions.run.journal.store import DiskFullError, Journal, append_record, create_journal
from actions.run.state.records import Body, JournalRecord, RequestKind, Resolution, Resolved, RunRequest
from actions.run.state.view import OwnedObject
from actions.run.volume.helper_job import JournalJobRecorder
from tests.unit.run.world import creation

CLOCK = SystemClock()


def a_run(folder: Path) -> Path:
    create_journal(journal_path(folder), creation(), CLOCK)
    return folder


def test_a_full_disk_gives_what_the_run_has_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_run(tmp_path)
    keep_reserve(folder)
    assert reserve_path(folder).exists()
    append = Journal.append

    def appended(journal: Journal, body: Body, *, stage: str = "", attempt: int = 0) -> JournalRecord:
        if reserve_path(folder).exists():
            raise DiskFullError(journal.path)
        return append(journal, body, stage=stage, attempt=attempt)

    monkeypatch.setattr(Journal, "append", appended)
    append_record(folder, Resolved("aws_vpc.main", Resolution.WAIVED), deed="waived of it", stage="provision")
    assert not reserve_path(folder).exists()


def test_a_disk_that_stays_full_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_run(tmp_path)
    keep_reserve(folder)

    def appended(journal: Journal, body: Body, *, stage: str = "", attempt: int = 0) -> JournalRecord:
        raise DiskFullError(journal.path)

    monkeypatch.setattr(Journal, "append", appended)
    with pytest.raises(DiskFullError):
        append_record(folder, RunRequest(RequestKind.CANCEL), deed="cancel of it")


async def test_a_read_only_process_records_no_job(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    before = journal_path(folder).read_bytes()
    promise_readonly()
    job = OwnedObject("", "batch/v1", "Job", "default", "eksml-look-1", "", existed=False, is_deleted=False)
    with pytest.raises(RefusedError, match=r"a Job on the volume of .* was not carried out"):
        await JournalJobRecorder(folder, CLOCK).own(job)
    assert journal_path(folder).read_bytes() == before
