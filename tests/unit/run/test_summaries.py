"""The summaries of runs: made of a journal once, kept beside it, and never believed where the journal may differ."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base import readonly
from actions.base.clock import SystemClock
from actions.base.process import own_identity
from actions.run import summaries
from actions.run.client import find_run, list_runs, load_run, resume_interrupted
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.reader import RunReader, RunSummary, run_summary
from actions.run.journal.store import Journal, append_record, copy_rows
from actions.run.state.records import (
    Action,
    Body,
    HeldPrice,
    Intent,
    Operator,
    Outcome,
    RequestKind,
    Result,
    RunRequest,
)
from actions.run.state.view import NoticeKind, RunState
from actions.run.store.elsewhere import note_elsewhere
from actions.run.summaries import RunSummaries, summaries_in
from tests.bench.many_runs import RUNS, make_runs
from tests.unit.run.world import creation, make_run

CLOCK = SystemClock()
HOUR = 3600.0
PRICE = HeldPrice(title="cluster", stage="provision", usd_per_hour="2", source="list")
DONE: tuple[tuple[str, Body], ...] = (
    ("provision", Intent(Action.PERFORM)),
    ("provision", Outcome(Action.PERFORM, Result.DONE)),
    ("", RunRequest(RequestKind.PARK)),
    ("", Intent(Action.DRAIN)),
    ("", Outcome(Action.DRAIN, Result.DONE)),
)


def a_parked_run(home: Path, name: str = "fake-1121-0001") -> Path:
    """A run that no runner carries out, and that still pays for its cluster."""
    folder = make_run(home, CLOCK, created=replace(creation(), run_id=name, prices=(PRICE,)))
    for stage, body in DONE:
        append_record(folder, body, deed="it", clock=CLOCK, stage=stage, attempt=1)
    assert load_run(folder).state is RunState.PARKED
    settle(folder)
    return folder


def settle(folder: Path) -> None:
    """Wait until a later write would show in the times of the run's files."""
    newest = max(path.stat().st_ctime for path in folder.iterdir() if path.is_file())
    time.sleep(max(0.0, newest + 0.15 - time.time()))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "_SETTLED_NS", 100_000_000)


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders whose journals were read."""
    found: list[Path] = []

    class Counted(RunReader):
        def __init__(self, folder: Path, **more: Any) -> None:
            found.append(folder)
            super().__init__(folder, **more)

    monkeypatch.setattr(summaries, "RunReader", Counted)
    return found


def listed(folder: Path, *, now: float | None = None) -> RunSummary:
    """Return the run as a process lists it that has just begun."""
    *_, listing = RunSummaries(folder.parent).listings(time.time() if now is None else now)
    return next(run for run in listing.runs if run.folder == folder)


def kept(folder: Path) -> Path:
    return folder / "summary.json"


def test_a_journal_is_read_once_and_then_its_summary(tmp_path: Path, folds: list[Path]) -> None:
    folder = a_parked_run(tmp_path)
    now = time.time()
    first = listed(folder, now=now)
    assert (folds, kept(folder).stat().st_mode & 0o777) == ([folder], 0o600)
    assert listed(folder, now=now) == first
    assert folds == [folder]


def test_what_is_spent_goes_on_without_a_look_at_the_journal(tmp_path: Path, folds: list[Path]) -> None:
    folder = a_parked_run(tmp_path)
    now = time.time()
    before, after = listed(folder, now=now).spending, listed(folder, now=now + HOUR).spending
    assert before is not None
    assert after is not None
    assert after.usd - before.usd == pytest.approx(Decimal(2))
    assert len(folds) == 1
    anew = run_summary(RunReader(folder), load_run(folder), now + HOUR).spending
    assert anew is not None
    assert float(after.usd) == pytest.approx(float(anew.usd))
    assert after.at == anew.at


def test_a_clock_that_was_set_back_is_no_later_moment(tmp_path: Path, folds: list[Path]) -> None:
    folder = a_parked_run(tmp_path)
    now = time.time()
    later = listed(folder, now=now + HOUR).spending
    before = listed(folder, now=now).spending
    assert later is not None
    assert before is not None
    assert float(later.usd - before.usd) == pytest.approx(2.0)
    assert len(folds) == 2


def _a_record(folder: Path) -> None:
    append_record(folder, RunRequest(RequestKind.TEARDOWN), deed="it", clock=CLOCK)


def _an_open_journal(folder: Path) -> None:
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(RunRequest(RequestKind.TEARDOWN))
    OPEN.append(journal)


OPEN: list[Journal] = []


def _another_machine(folder: Path) -> None:
    note_elsewhere(folder, Operator("grace", "bastion"), 2, "")


def _another_journal(folder: Path) -> None:
    """A copy of an older state, put back with its old times."""
    path = journal_path(folder)
    status = path.stat()
    path.unlink()
    copy_rows(path, [])
    journal = Journal(path, CLOCK)
    journal.append(replace(creation(), run_id=folder.name, title="Another"))
    journal.close()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [_a_record, _an_open_journal, _another_machine, _another_journal])
def test_a_summary_is_not_believed_once_anything_has_changed(
    tmp_path: Path, folds: list[Path], change: Callable[[Path], None]
) -> None:
    folder = a_parked_run(tmp_path)
    process = RunSummaries(folder.parent)
    (*_, known), before = process.listings(time.time()), listed(folder)
    change(folder)
    now = time.time()
    (*_, here), elsewhere = process.listings(now), listed(folder, now=now)
    while OPEN:
        OPEN.pop().close()
    assert here.runs == [elsewhere]
    assert elsewhere != known.runs[0]
    assert elsewhere.paid != before.paid or elsewhere.title != before.title or elsewhere.state != before.state
    reader = RunReader(folder)
    view = reader.poll()
    assert view is not None
    anew = run_summary(reader, view, now)
    assert elsewhere == replace(anew, spending=elsewhere.spending, number=elsewhere.number)


def test_nothing_is_kept_of_a_journal_that_was_written_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_parked_run(tmp_path)
    monkeypatch.setattr(summaries, "_SETTLED_NS", 60_000_000_000)
    listed(folder)
    assert not kept(folder).exists()


def test_nothing_is_kept_of_a_run_at_work_interrupted_or_about_to_begin(tmp_path: Path) -> None:
    working = make_run(tmp_path, CLOCK)
    lease = take_runner_lease(journal_path(working), CLOCK)
    Journal(journal_path(working), CLOCK, fence=lease.token).append(Intent(Action.PERFORM), stage="provision")
    begun = make_run(tmp_path, CLOCK, created=replace(creation(), run_id="begun"))
    append_record(begun, Intent(Action.PERFORM), deed="it", clock=CLOCK, stage="provision", attempt=1)
    settle(begun)
    assert listed(working).has_runner
    assert listed(begun).is_interrupted
    assert not kept(working).exists()
    assert not kept(begun).exists()
    assert own_identity() == lease.holder


def _torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def _flipped(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"parked"', b'"failed"'))


def _of_another_version(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"version":"', b'"version":"9'))


def _endless(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def _a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("spoil", [_torn, _flipped, _of_another_version, _endless, _a_pipe])
def test_a_summary_that_is_damaged_or_of_another_version_is_ignored(
    tmp_path: Path, folds: list[Path], spoil: Callable[[Path], None]
) -> None:
    folder = a_parked_run(tmp_path)
    now = time.time()
    before = listed(folder, now=now)
    spoil(kept(folder))
    assert listed(folder, now=now) == before
    assert len(folds) == 2
    assert kept(folder).is_file()
    assert listed(folder, now=now) == before
    assert len(folds) == 2


def test_a_process_that_may_not_write_keeps_nothing_and_lists_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_parked_run(tmp_path)
    now = time.time()
    with monkeypatch.context() as patched:
        patched.setattr(readonly._promise, "is_given", True)
        found = listed(folder, now=now)
    assert not kept(folder).exists()
    assert listed(folder, now=now) == found
    assert kept(folder).exists()


def test_a_list_is_given_out_as_it_is_read_newest_first(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        make_run(tmp_path, CLOCK, created=replace(creation(), run_id=name))
    listings = list(RunSummaries(tmp_path / "runs").listings(time.time(), piece_seconds=0.0))
    assert [([run.id for run in found], unread) for found, unread in listings] == [
        ([], ["three", "two", "one"]),
        (["three"], ["two", "one"]),
        (["three", "two"], ["one"]),
        (["three", "two", "one"], []),
    ]


def test_one_process_has_one_reader(tmp_path: Path) -> None:
    assert summaries_in(tmp_path) is summaries_in(tmp_path)


def test_runs_that_are_over_cost_a_few_looks_at_their_files(tmp_path: Path, folds: list[Path]) -> None:
    make_runs(tmp_path / "state")
    home = tmp_path / "state" / "eksml-tui" / "runs"
    for folder in home.glob("*/"):
        settle(folder)
    assert len(list_runs(home)) == RUNS
    assert len(folds) == RUNS
    began = time.process_time()
    assert len(list_runs(home)) == RUNS
    assert resume_interrupted(base=home) == []
    assert len(folds) == RUNS
    assert time.process_time() - began < 0.5  # 20 ms on a quiet machine; a fold of all takes seconds


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Path]:
    """A run, and a copy of its folder beside it."""
    folder = a_parked_run(tmp_path)
    copy = folder.with_name(f"{folder.name}.bak")
    shutil.copytree(folder, copy, symlinks=True)
    return folder, copy


def test_an_exact_id_wins_whatever_else_begins_with_it(copied: tuple[Path, Path]) -> None:
    folder, copy = copied
    assert find_run(folder.name, base=folder.parent) == folder
    assert find_run("fake", base=folder.parent) == folder
    assert find_run(copy.name, base=folder.parent) == copy
    assert find_run("latest", base=folder.parent) == folder


def test_a_copy_is_listed_as_one_and_costs_nothing(copied: tuple[Path, Path]) -> None:
    folder, copy = copied
    by_id = {run.id: run for run in list_runs(folder.parent)}
    assert by_id.keys() == {folder.name, copy.name}
    assert not by_id[folder.name].is_copy
    found = by_id[copy.name]
    assert found.is_copy
    assert found.paid is not None
    assert found.paid.things == ()
    assert found.notices[0].text == f"It is a copy of the folder of run {folder.name}, to look at only."


def test_a_summary_that_came_with_the_folder_is_not_the_copys(copied: tuple[Path, Path]) -> None:
    folder, _ = copied
    listed(folder)
    again = folder.with_name("again")
    shutil.copytree(folder, again)
    settle(again)
    assert listed(again).is_copy
    assert not listed(folder).is_copy
    folder.rename(folder.with_name("moved"))
    assert listed(folder.with_name("moved")).is_copy


def test_the_copy_of_a_run_at_work_has_no_runner(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    lease = take_runner_lease(journal_path(folder), CLOCK)
    Journal(journal_path(folder), CLOCK, fence=lease.token).append(Intent(Action.PERFORM), stage="provision")
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    reader = RunReader(copy)
    view = reader.poll()
    assert view is not None
    assert not reader.runner_alive
    assert [notice.kind for notice in view.notices] == [NoticeKind.COPY]
    assert not listed(copy).is_interrupted
    assert listed(folder).has_runner
