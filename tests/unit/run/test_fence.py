"""The fence of a runner: who may change something, and when it has to ask."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, UnreachableError
from actions.base.guard import FencedError, guarded_by, require_guard
from actions.cluster.http.errors import error_of, status_of
from actions.cluster.http.pool import UNACKNOWLEDGED_SECONDS
from actions.run.client import load_run
from actions.run.engine.fence import CLUSTER_ARBITER, GRACE_SECONDS, STORE_ARBITER, TRUST_SECONDS, Fence, SeenLease
from actions.run.engine.runner_journal import RunnerJournal
from actions.run.journal.elsewhere import FenceState, note_elsewhere, read_elsewhere, read_fence, write_fence
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.machine import SILENT_COPY_SECONDS
from actions.run.journal.store import Journal
from actions.run.state.records import LimitReached, Operator
from tests.support.polling import until
from tests.unit.run.world import make_run

ANNA, BEN = Operator("anna", "bastion-1"), Operator("ben", "bastion-2")
START = 1_800_000_000.0


class Clocks:
    """Two clocks that stand still until they are moved."""

    def __init__(self) -> None:
        self.boot = 1000.0
        self.wall = START
        self.slept = 0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)

    def monotonic(self) -> float:
        return self.boot

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.pass_time(seconds)
        await asyncio.sleep(0)

    def pass_time(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += seconds


class Place:
    """An arbiter whose answer a test sets."""

    def __init__(
        self,
        name: str = "the home",
        lease: SeenLease | None = None,
        *,
        is_away: bool = False,
        then: SeenLease | None = None,
    ) -> None:
        self.name = name
        self.lease = lease
        self.then = then
        """The lease from the fourth question on."""
        self.is_away = is_away
        self.is_going = False
        """The run's own teardown removes it."""
        self.asked = 0

    async def read(self) -> SeenLease | None:
        self.asked += 1
        if self.is_away:
            raise UnreachableError("away")
        return self.then if self.then and self.asked > 3 else self.lease

    def may_be_gone(self) -> bool:
        return self.is_going


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path, SystemClock())


@pytest.fixture
def clocks(folder: Path) -> Clocks:
    made = Clocks()
    made.wall = load_run(folder).created_at + 1
    return made


def a_fence(folder: Path, clocks: Clocks, *places: Place, notes: list[str] | None = None, machine: str = "") -> Fence:
    return Fence(
        folder,
        load_run(folder),
        places,
        require_lease=lambda: None,
        clock=clocks,
        log=lambda line: None,
        note=(notes if notes is not None else []).append,
        machine=machine,
        boot=lambda: clocks.boot,
    )


async def test_an_answer_counts_for_some_seconds(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home)
    await fence.require("POST /a")
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("POST /b")
    assert home.asked == 1
    clocks.pass_time(2)
    await fence.require("POST /c")
    assert home.asked == 2


async def test_a_runner_that_was_stopped_and_taken_over_changes_nothing(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home)
    await fence.require("POST /a")
    home.lease = SeenLease(2, BEN)
    clocks.boot += 3600  # stopped: its monotonic clock may stand still, this one does not
    for deed in ("terraform apply", "POST /b", "the record outcome"):
        with pytest.raises(FencedError, match="ben@bastion-2") as raised:
            await fence.require(deed)
        assert deed in str(raised.value)
    state = read_fence(folder)
    assert (state.taken_by, state.epoch) == (BEN, 2)


async def test_time_of_a_paused_machine_is_seen_by_its_wall_clock(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home)
    await fence.require("POST /a")
    home.lease = SeenLease(2, BEN)
    clocks.wall += 3600
    with pytest.raises(FencedError):
        await fence.require("POST /b")


async def test_any_arbiter_can_fence_and_any_can_vouch(folder: Path, clocks: Clocks) -> None:
    home, cluster = Place(is_away=True), Place("the cluster", SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home, cluster)
    await fence.require("POST /a")
    cluster.lease = SeenLease(2, BEN)
    home.is_away, home.lease = False, SeenLease(1, ANNA)
    clocks.pass_time(TRUST_SECONDS + 1)
    with pytest.raises(FencedError):
        await fence.require("POST /b")


async def test_a_healthy_runner_goes_on_without_an_answer(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home)
    await fence.require("POST /a")
    home.is_away = True
    for _ in range(60):
        clocks.pass_time(TRUST_SECONDS - 1)
        await fence.require("POST /b")
    assert not clocks.slept
    assert home.asked < 60 / 2  # a change does not wait for each question: they are asked beside it


