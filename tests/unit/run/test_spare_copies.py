"""Copies of runs that are of no more use: which go, which stay, and what is said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.client import list_runs, load_run, send_request
from actions.run.context.operator import present_operator
from actions.run.forget import forget_run, survey_run
from actions.run.journal.folder import journal_path, output_path, runs_folder, terraform_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.store import Journal
from actions.run.state.records import RequestKind, TakenOver
from actions.run.store.clean import DAY_SECONDS, SpareCopy, SpareKind, remove_copies, survey_copies
from actions.run.store.copy import CopyMark, copies_folder, refreshed_copy, write_mark
from actions.run.store.elsewhere import note_elsewhere
from actions.run.store.lease import take_lease
from actions.run.store.rows import append_rows, append_to_store
from actions.run.takeover.takeover import take_over_run
from tests.support.program import Program
from tests.support.stores import ANNA, BEN, URL, Proxy, a_home, a_run_with_store, opened
from tests.unit.run.finished import finished_run
from tests.unit.run.world import creation
from tui.cli.run_verbs.storage import _say_loss

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def home(served: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Proxy:
    served.use(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return served


def now() -> float:
    return CLOCK.now().timestamp()


async def in_store(tmp_path: Path, name: str) -> Path:
    """A run of this machine with all of its records in the home, and a lease of this machine."""
    base = tmp_path / "eksml-tui"
    base.mkdir(exist_ok=True)
    folder = a_run_with_store(base, replace(creation(), run_id=name), CLOCK)
    store, journal = opened(), Journal(journal_path(folder), CLOCK)
    await append_rows(store, name, journal.rows(), epoch=1)
    await take_lease(store, name, present_operator(), after=None)
    journal.close()
    store.close()
    return folder


async def taken_twice(tmp_path: Path, name: str) -> Path:
    """The folder that is put aside as a run comes back to this machine, which ben's had meanwhile."""
    folder = await in_store(tmp_path, name)
    output_path(folder, "train").mkdir(parents=True)
    store = opened()
    lease = await take_lease(store, name, BEN, after=await store.lease(name))
    await append_to_store(store, name, TakenOver(BEN, 2, ANNA), clock=CLOCK, epoch=2)
    await take_lease(store, name, BEN, after=lease, epoch=2)
    await take_over_run(name, store, CLOCK, confirm=name, is_machine_gone=True, starts=False)
    store.close()
    return folder.with_name(f".{name}.before-epoch-3")


def the(folder: Path, *, days: float = 0.0) -> SpareCopy:
    (found,) = [copy for copy in survey_copies(now() + days * DAY_SECONDS) if copy.folder == folder]
    return found


def test_a_folder_put_aside_goes_when_a_newer_journal_has_its_records(home: Proxy, tmp_path: Path) -> None:
    aside = asyncio.run(taken_twice(tmp_path, "fake-aside"))
    assert aside.exists()
    young, old = the(aside, days=3), the(aside, days=15)
    assert (young.is_removable, young.why) == (False, "it was put aside 3 days ago")
    assert (old.is_removable, old.kind, old.run_id) == (True, SpareKind.ASIDE, "fake-aside")
    assert remove_copies([young], now()) == 0
    assert aside.exists()
    assert remove_copies([old], now()) == old.size_bytes
    assert not aside.exists()
    assert load_run(runs_folder() / "fake-aside").epoch == 3


def test_a_record_or_a_state_that_is_nowhere_else_keeps_it(home: Proxy, tmp_path: Path) -> None:
    aside = asyncio.run(taken_twice(tmp_path, "fake-more"))
    state = terraform_path(aside, "network") / "terraform.tfstate"
    state.parent.mkdir(parents=True)
    state.write_bytes(b'{"lineage": "a", "serial": 4, "resources": [{}]}')
    assert "network/terraform.tfstate is a Terraform state" in the(aside, days=15).why
    later = terraform_path(runs_folder() / "fake-more", "network") / "terraform.tfstate"
    later.parent.mkdir(parents=True)
    for content, is_removable in (
        (b'{"lineage": "a", "serial": 3, "resources": [{}]}', False),
        (b'{"lineage": "b", "serial": 9, "resources": [{}]}', False),
        (b'{"lineage": "a", "serial": 5, "resources": []}', True),
    ):
        later.write_bytes(content)
        assert the(aside, days=15).is_removable is is_removable
    send_request(aside, RequestKind.PAUSE, start=False)  # not in the home when the run was taken over
    found = the(aside, days=15)
    assert (found.is_removable, found.why) == (False, "1 record of it is in no newer journal")


