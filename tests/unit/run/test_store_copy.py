"""The part of a home that is in memory while a run is copied from it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import FormatError
from actions.base.objects import ListedObject, StoredObject, WriteReceipt
from actions.run.context.store_address import run_key
from actions.run.journal.folder import journal_path, series_path
from actions.run.journal.store import Journal
from actions.run.store.copy import MOST_PART_BYTES, fetch_run
from actions.run.store.objects import RunStore
from actions.run.store.rows import append_rows
from actions.run.store.series import TAIL_BYTES
from tests.unit.run.world import creation, make_run

CLOCK = SystemClock()
RUN = "fake-1121-0001"
PART = run_key(RUN, "series/train/points.jsonl/000001-000000/{:012}").format
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
        size = self.sizes.get(number, TAIL_BYTES)
        return b'{"step": %d, "x": "' % number + b"x" * (size - 29 - len(str(number))) + b'"}' + b" " * 9 + b"\n"

    async def lease(self, _: str) -> None:
        return None

    async def get(self, name: str, *, limit_bytes: int = 1 << 30) -> StoredObject | None:
        self.asked.append(name)
        if "/series/" in name:
            data = self.part(int(name.rpartition("/")[2]) // TAIL_BYTES)
            if len(data) > limit_bytes:
                raise FormatError(f"{name} has more than {limit_bytes} bytes.")
            return StoredObject(Body.of(data), "e", 0.0, 0.0)
        return StoredObject(self.kept[name], "e", 0.0, 0.0) if name in self.kept else None

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        self.kept[name] = data
        return WriteReceipt("e", 0.0)

    async def objects(self, prefix: str) -> list[ListedObject]:
        series = [
            ListedObject(PART(number * TAIL_BYTES), "e", self.sizes.get(number, TAIL_BYTES), 0.0)
            for number in range(self.parts)
        ]
        kept = [ListedObject(name, "e", len(data), 0.0) for name, data in self.kept.items()]
        return [item for item in (*kept, *series) if item.key.startswith(prefix)]


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
    path = series_path(tmp_path / "copy", "train") / "points.jsonl"
    assert path.stat().st_size == MANY * TAIL_BYTES
    assert 0 < Body.peak <= 8 << 20  # of thirty: a few objects, and those that follow them
    wanted = hashlib.sha256(b"".join(map(store.part, range(MANY)))).hexdigest()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted


async def test_only_what_is_new_is_asked_for_again(tmp_path: Path) -> None:
    store, typed = await a_store(tmp_path, 20)
    await fetch_run(typed, RUN, tmp_path / "copy")
    store.asked.clear()
    store.parts = 30
    await fetch_run(typed, RUN, tmp_path / "copy")
    assert [name for name in store.asked if "/series/" in name] == [PART(n * TAIL_BYTES) for n in range(20, 30)]
    path = series_path(tmp_path / "copy", "train") / "points.jsonl"
    assert path.read_bytes() == b"".join(map(store.part, range(30)))


async def test_an_object_beyond_the_limit_of_a_part_is_refused(tmp_path: Path) -> None:
    store, typed = await a_store(tmp_path, 3)
    store.sizes[2] = MOST_PART_BYTES + 1
    with pytest.raises(FormatError, match=f"more than {MOST_PART_BYTES} bytes"):
        await fetch_run(typed, RUN, tmp_path / "copy")