@pytest.mark.parametrize("known", [SeenLease(1, ANNA), None], ids=["in the cluster", "not yet in the cluster"])
async def test_one_that_was_cut_off_and_taken_over_asks_before_it_changes_anything_elsewhere(
    folder: Path, clocks: Clocks, known: SeenLease | None
) -> None:
    home, cluster = Place(lease=SeenLease(1, ANNA)), Place(CLUSTER_ARBITER, known)
    fence = a_fence(folder, clocks, home, cluster)
    await fence.require("POST /a")
    home.is_away = cluster.is_away = True
    for _ in range(2):
        clocks.pass_time(TRUST_SECONDS - 1)
        await fence.require("POST /b")
    home.lease = cluster.lease = SeenLease(2, BEN)
    home.is_away = cluster.is_away = False
    clocks.pass_time(1)
    asked = cluster.asked
    await fence.require("the record outcome", stays_here=True)
    assert cluster.asked == asked
    with pytest.raises(FencedError, match="ben@bastion-2"):
        await fence.require("DELETE /b")


class Refusing(Place):
    """A cluster that answers, and no more."""

    async def read(self) -> SeenLease | None:
        self.asked += 1
        raise error_of(status_of(b"", code=503, headers={}), asked="GET /api", context="c")


async def test_nothing_is_sent_to_a_cluster_or_home_that_does_not_answer_while_the_other_does_not_either(
    folder: Path, clocks: Clocks
) -> None:
    home, cluster = Place(STORE_ARBITER, SeenLease(1, ANNA)), Place(CLUSTER_ARBITER)
    fence = a_fence(folder, clocks, home, cluster)
    await fence.require("PATCH /b", in_cluster=True)
    home.is_away = cluster.is_away = True
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    for _ in range(2):
        clocks.pass_time(TRUST_SECONDS - 1)
        with pytest.raises(UnreachableError, match=r"does not answer\. Not sent: PATCH /b"):
            await fence.require("PATCH /b", in_cluster=True)
        with pytest.raises(UnreachableError, match=r"home does not answer\. Not sent: PUT c"):
            await fence.require("PUT c", in_store=True)
        await fence.require("terraform apply")
    cluster.is_away = False
    clocks.pass_time(1)
    await fence.require("PATCH /b", in_cluster=True)
    cluster.is_away, home.is_away = True, False
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)


async def test_a_cluster_that_serves_nothing_now_is_not_one_that_does_not_answer(folder: Path, clocks: Clocks) -> None:
    fence = a_fence(folder, clocks, Place(is_away=True), Refusing(CLUSTER_ARBITER))
    await fence.require("PATCH /b", in_cluster=True)


def test_what_the_network_loses_is_given_up_before_another_machine_begins() -> None:
    assert TRUST_SECONDS + UNACKNOWLEDGED_SECONDS <= GRACE_SECONDS


async def test_changes_that_are_made_at_a_time_share_a_question(folder: Path, clocks: Clocks) -> None:
    cluster = Place(CLUSTER_ARBITER, SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, cluster)
    await fence.require("POST /a")
    cluster.is_away = True
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("POST /b")
    clocks.pass_time(2)
    asked = cluster.asked
    await asyncio.gather(*(fence.require(f"POST /{number}") for number in range(9)))
    assert cluster.asked == asked + 1


async def test_one_that_was_away_waits_for_an_answer(folder: Path, clocks: Clocks) -> None:
    notes: list[str] = []
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home, notes=notes)
    await fence.require("POST /a")
    home.is_away = True
    clocks.pass_time(600)
    waiting = asyncio.ensure_future(fence.require("POST /b"))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    assert "Waiting before POST /b" in notes[-1]
    home.is_away = False
    await waiting
    assert notes[-1] == ""


async def test_an_arbiter_that_never_knew_the_run_is_not_waited_for(folder: Path, clocks: Clocks) -> None:
    home = Place(is_away=True)
    fence = a_fence(folder, clocks, home)
    clocks.pass_time(8 * 3600)
    await fence.require("POST /a")
    assert home.asked == 1


@pytest.mark.parametrize("seconds", [2.0, 86_400.0], ids=["at once", "a day"])
async def test_a_runner_that_follows_another_one_asks_before_it_records_anything(
    folder: Path, clocks: Clocks, seconds: float
) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    first = a_fence(folder, clocks, home)
    await first.require("POST /a")
    first._write_known()  # and dies
    clocks.pass_time(seconds)
    home.is_away = True
    waiting = asyncio.ensure_future(a_fence(folder, clocks, home).require("the record outcome", stays_here=True))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    home.is_away, home.lease = False, SeenLease(5, BEN)
    with pytest.raises(FencedError):
        await waiting


