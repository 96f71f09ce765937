"""Streams of segments: whole after a kill or a loss of power at any moment, and read past any damage."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from actions.run.output import segments
from actions.run.output.segments import (
    SealedSegment,
    StreamReader,
    StreamWriter,
    list_stream,
    listing_of,
    plain_of,
    sealed,
    segment_in,
    tail_name,
)

SEAL = 1000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", SEAL)


def record(number: int) -> bytes:
    return b"%05d %s\n" % (number, b"x" * (20 + number % 50))


def a_stream(folder: Path, count: int = 110, first: int = 0) -> None:
    writer = StreamWriter(folder)
    for number in range(first, first + count):
        writer.append(record(number))
    writer.close()


def all_of(folder: Path, *, limit: int = -1) -> bytes:
    reader, offset, found = StreamReader(folder), 0, list[bytes]()
    while parts := reader.stretches(offset, limit):
        assert parts[0].begin == offset
        assert all(one.end == two.begin for one, two in pairwise(parts))
        found += [part.data for part in parts if part.data is not None]
        offset = parts[-1].end
    return b"".join(found)


def whole(count: int = 110) -> bytes:
    return b"".join(map(record, range(count)))


@pytest.mark.parametrize("limit", [-1, 1, 100, 999, 1000, 5000])
def test_what_was_written_is_read_in_pieces_of_any_size(tmp_path: Path, limit: int) -> None:
    a_stream(tmp_path / "s")
    assert all_of(tmp_path / "s", limit=limit) == whole()
    listing = list_stream(tmp_path / "s")
    assert len(listing.segments) > 3
    assert listing.tail == listing.sealed_end
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "s").iterdir()} == {0o600}


def test_any_place_is_found(tmp_path: Path) -> None:
    a_stream(tmp_path)
    reader, data = StreamReader(tmp_path), whole()
    begins = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    assert reader.end() == len(data)
    for offset in range(0, len(data) + 1, 7):
        assert reader.record_at(offset) == next(begin for begin in begins if begin >= offset)
    for begin in random.Random(1).sample(begins[:-1], 40):
        (part, *_) = reader.stretches(begin, 1)
        assert part.data == data[begin : data.index(b"\n", begin) + 1]


def test_a_reader_follows_a_stream_that_is_sealed_under_it(tmp_path: Path) -> None:
    reader, offset, found = StreamReader(tmp_path / "later"), 0, b""
    assert (reader.end(), reader.stretches(0)) == (0, [])
    writer = StreamWriter(tmp_path / "later")
    for number in range(200):
        writer.append(record(number))
        for part in reader.stretches(offset):
            found, offset = found + (part.data or b""), part.end
    assert found == whole(200)
    assert reader.lost == set()


def test_a_writer_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    for first in range(0, 110, 7):
        a_stream(tmp_path, min(7, 110 - first), first)
    assert all_of(tmp_path) == whole()


def test_a_torn_record_is_cut_off(tmp_path: Path) -> None:
    a_stream(tmp_path, 20)
    data, listing = whole(20), list_stream(tmp_path)
    assert listing.tail is not None
    path = tmp_path / tail_name(listing.tail)
    content = path.read_bytes()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        kept = data[: listing.tail] + content[: content.rfind(b"\n", 0, cut) + 1]
        assert all_of(tmp_path) == kept
        writer = StreamWriter(tmp_path)
        writer.append(b"next\n")
        writer.close()
        assert all_of(tmp_path) == kept + b"next\n"


class Cut(BaseException):
    """The process ends here."""


CALLS = ("open", "pwrite", "write", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "close", "mkdir")


def cut_after(patch: pytest.MonkeyPatch, moment: int) -> list[int]:
    """End the work after so many calls of the kernel; return a list whose length is their number."""
    made: list[int] = []

    def limited(call: Callable[..., object]) -> Callable[..., object]:
        def cut(*args: object, **options: object) -> object:
            if len(made) == moment:
                raise Cut
            made.append(1)
            return call(*args, **options)

        return cut

    for name in CALLS:
        patch.setattr(os, name, limited(getattr(os, name)))
    fdopen = os.fdopen

    def opened(descriptor: int, mode: str) -> object:
        file = fdopen(descriptor, mode, buffering=0)
        return _Written(file, limited)

    patch.setattr(os, "fdopen", opened)
    return made


class _Written:
    def __init__(self, file: object, limited: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
        self._file = file
        self.write = limited(file.write)  # type: ignore[attr-defined]
        self.flush = file.flush  # type: ignore[attr-defined]

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()  # type: ignore[attr-defined]


def test_a_kill_at_any_moment_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    tried = 0
    for moment in range(1000):
        folder = tmp_path / str(moment)
        written = 0
        with pytest.MonkeyPatch.context() as patch:
            made = cut_after(patch, moment)
            try:
                writer = StreamWriter(folder)
                for number in range(60):
                    written = number
                    writer.append(record(number))
                written = 60
            except Cut:
                tried += 1
        found = all_of(folder)
        assert found in (whole(written), whole(written + 1)), moment  # the last one may have been taken
        kept = found.count(b"\n")
        a_stream(folder, 110 - kept, kept)
        assert all_of(folder) == whole(), moment
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        listing = list_stream(folder)
        assert len(list(folder.iterdir())) == len(listing.segments) + 1
        if len(made) < moment:
            break
    assert tried > 80


class Power:
    """The calls of a writer, so that the disk after a loss of power at any moment can be made."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.flushed: dict[str, bytes] = {}
        self.states: list[tuple[dict[str, bytes], dict[str, bytes]]] = []
        """After each call: what surely is on the disk, and what may be."""
        self.safe: dict[str, bytes] = {}
        self.seen: dict[str, bytes] = {}
        for name in ("pwrite", "fsync", "fdatasync", "rename", "unlink"):
            patch.setattr(os, name, self._noting(name, getattr(os, name)))

    def _noting(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **options: object) -> object:
            found = call(*args, **options)
            folder = self.folder
            now = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
            if name in ("fsync", "fdatasync"):
                place = Path(os.readlink(f"/proc/self/fd/{args[0]}"))
                if place == folder:  # the names are safe; the content of each as far as it was flushed
                    self.safe = {path: self.flushed.get(path, b"") for path in now}
                elif place.parent == folder:
                    self.flushed[place.name] = now.get(place.name, b"")
                    if place.name in self.safe:
                        self.safe[place.name] = self.flushed[place.name]
            if name == "rename":
                source, target = (Path(str(one)).name for one in args)
                self.flushed[target] = self.flushed.pop(source, b"")
            self.states.append((dict(self.safe), now))
            return found

        return noted


