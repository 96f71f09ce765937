"""Runs of every released version: read as they are, gone on with, and refused where a later version wrote them."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.base.clock import SystemClock
from actions.base.errors import JournalError, RefusedError
from actions.base.process import identity_of
from actions.run.client import list_runs, load_run, send_request
from actions.run.comparison import read_run
from actions.run.journal import schema
from actions.run.journal.folder import journal_path
from actions.run.journal.reader import RunReader
from actions.run.journal.schema import SCHEMA_VERSION
from actions.run.journal.store import Journal
from actions.run.output.reader import OutputReader
from actions.run.state.records import (
    Action,
    Body,
    Identified,
    Intent,
    Limits,
    LimitsSet,
    Operator,
    Outcome,
    Output,
    Owned,
    RequestKind,
    Result,
    RunAccount,
    RunRequest,
    encode_body,
    record_kind,
)
from actions.run.state.view import RunState
from tests.support.program import Program
from tests.support.released import CASES, JOURNALS, unpack
from tests.unit.run.test_runner import carry_out

CLOCK = SystemClock()
STATES = {
    "succeeded": RunState.SUCCEEDED,
    "failed": RunState.FAILED,
    "parked": RunState.PARKED,
    "torn-down": RunState.TORN_DOWN,
    "killed": RunState.UNKNOWN,
}


def version_of(folder: Path) -> int:
    with closing(sqlite3.connect(f"file:{journal_path(folder)}?mode=ro", uri=True)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def rows_of(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{journal_path(folder)}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT * FROM record ORDER BY seq").fetchall()


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(params=CASES)
def released(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A case, and its unpacked run."""
    return str(request.param).rpartition("/")[2], unpack(request.param, tmp_path)


def test_every_case_of_the_first_release_is_there() -> None:
    assert {case for case in CASES if case.startswith("0.1.0/")} == {f"0.1.0/{name}" for name in STATES}


def test_a_run_is_read_without_a_byte_written(released: tuple[str, Path]) -> None:
    case, folder = released
    before = digests(folder)
    (summary,) = list_runs(folder.parent)
    view = load_run(folder)
    assert (summary.state, view.state, summary.error) == (STATES[case], STATES[case], "")
    reader = RunReader(folder)
    records = reader.records()
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    for stage in view.stages:
        output = OutputReader(folder, stage.id)
        output.lines()
        output.findings()
    assert ("train_loss" in read_run(folder).metrics()) is (case != "failed")
    assert digests(folder) == before


def test_the_commands_show_it(released: tuple[str, Path], program: Program) -> None:
    case, folder = released
    runs = program.state / "runs"
    runs.mkdir(parents=True, mode=0o700)
    folder = folder.rename(runs / folder.name)
    listed = program.command("--readonly", "runs", "list", "-o", "json")
    assert msgspec.json.decode(listed.stdout)[0]["state"] == STATES[case].value
    for verb in (("show",), ("logs",), ("terraform",), ("curves", "-o", "csv")):
        done = program.command("--readonly", "runs", verb[0], folder.name, *verb[1:])
        assert done.returncode == 0, done.stderr
        assert done.stdout


async def test_it_is_torn_down_and_keeps_its_records(released: tuple[str, Path]) -> None:
    _, folder = released
    before, owned = rows_of(folder), load_run(folder).owned
    send_request(folder, RequestKind.TEARDOWN, delete_data=True, even_if_shared=True, start=False)
    view = await carry_out(folder)
    assert view.state is RunState.TORN_DOWN
    assert version_of(folder) == SCHEMA_VERSION
    assert rows_of(folder)[: len(before)] == before
    assert {item.name for item in view.owned} >= {item.name for item in owned}


@pytest.mark.parametrize("case", ["0.1.0/killed", "0.1.0/failed"])
async def test_it_goes_on_where_it_was(case: str, tmp_path: Path) -> None:
    folder = unpack(case, tmp_path)
    before = rows_of(folder)
    done = [stage.id for stage in load_run(folder).stages if stage.state.value == "succeeded"]
    if load_run(folder).state is RunState.FAILED:
        send_request(folder, RequestKind.RETRY, start=False)
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED
    assert rows_of(folder)[: len(before)] == before
    begun = {row[4] for row in rows_of(folder)[len(before) :] if row[3] == "intent"}
    assert not begun & set(done)


def test_a_write_that_fails_leaves_the_version(tmp_path: Path) -> None:
    folder = unpack("0.1.0/parked", tmp_path)
    journal = Journal(journal_path(folder), CLOCK, fence="nobody's")
    with pytest.raises(Exception, match="taken over"):
        journal.append(Intent(Action.PERFORM))
    journal.close()
    assert version_of(folder) == 1
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(RunRequest(RequestKind.CANCEL))
    journal.close()
    assert version_of(folder) == SCHEMA_VERSION


