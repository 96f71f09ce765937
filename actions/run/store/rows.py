"""The journal in the store: objects of consecutive records, named by the first of them.

The first line of an object is a `RowsHead`, each other one a `RecordRow`. A record's body is kept as the text that the
journal has, so a copy is equal byte for byte. The last object is open while it has fewer than `OPEN_BYTES`: the next
records are added to it, by a write on the condition that it is the one that was read; behind a full one the next object
begins. So each record has one place, and of two writers one gets `PreconditionError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json, json_decoder
from actions.base.errors import FormatError, RefusedError
from actions.base.executors import at_once
from actions.base.names import is_segment
from actions.base.objects import ListedObject, PreconditionError, StoredObject
from actions.base.untrusted import cleaned
from actions.run.context.store_address import run_key
from actions.run.journal.journal_file import SCHEMA_VERSION, RecordRow
from actions.run.state.records import OPERATOR, Body, Created, decode_body, encode_body, record_kind
from actions.run.store.objects import LATEST, MOST_EPOCH, DamagedError, RunStore, TakenError, taken_by_epoch

MOST_ROWS = 500
"""Records that one call takes."""
OPEN_BYTES = 64 << 10
"""Size from which on an object is full."""
_READ_BYTES = 16 << 20
_SEQ_DIGITS = 12
_ENCODER = msgspec.json.Encoder()
_ROWS: msgspec.json.Decoder[RecordRow] = json_decoder(RecordRow)

Rows = Callable[[int, int], Sequence[RecordRow]]
"""Returns at most so many records of the run's journal, the second number, behind the first."""


class RowsHead(msgspec.Struct, frozen=True):
    """The first line of an object."""

    schema: int
    """Version of the journal that the records are from."""
    epoch: Annotated[int, msgspec.Meta(ge=1, le=MOST_EPOCH)]
    """Of the lease under which the last of them was written."""
    first: int
    count: int


class RowsObject(msgspec.Struct, frozen=True):
    """An object as it was read or written."""

    name: str
    etag: str
    head: RowsHead
    rows: tuple[RecordRow, ...]
    body: bytes

    @property
    def last(self) -> int:
        """Number of its last record."""
        return self.rows[-1].seq

    @property
    def is_open(self) -> bool:
        """True if the next record belongs into it."""
        return len(self.body) < OPEN_BYTES


def rows_name(first: int) -> str:
    """Return the name of the object that begins with this record, below the run's."""
    return f"journal/{first:0{_SEQ_DIGITS}}.jsonl"


def first_row_of(name: str) -> int:
    """Return the number of the first record in an object of a run; 0 if it has no records."""
    folder, _, file = name.rpartition("/")
    digits = file.removesuffix(".jsonl")
    is_number = len(digits) == _SEQ_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number and folder.endswith("/journal") else 0


def newest_rows(listed: Sequence[ListedObject]) -> ListedObject | None:
    """Return the object with the last records, of a list of a run's objects; `None` if it has none."""
    return max((item for item in listed if first_row_of(item.key)), key=lambda item: item.key, default=None)


async def read_rows(store: RunStore, run_id: str, *, after: int = 0) -> list[RecordRow]:
    """Return the records of a run's journal in the store with a number above `after`, in order, without gaps.

    Raises:
        FormatError: An object is damaged, or one is missing.
    """
    return await rows_of(store, await store.objects(run_key(run_id, "journal/")), after=after)