def test_a_loss_of_power_costs_the_tail_alone(tmp_path: Path) -> None:
    folder, found = tmp_path / "s", tmp_path / "found"
    with pytest.MonkeyPatch.context() as patch:
        power = Power(patch, folder)
        writer = StreamWriter(folder)
        for number in range(80):
            writer.append(record(number))
        writer.sync()
        writer.close()
    assert len(power.states) > 80
    least = 0
    for safe, seen in power.states:
        for state in (safe, seen, {**seen, **safe}, {**safe, **{name: seen[name] for name in seen if name in safe}}):
            shutil.rmtree(found, ignore_errors=True)
            found.mkdir()
            for name, data in state.items():
                (found / name).write_bytes(data)
            kept = all_of(found)
            assert whole(80).startswith(kept)
            assert len(kept) >= list_of(safe)
        least = max(least, list_of(safe))
    assert least > SEAL * 3
    assert all_of(folder) == whole(80)


def list_of(state: dict[str, bytes]) -> int:
    """Return how much of a stream is sealed on a disk."""
    return listing_of(list(state)).sealed_end


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def to_another_place(path: Path) -> None:
    segment = segment_in(path.name)
    assert segment is not None
    path.rename(path.with_name(SealedSegment(segment.place + 5, segment.length, segment.checksum).name))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "another's": lambda path: path.write_bytes(sealed(0, b"other\n")[1]),
    "missing": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_name("1-2-3.gz")),
    "at another place": to_another_place,
}


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_segment_is_passed_over_and_counted(tmp_path: Path, how: str, which: int) -> None:
    a_stream(tmp_path)
    listing = list_stream(tmp_path)
    hurt = listing.segments[which]
    DAMAGE[how](tmp_path / hurt.name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reader = StreamReader(tmp_path)
    parts = reader.stretches(0)
    assert b"".join(part.data or b"" for part in parts) == whole()[: hurt.place] + whole()[hurt.end :]
    lost = [part for part in parts if part.data is None]
    assert sum(part.end - part.begin for part in lost) == hurt.length
    assert len(reader.lost) == len(lost) <= 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    a_stream(tmp_path, 40, 110)  # a writer goes on behind it, and changes nothing of it
    assert all_of(tmp_path) == whole(150)[: hurt.place] + whole(150)[hurt.end :]


def test_the_tail_of_a_segment_that_is_damaged_is_not_removed(tmp_path: Path) -> None:
    a_stream(tmp_path)
    last = list_stream(tmp_path).segments[-1]
    left = tmp_path / tail_name(last.place)
    left.write_bytes(whole()[last.place : last.end])
    flip(tmp_path / last.name)
    a_stream(tmp_path, 5, 110)
    assert left.exists()
    (tmp_path / last.name).write_bytes(sealed(last.place, whole()[last.place : last.end])[1])
    a_stream(tmp_path, 5, 115)
    assert not left.exists()
    assert all_of(tmp_path) == whole(120)


def test_damage_is_counted_once_however_often_it_is_met(tmp_path: Path) -> None:
    a_stream(tmp_path)
    hurt = list_stream(tmp_path).segments[1]
    flip(tmp_path / hurt.name)
    reader = StreamReader(tmp_path)
    for offset in range(hurt.place, hurt.end, 50):
        reader.stretches(offset, 1)
    assert len(reader.lost) == 1


@pytest.mark.parametrize(
    "name",
    [
        "000000000000000-10-0000000.gz",
        "000000000000000-0-00000000.gz",
        "000000000000000-99999999-00000000.gz",
        "000000000000000-010-00000000.gz",
        "00000000000000\u0663-10-00000000.gz",
        "000000000000000-10-0000000A.gz",
        "000000000000000-10-00000000.gz.tmp",
        "-1.tail",
    ],
)
def test_names_that_no_segment_has_are_skipped(name: str) -> None:
    assert listing_of([name]) == ((), None)


def test_of_two_segments_with_one_place_the_one_counts_that_the_next_one_joins() -> None:
    first, second, last = SealedSegment(0, 100, 1), SealedSegment(0, 110, 2), SealedSegment(110, 50, 3)
    assert listing_of([one.name for one in (first, second, last)]) == ((second, last), None)
    assert listing_of([first.name, second.name, tail_name(110)]) == ((second,), 110)
    assert listing_of([first.name, second.name]) == ((first,), None)


def test_a_segment_that_unpacks_to_more_than_its_name_tells_is_damaged() -> None:
    segment, data = sealed(0, b"x" * 5_000_000 + b"\n")
    assert plain_of(segment, data) is not None
    assert plain_of(SealedSegment(0, 100, segment.checksum), data) is None


def test_a_disk_that_takes_no_segment_lets_the_tail_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, rename = StreamWriter(tmp_path), os.rename

    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    for number in range(60):
        writer.append(record(number))
    assert list_stream(tmp_path).segments == ()
    assert all_of(tmp_path) == whole(60)
    monkeypatch.setattr(os, "rename", rename)
    for number in range(60, 110):
        writer.append(record(number))
    writer.close()
    assert list_stream(tmp_path).segments[0].length > 3 * SEAL
    assert all_of(tmp_path) == whole()


def test_of_a_stream_that_keeps_its_end_alone_the_older_segments_go(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path, keeps=2)
    for number in range(200):
        writer.append(record(number))
    reader = StreamReader(tmp_path)
    assert len(list_stream(tmp_path).segments) == 2
    assert reader.begin() > 0
    assert whole(200).endswith(b"".join(part.data or b"" for part in reader.stretches(reader.begin())))
    assert reader.lost == set()
