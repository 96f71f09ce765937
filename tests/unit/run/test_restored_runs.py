"""A restored run is carried out here only if its store names no other machine; the cluster's part is in tests/flow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.run.client import load_run
from actions.run.journal.folder import journal_path, restored_path, runs_folder
from actions.run.journal.store import Journal
from actions.run.storage.archive import archive_run, restore_run
from actions.run.store.lease import take_lease
from actions.run.store.mirror import TakenStore
from actions.run.store.rows import append_rows
from actions.run.takeover.restored import take_up_restored
from actions.run.takeover.take_over import take_over_run
from tests.support.stores import ANNA, URL, Proxy, a_home, a_run_with_store, opened
from tests.unit.run.world import creation
from tui.cli.main import main

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def home(served: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Proxy:
    served.use(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    monkeypatch.setattr("actions.run.takeover.restored._ANSWER_SECONDS", 100.0)  # as in test_store_taken.py
    return served


def restored(tmp_path: Path, name: str) -> Path:
    """A run with a store, as it comes from an archive that another machine has written."""
    folder = a_run_with_store(tmp_path, replace(creation(), run_id=name), CLOCK)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    restore_run(tmp_path / "run.zip", CLOCK)
    return runs_folder() / name


def with_lease(tmp_path: Path, name: str) -> None:
    """Anna's machine has the run, and has given its lease back: it is parked, or off."""

    async def write() -> None:
        store, journal = opened(), Journal(journal_path(tmp_path / "runs" / name), CLOCK)
        await append_rows(store, name, journal.rows(), epoch=1)
        await take_lease(store, name, ANNA, after=None, holder="bastion-1/abc")
        journal.close()
        store.close()

    asyncio.run(write())


def take_up(folder: Path, *, confirm: str = "") -> None:
    asyncio.run(take_up_restored(folder, CLOCK, confirm=confirm))


def test_a_run_that_another_machine_has_in_its_home_is_refused_and_taken_over_instead(
    home: Proxy, tmp_path: Path
) -> None:
    folder = restored(tmp_path, "fake-had")
    with_lease(tmp_path, "fake-had")
    before = load_run(folder).last_seq
    for confirm in ("", folder.name):  # what the store says counts, whatever is typed
        with pytest.raises(
            RefusedError, match=r"anna@bastion-1 carries out run fake-had \(epoch 1\), as the run's store"
        ) as no:
            take_up(folder, confirm=confirm)
        assert f"runs takeover fake-had --store {URL}" in no.value.hint
    assert restored_path(folder).exists()
    assert load_run(folder).last_seq == before

    async def take() -> int:
        store = opened()
        done = await take_over_run(
            "fake-had", TakenStore(store, CLOCK), CLOCK, confirm="fake-had", is_machine_gone=True, starts=False
        )
        lease = await store.lease("fake-had")
        store.close()
        assert lease is not None
        return done.epoch if lease.epoch == done.epoch else 0

    assert asyncio.run(take()) == 2
    assert not restored_path(folder).exists()  # the copy from the archive was put aside


def test_a_run_of_which_the_home_has_no_lease_is_taken_up(home: Proxy, tmp_path: Path) -> None:
    folder = restored(tmp_path, "fake-free")
    take_up(folder)
    assert not restored_path(folder).exists()
    with pytest.raises(RefusedError, match="was not restored"):
        take_up(folder)


def test_a_home_that_is_away_is_no_answer(home: Proxy, tmp_path: Path) -> None:
    folder = restored(tmp_path, "fake-away")
    home.is_away = True
    with pytest.raises(RefusedError, match="is not known, as the run's store was not reached") as no:
        take_up(folder)
    assert "--restored --confirm fake-away" in no.value.hint
    assert restored_path(folder).exists()
    take_up(folder, confirm="fake-away")
    assert not restored_path(folder).exists()


def test_a_home_that_does_not_exist_any_more_names_nobody(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.stores.URL", "s3://no-such-bucket/ml")
    folder = restored(tmp_path, "fake-gone")
    take_up(folder)
    assert not restored_path(folder).exists()


def test_a_copy_that_is_forgotten_names_no_command_that_deletes_its_home(
    home: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine carries the run out from there."""
    folder = restored(tmp_path, "fake-rm")
    assert main(["runs", "rm", folder.name, "--confirm", folder.name]) == 0
    assert capsys.readouterr().out.endswith(f"The run stays in its store {URL}: another machine may carry it out.\n")