async def rows_of(store: RunStore, listed: Sequence[ListedObject], *, after: int) -> list[RecordRow]:
    """Return records as `read_rows`, of the objects of one run.

    Raises:
        FormatError: An object is damaged, or one is missing.
    """
    names = sorted(item.key for item in listed if first_row_of(item.key))
    begun = [name for name in names if first_row_of(name) <= after]
    is_all = any(first_row_of(name) == after + 1 for name in names)  # the one before ends with `after`
    wanted = [*([] if is_all else begun[-1:]), *names[len(begun) :]]
    rows: list[RecordRow] = []
    for name, found in zip(wanted, await at_once(wanted, lambda name: _rows_or_damage(store, name)), strict=True):
        expected = rows[-1].seq + 1 if rows else after + 1
        is_damaged = isinstance(found, DamagedError)
        if first_row_of(name) > expected:
            lacking = f"The journal in {store.address} lacks record {expected}: {name} follows"
            hint = "Remove that object, if the run's own machine does not write it again." if is_damaged else ""
            raise FormatError(f"{lacking}{', and is damaged' if is_damaged else ''}.", hint=hint)
        if isinstance(found, DamagedError):
            raise found
        rows.extend(row for row in found.rows if row.seq >= expected)
    return rows


async def read_rows_object(store: RunStore, name: str) -> RowsObject:
    """Return one object.

    Raises:
        FormatError: It is damaged, or gone.
    """
    found = await store.get(name, limit_bytes=_READ_BYTES)
    if found is None:
        raise FormatError(f"{name} is gone from {store.address}.")
    return _object_in(found, name)


async def _rows_or_damage(store: RunStore, name: str) -> RowsObject | DamagedError:
    try:
        return await read_rows_object(store, name)
    except DamagedError as error:
        return error


class RowWriter:
    """The journal of a run in its store, as the run's runner writes it.

    Args:
        store: The store.
        run_id: The run.
        rows: The run's journal on this machine.
    """

    def __init__(self, store: RunStore, run_id: str, rows: Rows) -> None:
        self._store = store
        self._run_id = run_id
        self._rows = rows
        self._tail: RowsObject | None = None
        self.etags: dict[str, str] = {}
        """Of all objects with records, by name, as they were read or written last."""

    async def compare(self, *, epoch: int) -> dict[str, RowsObject | DamagedError]:
        """Require that all records of the store are in the journal here. Returns its objects by name, in order.

        Args:
            epoch: Of this writer.

        Raises:
            TakenError: The store has other records, or an object of a later epoch, be it damaged.
            FormatError: An object is of a later version of the program.
        """
        listed = await self._store.objects(run_key(self._run_id, "journal/"))
        names = sorted(item.key for item in listed if first_row_of(item.key))
        objects = await at_once(names, lambda name: _rows_or_damage(self._store, name))
        for one in objects:
            self._require_ours(one, epoch)
        return dict(zip(names, objects, strict=True))

    async def begin(self, *, epoch: int) -> int:
        """Compare the store with the journal here, and write again what was damaged, or removed between other records.

        Args:
            epoch: Of this writer.

        Returns:
            The number of the last record in the store.

        Raises:
            TakenError: The store has other records, or an object or lease of a later epoch.
            FormatError: An object is damaged and the journal here has none of its records, or it is of a later version
                of the program; or the lease is damaged, too.
        """
        found = await self.compare(epoch=epoch)
        if any(isinstance(one, DamagedError) for one in found.values()):  # it may not show by whom it is
            await self._require_lease(epoch)
        firsts = [*map(first_row_of, found), 10**_SEQ_DIGITS]
        end, self._tail, self.etags = 0, None, {}
        for (name, one), follower in zip(found.items(), firsts[1:], strict=True):
            damaged = one if isinstance(one, DamagedError) else None
            while end + 1 < first_row_of(name):
                end = (await self._fill(end, first_row_of(name), epoch, damaged)).last
            there = one if isinstance(one, RowsObject) else await self._fill(end, follower, epoch, one, etag=one.etag)
            end, self._tail, self.etags[name] = there.last, there, there.etag
        return end

    async def append(self, rows: Sequence[RecordRow], *, epoch: int) -> int:
        """Write records behind those in the store.

        Args:
            rows: Consecutive, at least one. The first one follows the last one in the store.
            epoch: Of this writer.

        Returns:
            The number of the last record in the store, which may be lower than that of the last one of `rows`.

        Raises:
            TakenError: Another writer has written other records there.
        """
        try:
            self._tail = await _appended(self._store, self._run_id, self._tail, rows, epoch)
        except PreconditionError as error:
            if error.found is None:  # removed: the rest may be, too
                return await self.begin(epoch=epoch)
            name = run_key(self._run_id, rows_name(rows[0].seq))
            if self._tail is not None and self._tail.is_open:
                name = self._tail.name
            try:
                self._tail = _object_in(error.found, name)
            except DamagedError:
                return await self.begin(epoch=epoch)
            self._require_ours(self._tail, epoch)
        self.etags[self._tail.name] = self._tail.etag
        return self._tail.last

    def _require_ours(self, there: RowsObject | DamagedError, epoch: int) -> None:
        """Require that an object is of this machine or of an earlier one, and has no other records than the journal."""
        rows, its_epoch = ((), there.epoch) if isinstance(there, DamagedError) else (there.rows, there.head.epoch)
        ours = {row.seq: row for row in self._rows(rows[0].seq - 1, len(rows))} if rows else {}
        for row in rows:
            if row.seq not in ours or not is_same_row(ours[row.seq], row):
                raise TakenError(
                    f"Another machine has written record {row.seq} of {self._run_id} (epoch {its_epoch}): "
                    "this one stops carrying it out.",
                    epoch=its_epoch,
                )
        if its_epoch > epoch:
            raise taken_by_epoch(self._run_id, its_epoch)

    async def _require_lease(self, epoch: int) -> None:
        lease = await self._store.lease(self._run_id)
        if lease is not None and lease.epoch > epoch:
            raise taken_by_epoch(self._run_id, lease.epoch)

    async def _fill(
        self, end: int, first: int, epoch: int, damaged: DamagedError | None, *, etag: str = ""
    ) -> RowsObject:
        """Write an object with records behind `end` and before `first`, over a damaged one if that has an `etag`."""
        rows = self._rows(end, min(first - 1 - end, MOST_ROWS))
        if not rows and damaged is not None:
            message = f"{damaged.message} The journal of {self._run_id} has no record {end + 1}, and none behind it."
            raise FormatError(message, hint=f"Remove that object from {self._store.address}.")
        if not rows:
            raise FormatError(
                f"{self._store.address} lacks record {end + 1} of {self._run_id}, and so does its journal."
            )
        return await _appended(self._store, self._run_id, None, rows, epoch, etag=etag)