def test_a_later_version_is_refused_by_its_number(tmp_path: Path) -> None:
    folder = unpack("0.1.0/parked", tmp_path)
    with closing(sqlite3.connect(journal_path(folder))) as connection:
        connection.execute("DROP TABLE meta")
        connection.execute("PRAGMA user_version = 7")
    for attempt in (load_run, lambda run: Journal(journal_path(run), CLOCK)):
        with pytest.raises(JournalError, match=r"version 7; this program reads versions 1 to \d") as caught:
            attempt(folder)
        assert "damaged" not in caught.value.sentence()
        assert "later version" in caught.value.hint


@contextmanager
def an_older_runner(folder: Path) -> Iterator[int]:
    """A living process that holds the lease, as a runner of the version of the journal."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        holder = identity_of(process.pid)
        assert holder is not None
        with closing(sqlite3.connect(journal_path(folder))) as connection, connection:
            row = (holder.pid, holder.start_ticks, holder.boot_id)
            connection.execute("INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, 'old', 0, '{}')", row)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_living_runner_of_an_older_version_can_read_what_is_asked_of_it(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path)
    someone = Operator("jo", "bastion")
    with an_older_runner(folder):
        journal = Journal(journal_path(folder), CLOCK)
        journal.append(RunRequest(RequestKind.CANCEL, by=someone))
        with pytest.raises(RefusedError, match="earlier version"):
            journal.append(LimitsSet(Limits(until=1.0), by=someone))
        journal.close()
        assert version_of(folder) == 1
        text = str(rows_of(folder)[-1][-1])
        assert msgspec.json.decode(text) == {
            "kind": "wish", "wish": "cancel", "plan_hash": "", "delete_data": False, "even_if_shared": False
        }  # fmt: skip
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(RunRequest(RequestKind.CANCEL, by=someone))
    journal.close()
    assert version_of(folder) == SCHEMA_VERSION
    assert '"user":"jo"' in str(rows_of(folder)[-1][-1])


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
BODIES: st.SearchStrategy[Body] = st.one_of(
    st.builds(Intent, st.sampled_from(Action)),
    st.builds(Outcome, st.sampled_from(Action), st.sampled_from(Result), TEXT, leftovers=st.tuples(TEXT, TEXT)),
    st.builds(Owned, TEXT, TEXT, TEXT, namespace=TEXT, uid=TEXT, existed=st.booleans()),
    st.builds(Output, st.dictionaries(TEXT, TEXT, max_size=3)),
    st.builds(RunRequest, st.sampled_from(RequestKind), delete_data=st.booleans()),
    st.builds(Identified, st.builds(RunAccount, TEXT, TEXT, TEXT, TEXT)),
)


def text_of_version_1(body: Body) -> str:
    document = msgspec.json.decode(encode_body(body))
    document.pop("by", None)
    return msgspec.json.encode(document).decode()


@settings(max_examples=25)
@given(st.lists(st.tuples(BODIES, TEXT, st.integers(0, 9), st.floats(0, 4e9)), min_size=1, max_size=8))
def test_a_migration_keeps_every_record(bodies: Sequence[tuple[Body, str, int, float]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = unpack("0.1.0/parked", Path(place))
        with closing(sqlite3.connect(journal_path(folder))) as connection, connection:
            newest = connection.execute("SELECT max(seq) FROM record").fetchone()[0]
            for number, (body, stage, attempt, at) in enumerate(bodies, start=newest + 1):
                row = (number, at, "operator", record_kind(body), stage, attempt, text_of_version_1(body))
                connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        before, read = rows_of(folder), RunReader(folder).records()
        journal = Journal(journal_path(folder), CLOCK)
        journal.append(RunRequest(RequestKind.PAUSE))
        assert tuple(journal.records()[:-1]) == read
        journal.close()
        assert version_of(folder) == SCHEMA_VERSION
        assert rows_of(folder)[:-1] == before
        assert [record.body for record in read[-len(bodies) :]] == [body for body, *_ in bodies]


def test_whatever_records_have_beyond_the_first_release_is_declared() -> None:
    """An older runner reads records strictly, so `actions.run.journal.schema` leaves out what it does not know."""
    before = msgspec.json.decode((JOURNALS / "0.1.0" / "records.json").read_bytes())
    found = msgspec.json.schema(Body)["$defs"]
    now = {name: set(struct["properties"]) for name, struct in found.items() if "properties" in struct}
    tags = {name: found[name]["properties"].get("kind", {}).get("enum") for name in now}
    kinds = {tag[0]: name for name, tag in tags.items() if tag}
    for kind, name in kinds.items():
        if kind == "created":  # written once, by the program that makes the journal
            continue
        if name not in before:
            assert kind in schema._KINDS_SINCE, f"{kind} is new: declare its version"
        else:
            assert now[name] - set(before[name]) == set(schema._FIELDS_SINCE.get(kind, {})), kind
    parts = now.keys() & before.keys() - set(kinds.values()) - {"ClusterName", "HeldPrice", "StageOutline"}
    assert {name: now[name] - set(before[name]) for name in parts if now[name] - set(before[name])} == {}
    assert all(fields <= now[name] for name, fields in ((name, set(fields)) for name, fields in before.items()))
