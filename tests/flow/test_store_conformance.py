"""One suite for all drivers of `RunStore`: a bucket with its faults, an archive, the sandbox, and a real API server."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConflictError, FormatError, RefusedError, UnreachableError
from actions.base.objects import PreconditionError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.run.context.store_address import run_key
from actions.run.journal.journal_file import RecordRow
from actions.run.state.records import Output, TakenOver, encode_body
from actions.run.store.archive import ArchiveStore
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.lease import LeaseHeldError, claim_lease, renew_lease, take_lease
from actions.run.store.listing import list_store
from actions.run.store.objects import (
    DamagedError,
    LeaseConflictError,
    LeaseDocument,
    RunAbout,
    RunStatus,
    RunStore,
    StoreLease,
    TakenError,
)
from actions.run.store.rows import OPEN_BYTES, RowWriter, append_rows, append_to_store, read_rows
from actions.run.store.s3 import open_store
from tests.faults.rehearsal import a_sandbox
from tests.realcluster.running import KINDS, real_cluster
from tests.support.polling import until
from tests.support.stores import ANNA, BEN, URL, Proxy, a_home

CLOCK = SystemClock()
ABOUT = RunAbout("", "A title", "small", "c", "us-west-2", "123456789012", 1_700_000_000.0, "s3://team/ml")


class LossySession(KubeSession):
    """A session whose changes arrive, and whose answers to them are lost, while `is_lossy`."""

    is_lossy = False
    is_away = False

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if self.is_away:
            raise UnreachableError("It does not answer.")
        answer = await super().request(method, path, **options)
        if self.is_lossy and method != "GET":
            raise UnreachableError("The answer was lost.")
        return answer


@dataclass
class Place:
    """One store, as several machines open it."""

    kind: str
    archive: ArchiveStore | None = None
    proxy: Proxy | None = None
    kubeconfig: Path | None = None
    session: LossySession | None = None
    opened: list[RunStore] = field(default_factory=list)

    async def open(self) -> RunStore:
        """The store, as another machine has it."""
        if self.proxy is not None:
            store: RunStore = open_store(URL)
        elif self.session is not None:
            store = KubernetesStore(self.session)
        else:
            assert self.archive is not None
            store = self.archive
        self.opened.append(store)
        return store

    async def lose(self, write: Awaitable[object]) -> None:
        """Carry out a write whose answer is lost; an archive loses none."""
        if self.proxy is not None:
            self.proxy.loses_answers, self.proxy.applies = True, lambda method, _: method == "PUT"
        elif self.session is not None:
            self.session.is_lossy = True
        else:
            await write
            return
        with pytest.raises(UnreachableError):
            await write
        if self.proxy is not None:
            self.proxy.mend()
        elif self.session is not None:
            self.session.is_lossy = False


@pytest.fixture(scope="module", params=["s3", "archive", *KINDS])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The place of the stores of a module."""
    place = Place(request.param)
    if request.param == "s3":
        with a_home() as place.proxy:
            yield place
    elif request.param == "archive":
        place.archive = ArchiveStore("run.tar", CLOCK)
        yield place
    elif request.param == "real":
        place.kubeconfig = Path(real_cluster().kubeconfig)
        yield place
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
            with a_sandbox("stores", speed=100.0) as running:
                place.kubeconfig = running.kubeconfig
                yield place


