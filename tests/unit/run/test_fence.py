"""The fence of a runner: who may change something, and when it has to ask."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, UnreachableError
from actions.base.guard import FencedError, guarded_by, require_guard
from actions.cluster.http.errors import error_of, status_of
from actions.cluster.http.pool import UNACKNOWLEDGED_SECONDS
from actions.run.client import load_run
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.journal.watched import read_watched
from actions.run.state.records import LimitReached, Operator
from actions.run.store.access import KnownStore, known_store, note_answered, note_removed, note_vouched
from actions.run.store.fence import GRACE_SECONDS, SILENT_SECONDS, TRUST_SECONDS, Fence
from actions.run.store.lease import LEASE_SECONDS
from actions.run.store.objects import DamagedError, LeaseDocument, StoreLease
from tests.support.journals import locked_here
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


def a_lease(epoch: int, owner: Operator, holder: str = "", tag: str = "tag", *, age: float = 0.0) -> StoreLease:
    return StoreLease(LeaseDocument(epoch, owner, holder, "", LEASE_SECONDS, tag), tag, START, age)


class Place:
    """A run's store whose answer a test sets; in its cluster, or beside it."""

    def __init__(
        self,
        lease: StoreLease | None = None,
        *,
        is_in_cluster: bool = False,
        is_away: bool = False,
        then: StoreLease | None = None,
    ) -> None:
        self.name = "the cluster" if is_in_cluster else "s3://team/ml"
        self.is_in_cluster = is_in_cluster
        self.lease = lease
        self.then = then
        """The lease from the fourth question on."""
        self.pointer: StoreLease | None = None
        self.is_away = is_away
        self.is_cluster_away = False
        self.is_there = True
        self.is_going = False
        """The run's own teardown removes it."""
        self.asked = self.pointed = 0

    def exists(self) -> bool:
        return self.is_there

    def may_be_gone(self) -> bool:
        return self.is_going

    async def read(self) -> StoreLease | None:
        self.asked += 1
        if self.is_away:
            raise UnreachableError("AWS did not answer.")
        return self.then if self.then and self.asked > 3 else self.lease

    async def read_pointer(self) -> StoreLease | None:
        self.pointed += 1
        if self.is_cluster_away:
            raise UnreachableError("The cluster did not answer.")
        return self.pointer

    def cut_off(self) -> None:
        self.is_away = self.is_cluster_away = True

    def reconnect(self) -> None:
        self.is_away = self.is_cluster_away = False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path, SystemClock())


@pytest.fixture
def clocks(folder: Path) -> Clocks:
    made = Clocks()
    made.wall = load_run(folder).created_at + 1
    return made


def a_fence(folder: Path, clocks: Clocks, place: Place, *, notes: list[str] | None = None, holder: str = "") -> Fence:
    return Fence(
        folder,
        load_run(folder),
        place,
        require_lease=lambda: None,
        clock=clocks,
        log=lambda line: None,
        note=(notes if notes is not None else []).append,
        holder=holder,
        boot=lambda: clocks.boot,
    )


