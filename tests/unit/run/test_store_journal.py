"""Objects of a journal in a store which the run's earlier machine must not write over."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import FormatError
from actions.base.objects import StoredObject
from actions.run.context.store_address import run_key
from actions.run.journal.journal_file import RecordRow
from actions.run.state.records import Operator, Output, TakenOver, encode_body
from actions.run.store.lease import take_lease
from actions.run.store.objects import DamagedError, TakenError
from actions.run.store.rows import OPEN_BYTES, RowWriter, append_rows, append_to_store, read_rows, rows_name
from tests.support.local_store import LocalStore
from tests.unit.run.replicating import a_run, stored

ANNA, BEN = Operator("anna", "bastion-1"), Operator("ben", "bastion-2")


class Taken:
    """A run of anna's in a store, taken over there by ben; anna's machine has one more record that was not sent."""

    def __init__(self, tmp_path: Path) -> None:
        folder = a_run(tmp_path)
        sent = stored(folder)
        self.store = LocalStore(tmp_path / "store")
        self.rows = [*sent, sent[-1]._replace(seq=sent[-1].seq + 1)]
        self.writer = RowWriter(self.store, folder.name, self._rows)
        self.run_id = folder.name
        self._sent = sent

    def _rows(self, after: int, limit: int) -> list[RecordRow]:
        return [row for row in self.rows if row.seq > after][:limit]

    async def begin(self) -> None:
        await self.writer.begin(epoch=1)
        await self.writer.append(self._sent, epoch=1)
        await append_to_store(self.store, self.run_id, TakenOver(BEN, 2, ANNA), clock=SystemClock(), epoch=2)

    async def there(self) -> StoredObject:
        found = await self.store.get(run_key(self.run_id, rows_name(1)), limit_bytes=1 << 20)
        assert found is not None
        return found

    async def change(self, old: bytes, new: bytes) -> None:
        found = await self.there()
        assert old in found.body
        await self.store.replace(run_key(self.run_id, rows_name(1)), found.body.replace(old, new, 1), etag=found.etag)


async def test_records_of_a_later_version_are_not_written_over(tmp_path: Path) -> None:
    run = Taken(tmp_path)
    await run.begin()
    head = (await run.there()).body.partition(b"\n")[0]
    version = head.partition(b",")[0]
    await run.change(version, b'{"schema":999')
    await run.change(b"taken_over", b"moved")
    before = (await run.there()).body
    with pytest.raises(FormatError, match="has version 999") as error:
        await run.writer.append(run.rows[-1:], epoch=1)
    assert not isinstance(error.value, DamagedError)
    with pytest.raises(FormatError, match="has version 999"):
        await run.writer.begin(epoch=1)
    assert (await run.there()).body == before


@pytest.mark.parametrize("damage", [(b"taken_over", b"taken_ove"), (b'"count":2', b'"count":3')])
async def test_a_damaged_object_of_a_later_epoch_is_not_written_over(
    tmp_path: Path, damage: tuple[bytes, bytes]
) -> None:
    run = Taken(tmp_path)
    await run.begin()
    await run.change(*damage)
    before = (await run.there()).body
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.begin(epoch=1)
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.append(run.rows[-1:], epoch=1)
    assert (await run.there()).body == before


async def test_an_epoch_that_none_has_is_damage(tmp_path: Path) -> None:
    run = Taken(tmp_path)
    last = run.rows[-1].seq
    await run.writer.begin(epoch=1)
    await run.writer.append(run.rows, epoch=1)
    await run.change(b'"epoch":1', b'"epoch":1000000000')
    assert await run.writer.begin(epoch=1) == last
    assert b'"epoch":1,' in (await run.there()).body


async def test_damage_that_shows_no_epoch_is_not_written_over_while_the_lease_is_of_a_later_one(tmp_path: Path) -> None:
    run = Taken(tmp_path)
    await run.begin()
    await take_lease(run.store, run.run_id, BEN, after=None, epoch=2)
    await run.change(b"{", b"}")
    before = (await run.there()).body
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.begin(epoch=1)
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.append(run.rows[-1:], epoch=1)
    assert (await run.there()).body == before


async def test_an_object_of_a_later_epoch_is_of_another_machine_though_all_its_records_are_ours(tmp_path: Path) -> None:
    """The later machine has written it again, and its own record lay in an object that is gone."""
    run = Taken(tmp_path)
    first = run.rows[0]
    body = encode_body(Output({"text": "x" * OPEN_BYTES}))
    run.rows = [first, *(first._replace(seq=seq, kind="output", json=body) for seq in (2, 3))]
    for row, epoch in zip(run.rows, (1, 1, 2), strict=True):
        await append_rows(run.store, run.run_id, [row], epoch=epoch)
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.compare(epoch=1)
    await run.change(b"{", b"}")  # the first object no longer shows its epoch
    before = (await run.there()).body
    with pytest.raises(TakenError, match="epoch 2"):
        await run.writer.begin(epoch=1)
    assert (await run.there()).body == before
    assert await run.writer.begin(epoch=2) == 3


@pytest.mark.parametrize("behind", [1, 999_998])
async def test_an_object_of_no_record_is_named_with_the_way_out(tmp_path: Path, behind: int) -> None:
    run = Taken(tmp_path)
    last = run.rows[-1].seq
    await run.writer.begin(epoch=1)
    await run.writer.append(run.rows, epoch=1)
    name = run_key(run.run_id, rows_name(last + behind))
    await run.store.put_if_absent(name, b"junk")
    with pytest.raises(FormatError, match=f"^{name} .*damaged.* has no record {last + 1}") as refused:
        await run.writer.begin(epoch=1)
    assert refused.value.hint == f"Remove that object from {run.store.address}."
    with pytest.raises(FormatError, match=name):
        await read_rows(run.store, run.run_id)
    await run.store.delete(name)
    assert await run.writer.begin(epoch=1) == last