async def test_a_cluster_that_the_teardown_removes_is_not_waited_for(folder: Path, clocks: Clocks) -> None:
    write_fence(folder, FenceState(known_to=(CLUSTER_ARBITER,)))
    cluster = Place(CLUSTER_ARBITER, is_away=True)
    waiting = asyncio.ensure_future(a_fence(folder, clocks, cluster).require("terraform destroy"))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    cluster.is_going = True
    await waiting
    fence = a_fence(folder, clocks, cluster, Place("the home", SeenLease(5, BEN)))
    with pytest.raises(FencedError):  # another place speaks for it all the same
        await fence.require("terraform destroy")


class Returning(Place):
    """A place that is away up to some question."""

    returns_at = sys.maxsize

    async def read(self) -> SeenLease | None:
        self.is_away = self.is_away and self.asked < self.returns_at
        return await super().read()


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_cluster_that_is_back_without_a_lease_does_not_speak_for_the_home(
    folder: Path, clocks: Clocks, *, is_taken: bool
) -> None:
    home, cluster = Returning(STORE_ARBITER, SeenLease(1, ANNA)), Place(CLUSTER_ARBITER)
    fence = a_fence(folder, clocks, home, cluster)
    await fence.require("PATCH /a", in_cluster=True)
    home.is_away = cluster.is_away = True
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    clocks.pass_time(TRUST_SECONDS - 1)
    with pytest.raises(UnreachableError):
        await fence.require("PATCH /b", in_cluster=True)
    cluster.is_away, home.lease, asked = False, SeenLease(2, BEN), cluster.asked
    clocks.pass_time(1)
    if is_taken:
        home.returns_at = home.asked + 2
        with pytest.raises(FencedError):
            await fence.require("PATCH /b", in_cluster=True)
    else:  # a home that stays away does not stop a run whose cluster is there
        await fence.require("PATCH /b", in_cluster=True)
    assert 1 < cluster.asked - asked < 12


class Slow(Place):
    """A home whose answers wait until a test lets them come."""

    def __init__(self, name: str, lease: SeenLease) -> None:
        super().__init__(name, lease)
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def read(self) -> SeenLease | None:
        await self.may_answer.wait()
        return await super().read()


async def test_no_change_passes_between_the_answers_of_two_places_that_are_back(folder: Path, clocks: Clocks) -> None:
    """A cluster without a lease answered, and a change was sent before the home could name the new machine."""
    home, cluster = Slow(STORE_ARBITER, SeenLease(1, ANNA)), Place(CLUSTER_ARBITER)
    fence = a_fence(folder, clocks, home, cluster)
    await fence.require("PATCH /a", in_cluster=True)
    home.is_away = cluster.is_away = True
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    clocks.pass_time(TRUST_SECONDS - 1)
    with pytest.raises(UnreachableError):
        await fence.require("PATCH /b", in_cluster=True)

    home.lease, home.is_away, cluster.is_away, asked = SeenLease(2, BEN), False, False, cluster.asked
    home.may_answer.clear()
    clocks.pass_time(1)
    first = asyncio.ensure_future(fence.require("PATCH /c", in_cluster=True))
    await until(lambda: cluster.asked > asked, "the question to the cluster")
    second = asyncio.ensure_future(fence.require("POST /d", in_cluster=True))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done(), "the home has not answered yet"
    home.may_answer.set()
    for change in (first, second):
        with pytest.raises(FencedError, match="ben@bastion-2"):
            await change