@pytest.fixture
async def place(served: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if served.proxy is not None:
            served.proxy.use(monkeypatch)
        if served.kubeconfig is not None:
            session = await LossySession.connect(ClusterTarget(served.kubeconfig))
            assert isinstance(session, LossySession)
            served.session = session
            stack.push_async_callback(session.aclose)
        yield served
        for store in served.opened:
            store.close()
        served.opened.clear()


@pytest.fixture
async def store(place: Place) -> RunStore:
    return await place.open()


@pytest.fixture
def run_id() -> str:
    return f"run-{secrets.token_hex(5)}"


def rows_of(first: int, count: int, *, size: int = 20) -> list[RecordRow]:
    """Records of a journal; the number of each is in its text."""
    bodies = [Output({"text": f"{number} {'x' * size}"}) for number in range(first, first + count)]
    return [
        RecordRow(number, 1.0, "writer", "output", "network", 1, encode_body(body))
        for number, body in enumerate(bodies, start=first)
    ]


def writer_of(store: RunStore, run_id: str, journal: Sequence[RecordRow]) -> RowWriter:
    return RowWriter(store, run_id, lambda after, limit: journal[after : after + limit])


async def append_all(writer: RowWriter, journal: Sequence[RecordRow], after: int = 0) -> int:
    while after < len(journal):
        after = await writer.append(journal[after:], epoch=1)
    return after


async def test_an_object_is_created_once(store: RunStore, run_id: str) -> None:
    name = run_key(run_id, "files/environment.json")
    assert await store.get(name) is None
    made = await store.put_if_absent(name, b"{}")
    found = await store.get(name)
    assert found is not None
    assert (found.body, found.etag) == (b"{}", made.etag)
    assert abs(found.modified_at - made.at) < 60
    assert found.age_seconds < 60
    assert (await store.put_if_absent(name, b"{}")).etag == made.etag  # an earlier write that took
    with pytest.raises(PreconditionError) as refused:
        await store.put_if_absent(name, b"[]")
    assert refused.value.found is not None
    assert refused.value.found.body == b"{}"
    await store.delete(name)
    await store.delete(name)
    assert await store.get(name) is None


async def test_an_object_is_replaced_by_who_has_read_it(place: Place, store: RunStore, run_id: str) -> None:
    name, other = run_key(run_id, "files/environment.json"), await place.open()
    first = await store.put_if_absent(name, b"1")
    second = await other.replace(name, b"2", etag=first.etag)
    with pytest.raises(PreconditionError) as late:  # also for a write that was sent before, and lands after
        await store.replace(name, b"3", etag=first.etag)
    assert late.value.found is not None
    assert (late.value.found.body, late.value.found.etag) == (b"2", second.etag)
    assert (await other.replace(name, b"2", etag=second.etag)).etag  # the same again
    await other.delete(name)
    with pytest.raises(PreconditionError) as gone:
        await store.replace(name, b"4", etag=second.etag)
    assert gone.value.found is None


async def test_of_two_writers_at_once_one_wins(place: Place, store: RunStore, run_id: str) -> None:
    name, other = run_key(run_id, "files/environment.json"), await place.open()
    for is_there in (False, True):
        found = await store.get(name) if is_there else None
        etag = found.etag if found else ""
        writes = [
            each.replace(name, text + etag.encode(), etag=etag) if etag else each.put_if_absent(name, text)
            for each, text in ((store, b"anna"), (other, b"ben"))
        ]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(isinstance(one, PreconditionError) for one in results) == [False, True], results


@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe", b"a\r\nb\x1b[2J\n", "ü☃".encode(), os.urandom(300_000)])
async def test_bytes_stay_as_they_are(store: RunStore, run_id: str, data: bytes) -> None:
    for name in ("files/x.bin", "terraform/network.tfstate"):
        made = await store.put_if_absent(run_key(run_id, name), data)
        assert made.etag
        found = await store.get(run_key(run_id, name))
        assert found is not None
        assert found.body == data


async def test_limits_are_a_sentence(store: RunStore, run_id: str) -> None:
    await store.put_if_absent(run_key(run_id, "files/x"), b"x" * 300_000)
    with pytest.raises(FormatError, match="has more than 1000 bytes"):
        await store.get(run_key(run_id, "files/x"), limit_bytes=1000)
    if store.most_bytes < 2_000_000:
        with pytest.raises(RefusedError, match=r"files/y has \d+ bytes compressed"):
            await store.put_if_absent(run_key(run_id, "files/y"), os.urandom(store.most_bytes + 1))
        assert await store.get(run_key(run_id, "files/y")) is None
    await store.put_if_absent(run_key(run_id, "terraform/network.tfstate"), b'{"resources": []}' * 300_000)  # 5 MB
    for name in ("about.json", "runs/", f"runs/{run_id}", "runs/../x/y"):
        if not store.address.startswith("s3:"):
            with pytest.raises(ConfigError):
                await store.put_if_absent(name, b"")


async def test_a_list_has_the_objects_of_one_run_in_order(store: RunStore, run_id: str) -> None:
    names = [
        "journal/000000000001.jsonl",
        "files/terraform/n/.terraform.lock.hcl",
        "files/b",
        "files/a/deep/x",
        "files/A",
        "terraform/network.tfstate",
    ]
    for place in (run_id, f"{run_id}-2", f"{run_id}2"):
        for name in names:
            await store.put_if_absent(run_key(place, name), f"{place} {name}".encode())
        await take_lease(store, place, ANNA, after=None)
    wanted = sorted(run_key(run_id, name) for name in names)
    listed = await store.objects(run_key(run_id))
    assert [item.key for item in listed] == wanted
    for item in listed:
        found = await store.get(item.key)
        assert found is not None
        assert (found.etag, len(found.body)) == (item.etag, item.size)
    states = await store.objects(run_key(run_id, "terraform/"))
    assert [item.key for item in states] == [run_key(run_id, "terraform/network.tfstate")]
    assert [item.key for item in await store.objects(run_key(run_id, "files/a/"))] == [
        run_key(run_id, "files/a/deep/x")
    ]
    assert await store.objects(run_key(f"{run_id}-3")) == []
    assert {run_id, f"{run_id}-2", f"{run_id}2"} <= set(await store.run_ids())


async def test_a_lease_is_read_as_it_was_written(place: Place, store: RunStore, run_id: str) -> None:
    assert await store.lease(run_id) is None
    status = RunStatus("running", "train", 7, "w", "1.5", "2.5", "2", {"train": "step 3"}, {"train": "waits"})
    made = await take_lease(store, run_id, ANNA, after=None, holder="anna@bastion-1/abc", status=status, about=ABOUT)
    found = await (await place.open()).lease(run_id)
    assert found is not None
    assert found.document == made.document
    assert (found.epoch, found.owner, found.holder, found.status) == (1, ANNA, "anna@bastion-1/abc", status)
    assert (found.about.title, found.about.store, found.run_id) == ("A title", "s3://team/ml", run_id)
    assert found.tag == made.tag
    assert found.is_live
    assert abs(found.renewed_at - CLOCK.now().timestamp()) < 60


async def test_of_two_machines_that_take_a_lease_one_gets_it(place: Place, store: RunStore, run_id: str) -> None:
    other = await place.open()
    after: StoreLease | None = None
    for epoch in (1, 2, 3):
        taken = await asyncio.gather(
            take_lease(store, run_id, ANNA, after=after, holder="a"),
            take_lease(other, run_id, BEN, after=after, holder="b"),
            return_exceptions=True,
        )
        assert sorted(isinstance(one, TakenError) for one in taken) == [False, True], taken
        after = await store.lease(run_id)
        assert after is not None
        assert after.epoch == epoch


async def test_a_lease_is_renewed_until_another_machine_takes_it(place: Place, store: RunStore, run_id: str) -> None:
    other = await place.open()
    lease = await take_lease(store, run_id, ANNA, after=None, holder="a")
    renewed = await renew_lease(store, run_id, lease, status=RunStatus("running"))
    assert renewed.tag != lease.tag
    assert (await renew_lease(store, run_id, lease)).epoch == 1  # over its own later one, whose answer was lost
    taken = await take_lease(other, run_id, BEN, after=await other.lease(run_id), holder="b")
    assert taken.epoch == 2
    with pytest.raises(TakenError, match=r"ben@laptop-2 has taken over .* \(epoch 2\)"):
        await renew_lease(store, run_id, renewed)
    with pytest.raises(TakenError):
        await claim_lease(store, run_id, ANNA, epoch=1, holder="a", status=RunStatus())
    assert (await renew_lease(other, run_id, taken)).epoch == 2


async def test_another_machine_of_the_same_epoch_waits_for_the_end_of_a_lease(
    place: Place, store: RunStore, run_id: str
) -> None:
    other = await place.open()
    lease = await take_lease(store, run_id, ANNA, after=None, holder="a")
    with pytest.raises(LeaseHeldError) as held:
        await claim_lease(other, run_id, ANNA, epoch=1, holder="b", status=RunStatus())
    lease = await renew_lease(store, run_id, lease)
    with pytest.raises(TakenError, match="a copy of its folder"):  # it lives
        await claim_lease(other, run_id, ANNA, epoch=1, holder="b", status=RunStatus(), held=held.value.lease)
    lease = await renew_lease(store, run_id, lease, seconds=0.5)

    async def is_over() -> bool:
        found = await other.lease(run_id)
        return found is not None and not found.is_live

    if place.kind == "s3":
        assert place.proxy is not None
        place.proxy.clock_offset_seconds = 31
    else:
        await until(is_over, "the end of the lease")
    claimed = await claim_lease(other, run_id, ANNA, epoch=1, holder="b", status=RunStatus(), held=held.value.lease)
    assert (claimed.epoch, claimed.holder) == (1, "b")
    with pytest.raises(TakenError):
        await renew_lease(store, run_id, lease)
    await renew_lease(other, run_id, claimed, seconds=0.0)
    back = await store.lease(run_id)
    assert back is not None
    assert not back.is_live
    assert (await claim_lease(store, run_id, ANNA, epoch=1, holder="a", status=RunStatus())).holder == "a"


async def test_a_lease_that_was_removed_is_claimed_again(store: RunStore, run_id: str) -> None:
    lease = await take_lease(store, run_id, ANNA, after=None, holder="a", about=ABOUT)
    await store.remove_run(run_id)
    assert await store.lease(run_id) is None
    with pytest.raises(LeaseConflictError):
        await renew_lease(store, run_id, lease)
    again = await claim_lease(store, run_id, ANNA, epoch=1, holder="a", status=RunStatus(), about=ABOUT)
    assert (again.epoch, again.about.title) == (1, "A title")
    found = await store.lease(run_id)
    assert found is not None
    assert found.document == again.document


async def test_a_first_lease_is_not_written_over_another(store: RunStore, run_id: str) -> None:
    await take_lease(store, run_id, ANNA, after=None)
    document = LeaseDocument(1, BEN, "b", "2026-11-28T12:00:00Z", 30.0, "nonce")
    with pytest.raises(LeaseConflictError) as refused:
        await store.put_lease(run_id, document, after=None)
    assert refused.value.found is not None
    assert refused.value.found.owner == ANNA


async def test_messages_that_are_too_long_are_left_out(store: RunStore, run_id: str) -> None:
    status = RunStatus("running", notes={f"stage-{number}": "x" * 10_000 for number in range(20)})
    await take_lease(store, run_id, ANNA, after=None, status=status)
    found = await store.lease(run_id)
    assert found is not None
    assert (found.status.state, found.status.notes) == ("running", {})


async def test_an_answer_that_was_lost_is_no_conflict(place: Place, store: RunStore, run_id: str) -> None:
    name = run_key(run_id, "files/x")
    lease = await take_lease(store, run_id, ANNA, after=None, holder="a")
    first = await store.put_if_absent(run_key(run_id, "files/y"), b"1")
    for write in (
        store.put_if_absent(name, b"1"),
        store.replace(run_key(run_id, "files/y"), b"2", etag=first.etag),
        renew_lease(store, run_id, lease),
    ):
        await place.lose(write)
    assert (await store.put_if_absent(name, b"1")).etag
    assert (await store.replace(run_key(run_id, "files/y"), b"2", etag=first.etag)).etag
    assert (await renew_lease(store, run_id, lease)).epoch == 1


async def test_no_answer_is_never_the_answer_that_there_is_none(place: Place, store: RunStore, run_id: str) -> None:
    if place.proxy is not None:
        place.proxy.is_away = True
    elif place.session is not None:
        place.session.is_away = True
    else:
        return  # what is in memory always answers
    document = LeaseDocument(1, ANNA, "a", "", 30.0, "n")
    name = run_key(run_id, "files/x")
    for ask in (
        store.lease(run_id),
        store.run_ids(),
        store.get(name),
        store.objects(run_key(run_id)),
        store.put_lease(run_id, document, after=None),
        store.put_if_absent(name, b"1"),
        store.replace(name, b"1", etag="1"),
        store.remove_run(run_id),
    ):
        with pytest.raises((UnreachableError, ConfigError)):
            await ask
    if place.proxy is not None:
        place.proxy.mend()
    elif place.session is not None:
        place.session.is_away = False


async def test_records_are_added_to_the_open_object(store: RunStore, run_id: str) -> None:
    journal = rows_of(1, 100, size=2000)
    writer = writer_of(store, run_id, journal)
    assert await writer.begin(epoch=1) == 0
    sent = 0
    while sent < len(journal):
        sent = await writer.append(journal[sent : sent + 7], epoch=1)
    listed = await store.objects(run_key(run_id, "journal/"))
    assert 2 < len(listed) < 10
    assert all(item.size >= OPEN_BYTES for item in listed[:-1])
    assert await read_rows(store, run_id) == journal
    for after in (1, 50, 99, 100):
        assert await read_rows(store, run_id, after=after) == journal[after:]
    again = writer_of(store, run_id, journal)
    assert await again.begin(epoch=1) == 100


async def test_records_whose_answer_was_lost_are_there_once(place: Place, store: RunStore, run_id: str) -> None:
    journal = rows_of(1, 9)
    writer = writer_of(store, run_id, journal)
    assert await writer.append(journal[:3], epoch=1) == 3
    await place.lose(writer.append(journal[3:5], epoch=1))
    await append_all(writer, journal, 5 if place.kind == "archive" else 3)
    assert await read_rows(store, run_id) == journal


@pytest.mark.parametrize("size", [20, OPEN_BYTES], ids=["open", "full"])
async def test_a_takeover_has_the_place_of_the_next_record(
    place: Place, store: RunStore, run_id: str, size: int
) -> None:
    journal, other = rows_of(1, 3, size=size), await place.open()
    writer = writer_of(store, run_id, journal)
    await append_all(writer, journal[:2])
    row = await append_to_store(other, run_id, TakenOver(BEN, 2, ANNA), clock=CLOCK, epoch=2)
    assert row.seq == 3
    with pytest.raises(TakenError, match=r"has written record 3 of .* \(epoch 2\)"):
        await writer.append(journal[2:], epoch=1)
    await append_rows(other, run_id, rows_of(4, 1), epoch=2)
    with pytest.raises(TakenError):
        await writer_of(store, run_id, journal).begin(epoch=1)
    with pytest.raises(TakenError, match="meanwhile"):
        await append_to_store(store, run_id, TakenOver(ANNA, 1), clock=CLOCK, epoch=1)
    assert [row.seq for row in await read_rows(store, run_id)] == [1, 2, 3, 4]


async def test_of_two_writers_of_records_one_is_refused(place: Place, store: RunStore, run_id: str) -> None:
    other = await place.open()
    mine, theirs = rows_of(1, 2), [*rows_of(1, 1), *rows_of(2, 1, size=30)]
    await append_rows(store, run_id, mine[:1], epoch=1)
    first = writer_of(store, run_id, mine)
    second = writer_of(other, run_id, theirs)
    assert (await first.begin(epoch=1), await second.begin(epoch=1)) == (1, 1)
    written = await asyncio.gather(
        first.append(mine[1:], epoch=1), second.append(theirs[1:], epoch=1), return_exceptions=True
    )
    assert sorted(isinstance(one, TakenError) for one in written) == [False, True], written


@pytest.mark.parametrize("removed", [[0], [1], [0, 1, 2], [2], [0, 2]])
async def test_records_that_were_removed_are_written_again(
    store: RunStore, run_id: str, removed: Sequence[int]
) -> None:
    journal = rows_of(1, 90, size=2000)
    writer = writer_of(store, run_id, journal)
    sent = await append_all(writer, journal[:80])
    listed = await store.objects(run_key(run_id, "journal/"))
    assert len(listed) == 3
    for number in removed:
        await store.delete(listed[number].key)
    if 2 not in removed:  # it is known with the next runner; of the open object with the next record
        sent = await writer_of(store, run_id, journal).begin(epoch=1)
    await append_all(writer, journal, sent)
    assert await read_rows(store, run_id) == journal


@pytest.mark.parametrize("damaged", [[0], [1], [2], [0, 1, 2]])
async def test_records_that_were_damaged_are_written_again(
    store: RunStore, run_id: str, damaged: Sequence[int]
) -> None:
    journal = rows_of(1, 90, size=2000)
    writer = writer_of(store, run_id, journal)
    sent = await append_all(writer, journal[:80])
    listed = await store.objects(run_key(run_id, "journal/"))
    for number in damaged:
        await store.replace(listed[number].key, b"rubbish", etag=listed[number].etag)
    with pytest.raises(DamagedError):
        await read_rows(store, run_id)
    if 2 not in damaged:
        sent = await writer_of(store, run_id, journal).begin(epoch=1)
    await append_all(writer, journal, sent)
    assert await read_rows(store, run_id) == journal


async def test_damage_hides_no_takeover(place: Place, store: RunStore, run_id: str) -> None:
    journal, other = rows_of(1, 80, size=2000), await place.open()
    writer = writer_of(store, run_id, journal)
    await append_all(writer, journal[:80])
    await append_to_store(other, run_id, TakenOver(BEN, 2, ANNA), clock=CLOCK, epoch=2)
    listed = await store.objects(run_key(run_id, "journal/"))
    await store.replace(listed[0].key, b"rubbish", etag=listed[0].etag)
    with pytest.raises(TakenError):
        await writer_of(store, run_id, journal).begin(epoch=1)
    found = await store.get(listed[0].key)
    assert found is not None
    assert found.body == b"rubbish"


async def test_a_removal_is_complete_also_while_somebody_writes(place: Place, store: RunStore, run_id: str) -> None:
    for number in range(12):
        await store.put_if_absent(run_key(run_id, f"files/{number}"), b"x")
    await store.put_if_absent(run_key(run_id, "terraform/network.tfstate"), b"{}")
    await take_lease(store, run_id, ANNA, after=None)
    await take_lease(store, f"{run_id}-other", ANNA, after=None)
    await store.put_if_absent(run_key(f"{run_id}-other", "files/x"), b"x")
    other = await place.open()

    async def write_late() -> None:
        for number in range(5):
            await other.put_if_absent(run_key(run_id, f"series/{number}"), b"x")

    await asyncio.gather(store.remove_run(run_id), write_late())
    await store.remove_run(run_id)
    assert await store.objects(run_key(run_id)) == []
    assert await store.objects(run_key(run_id, "terraform/")) == []
    assert await store.lease(run_id) is None
    assert run_id not in await store.run_ids()
    assert len(await store.objects(run_key(f"{run_id}-other"))) == 1
    assert await store.lease(f"{run_id}-other") is not None


async def test_runs_that_cannot_be_read_are_named_and_hide_no_other(place: Place, store: RunStore, run_id: str) -> None:
    await take_lease(store, run_id, ANNA, after=None, about=ABOUT)
    await store.put_if_absent(run_key(f"{run_id}-bare", "files/x"), b"x")
    if place.session is None:
        await store.put_if_absent(run_key(f"{run_id}-bad", "lease.json"), b"\xff\xfe")
        await store.put_if_absent(run_key(f"{run_id}-huge", "lease.json"), b"x" * 100_000)
    runs = {run.id: run for run in await list_store(store)}
    assert runs[run_id].lease is not None
    assert "no lease" in runs[f"{run_id}-bare"].error
    if place.session is None:
        assert "damaged" in runs[f"{run_id}-bad"].error
        assert "more than" in runs[f"{run_id}-huge"].error
        with pytest.raises(FormatError):
            await store.lease(f"{run_id}-bad")


@pytest.mark.parametrize("change", [{"epoch": 0}, {"epoch": 1 << 40}, {"seconds": -1.0}, {"seconds": 1e12}])
async def test_a_lease_with_numbers_that_none_has_is_damaged(
    place: Place, store: RunStore, run_id: str, change: dict[str, Any]
) -> None:
    document = msgspec.structs.replace(LeaseDocument(1, ANNA, "a", "", 30.0, "n"), **change)
    if place.session is None:  # an API server refuses most of them by itself
        await store.put_if_absent(run_key(run_id, "lease.json"), msgspec.json.encode(document))
        with pytest.raises(FormatError, match="is damaged"):
            await store.lease(run_id)


async def test_texts_of_others_are_plain_when_they_are_read(store: RunStore, run_id: str) -> None:
    about = RunAbout("other", "evil \x1b]0;x\x07 \u202e title", created_at=1e12)
    status = RunStatus("run\nning", notes={"a\x1b[2J": "b\r"})
    document = LeaseDocument(1, ANNA, "h\x00", "", 30.0, "n", status, about)
    lease = await store.put_lease(run_id, document, after=None)
    found = await store.lease(run_id)
    assert found is not None
    assert found.document == lease.document
    assert (found.about.title, found.about.created_at, found.run_id) == ("evil title", 0.0, run_id)
    assert (found.status.state, found.status.notes, found.holder) == ("run ning", {"a": "b"}, "h")


async def test_a_conflict_is_a_conflict_for_every_caller() -> None:
    """Whoever catches `ConflictError` alone gets all three."""
    assert issubclass(PreconditionError, ConflictError)
    assert issubclass(LeaseConflictError, ConflictError)
    assert issubclass(TakenError, ConflictError)
