"""A journal that somebody has made to do harm: refused with its reason, in bounded time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import JournalError
from actions.run.client import list_runs, load_run, send_request
from actions.run.journal.folder import journal_path
from actions.run.journal.journal_file import MOST_BYTES, MOST_RECORDS, RecordRow
from actions.run.state.records import RequestKind, RunRequest, encode_body, record_kind
from tests.support.journals import write_rows
from tests.unit.run.world import make_run

CLOCK = SystemClock()
MEMORY_BYTES = 2_000_000_000


def _gap(path: Path) -> None:
    write_rows(path, [RecordRow(2**62, 0.0, "", "wish", "", 0, "{}")])


def _many_records(path: Path) -> None:
    body = RunRequest(RequestKind.PAUSE)
    seqs = range(2, MOST_RECORDS + 3)
    write_rows(path, [RecordRow(seq, 0.0, "", record_kind(body), "", 0, encode_body(body)) for seq in seqs])


def _many_lines(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n" * (MOST_BYTES - 10_000))


def _deep(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"[" * 5_000_000 + b"\n")


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a gap": (_gap, "record 2 is missing"),
    "too many records": (_many_records, f"more than {MOST_RECORDS} records"),
    "nothing but lines": (_many_lines, f"more than {MOST_RECORDS} records"),
    "a deep document": (_deep, "record 2 cannot be read"),
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """The folder of a run whose journal was changed, and words of the reason."""
    folder = make_run(tmp_path, CLOCK)
    change, words = HOSTILE[request.param]
    change(journal_path(folder))
    return folder, words


def test_it_is_refused_with_its_reason(hostile: tuple[Path, str]) -> None:
    folder, words = hostile
    with pytest.raises(JournalError, match="is damaged") as refused:
        load_run(folder)
    assert words in str(refused.value)
    (listed,) = list_runs(folder.parent)
    assert words in listed.error


def test_no_request_is_written_into_it(hostile: tuple[Path, str]) -> None:
    folder, _ = hostile
    before = journal_path(folder).read_bytes()
    with pytest.raises(JournalError):
        send_request(folder, RequestKind.PAUSE, start=False)
    assert journal_path(folder).read_bytes() == before


def test_it_takes_bounded_memory(hostile: tuple[Path, str]) -> None:
    """In a process of its own, whose memory the kernel bounds."""
    folder, words = hostile
    code = "import sys, pathlib; from actions.run.client import list_runs; [run] = list_runs(pathlib.Path(sys.argv[1]))"
    code += "; print(run.error)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert words in done.stdout
