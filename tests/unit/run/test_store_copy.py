"""The part of a home that is in memory while a run is copied from it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import FormatError
from actions.base.objects import ListedObject, StoredObject, WriteReceipt
from actions.run.context.store_address import run_key
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal
from actions.run.output.reader import OutputReader
from actions.run.output.segments import SEAL_BYTES, SealedSegment, StreamReader, sealed
from actions.run.output.streams import POINTS, stream_path
from actions.run.store.copy import MOST_SEGMENT_BYTES, fetch_run
from actions.run.store.objects import RunStore
from actions.run.store.rows import append_rows
from tests.unit.run.world import creation, make_run

CLOCK = SystemClock()
RUN = "fake-1121-0001"
PART = run_key(RUN, "output/train/points/{}").format
MANY = 120


class Body(bytes):
    """The content of an object, which counts while something refers to it."""

    held = peak = 0

    @classmethod
    def of(cls, data: bytes) -> Body:
        body = cls(data)
        cls.held += len(data)
        cls.peak = max(cls.peak, cls.held)
        return body

    def __del__(self) -> None:
        Body.held -= len(self)


class Store:
    """A home in memory that knows how much of it others hold; a curve's parts are made as they are read."""

    address = "s3://fake"
    most_bytes = 1 << 20

    def __init__(self, parts: int) -> None:
        self.kept: dict[str, bytes] = {}
        self.parts = parts
        self.sizes: dict[int, int] = {}
        self.asked: list[str] = []

    def part(self, number: int) -> bytes:
        size = self.sizes.get(number, SEAL_BYTES)
        return b'{"step": %d, "x": "' % number + b"x" * (size - 29 - len(str(number))) + b'"}' + b" " * 9 + b"\n"

    def segment(self, number: int) -> tuple[SealedSegment, bytes]:
        return sealed(sum(self.sizes.get(other, SEAL_BYTES) for other in range(number)), self.part(number))

    def segments(self) -> dict[str, bytes]:
        made = map(self.segment, range(self.parts))
        return {PART(segment.name): data for segment, data in made}

    async def get(self, name: str, *, limit_bytes: int = 1 << 30) -> StoredObject | None:
        self.asked.append(name)
        if "/output/" in name:
            data = self.segments()[name]
            if len(data) > limit_bytes:
                raise FormatError(f"{name} has more than {limit_bytes} bytes.")
            return StoredObject(Body.of(data), "e", 0.0, 0.0)
        return StoredObject(self.kept[name], "e", 0.0, 0.0) if name in self.kept else None

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        self.kept[name] = data
        return WriteReceipt("e", 0.0)

    async def lease(self, _run_id: str) -> None:
        return None

    async def objects(self, prefix: str, *, after: str = "") -> list[ListedObject]:
        series = [ListedObject(name, "e", len(data), 0.0) for name, data in self.segments().items()]
        kept = [ListedObject(name, "e", len(data), 0.0) for name, data in self.kept.items()]
        return [item for item in (*kept, *series) if item.key.startswith(prefix) and item.key > after]


async def a_store(tmp_path: Path, parts: int) -> tuple[Store, RunStore]:
    store = Store(parts)
    typed: RunStore = store  # type: ignore[assignment]
    folder = make_run(tmp_path, CLOCK, created=replace(creation(), run_id=RUN))
    journal = Journal(journal_path(folder), CLOCK)
    await append_rows(typed, RUN, journal.rows(), epoch=1)
    journal.close()
    return store, typed


async def test_a_long_curve_is_never_whole_in_memory(tmp_path: Path) -> None:
    store, typed = await a_store(tmp_path, MANY)
    Body.held = Body.peak = 0
    await fetch_run(typed, RUN, tmp_path / "copy")
    stream = StreamReader(stream_path(tmp_path / "copy", "train", POINTS))
    assert stream.end() == MANY * SEAL_BYTES
    one = len(store.segment(0)[1])
    assert 0 < Body.peak <= 20 * one  # of so many: a few objects, and those that follow them
    wanted = hashlib.sha256(b"".join(map(store.part, range(MANY)))).hexdigest()
    found = hashlib.sha256(b"".join(part.data or b"" for part in stream.stretches(0))).hexdigest()
    assert found == wanted


async def test_only_what_is_new_is_asked_for_again(tmp_path: Path) -> None:
    store, typed = await a_store(tmp_path, 20)
    await fetch_run(typed, RUN, tmp_path / "copy")
    store.asked.clear()
    store.parts = 30
    await fetch_run(typed, RUN, tmp_path / "copy")
    assert [name for name in store.asked if "/output/" in name] == list(store.segments())[20:]
    parts = StreamReader(stream_path(tmp_path / "copy", "train", POINTS)).stretches(0)
    assert b"".join(part.data or b"" for part in parts) == b"".join(map(store.part, range(30)))


async def test_a_segment_beyond_the_limit_stays_out_and_is_counted(tmp_path: Path) -> None:
    store, typed = await a_store(tmp_path, 4)
    store.sizes[2] = MOST_SEGMENT_BYTES + 1
    await fetch_run(typed, RUN, tmp_path / "copy")
    reader = OutputReader(tmp_path / "copy", "train")
    reader.values(limit_bytes=-1)
    assert reader.lost_values == 1
    assert store.asked.count(PART(store.segment(2)[0].name)) == 0
