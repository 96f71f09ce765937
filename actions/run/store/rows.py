"""The journal in the store: append-only segments of records, each written once at the place of its first record.

The first line of a segment is a `SegmentHead`, each other one a `RecordRow`. A record's body is kept as the text that
the journal has, so a copy is equal byte for byte. No two segments have a record in common: the next one of any writer
begins behind the last one, and only one of two can have that name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json, json_decoder
from actions.base.errors import ConflictError, FormatError
from actions.base.executors import at_once
from actions.base.names import is_segment
from actions.base.objects import PreconditionError, StoredObject
from actions.base.untrusted import cleaned
from actions.run.context.store_address import run_key
from actions.run.journal.schema import SCHEMA_VERSION
from actions.run.journal.store import RecordRow
from actions.run.state.records import OPERATOR, Body, Created, decode_body, encode_body, record_kind
from actions.run.store.objects import LATEST, RunStore, TakenError, segment_name, segment_seq

MOST_ROWS = 500
"""Records of one segment."""
MOST_SEGMENT_BYTES = 4 << 20
_READ_BYTES = 16 << 20
_ENCODER = msgspec.json.Encoder()
_ROWS: msgspec.json.Decoder[RecordRow] = json_decoder(RecordRow)


class SegmentHead(msgspec.Struct, frozen=True):
    """The first line of a segment."""

    schema: int
    """Version of the journal that the records are from."""
    epoch: int
    """Of the lease under which they were written."""
    first: int
    count: int


class Segment(msgspec.Struct, frozen=True):
    """A segment as it was read."""

    name: str
    head: SegmentHead
    rows: tuple[RecordRow, ...]

    @property
    def last(self) -> int:
        """Number of its last record."""
        return self.rows[-1].seq


async def segment_names(store: RunStore, run_id: str, *, after: int = 0) -> list[str]:
    """Return the names of the segments whose first record has a number above `after`, in order."""
    behind = run_key(run_id, segment_name(after)) if after else ""
    listed = await store.objects(run_key(run_id, "journal/"), after=behind)
    return [item.key for item in listed if segment_seq(item.key)]


async def read_segment(store: RunStore, name: str) -> Segment:
    """Return one segment.

    Raises:
        FormatError: It is damaged, or gone.
    """
    found = await store.get(name, limit_bytes=_READ_BYTES)
    if found is None:
        raise FormatError(f"{name} is gone from {store.address}.")
    return _segment_in(found.body, name)


async def read_rows(store: RunStore, run_id: str, *, after: int = 0) -> list[RecordRow]:
    """Return the records of a run's journal in the store with a number above `after`, in order, without gaps.

    Args:
        store: The store.
        run_id: The run.
        after: The last record of a segment, as an earlier call has returned it; 0 for all.

    Raises:
        FormatError: A segment is damaged, or one is missing.
    """
    return await rows_of(store, await segment_names(store, run_id, after=after), after=after)


async def rows_of(store: RunStore, names: Sequence[str], *, after: int) -> list[RecordRow]:
    """Return the records of segments, as `read_rows`.

    Args:
        store: The store.
        names: Of all segments behind the record `after`, in order.
        after: See `read_rows`.

    Raises:
        FormatError: A segment is damaged, or one is missing.
    """
    segments = await at_once(names, lambda name: read_segment(store, name))
    rows: list[RecordRow] = []
    for segment in segments:
        expected = rows[-1].seq + 1 if rows else after + 1
        if segment.head.first != expected:
            raise FormatError(f"The journal in {store.address} lacks record {expected}: {segment.name} follows.")
        rows.extend(segment.rows)
    return rows


async def append_rows(store: RunStore, run_id: str, rows: Sequence[RecordRow], *, epoch: int) -> int:
    """Write one segment behind those in the store; if there is one at its place already, compare it with `rows`.

    Args:
        store: The store.
        run_id: The run.
        rows: Consecutive, at least one. The first one follows the store's last one.
        epoch: Of the writer.

    Returns:
        The number of the last of `rows` that is in the store now.

    Raises:
        TakenError: Another writer has written other records there.
    """
    chosen = _of_one_segment(rows)
    head = SegmentHead(SCHEMA_VERSION, epoch, chosen[0].seq, len(chosen))
    name = run_key(run_id, segment_name(chosen[0].seq))
    data = b"".join(_ENCODER.encode(line) + b"\n" for line in (head, *chosen))
    try:
        await store.put_if_absent(name, data)
        found = await store.get(name, limit_bytes=_READ_BYTES)
    except PreconditionError as error:
        found = error.found
    if found is not None and found.body == data:
        return chosen[-1].seq
    return common_end(_there(found, name), rows, run_id)


def common_end(there: Segment, rows: Sequence[RecordRow], run_id: str) -> int:
    """Return the number of the last record of a segment, if all of it is in `rows`.

    Raises:
        TakenError: A record of it is another one, or not in `rows`.
    """
    ours = {row.seq: row for row in rows}
    for row in there.rows:
        if row.seq not in ours or not is_same_row(ours[row.seq], row):
            raise TakenError(
                f"Another machine has written record {row.seq} of {run_id} (epoch {there.head.epoch}): "
                "this one stops carrying it out.",
                epoch=there.head.epoch,
            )
    return there.last


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
        names = await segment_names(store, run_id)
        newest = await read_segment(store, names[-1]) if names else None
        if newest is not None and newest.head.epoch > epoch:
            raise TakenError(
                f"Another machine has taken over {run_id} meanwhile (epoch {newest.head.epoch}).",
                epoch=newest.head.epoch,
                hint="Look at who has it: eksml-tui runs list --store.",
            )
        last = newest.last if newest is not None else 0
        row = RecordRow(last + 1, clock.now().timestamp(), OPERATOR, record_kind(body), "", 0, encode_body(body))
        try:
            await append_rows(store, run_id, [row], epoch=epoch)
        except ConflictError:
            continue  # the earlier machine was faster: its record counts, and this one follows
        return row


def _of_one_segment(rows: Sequence[RecordRow]) -> Sequence[RecordRow]:
    """Return the first rows, as many as one segment takes; at least one."""
    size = 0
    for count, row in enumerate(rows[:MOST_ROWS]):
        size += len(row.json)
        if count and size > MOST_SEGMENT_BYTES:
            return rows[:count]
    return rows[:MOST_ROWS]


def _there(found: StoredObject | None, name: str) -> Segment:
    if found is None:
        raise FormatError(f"{name} was removed from the store.")
    return _segment_in(found.body, name)


def is_same_row(ours: RecordRow, theirs: RecordRow) -> bool:
    """Return whether a record of a store is one of a journal, which may have control characters that it has not."""
    return theirs in (ours, ours._replace(json=_clean_body(ours.json)))


def _segment_in(data: bytes, name: str) -> Segment:
    try:
        lines = data.removesuffix(b"\n").split(b"\n")
        head = decode_json(lines[0], SegmentHead)
        rows = tuple(_cleaned_row(_ROWS.decode(line)) for line in lines[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FormatError(f"{name} in the store is damaged: {error}.") from error
    if head.schema > SCHEMA_VERSION:
        raise FormatError(
            f"{name} has version {head.schema}, this program reads {SCHEMA_VERSION}.",
            hint="Use the version of the program that wrote it.",
        )
    numbers = [row.seq for row in rows]
    if not rows or numbers != list(range(head.first, head.first + head.count)) or head.first != segment_seq(name):
        raise FormatError(f"{name} in the store is damaged: its records are not those that it announces.")
    return Segment(name, head, rows)


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