def test_one_whose_runner_is_alive_stays(home: Proxy, tmp_path: Path) -> None:
    aside = asyncio.run(taken_twice(tmp_path, "fake-alive"))
    take_runner_lease(journal_path(aside), CLOCK)
    assert "is alive" in the(aside, days=15).why


def test_a_copy_of_another_machines_run_goes_when_it_is_not_opened(home: Proxy, tmp_path: Path) -> None:
    asyncio.run(in_store(tmp_path, "fake-mirror"))
    folder = refreshed_copy(URL, "fake-mirror")
    for days, is_removable, why in (
        (0, False, "it is in use"),
        (3, False, "it was opened 3 days ago"),
        (20, True, "it was not opened for 20 days"),
    ):
        found = the(folder, days=days)
        assert (found.is_removable, found.why, found.kind) == (is_removable, why, SpareKind.MIRROR)
    refreshed_copy(URL, "fake-mirror")
    assert remove_copies([found], now()) == 0  # opened since it was looked at
    assert remove_copies([found], now() + DAY_SECONDS) == found.size_bytes
    assert not folder.exists()
    assert load_run(refreshed_copy(URL, "fake-mirror")).id == "fake-mirror"


def _torn_down_in(copies: Path, tmp_path: Path) -> Path:
    copies.mkdir(parents=True, exist_ok=True)
    made = finished_run(tmp_path / "elsewhere" / "runs", "fake-torn-down", is_torn_down=True)
    return made.rename(copies / made.name)


def test_a_copy_of_a_torn_down_run_goes_and_what_is_not_marked_stays(home: Proxy, tmp_path: Path) -> None:
    folder = _torn_down_in(copies_folder(), tmp_path)
    assert the(folder).why == "it is not marked as a copy"
    write_mark(folder, CopyMark(URL, now() - DAY_SECONDS))
    found = the(folder)
    assert (found.is_removable, found.why) == (True, "its run is torn down")


def test_with_a_run_go_the_folders_that_were_put_aside(
    home: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = asyncio.run(taken_twice(tmp_path, "fake-forgotten"))
    folder = runs_folder() / "fake-forgotten"
    note_elsewhere(folder, ANNA, 9, "")  # then nothing else stands against it
    found = survey_run(folder)
    assert found.put_aside == (aside,)
    _say_loss(found, is_archived=False)
    assert "put aside         1 folder by takeovers, " in capsys.readouterr().out
    forget_run(folder, confirm=folder.name)
    assert list_runs() == []
    assert not aside.exists()


def test_the_command_says_that_there_is_nothing(program: Program) -> None:
    looked = program.command("runs", "clean", "--dry-run")
    assert (looked.returncode, looked.stderr) == (0, "")
    assert looked.stdout == "There are no copies of runs.\nThe cache holds no provider.\n"


def test_the_command_says_first_what_would_go(program: Program) -> None:
    copies = program.state / "mirrors"
    copies.mkdir(parents=True, mode=0o700)
    folder = _torn_down_in(copies, program.state.parent)
    write_mark(folder, CopyMark(URL, now() - DAY_SECONDS))
    looked = program.command("runs", "clean", "--dry-run")
    assert looked.returncode == 0
    assert f"{folder.name}, copy of another machine's run, " in looked.stdout
    assert "can be removed, as its run is torn down." in looked.stdout
    assert folder.exists()
    removed = program.command("runs", "clean")
    assert "Removed copies of runs, " in removed.stdout
    assert not folder.exists()