async def test_an_answer_counts_for_some_seconds(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("POST /b")
    assert store.asked == 1
    clocks.pass_time(2)
    await fence.require("POST /c")
    assert store.asked == 2


async def test_a_runner_that_was_stopped_and_taken_over_changes_nothing(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    store.lease = a_lease(2, BEN)
    clocks.boot += 3600  # stopped: its monotonic clock may stand still, this one does not
    for deed in ("terraform apply", "POST /b", "the record outcome"):
        with pytest.raises(FencedError, match="ben@bastion-2") as raised:
            await fence.require(deed)
        assert deed in str(raised.value)
    watched = read_watched(folder)
    assert watched is not None
    assert (watched.who, watched.epoch) == (str(BEN), 2)


async def test_time_of_a_paused_machine_is_seen_by_its_wall_clock(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    store.lease = a_lease(2, BEN)
    clocks.wall += 3600
    with pytest.raises(FencedError):
        await fence.require("POST /b")


@pytest.mark.parametrize("seconds", [TRUST_SECONDS + 1, 600], ids=["it has run all the time", "it was stopped"])
async def test_an_answer_that_there_is_no_lease_is_an_answer(folder: Path, clocks: Clocks, seconds: float) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    store.lease = None  # somebody has deleted it
    clocks.pass_time(seconds)
    await fence.require("POST /b")
    await a_fence(folder, clocks, store).require("the record outcome", stays_here=True)
    assert not clocks.slept


async def test_a_healthy_runner_goes_on_without_an_answer(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    store.is_away = True
    for _ in range(60):
        clocks.pass_time(TRUST_SECONDS - 1)
        await fence.require("POST /b")
    assert not clocks.slept
    assert store.asked < 60 * 2 / 3  # a change does not wait for each question: they are asked beside it


@pytest.mark.parametrize("is_in_cluster", [False, True])
async def test_one_that_was_cut_off_and_taken_over_asks_before_it_changes_anything_elsewhere(
    folder: Path, clocks: Clocks, *, is_in_cluster: bool
) -> None:
    store = Place(a_lease(1, ANNA), is_in_cluster=is_in_cluster)
    fence = a_fence(folder, clocks, store)
    await fence.require("POST /a")
    store.cut_off()
    for _ in range(2):
        clocks.pass_time(TRUST_SECONDS - 1)
        await fence.require("terraform apply")
    store.reconnect()
    store.lease = a_lease(2, BEN)
    clocks.pass_time(1)
    asked = store.asked
    await fence.require("the record outcome", stays_here=True)
    assert store.asked == asked
    with pytest.raises(FencedError, match="ben@bastion-2"):
        await fence.require("DELETE /b")


class Refusing(Place):
    """A cluster that answers, and no more."""

    async def read(self) -> StoreLease | None:
        self.asked += 1
        raise error_of(status_of(b"", code=503, headers={}), asked="GET /api", context="c")


@pytest.mark.parametrize("is_in_cluster", [False, True])
async def test_nothing_is_sent_to_a_cluster_or_store_that_does_not_answer(
    folder: Path, clocks: Clocks, *, is_in_cluster: bool
) -> None:
    store = Place(a_lease(1, ANNA), is_in_cluster=is_in_cluster)
    fence = a_fence(folder, clocks, store)
    await fence.require("PATCH /b", in_cluster=True)
    store.cut_off()
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    for _ in range(2):
        clocks.pass_time(TRUST_SECONDS - 1)
        with pytest.raises(UnreachableError, match=r"did not answer\. Not sent: PATCH /b"):
            await fence.require("PATCH /b", in_cluster=True)
        with pytest.raises(UnreachableError, match=r"did not answer\. Not sent: PUT c"):
            await fence.require("PUT c", in_store=True)
        await fence.require("terraform apply")
    store.is_cluster_away = False  # a store that stays away does not stop a run whose cluster is there
    store.is_away = not is_in_cluster
    clocks.pass_time(1)
    await fence.require("PATCH /b", in_cluster=True)


async def test_a_cluster_that_serves_nothing_now_is_not_one_that_does_not_answer(folder: Path, clocks: Clocks) -> None:
    fence = a_fence(folder, clocks, Refusing(is_in_cluster=True))
    await fence.require("PATCH /b", in_cluster=True)


async def test_a_later_epoch_in_the_cluster_ends_a_runner_whose_store_does_not_answer(
    folder: Path, clocks: Clocks
) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("PATCH /b", in_cluster=True)
    store.pointer = a_lease(2, BEN)
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    assert not store.pointed  # while the store answers, nothing else counts
    store.is_away = True
    clocks.pass_time(TRUST_SECONDS - 1)
    with pytest.raises(FencedError, match="ben@bastion-2"):
        await fence.require("PATCH /b", in_cluster=True)


class Damaged(Place):
    """A store whose lease is damaged, and shows the epoch 2, or none; or whose pointer is."""

    epoch = 2
    is_pointer_alone = False

    async def read(self) -> StoreLease | None:
        if not self.is_pointer_alone:
            raise DamagedError("The lease is damaged.", "tag", epoch=self.epoch)
        return await super().read()

    async def read_pointer(self) -> StoreLease | None:
        raise DamagedError("The lease is damaged.", "tag", epoch=self.epoch)


@pytest.mark.parametrize("is_pointer_alone", [True, False])
async def test_a_later_epoch_that_a_damaged_lease_shows_ends_a_runner(
    folder: Path, clocks: Clocks, *, is_pointer_alone: bool
) -> None:
    store = Damaged(is_away=True)
    store.is_pointer_alone = is_pointer_alone
    with pytest.raises(FencedError, match=r"was taken over \(epoch 2\)"):
        await a_fence(folder, clocks, store).require("POST /a")
    store.epoch = 0
    await a_fence(folder, clocks, store).require("POST /b")


def test_what_the_network_loses_is_given_up_before_another_machine_begins() -> None:
    assert TRUST_SECONDS + UNACKNOWLEDGED_SECONDS <= GRACE_SECONDS


async def test_changes_that_are_made_at_a_time_share_a_question(folder: Path, clocks: Clocks) -> None:
    cluster = Place(a_lease(1, ANNA), is_in_cluster=True)
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
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store, notes=notes)
    await fence.require("POST /a")
    store.is_away = True
    clocks.pass_time(600)
    waiting = asyncio.ensure_future(fence.require("POST /b"))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    assert "Waiting before POST /b" in notes[-1]
    store.is_away = False
    await waiting
    assert notes[-1] == ""


async def test_a_store_that_never_had_the_run_is_not_waited_for(folder: Path, clocks: Clocks) -> None:
    store = Place(is_away=True)
    fence = a_fence(folder, clocks, store)
    clocks.pass_time(8 * 3600)
    await fence.require("POST /a")
    assert store.asked == 2


async def test_a_run_that_has_no_store_yet_asks_nobody(folder: Path, clocks: Clocks) -> None:
    store = Place(is_away=True, is_in_cluster=True)
    store.is_there = False
    await a_fence(folder, clocks, store).require("terraform apply")
    assert not store.asked


@pytest.mark.parametrize("seconds", [2.0, 86_400.0], ids=["at once", "a day"])
async def test_a_runner_that_follows_another_one_asks_before_it_records_anything(
    folder: Path, clocks: Clocks, seconds: float
) -> None:
    store = Place(a_lease(1, ANNA))
    first = a_fence(folder, clocks, store)
    await first.require("POST /a")
    assert known_store(folder).address == store.name  # and it dies
    clocks.pass_time(seconds)
    store.is_away = True
    waiting = asyncio.ensure_future(a_fence(folder, clocks, store).require("the record outcome", stays_here=True))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    store.is_away, store.lease = False, a_lease(5, BEN)
    with pytest.raises(FencedError):
        await waiting


@pytest.mark.parametrize("how", ["its teardown removes it", "its objects are removed", "a person vouches"])
async def test_each_wait_has_a_way_out(folder: Path, clocks: Clocks, how: str) -> None:
    notes: list[str] = []
    cluster = Place(is_in_cluster=True, is_away=True)
    note_answered(folder, cluster.name)
    waiting = asyncio.ensure_future(a_fence(folder, clocks, cluster, notes=notes).require("terraform destroy"))
    await until(lambda: clocks.slept >= 3, "the fence to wait for an answer")
    assert not waiting.done()
    run = load_run(folder).id
    assert notes[-1].endswith(f"If none has: eksml-tui runs resume {run} --without-store. AWS did not answer.")
    if how == "its teardown removes it":
        cluster.is_going = True
    elif how == "its objects are removed":
        note_removed(folder)
    else:
        note_vouched(folder)
    await waiting
    cluster.is_away, cluster.lease = False, a_lease(5, BEN)
    with pytest.raises(FencedError):  # an answer counts all the same
        await a_fence(folder, clocks, cluster).require("terraform destroy")


async def test_what_a_person_has_stated_holds_until_the_store_answers(folder: Path, clocks: Clocks) -> None:
    store = Place(is_away=True)
    note_answered(folder, store.name)
    note_vouched(folder)
    await a_fence(folder, clocks, store).require("POST /a")
    assert known_store(folder).is_vouched
    store.is_away, store.lease = False, a_lease(1, ANNA)
    await a_fence(folder, clocks, store).require("POST /b")
    assert known_store(folder) == KnownStore(store.name)


class Slow(Place):
    """A store whose answers wait until a test lets them come."""

    def __init__(self, lease: StoreLease) -> None:
        super().__init__(lease)
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def read(self) -> StoreLease | None:
        await self.may_answer.wait()
        return await super().read()


async def test_no_change_passes_between_the_answers_of_two_places_that_are_back(folder: Path, clocks: Clocks) -> None:
    """The cluster answered, and a change was sent before the store could name the new machine."""
    store = Slow(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    await fence.require("PATCH /a", in_cluster=True)
    store.cut_off()
    clocks.pass_time(TRUST_SECONDS - 1)
    await fence.require("PATCH /b", in_cluster=True)
    clocks.pass_time(TRUST_SECONDS - 1)
    with pytest.raises(UnreachableError):
        await fence.require("PATCH /b", in_cluster=True)

    store.reconnect()
    store.lease, pointed = a_lease(2, BEN), store.pointed
    store.may_answer.clear()
    clocks.pass_time(1)
    first = asyncio.ensure_future(fence.require("PATCH /c", in_cluster=True))
    await until(lambda: store.pointed > pointed, "the question to the cluster")
    second = asyncio.ensure_future(fence.require("POST /d", in_cluster=True))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done(), "the store has not answered yet"
    store.may_answer.set()
    for change in (first, second):
        with pytest.raises(FencedError, match="ben@bastion-2"):
            await change


@pytest.mark.parametrize("at_limit", [False, True])
async def test_a_record_that_waits_for_the_disk_is_not_written_once_the_run_is_taken_over(
    folder: Path, clocks: Clocks, *, at_limit: bool
) -> None:
    store = Place(a_lease(1, ANNA))
    lease = take_runner_lease(journal_path(folder), clocks)
    journal = Journal(journal_path(folder), clocks, fence=lease.token, lock_seconds=0.0)
    runner_journal, before = RunnerJournal(journal, lease, clocks), journal.last_seq()
    write = runner_journal.write_at_limit if at_limit else runner_journal.write
    with locked_here(folder):
        with guarded_by(a_fence(folder, clocks, store)):
            waiting = asyncio.ensure_future(write(LimitReached("budget", "It is spent.")))
        await until(lambda: clocks.slept >= 2, "the record to wait")
        store.lease = a_lease(2, BEN)
        clocks.pass_time(3600)
    with pytest.raises(FencedError):
        await waiting
    assert journal.last_seq() == before
    journal.close()


async def test_the_fence_ends_the_runner_although_nothing_is_changed(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA))
    fence = a_fence(folder, clocks, store)
    beside = asyncio.ensure_future(fence.accompany())
    await until(lambda: store.asked, "the fence to ask")
    store.lease = a_lease(2, BEN)
    with pytest.raises(ConflictError, match="taken over"):
        await beside


async def test_a_lost_lease_in_the_journal_comes_first(folder: Path, clocks: Clocks) -> None:
    def lost() -> None:
        raise ConflictError("another runner has taken over.")

    fence = Fence(
        folder,
        load_run(folder),
        Place(),
        require_lease=lost,
        clock=clocks,
        log=lambda line: None,
        boot=lambda: clocks.boot,
    )
    with pytest.raises(ConflictError):
        await fence.require("POST /a")


async def test_the_guard_holds_for_tasks_begun_inside_and_for_no_other(folder: Path, clocks: Clocks) -> None:
    fence = a_fence(folder, clocks, Place(a_lease(2, BEN)))
    with guarded_by(fence):
        inside = asyncio.ensure_future(require_guard("POST /a"))
    with pytest.raises(FencedError):
        await inside
    await require_guard("POST /a")


MINE, OTHER = "anna@bastion-1/boot-2", "anna@bastion-1/boot-1"


async def test_of_two_living_machines_of_one_epoch_the_second_ends(folder: Path, clocks: Clocks) -> None:
    notes: list[str] = []
    store = Place(a_lease(1, ANNA, OTHER, "sign 1"), then=a_lease(1, ANNA, OTHER, "sign 2"))
    fence = a_fence(folder, clocks, store, holder=MINE, notes=notes)
    with pytest.raises(FencedError, match="is carried out by another machine, anna@bastion-1, that has a copy"):
        await fence.require("POST /a")
    assert clocks.slept == 3
    assert "has a lease of anna@bastion-1: this machine before its restart, or another one" in notes[0]
    found = read_watched(folder)
    assert found is not None
    assert (found.who, found.holds_for(load_run(folder))) == ("anna@bastion-1", True)


async def test_a_machine_before_its_restart_is_waited_for_and_not_for_long(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA, OTHER, "sign 1"))  # by its clock it is always young
    fence = a_fence(folder, clocks, store, holder=MINE)
    began = clocks.boot
    await fence.require("POST /a")
    assert SILENT_SECONDS < clocks.boot - began < SILENT_SECONDS + 5
    clocks.pass_time(TRUST_SECONDS + 1)
    await fence.require("POST /b")
    store.lease = a_lease(1, ANNA, MINE, "sign 2")  # the runner itself has taken it
    clocks.pass_time(TRUST_SECONDS + 1)
    began = clocks.boot
    await fence.require("POST /c")
    assert clocks.boot == began


class Falling(Place):
    """A store that answers three times."""

    async def read(self) -> StoreLease | None:
        if self.asked == 3:
            self.cut_off()
        return await super().read()


@pytest.mark.parametrize("how", ["its teardown removes it", "a person vouches"])
async def test_a_store_that_is_silent_after_it_has_named_another_machine_can_be_given_up(
    folder: Path, clocks: Clocks, how: str
) -> None:
    notes: list[str] = []
    store = Falling(a_lease(1, ANNA, OTHER, "sign 1"))
    note_vouched(folder)  # before the answer, which counts
    waiting = asyncio.ensure_future(a_fence(folder, clocks, store, holder=MINE, notes=notes).require("terraform apply"))
    await until(lambda: clocks.slept >= SILENT_SECONDS, "the fence to wait for an answer")
    assert not waiting.done()
    assert "Without a renewal the run goes on here after 45 s." in notes[2]
    run = load_run(folder).id
    assert "s3://team/ml does not answer, and had a lease of anna@bastion-1: this machine before" in notes[-1]
    assert notes[-1].endswith(f"If none has: eksml-tui runs resume {run} --without-store. AWS did not answer.")
    if how == "a person vouches":
        note_vouched(folder)
    else:
        store.is_going = True
    await waiting


async def test_a_lease_that_runs_out_is_waited_for_no_longer(folder: Path, clocks: Clocks) -> None:
    store = Place(a_lease(1, ANNA, OTHER), then=a_lease(1, ANNA, OTHER, age=LEASE_SECONDS + 1))
    await a_fence(folder, clocks, store, holder=MINE).require("POST /a")
    assert clocks.slept == 3


@pytest.mark.parametrize(
    "seen",
    [a_lease(1, ANNA, MINE), a_lease(1, ANNA), a_lease(1, ANNA, OTHER, age=LEASE_SECONDS + 1)],
    ids=["this machine", "nobody yet", "hours ago"],
)
async def test_what_cannot_be_another_living_machine_delays_nothing(
    folder: Path, clocks: Clocks, seen: StoreLease
) -> None:
    await a_fence(folder, clocks, Place(seen), holder=MINE).require("POST /a")
    assert not clocks.slept