async def append_rows(store: RunStore, run_id: str, rows: Sequence[RecordRow], *, epoch: int) -> int:
    """Write records behind those in the store, once. Returns the number of the last one there.

    Args:
        store: The store.
        run_id: The run.
        rows: Consecutive, at least one. The first one follows the last one in the store.
        epoch: Of the writer.

    Raises:
        PreconditionError: Another writer was faster.
    """
    tail = await _tail_of(store, run_id)
    return (await _appended(store, run_id, tail, rows, epoch)).last


async def append_to_store(store: RunStore, run_id: str, body: Body, *, clock: Clock, epoch: int) -> RecordRow:
    """Write one record behind all others of the store's journal, whoever writes there; for a takeover.

    From then on no earlier writer can write: this record has the place of its next one.

    Args:
        store: The store.
        run_id: The run.
        body: The record's.
        clock: Stamps it.
        epoch: Of the lease that the caller has taken.

    Raises:
        TakenError: A machine of a later epoch has written there: it has taken the lease since.
        FormatError: The journal in the store is damaged.
    """
    while True:
        newest = await _tail_of(store, run_id)
        if newest is not None and newest.head.epoch > epoch:
            raise taken_by_epoch(run_id, newest.head.epoch)
        last = newest.last if newest is not None else 0
        row = RecordRow(last + 1, clock.now().timestamp(), OPERATOR, record_kind(body), "", 0, encode_body(body))
        try:
            await _appended(store, run_id, newest, [row], epoch)
        except PreconditionError:
            continue  # the earlier machine was faster: its record counts, and this one follows
        return row


def is_same_row(ours: RecordRow, theirs: RecordRow) -> bool:
    """Return whether a record of a store is one of a journal, which may have control characters that it has not."""
    return theirs in (ours, ours._replace(json=_clean_body(ours.json)))


