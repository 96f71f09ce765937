"""Space of runs on disk: shown, compacted when they are over, bounded by a warning alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import InputError, RefusedError
from actions.fleet.quantity import size_text
from actions.run.client import list_runs, load_run, send_request
from actions.run.comparison import read_run
from actions.run.journal.folder import journal_path, reserve_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.mirrored import copies_folder
from actions.run.journal.schema import SCHEMA_VERSION
from actions.run.spool.compacted import Compaction, compact
from actions.run.spool.format import lines_file
from actions.run.spool.reader import SpoolReader
from actions.run.state.records import RequestKind
from actions.run.storage import compaction
from actions.run.storage.compaction import allocated_bytes, compact_run, compactable_files
from actions.run.storage.disk_use import disk_json, disk_table, disk_use, keep_up
from tests.support.program import Program
from tests.support.released import unpack
from tests.unit.run.test_runner import carry_out
from tests.unit.run.world import make_run
from tui.feeds.upkeep import UpkeepFeed
from tui.settings.config import size_of
from tui.settings.configfile import load_config
from tui.settings.settings import DiskSettings

CLOCK = SystemClock()


class LaterClock(SystemClock):
    """Wall time stands still at a second since the epoch."""

    def __init__(self, at: float) -> None:
        self._at = at

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._at, UTC)


def seen(folder: Path) -> list[object]:
    stages = [stage.id for stage in load_run(folder).stages]
    spools = [SpoolReader(folder, stage) for stage in stages]
    return [read_run(folder).metrics(), *((spool.lines(), spool.findings(), spool.exit_codes()) for spool in spools)]


@pytest.mark.parametrize("case", ["succeeded", "failed", "parked", "torn-down"])
def test_a_run_that_is_over_is_compacted_and_reads_the_same(case: str, tmp_path: Path) -> None:
    folder = unpack(f"0.1.0/{case}", tmp_path)
    reserve_path(folder).write_bytes(b"x" * 4096)
    before, size = seen(folder), allocated_bytes(folder)
    done = compact_run(folder, CLOCK)
    assert done.files >= 1
    assert done.freed_bytes > 0
    assert allocated_bytes(folder) < size
    assert seen(folder) == before
    assert list(compactable_files(folder)) == []
    assert compact_run(folder, CLOCK).files == 0
    assert reserve_path(folder).exists() is (case != "torn-down")  # a teardown on a full disk is still to come
    with closing(sqlite3.connect(journal_path(folder))) as connection:  # an older program refuses it by its version
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


async def test_a_compacted_run_is_torn_down(tmp_path: Path) -> None:
    folder = unpack("0.1.0/succeeded", tmp_path)
    compact_run(folder, CLOCK)
    send_request(folder, RequestKind.TEARDOWN, delete_data=True, even_if_shared=True, start=False)
    assert (await carry_out(folder)).state.value == "torn down"


def test_a_run_that_may_go_on_is_left(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path)
    with pytest.raises(RefusedError, match="after it ends"):
        compact_run(folder, CLOCK)
    assert lines_file(folder, "train").exists()


def test_a_runner_that_begins_meanwhile_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpack("0.1.0/succeeded", tmp_path)

    def with_runner(path: Path) -> Compaction:
        prepared = compact(path)
        take_runner_lease(journal_path(folder), CLOCK)
        return prepared

    monkeypatch.setattr(compaction, "compact", with_runner)
    names = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(RefusedError, match="carried out by process"):
        compact_run(folder, CLOCK)
    assert sorted(path.name for path in folder.rglob("*")) == names


def test_upkeep_compacts_after_some_days_and_above_the_bound_at_once(tmp_path: Path) -> None:
    folder = unpack("0.1.0/succeeded", tmp_path)
    (run,) = list_runs(tmp_path)
    clock = LaterClock(compaction.last_change(folder) + 13 * 86_400)
    done = keep_up(clock, after_days=14, base=tmp_path)
    assert (done.compacted, done.use.warning()) == (0, "")
    size = done.use.total
    done = keep_up(clock, after_days=14, bound=size - 1, base=tmp_path)
    assert (done.compacted, done.use.warning()) == (1, "")
    assert done.use.total < size
    done = keep_up(clock, after_days=14, bound=1000, base=tmp_path)  # no more can be done: it warns and removes nothing
    assert done.use.warning().startswith("Runs take ")
    assert "runs_max_size allows" in done.use.warning()
    assert list_runs(tmp_path)[0].id == run.id

    other = unpack("0.1.0/parked", tmp_path / "other")
    clock = LaterClock(compaction.last_change(other) + 15 * 86_400)
    assert keep_up(clock, after_days=14, base=other.parent, compacts=False).compacted == 0
    assert keep_up(clock, after_days=14, base=other.parent).compacted == 1


def test_sizes_add_up_and_say_what_could_be_freed(tmp_path: Path) -> None:
    torn_down = unpack("0.1.0/torn-down", tmp_path)
    make_run(tmp_path / "x", CLOCK).rename(tmp_path / "fake-1121-0001")
    (tmp_path / "x").rename(tmp_path / ".x")
    use = disk_use(list_runs(tmp_path), bound=1)
    assert [run.id for run in use.runs if run.removable] == [torn_down.name]
    assert all(run.total == allocated_bytes(run.folder) for run in use.runs)
    document = msgspec.json.decode(disk_json(use))
    assert document["total_bytes"] == sum(run["total_bytes"] for run in document["runs"])
    assert document["is_over"]
    table = disk_table(use)
    assert table.splitlines()[0].split()[:3] == ["RUN", "STATE", "LOGS"]
    assert "runs_max_size" in table


def test_copies_of_other_machines_runs_count_and_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    torn_down = unpack("0.1.0/torn-down", tmp_path / "eksml-tui" / "runs")
    copy = copies_folder() / "fake-1121-0001"
    copy.mkdir(parents=True)
    (copy / "journal.db").write_bytes(bytes(1 << 20))
    use = keep_up(CLOCK, after_days=14, bound=1000, compacts=False).use
    assert use.copies >= 1 << 20
    assert use.total == use.copies + sum(run.total for run in use.runs)
    (gone,) = use.runs
    assert gone.id == torn_down.name
    assert f"1 run can be forgotten, which frees {size_text(gone.removable)}; copies of runs" in use.warning()
    assert str(copies_folder()) in disk_table(use)
    assert msgspec.json.decode(disk_json(use))["copies_bytes"] == use.copies


def test_the_commands(program: Program) -> None:
    runs = program.state / "runs"
    runs.mkdir(parents=True, mode=0o700)
    folder = unpack("0.1.0/succeeded", runs)
    (program.home / "config" / "eksml-tui").mkdir(parents=True)
    (program.home / "config" / "eksml-tui" / "config.yaml").write_text("runs_max_size: 100 KiB\n")
    shown = program.command("runs", "disk")
    assert shown.returncode == 0
    assert "Runs take" in shown.stderr
    logs = program.command("runs", "logs", folder.name).stdout
    done = program.command("runs", "compact")
    assert "freed" in done.stdout, done.stderr
    assert program.command("runs", "compact", folder.name).stdout == "There is nothing to compact.\n"
    assert program.command("--readonly", "runs", "compact").returncode != 0
    assert program.command("runs", "logs", folder.name).stdout == logs
    done = program.command("--readonly", "runs", "archive", folder.name, "run.tar")
    assert done.returncode == 0, done.stderr
    again = program.command("runs", "archive", folder.name, "run.tar")
    assert (again.returncode, again.stdout) == (1, "")
    folder.rename(runs.parent / "moved")
    done = program.command("runs", "restore", "run.tar")
    assert "--restored" in done.stdout, done.stderr
    assert "copy from an archive" in program.command("runs", "rm", folder.name).stdout
    assert program.command("runs", "logs", folder.name).stdout == logs
    refused = program.command("runs", "resume", folder.name)
    assert refused.returncode == 1
    assert "restored from an archive" in refused.stderr
    gone = program.command("runs", "rm", folder.name, "--confirm", folder.name, "--archive", "last.zip")
    assert "Archived" in gone.stdout, gone.stderr
    assert not folder.exists()
    over = unpack("0.1.0/torn-down", runs)
    assert program.command("runs", "rm", over.name, "--confirm", over.name, "--archive", "over.zip").returncode == 0
    back = program.command("runs", "restore", "over.zip")
    assert "torn down: to look at only." in back.stdout, back.stderr
    assert "--restored" not in back.stdout  # there is nothing left to carry out


@pytest.mark.parametrize(
    ("text", "size"),
    [("20 GiB", 20 << 30), ("500MB", 500_000_000), ("1.5T", 1_500_000_000_000), ("10", 10), ("0", None), ("x", None)],
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int | None) -> None:
    assert size_of(text) == size


def test_a_setting_that_is_no_size_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("runs_max_size: plenty\n")
    with pytest.raises(InputError, match="a size such as 20 GiB"):
        load_config(file)


async def test_the_console_shows_a_bound_that_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = unpack("0.1.0/succeeded", tmp_path / "eksml-tui" / "runs")
    told: list[str] = []
    feed = UpkeepFeed(DiskSettings(max_bytes=1000), CLOCK, lambda: told.append("news"), is_readonly=True)
    await feed.keep_up()
    assert feed.label.endswith("of 0.98 KiB")
    assert feed.warning
    assert told == ["news"]
    assert lines_file(folder, "train").exists()
    feed.close()
    feed = UpkeepFeed(DiskSettings(max_bytes=1000), CLOCK, lambda: None)
    await feed.keep_up()
    assert not lines_file(folder, "train").exists()
    feed.close()
