"""The lease of a run in its store: epochs, fences, the store's clock, answers that are lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConflictError, RefusedError
from actions.run.client import send_request
from actions.run.context.store_address import run_key
from actions.run.journal.watched import read_watched
from actions.run.state.records import Operator, Output, RequestKind, RunRequest, TakenOver
from actions.run.state.view import RunView
from actions.run.store import lease as leases
from actions.run.store.access import StoreAccess
from actions.run.store.copy import become_original, fetch_run
from actions.run.store.lease import claim_lease, renew_lease, take_lease
from actions.run.store.objects import LEASE, LeaseDocument, RunStatus, RunStore, StoreLease, TakenError
from actions.run.store.publish import Publisher
from actions.run.store.rows import append_to_store, read_rows
from tests.support.journals import drop_lease
from tests.support.local_store import LocalStore
from tests.support.stores import (
    ANNA,
    BEN,
    TAKEN,
    Proxy,
    Published,
    opened,
)
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import a_run, accompanied, seconds_until, stored


def test_a_second_runner_goes_on_where_the_first_was_killed(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def first() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
            home.loses_answers, home.applies = True, lambda method, path: "journal" in path
            for number in range(5):
                await run.journal.write(Output({"n": str(number)}), stage="train", attempt=1)
            await clock.sleep(3)  # its write took, and it is killed before it knows
        run.close()

    async def second() -> None:
        clock = VirtualClock()
        home.mend()
        drop_lease(folder)
        run = Published(folder, clock)
        await run.journal.write(Output({"n": "after"}), stage="train", attempt=1)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 7, 10)
        assert await read_rows(run.store, folder.name) == stored(folder)
        assert run.publisher.lease is not None
        assert run.publisher.lease.epoch == 1
        run.close()

    run_virtually(first(), has_sockets=True)
    run_virtually(second(), has_sockets=True)


def test_of_two_writers_the_later_epoch_wins_and_the_first_is_fenced(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    copy = tmp_path / "other" / folder.name

    async def work() -> None:
        clock = VirtualClock()
        old = Published(folder, clock)
        async with accompanied(old):
            await seconds_until(clock, lambda: old.publisher.sent == 1, 5)
        # the old machine sleeps; another one takes over
        store = opened()
        lease = await take_lease(store, folder.name, BEN, after=await store.lease(folder.name))
        assert lease.epoch == 2
        await append_to_store(store, folder.name, TakenOver(BEN, 2, ANNA), clock=clock, epoch=2)
        await fetch_run(store, folder.name, copy)
        become_original(copy)
        new = Published(copy, clock)
        new.publisher._owner = BEN
        await new.journal.write(Output({"by": "ben"}), stage="train", attempt=1)
        async with accompanied(new) as works:
            await seconds_until(clock, lambda: new.publisher.sent == 3, 20)
            # the old one wakes up and has something to write: it writes nothing any more
            await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
            with pytest.raises(ConflictError, match=r"ben@laptop-2 has taken over|Another machine has written"):
                await asyncio.wait_for(old.publisher.accompany(), 60)
            found = read_watched(folder)
            assert found is not None
            assert found.epoch == 2
            assert found.who in (str(BEN), "another machine")  # its record was in the way before its lease was read
            await clock.sleep(30)
            assert not works.done()
        assert [row.json for row in await read_rows(store, folder.name)] == [row.json for row in stored(copy)]
        for run in (old, new):
            run.close()
        store.close()

    run_virtually(work(), has_sockets=True)


def test_the_journal_alone_fences_a_machine_that_passed_the_check_of_its_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        old = Published(folder, clock)
        async with accompanied(old):
            await seconds_until(clock, lambda: old.publisher.sent == 1, 5)
        await take_lease(old.store, folder.name, BEN, after=old.publisher.lease)
        await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
        await old.publisher._push()  # between the other's lease and its first record: it counts, and comes first
        taken = await append_to_store(old.store, folder.name, TakenOver(BEN, 2), clock=clock, epoch=2)
        assert taken.seq == 3
        await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
        old.publisher.renewed_at = clock.monotonic()  # the lease was renewed just before: the journal alone refuses
        with pytest.raises(ConflictError, match=r"record 3 .*epoch 2"):
            await old.publisher.accompany()
        found = read_watched(folder)
        assert found is not None
        assert (found.epoch, found.who) == (2, str(BEN))
        assert [row.writer for row in await read_rows(old.store, folder.name)][2] == "operator"
        old.close()

    run_virtually(work(), has_sockets=True)


def test_of_two_takeovers_at_a_time_the_earlier_writes_no_record_behind_that_of_the_later(
    home: Proxy, tmp_path: Path
) -> None:
    """The last record of a takeover tells who has the run."""
    folder, eve = a_run(tmp_path), Operator("eve", "bastion-3")

    async def work() -> None:
        clock = VirtualClock()
        old = Published(folder, clock)
        async with accompanied(old):
            await seconds_until(clock, lambda: old.publisher.sent == 1, 5)
        store, name = old.store, folder.name
        first = await take_lease(store, name, BEN, after=await lease_there(store, name))
        second = await take_lease(store, name, eve, after=await lease_there(store, name))
        await append_to_store(store, name, TakenOver(eve, second.epoch, BEN), clock=clock, epoch=second.epoch)
        with pytest.raises(TakenError, match=r"Another machine has taken over .* meanwhile \(epoch 3\)"):
            await append_to_store(store, name, TakenOver(BEN, first.epoch, ANNA), clock=clock, epoch=first.epoch)
        assert [row.seq for row in await read_rows(old.store, folder.name)] == [1, 2]
        old.close()

    run_virtually(work(), has_sockets=True)


async def lease_there(store: RunStore, run_id: str) -> StoreLease:
    lease = await store.lease(run_id)
    assert lease is not None
    return lease


@pytest.mark.parametrize("is_first_alive", [True, False])
def test_of_two_copies_of_a_folder_one_has_the_lease_though_all_names_are_equal(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first_alive: bool
) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        first = Published(folder, clock)
        async with accompanied(first):
            await seconds_until(clock, lambda: first.publisher.sent == 1, 5)
            copy = tmp_path / "other" / folder.name
            shutil.copytree(folder, copy)  # a virtual machine that was copied
            drop_lease(copy)
            monkeypatch.setattr(leases, "boot", lambda: "another-boot")
            second = Published(copy, clock)
            await second.journal.write(Output({"by": "the copy"}), stage="train", attempt=1)
            if is_first_alive:
                with pytest.raises(ConflictError, match="another machine, anna@bastion-1, that has a copy"):
                    await asyncio.wait_for(second.publisher.accompany(), 60)
        winner, loser = (first, second) if is_first_alive else (second, first)
        if not is_first_alive:
            home.clock_offset_seconds = 31  # the first one is silent
            async with accompanied(second):
                await seconds_until(clock, lambda: second.publisher.sent == 2, 10)
            with pytest.raises(ConflictError, match="another machine, anna@bastion-1, that has a copy of its folder"):
                await asyncio.wait_for(first.publisher.accompany(), 60)
        assert await read_rows(first.store, folder.name) == stored(winner.folder)
        with pytest.raises(RefusedError, match="is carried out by another machine, anna@bastion-1, that has a copy"):
            send_request(loser.folder, RequestKind.CANCEL, start=False)
        for run in (first, second):
            run.close()

    run_virtually(work(), has_sockets=True)


def test_a_store_that_refuses_our_own_lease_does_not_give_it_to_another_machine(home: Proxy, tmp_path: Path) -> None:
    """412 upon 412, as if earlier writes of a slow store landed late: what is there is ours each time."""

    async def work() -> None:
        store = opened()
        run_id = f"own-{abs(hash(tmp_path)):x}"
        lease = await take_lease(store, run_id, ANNA, after=None, holder="a")
        home.fault, home.applies = TAKEN, lambda method, path: method == "PUT"
        with pytest.raises(RefusedError, match="though no other machine has written it"):
            await renew_lease(store, run_id, lease)
        home.mend()
        renewed = await renew_lease(store, run_id, lease)
        home.fault, home.applies = TAKEN, lambda method, path: method == "PUT"
        with pytest.raises(RefusedError):
            await renew_lease(store, run_id, renewed)
        home.mend()
        await take_lease(store, run_id, BEN, after=renewed, holder="b")
        with pytest.raises(ConflictError, match="has taken over"):
            await renew_lease(store, run_id, renewed)
        store.close()

    asyncio.run(work())


class Stubborn(LocalStore):
    """A store in which an earlier machine claims the lease before each write of the later one."""

    is_stubborn = False

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        if self.is_stubborn and document.epoch == 2:
            found = await self.lease(run_id)
            assert found is not None
            earlier = replace(found.document, epoch=1, owner=ANNA, holder="a", nonce=f"{found.tag}+")
            await super().put_lease(run_id, earlier, after=found)
        return await super().put_lease(run_id, document, after=after)


async def test_a_removed_lease_that_an_earlier_machine_has_claimed_is_taken_back(tmp_path: Path) -> None:
    store, run_id = Stubborn(tmp_path), "run-1"
    first = await take_lease(store, run_id, ANNA, after=None, holder="a")
    second = await take_lease(store, run_id, BEN, after=first, holder="b")
    (tmp_path / run_key(run_id, LEASE)).unlink()
    claimed = await claim_lease(store, run_id, ANNA, epoch=1, holder="a", status=RunStatus())
    renewed = await renew_lease(store, run_id, second)
    assert (renewed.epoch, renewed.owner) == (2, BEN)
    with pytest.raises(TakenError, match="ben@laptop-2 has taken over"):
        await renew_lease(store, run_id, claimed)
    store.is_stubborn = True
    for write in (
        renew_lease(store, run_id, renewed),
        claim_lease(store, run_id, BEN, epoch=2, holder="b", status=RunStatus()),
    ):
        with pytest.raises(RefusedError, match=r"before the last one a machine of an earlier epoch \(1\) has written"):
            await write


def test_the_end_of_a_run_gives_the_lease_back(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await clock.sleep(3)
        await run.journal.write(RunRequest(RequestKind.CANCEL))
        await run.publisher.finish(await run.journal.view())
        store = opened()
        lease = await store.lease(folder.name)
        assert lease is not None
        assert not lease.is_live
        assert lease.status.last_seq == 2
        mark = await fetch_run(store, folder.name, tmp_path / "copy")
        assert mark.last_seq == 2
        watched = read_watched(tmp_path / "copy")
        assert watched is not None
        assert watched.writer == ""
        store.close()

    run_virtually(work(), has_sockets=True)


async def no_cluster(_: RunView) -> RunStore | None:
    return None


class _SlowFiles:
    """A home that takes 45 s for each small file.

    Args:
        store: The home behind it.
        clock: For waiting.
    """

    def __init__(self, store: RunStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_if_absent(self, name: str, data: bytes) -> Any:
        if "/files/" in name:
            await self._clock.sleep(45)
        return await self._store.put_if_absent(name, data)


def test_a_slow_write_does_not_cost_the_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        slow: Any = _SlowFiles(run.store, clock)
        run.access = StoreAccess(run.journal.view_if_readable, slow, no_cluster)
        run.publisher = Publisher(run.access, folder, run.journal, ANNA, clock)
        oldest = 0.0
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.renewed_at is not None, 5)
            for _ in range(60):
                await clock.sleep(1)
                oldest = max(oldest, clock.monotonic() - (run.publisher.renewed_at or 0.0))
        assert oldest < 12
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_removed_lease_is_not_claimed_by_a_machine_whose_run_was_taken_over(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await clock.sleep(3)
        await append_to_store(run.store, folder.name, TakenOver(BEN, 2, ANNA), clock=clock, epoch=2)
        await run.store.delete(f"runs/{folder.name}/lease.json")
        drop_lease(folder)
        again = Published(folder, clock)
        with pytest.raises(TakenError, match="Another machine has written record 2"):
            await asyncio.wait_for(again.publisher.accompany(), 60)
        assert await run.store.lease(folder.name) is None
        again.close()
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_lease_that_was_removed_takes_nothing_over(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run) as task:
            await clock.sleep(3)
            await run.store.delete(f"runs/{folder.name}/lease.json")
            await clock.sleep(15)
            assert not task.done()
            lease = await run.store.lease(folder.name)
            assert lease is not None
            assert (lease.epoch, lease.owner) == (1, ANNA)
        run.close()

    run_virtually(work(), has_sockets=True)