async def _tail_of(store: RunStore, run_id: str) -> RowsObject | None:
    newest = newest_rows(await store.objects(run_key(run_id, "journal/")))
    return None if newest is None else await read_rows_object(store, newest.key)


async def _appended(
    store: RunStore, run_id: str, tail: RowsObject | None, rows: Sequence[RecordRow], epoch: int, *, etag: str = ""
) -> RowsObject:
    """Write the first of some records, as many as the open object takes, or the next one. Returns that object.

    Without an open object, `etag` is that of a damaged one which has the place.

    Raises:
        PreconditionError: Another writer was faster, or the open object was removed.
        RefusedError: A record is larger than an object of the store.
    """
    has_room = tail is not None and tail.is_open
    before = tail if has_room else None
    old, old_lines = (before.rows, before.body.partition(b"\n")[2]) if before else ((), b"")
    added = _fitting(rows, OPEN_BYTES - len(before.body if before else b""))
    first = old[0].seq if old else added[0].seq
    head = RowsHead(SCHEMA_VERSION, epoch, first, len(old) + len(added))
    data = _ENCODER.encode(head) + b"\n" + old_lines + b"".join(_ENCODER.encode(row) + b"\n" for row in added)
    if len(data) > store.most_bytes:
        raise RefusedError(
            f"Record {added[-1].seq} of {run_id} has {len(added[-1].json)} bytes, too many for {store.address}."
        )
    name = run_key(run_id, rows_name(first))
    if before is not None or etag:
        receipt = await store.replace(name, data, etag=before.etag if before is not None else etag)
    else:
        receipt = await store.put_if_absent(name, data)
    return RowsObject(name, receipt.etag, head, (*old, *added), data)


def _fitting(rows: Sequence[RecordRow], room: int) -> Sequence[RecordRow]:
    """Return the first rows, until they have no more room; at least one."""
    for count, row in enumerate(rows[:MOST_ROWS], start=1):
        room -= len(row.json)
        if room <= 0:
            return rows[:count]
    return rows[:MOST_ROWS]


def _object_in(found: StoredObject, name: str) -> RowsObject:
    epoch = 0
    try:
        lines = found.body.removesuffix(b"\n").split(b"\n")
        head = decode_json(lines[0], RowsHead)
        epoch = head.epoch
        if head.schema > SCHEMA_VERSION:  # its records may be of kinds that this program does not know
            raise FormatError(
                f"{name} has version {head.schema}, this program reads {SCHEMA_VERSION}.",
                hint="Use the version of the program that wrote it.",
            )
        rows = tuple(_cleaned_row(_ROWS.decode(line)) for line in lines[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DamagedError(f"{name} in the store is damaged: {error}.", found.etag, epoch=epoch) from error
    numbers = [row.seq for row in rows]
    if not rows or numbers != list(range(head.first, head.first + head.count)) or head.first != first_row_of(name):
        message = f"{name} in the store is damaged: its records are not those that it announces."
        raise DamagedError(message, found.etag, epoch=epoch)
    return RowsObject(name, found.etag, head, rows, found.body)


def _cleaned_row(row: RecordRow) -> RecordRow:
    """Return a record without control characters; itself, if there are none, as in what this program writes."""
    body = decode_body(row.json)
    if record_kind(body) != row.kind:
        raise ValueError(f"record {row.seq} is of another kind")
    stages = [stage.id for stage in body.stages] if isinstance(body, Created) else []
    if not all(map(is_segment, [*filter(None, (row.stage, row.writer)), *stages])):  # they become parts of paths
        raise ValueError(f"record {row.seq} has a name that is not one")
    if not 0 <= row.at < LATEST:
        raise ValueError(f"record {row.seq} has a time that is not one")
    clean = _clean_body(row.json)
    return row if clean == row.json else row._replace(json=clean)


def _clean_body(text: str) -> str:
    value = msgspec.json.decode(text)
    clean = cleaned(value)
    return text if clean == value else msgspec.json.encode(clean).decode()
