"""D9: `latest` is the run that was created last, whatever the clock said, and no other one is taken for it."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, RefusedError
from actions.run.client import find_run, list_runs
from actions.run.journal.run_ids import known_numbers, short_ids, take_number
from actions.run.launch import create_folder, new_run_id
from actions.sandbox.locate import RunningSandbox
from tests.faults.longruns import CLUSTER
from tests.faults.small import a_run
from tests.support.program import Program
from tests.unit.run.world import creation

SANDBOX_SPEED = 100.0
ROOT_IGNORES_RIGHTS = os.geteuid() == 0


class ClockAt(SystemClock):
    """The machine's clock, set to another time."""

    def __init__(self, days: float = 0.0) -> None:
        self._away = timedelta(days=days)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._away


def created(home: Path, run_id: str, days: float = 0.0) -> Path:
    source = home / "source"
    source.mkdir(exist_ok=True, parents=True)
    (source / "blueprint.yaml").write_text("schema: eksml/v1\n")
    body = replace(creation(), run_id=run_id)
    return create_folder(body, source=source, environment={}, clock=ClockAt(days), base=home / "runs")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(-4000, 4000), min_size=1, max_size=6))
def test_the_order_is_that_of_creation_whatever_the_clock_says(
    tmp_path_factory: pytest.TempPathFactory, days: list[float]
) -> None:
    home = tmp_path_factory.mktemp("order")
    ids = [created(home, f"run-{place}", away).name for place, away in enumerate(days)]
    assert [run.id for run in list_runs(home / "runs")] == ids[::-1]
    assert find_run("latest", base=home / "runs").name == ids[-1]


def test_a_run_launched_after_the_clock_went_back_is_the_latest(tmp_path: Path) -> None:
    created(tmp_path, "first")
    created(tmp_path, "second", days=-3)
    assert find_run("latest", base=tmp_path / "runs").name == "second"


@pytest.mark.parametrize("spoil", ["garbage", "empty", "no journal", "no entry"])
def test_the_latest_is_refused_if_it_cannot_be_read(tmp_path: Path, spoil: str) -> None:
    created(tmp_path, "older")
    newest = created(tmp_path, "newest")
    journal = newest / "journal.jsonl"
    if spoil == "garbage":
        journal.write_bytes(b"garbage" * 4000)
    elif spoil == "empty":
        journal.write_bytes(b"")
    elif spoil == "no journal":
        journal.unlink()
    else:
        newest.rename(tmp_path / "away")
        (tmp_path / "runs" / "newest").symlink_to("nowhere")
    with pytest.raises(RefusedError, match=r"newest run, newest, cannot be read.*") as refused:
        find_run("latest", base=tmp_path / "runs")
    assert refused.value.hint == "Name a run."
    assert find_run("older", base=tmp_path / "runs").name == "older"


def test_a_beginning_that_a_broken_run_shares_is_ambiguous(tmp_path: Path) -> None:
    created(tmp_path, "demo-1121-aaaa")
    (created(tmp_path, "demo-1121-abbb") / "journal.jsonl").write_bytes(b"garbage" * 4000)
    with pytest.raises(MissingError, match="a prefix of 2 run ids"):
        find_run("demo-1121-a", base=tmp_path / "runs")
    assert find_run("demo-1121-aa", base=tmp_path / "runs").name == "demo-1121-aaaa"


def test_a_lost_list_is_made_anew_from_the_journals(tmp_path: Path) -> None:
    for name, days in (("c", 0), ("b", -5), ("a", -9)):
        created(tmp_path, name, days=days)
    (tmp_path / "runs" / ".order").unlink()
    assert [run.id for run in list_runs(tmp_path / "runs")] == ["a", "b", "c"]
    created(tmp_path, "d", days=-20)
    assert [run.id for run in list_runs(tmp_path / "runs")] == ["d", "a", "b", "c"]
    assert known_numbers(tmp_path / "runs") == {"c": 1, "b": 2, "a": 3, "d": 4}


def test_a_torn_list_gives_no_number_twice(tmp_path: Path) -> None:
    (tmp_path / ".order").write_bytes(b"1 one\n\xff\xfe\n2 two\n99999999999999999999 big\n7 seve")
    assert take_number(tmp_path, "next", dict) == 8
    assert take_number(tmp_path, "last", dict) == 9
    assert (known_numbers(tmp_path) or {})["next"] == 8


def test_runs_created_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda name=f"run-{number}": found.append(take_number(tmp_path, name, dict)))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 21))


def test_an_id_has_64_random_bits_and_is_a_label_value() -> None:
    run_id = new_run_id("x" * 60, SystemClock())
    assert len(run_id) <= 63
    assert run_id[0].isalnum()
    assert run_id[-1].isalnum()
    assert len(run_id.rpartition("-")[2]) * 5 >= 64
    assert len({new_run_id("demo", SystemClock()) for _ in range(1000)}) == 1000


@given(st.lists(st.text("ab27", min_size=13, max_size=13), min_size=1, max_size=8, unique=True))
def test_a_short_id_names_one_run(tails: list[str]) -> None:
    ids = [f"demo-1121-{tail}" for tail in tails]
    short = short_ids(ids)
    for run_id, name in short.items():
        assert [other for other in ids if other.startswith(name)] == [run_id]
    assert short_ids(["old-1121-a3f9"]) == {"old-1121-a3f9": "old-1121-a3f9"}


def test_no_command_takes_another_run_for_the_latest(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(program.state.parent))
    older = a_run(program.state, sandbox)
    newest = a_run(program.state, sandbox)
    (newest / "journal.jsonl").write_bytes(b"garbage" * 4000)
    before = {path: path.read_bytes() for path in older.iterdir() if path.is_file()}
    for words in (("show", "latest"), ("cancel", "latest"), ("teardown", "latest", "--confirm", CLUSTER)):
        done = program.command("runs", *words)
        assert done.returncode == 1, words
        assert f"newest run, {newest.name}, cannot be read" in done.stderr
        assert "Name a run." in done.stderr
    assert {path: path.read_bytes() for path in older.iterdir() if path.is_file()} == before
    assert program.command("runs", "show", older.name).returncode == 0
