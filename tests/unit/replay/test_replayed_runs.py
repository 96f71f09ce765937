"""Runs of a capture: copied while they are written, and folders again at any moment."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.capture.entries import AnswerPart, JournalRow, RunFile, RunLived, RunWritten
from actions.capture.reader import CaptureReader
from actions.capture.runs import RunsCapture
from actions.capture.writer import CaptureWriter
from actions.replay.index import CaptureIndex, read_index
from actions.replay.runs import ReplayedRuns
from actions.run.journal.folder import journal_path, runs_folder, terraform_path
from actions.run.journal.lease import Heartbeat, release_lease, take_runner_lease
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal, append_record
from actions.run.state.records import RequestKind, RunRequest
from actions.run.state.view import NoticeKind
from actions.run.summaries import list_runs
from tests.support.captures import WALL, MadeCapture, MovedClock
from tests.support.streams import tail_of
from tests.unit.run.world import make_run

CLOCK = SystemClock()
CANARY = "hf_abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the thread that writes a capture as long as a loaded machine makes it take."""
    monkeypatch.setattr("actions.capture.writer._JOIN_SECONDS", 60.0)


class Copied:
    """A run of this machine, and what is captured of it second by second."""

    def __init__(self, folder: Path) -> None:
        self.run = make_run(folder, CLOCK)
        self.clock = MovedClock()
        self.file = folder / "a.capture"
        self.writer = CaptureWriter(self.file, clock=self.clock)
        self.runs = RunsCapture(self.writer, CLOCK, base=self.run.parent)

    def look(self) -> None:
        self.clock.seconds += 1
        self.runs.look()

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def index(self) -> CaptureIndex:
        self.writer.close()
        return read_index(CaptureReader(self.file))


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def test_a_run_is_as_it_was_at_each_moment(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copied.run
    lines = tail_of(run, "train", "lines")
    copied.write(lines, "L000000\tfirst\nL000000\thalf")
    copied.look()  # 1
    lease = take_runner_lease(journal_path(run), CLOCK)
    beat = Heartbeat(run, lease.holder, CLOCK)
    beat.note("train", f"step 5, {CANARY}")
    beat.beat()
    journal = Journal(journal_path(run), CLOCK, fence=lease.token)
    journal.append(RunRequest(request=RequestKind.UNPAUSE))
    copied.write(lines, " a line\n")
    copied.look()  # 2
    release_lease(journal, lease.token, seen=journal.last_seq())
    journal.close()
    append_record(run, RunRequest(request=RequestKind.PAUSE), deed="asked for")
    copied.look()  # 3

    index = copied.index()
    replayed = ReplayedRuns(index)
    try:
        assert replayed.show(0.5) is False
        assert replayed.show(1.5) is True
        monkeypatch.setenv("XDG_STATE_HOME", str(replayed.state_home))
        folder = runs_folder() / run.name
        assert tail_of(folder, "train", "lines").read_text() == "L000000\tfirst\n"
        reader = RunReader(folder)
        assert len(reader.records()) == 1
        assert replayed.show(2.5) is True
        view = reader.poll()
        assert view is not None
        assert (len(reader.records()), reader.runner_alive) == (2, True)
        assert not [notice for notice in view.notices if notice.kind is NoticeKind.STALLED]
        assert tail_of(folder, "train", "lines").read_text() == "L000000\tfirst\nL000000\thalf a line\n"
        assert replayed.show(3.5) is True
        view = reader.poll()
        assert view is not None
        assert (view.is_paused, reader.runner_alive) == (True, False)
        assert [summary.id for summary in list_runs()] == [run.name.replace(run.name, "fake-1121-0001")]

        before = replayed.state_home
        monkeypatch.setenv("XDG_STATE_HOME", str(replayed.begin_again()))
        assert not before.exists()
        replayed.show(1.5)
        assert len(RunReader(runs_folder() / run.name).records()) == 1
    finally:
        replayed.close()
        index.close()
    assert not replayed.state_home.exists()


def test_nothing_secret_of_a_run_is_kept(copied: Copied) -> None:
    run = copied.run
    copied.write(tail_of(run, "train", "lines"), f"L000000\tlogin with {CANARY}\n")
    copied.write(tail_of(run, "train", "points"), f'{{"type":"point","key":"{CANARY}"}}\n')
    copied.write(terraform_path(run, "provision") / "apply.jsonl", f'{{"@message":"{CANARY}"}}\n')
    for name in ("kubeconfig", "environment.json", "terraform/provision/terraform.tfstate", "secrets.txt"):
        copied.write(run / name, "canary-that-is-not-copied")
    copied.look()
    index = copied.index()
    kept = [record for record in index.run_entries(run.name, 0, 100.0) if isinstance(record, RunFile)]
    index.close()
    assert {record.path for record in kept} >= {
        "output/train/lines/000000000000000.tail",
        "terraform/provision/apply.jsonl",
    }
    data = gzip.decompress(copied.file.read_bytes())
    assert CANARY.encode() not in data
    assert b"canary-that-is-not-copied" not in data


def test_a_file_that_was_replaced_is_replaced(copied: Copied) -> None:
    path = copied.run / "blueprint" / "blueprint.yaml"
    for text in ("{}", '{"a":1}'):
        path.unlink(missing_ok=True)
        copied.write(path, text)
        copied.look()
    index = copied.index()
    replayed = ReplayedRuns(index)
    replayed.show(10)
    found = replayed.state_home / "eksml-tui" / "runs" / copied.run.name / "blueprint" / "blueprint.yaml"
    assert found.read_text() == '{"a":1}'
    replayed.close()
    index.close()


def test_a_run_that_cannot_be_read_hides_no_other(copied: Copied) -> None:
    broken = copied.run.parent / "broken"
    broken.mkdir()
    (broken / "journal.db").write_bytes(b"garbage" * 5000)
    copied.look()
    index = copied.index()
    assert copied.run.name in index.runs
    index.close()


def test_names_that_lead_elsewhere_are_passed_over(tmp_path: Path) -> None:
    made = MadeCapture()
    for name in ("../../out", "/etc", ".", "..", "a/b", "a\0b", "-x", ""):
        made.records += [RunFile(at=1.0, run=name, path="output/a/lines/000000000000000.tail", data=b"x", is_new=True)]
    for path in (
        "../out",
        "output/../../out",
        "output/a/../000000000000000.tail",
        "output/a/lines/000000000000005.tail",
        "/tmp/out",
        "journal.db",
        "kubeconfig",
        "output//lines/000000000000000.tail",
    ):
        made.records += [RunFile(at=1.0, run="fine", path=path, data=b"x", is_new=True)]
    made.records += [
        RunFile(at=1.0, run="fine", path="output/train/lines/000000000000000.tail", data=b"good\n", is_new=True)
    ]
    index = made.index(tmp_path)
    replayed = ReplayedRuns(index)
    replayed.show(2)
    top = replayed.state_home / "eksml-tui" / "runs"
    assert [str(path.relative_to(top)) for path in sorted(top.rglob("*")) if path.is_file()] == [
        "fine/output/train/lines/000000000000000.tail"
    ]
    replayed.close()
    index.close()


def test_rows_that_are_no_journal_are_shown_as_a_damaged_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeCapture()
    rows = (
        JournalRow(1, WALL, "operator", "", 0, "created", '{"nonsense"'),
        JournalRow(1, WALL, "x", "", 0, "again", "{}"),
    )
    made.records += [RunWritten(at=1.0, run="odd", rows=rows), RunLived(at=1.0, run="odd", is_alive=True, token="t")]
    made.records += [AnswerPart(at=9.0, id=1, data=b"")]
    index = made.index(tmp_path)
    replayed = ReplayedRuns(index)
    replayed.show(2)
    monkeypatch.setenv("XDG_STATE_HOME", str(replayed.state_home))
    assert "is damaged" in list_runs()[0].error
    replayed.close()
    index.close()
