"""The journal of a run."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import threading
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, JournalError
from actions.base.process import ProcessIdentity, own_identity
from actions.run.journal import store as journal_module
from actions.run.journal.journal_file import RecordRow, read_stored
from actions.run.journal.lease import grant_lease, release_lease, take_runner_lease
from actions.run.journal.store import (
    ROOM_BYTES,
    DiskFullError,
    Journal,
    JournalUnwritableError,
    create_journal,
    read_runner_lease,
)
from actions.run.state.records import Action, Intent, Outcome, RequestKind, Result, RunRequest
from tests.support.journals import age_lease, write_rows
from tests.unit.run.world import creation

CLOCK = SystemClock()


def a_journal(folder: Path) -> Path:
    path = folder / "journal.jsonl"
    create_journal(path, creation(), CLOCK)
    return path


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    written = journal.append(Outcome(Action.PERFORM, Result.DONE, "wörks"), stage="train", attempt=2)
    journal.close()
    assert Journal(path, CLOCK).records()[1:] == [written]
    assert (written.seq, written.writer, written.stage, written.attempt) == (2, "operator", "train", 2)


def test_the_journal_is_private(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    journal.append(RunRequest(RequestKind.PAUSE))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"journal.jsonl": 0o600}


def test_a_journal_is_lines_of_json(tmp_path: Path) -> None:
    """Anyone can read it without this program."""
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    journal.append(RunRequest(RequestKind.PAUSE))
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert head == {"journal": 1}
    assert [line[0] for line in lines] == [1, 2]
    assert json.loads(lines[1][6])["kind"] == lines[1][3]


def test_only_records_of_others_are_foreign(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    one, other = Journal(path, CLOCK), Journal(path, CLOCK)
    before = one.foreign_records()
    one.append(RunRequest(RequestKind.PAUSE))
    assert one.foreign_records() == before
    other.append(RunRequest(RequestKind.CANCEL))
    assert one.foreign_records() == before + 1


def whole(path: Path) -> bytes:
    return path.read_bytes().rstrip(b"\0")


@pytest.mark.parametrize("has_room", [False, True])
def test_a_record_that_was_cut_anywhere_is_none_and_its_place_is_used_again(tmp_path: Path, has_room: bool) -> None:
    path = a_journal(tmp_path)
    before = len(whole(path))
    Journal(path, CLOCK).append(RunRequest(RequestKind.PAUSE))
    content = whole(path)
    for end in range(before, len(content)):
        path.write_bytes(content[:end] + bytes(9000 if has_room else 0))
        journal = Journal(path, CLOCK)
        assert [row.seq for row in read_stored(path)] == [1]
        assert journal.append(RunRequest(RequestKind.CANCEL)).seq == 2
        assert [record.body for record in Journal(path, CLOCK).records()[1:]] == [RunRequest(RequestKind.CANCEL)]
        assert (path.stat().st_size > 9000) == has_room
        journal.close()


def test_a_block_that_a_loss_of_power_has_left_out_makes_its_record_none(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    before = len(whole(path))
    Journal(path, CLOCK).append(Outcome(Action.PERFORM, Result.DONE, "x" * 9000))
    content = whole(path)
    path.write_bytes(content[:before] + bytes(4096) + content[before + 4096 :])
    assert Journal(path, CLOCK).append(RunRequest(RequestKind.CANCEL)).seq == 2
    assert [record.seq for record in Journal(path, CLOCK).records()] == [1, 2]


def test_a_record_that_is_not_whole_before_others_is_damage(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    before = len(whole(path))
    journal = Journal(path, CLOCK)
    for _ in range(2):
        journal.append(RunRequest(RequestKind.PAUSE))
    content = bytearray(whole(path))
    content[before + 3] = 0
    path.write_bytes(content)
    with pytest.raises(JournalError, match="record 2 is not whole"):
        Journal(path, CLOCK)


def test_reserved_space_takes_the_next_records_and_goes_with_the_runner(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=lease.token)
    journal.keep_room()
    size = path.stat().st_size
    assert size > ROOM_BYTES
    journal.append(RunRequest(RequestKind.PAUSE))
    assert path.stat().st_size == size
    Journal(path, CLOCK).append(RunRequest(RequestKind.CANCEL))
    journal.close()
    assert path.read_bytes() == whole(path)
    assert [row.seq for row in read_stored(path)] == [1, 2, 3]


def test_processes_that_write_at_once_number_their_records_without_gaps(tmp_path: Path) -> None:
    path = a_journal(tmp_path)

    def write() -> None:
        journal = Journal(path, CLOCK)
        for _ in range(25):
            journal.append(RunRequest(RequestKind.PAUSE))
        journal.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.seq for row in read_stored(path)] == list(range(1, 102))


def test_a_damaged_journal_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    data = bytearray(path.read_bytes())
    data[0:40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(JournalError, match="damaged"):
        Journal(path, CLOCK)


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    write_rows(path, [RecordRow(2, 0, "x", "wish", "", 0, '{"kind":"wish"}')])
    with pytest.raises(JournalError, match="record 2 cannot be read"):
        Journal(path, CLOCK).records()


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    write_rows(path, [RecordRow(3, 0, "x", "wish", "", 0, "{}")])
    with pytest.raises(JournalError, match="record 2 is missing"):
        Journal(path, CLOCK).records()


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'{"journal":1}', b'{"journal":9}'))
    with pytest.raises(JournalError, match="version 9"):
        Journal(path, CLOCK)


def test_a_network_file_system_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "is_network_filesystem", lambda path: True)
    with pytest.raises(JournalError) as caught:
        a_journal(tmp_path)
    assert "XDG_STATE_HOME" in caught.value.hint


def test_a_full_disk_is_an_error_that_may_pass_and_writes_nothing(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    big = Outcome(Action.PERFORM, Result.DONE, "x" * 200_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # a part of it is written
    try:
        with pytest.raises(DiskFullError):
            journal.append(big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert journal.last_seq() == 1
    assert whole(path).endswith(b"\n")
    assert journal.append(big).seq == 2


def test_only_one_process_holds_the_lease(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    assert lease.is_alive
    with pytest.raises(ConflictError, match="already carried out by process"):
        take_runner_lease(path, CLOCK)


def test_the_lease_of_a_dead_process_is_taken_over_and_the_dead_cannot_write(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    first = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=first.token)
    journal.append(Intent(Action.AUDIT))
    age_lease(tmp_path)
    second = take_runner_lease(path, CLOCK)
    assert second.token != first.token
    with pytest.raises(ConflictError, match="taken over"):
        journal.append(Intent(Action.AUDIT))
    assert journal.last_seq() == 2


def test_a_runner_is_started_once_and_takes_the_lease_that_waits_for_it(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    starts: list[int] = []

    def start() -> ProcessIdentity:
        starts.append(1)
        return own_identity()

    assert grant_lease(path, CLOCK, start) == own_identity()
    assert grant_lease(path, CLOCK, start) is None  # the new process has not yet come to its first line
    lease = take_runner_lease(path, CLOCK)
    assert grant_lease(path, CLOCK, start) is None
    assert len(starts) == 1
    with pytest.raises(ConflictError, match="already carried out"):
        take_runner_lease(path, CLOCK)
    Journal(path, CLOCK, fence=lease.token).append(Intent(Action.AUDIT))


def test_a_runner_that_died_before_it_took_its_lease_is_started_anew(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    of_the_dead = ProcessIdentity(os.getpid(), 1, "an earlier boot")
    assert grant_lease(path, CLOCK, lambda: of_the_dead) == of_the_dead
    assert grant_lease(path, CLOCK, own_identity) == own_identity()


def test_the_lease_is_kept_while_there_is_an_unseen_wish(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=lease.token)
    Journal(path, CLOCK).append(RunRequest(RequestKind.TEARDOWN))
    assert not release_lease(journal, lease.token, seen=1)
    assert release_lease(journal, lease.token, seen=2)
    assert read_runner_lease(tmp_path) is None


def test_a_record_that_was_seen_and_taken_back_misleads_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses a record that another process has read meanwhile."""
    path = a_journal(tmp_path)
    one, other = Journal(path, CLOCK), Journal(path, CLOCK)

    def fails(descriptor: int) -> None:
        assert [record.seq for record in other.all_records()] == [1, 2]
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", fails)
        with pytest.raises(JournalUnwritableError, match="nothing was written"):
            one.append(RunRequest(RequestKind.PAUSE))
    written = other.append(RunRequest(RequestKind.CANCEL))
    assert written.seq == 2
    assert list(other.all_records()) == one.records() == Journal(path, CLOCK).records()
    assert one.records()[1:] == [written]


def test_an_interrupt_takes_no_record_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append(RunRequest(RequestKind.PAUSE))
    assert [row.seq for row in read_stored(path)] == [1, 2]
    assert journal.append(RunRequest(RequestKind.CANCEL)).seq == 3


def test_what_a_loss_of_power_has_left_of_a_record_is_wiped_before_the_next_one(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    torn = b"\0" * 4096 + b'the end of a record"]\n' + b"\0" * 4096
    path.write_bytes(path.read_bytes() + torn)
    journal = Journal(path, CLOCK)
    for _ in range(100):
        journal.append(RunRequest(RequestKind.PAUSE))
    assert len(read_stored(path)) == 101


def test_a_lease_that_cannot_be_read_is_nobodys_to_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=lease.token)

    def unreadable(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "require_block", unreadable)
        for call in (journal.require_lease, lambda: take_runner_lease(path, CLOCK)):
            with pytest.raises(JournalUnwritableError, match="Too many open files"):
                call()
    journal.require_lease()