@pytest.mark.parametrize("at_limit", [False, True])
async def test_a_record_that_waits_for_the_disk_is_not_written_once_the_run_is_taken_over(
    folder: Path, clocks: Clocks, *, at_limit: bool
) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    lease = take_runner_lease(journal_path(folder), clocks)
    journal = Journal(journal_path(folder), clocks, fence=lease.token, lock_seconds=0.0)
    runner_journal, before = RunnerJournal(journal, lease, clocks), journal.last_seq()
    write = runner_journal.write_at_limit if at_limit else runner_journal.write
    with closing(sqlite3.connect(journal_path(folder), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with guarded_by(a_fence(folder, clocks, home)):
            waiting = asyncio.ensure_future(write(LimitReached("budget", "It is spent.")))
        await until(lambda: clocks.slept >= 2, "the record to wait")
        home.lease = SeenLease(2, BEN)
        clocks.pass_time(3600)
        other.execute("ROLLBACK")
    with pytest.raises(FencedError):
        await waiting
    assert journal.last_seq() == before
    journal.close()


async def test_the_fence_ends_the_runner_although_nothing_is_changed(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA))
    fence = a_fence(folder, clocks, home)
    beside = asyncio.ensure_future(fence.accompany())
    await until(lambda: home.asked, "the fence to ask")
    home.lease = SeenLease(2, BEN)
    with pytest.raises(ConflictError, match="taken over"):
        await beside


async def test_a_lost_lease_in_the_journal_comes_first(folder: Path, clocks: Clocks) -> None:
    def lost() -> None:
        raise ConflictError("another runner has taken over.")

    fence = Fence(
        folder, load_run(folder), (), require_lease=lost, clock=clocks, log=lambda line: None, boot=lambda: clocks.boot
    )
    with pytest.raises(ConflictError):
        await fence.require("POST /a")


async def test_the_guard_holds_for_tasks_begun_inside_and_for_no_other(folder: Path, clocks: Clocks) -> None:
    fence = a_fence(folder, clocks, Place(lease=SeenLease(2, BEN)))
    with guarded_by(fence):
        inside = asyncio.ensure_future(require_guard("POST /a"))
    with pytest.raises(FencedError):
        await inside
    await require_guard("POST /a")


async def test_the_note_of_another_companion_is_kept(folder: Path, clocks: Clocks) -> None:
    fence = a_fence(folder, clocks, Place())
    note_elsewhere(folder, BEN, 2)
    fence._write_known()
    assert (read_fence(folder).taken_by, read_fence(folder).epoch) == (BEN, 2)


@pytest.mark.parametrize("other", ["copy/boot-1", "another/boot-1"], ids=["same folder", "copied without its word"])
async def test_of_two_living_machines_of_one_name_and_epoch_the_second_ends(
    folder: Path, clocks: Clocks, other: str
) -> None:
    notes: list[str] = []
    home = Place(lease=SeenLease(1, ANNA, other, "sign 1"), then=SeenLease(1, ANNA, other, "sign 2"))
    fence = a_fence(folder, clocks, home, machine="copy/boot-2", notes=notes)
    with pytest.raises(FencedError, match="is carried out by another machine, anna@bastion-1, that has a copy"):
        await fence.require("POST /a")
    assert clocks.slept == 3
    assert "has a lease of anna@bastion-1: this machine before its restart, or another one" in notes[0]
    found = read_elsewhere(folder, 1)
    assert found is not None
    assert (found.name, found.epoch, found.is_copy) == ("anna@bastion-1", 1, True)


async def test_a_machine_before_its_restart_is_waited_for_and_not_for_long(folder: Path, clocks: Clocks) -> None:
    home = Place(lease=SeenLease(1, ANNA, "copy/boot-1", "sign 1"))
    fence = a_fence(folder, clocks, home, machine="copy/boot-2")
    began = clocks.boot
    await fence.require("POST /a")
    assert SILENT_COPY_SECONDS < clocks.boot - began < SILENT_COPY_SECONDS + 5
    clocks.pass_time(TRUST_SECONDS + 1)
    await fence.require("POST /b")
    home.lease = SeenLease(1, ANNA, "copy/boot-2", "sign 2")  # the runner itself has taken it
    clocks.pass_time(TRUST_SECONDS + 1)
    began = clocks.boot
    await fence.require("POST /c")
    assert clocks.boot == began


@pytest.mark.parametrize(
    "seen",
    [
        SeenLease(1, ANNA, "copy/boot-2", "sign"),
        SeenLease(1, ANNA, "", "sign"),
        SeenLease(1, ANNA, "copy/boot-1", "sign", is_old=True),
    ],
    ids=["this machine", "nobody yet", "hours ago"],
)
async def test_what_cannot_be_another_living_machine_delays_nothing(
    folder: Path, clocks: Clocks, seen: SeenLease
) -> None:
    await a_fence(folder, clocks, Place(lease=seen), machine="copy/boot-2").require("POST /a")
    assert not clocks.slept


async def test_a_place_that_names_another_machine_counts_more_than_one_that_does_not(
    folder: Path, clocks: Clocks
) -> None:
    home = Place(lease=SeenLease(1, ANNA, "copy/boot-2", "sign"))
    beats = [SeenLease(1, ANNA, "copy/boot-1", beat) for beat in ("beat 1", "beat 2")]
    cluster = Place("the cluster", beats[0], then=beats[1])
    with pytest.raises(FencedError):
        await a_fence(folder, clocks, home, cluster, machine="copy/boot-2").require("POST /a")
