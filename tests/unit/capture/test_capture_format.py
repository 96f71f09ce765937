"""The file of a capture: what is written is read again, cut files are read as far as they go, others are refused."""

from __future__ import annotations

import errno
import gzip
import os
import random
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from actions.base.errors import ConfigError, UnreadableError
from actions.capture.entries import (
    ENTRY_BYTES,
    FIRST_LINE,
    AnswerPart,
    AnyEntry,
    Began,
    Connected,
    JournalRow,
    RunFile,
    RunLived,
    RunShown,
    RunWritten,
    Stopped,
    encoded,
)
from actions.capture.reader import CaptureReader
from actions.capture.writer import CaptureWriter
from tests.support.captures import WALL, MadeCapture, MovedClock
from tests.support.polling import wait

SOME: tuple[AnyEntry, ...] = (
    Connected(at=0.5, session=1, context="a", cluster="b", server="https://c"),
    AnswerPart(at=1.0, id=7, data=bytes(range(256))),
    RunWritten(at=1.5, run="r-1", rows=(JournalRow(1, WALL, "operator", "", 0, "created", "{}"),)),
    RunLived(at=2.0, run="r-1", is_alive=True, notes={"train": "half"}),
    RunShown(at=2.0, run="r-1"),
    RunFile(at=2.5, run="r-1", path="logs/train/lines.log", data=b"x\n"),
)


def read(file: Path) -> list[AnyEntry]:
    return list(CaptureReader(file).entries())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.capture"
    writer = CaptureWriter(file, program="1", region="us-west-2", demo_speed=6.0, clock=MovedClock())
    for record in SOME:
        writer.put(record)
    writer.put_work(lambda: [AnswerPart(at=3.0, id=8, data=b"late")], 4)
    writer.close()
    began, *rest = read(file)
    assert isinstance(began, Began)
    assert (began.wall, began.program, began.region, began.demo_speed) == (WALL, "1", "us-west-2", 6.0)
    assert [record for record in rest if type(record).__name__ != "Ticked"] == [
        *SOME, AnswerPart(at=3.0, id=8, data=b"late"), Stopped(at=0.0),
    ]  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_was_written_is_in_the_file_before_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.capture"
    writer = CaptureWriter(file, clock=MovedClock())
    writer.put(SOME[0])
    wait(lambda: SOME[0] in read(file), "the first record to be readable while the capture goes on")
    assert CaptureReader(file).is_cut is False  # before it is read, nothing is known
    writer.close()


def test_a_file_that_is_cut_anywhere_is_read_up_to_there(tmp_path: Path) -> None:
    made = MadeCapture()
    number = made.watch(1.0, "/api/v1/pods")
    for second in range(200):
        made.part(2.0 + second, number, os.urandom(100))
    whole = gzip.compress(made.data())
    file = tmp_path / "cut.capture"
    most = 0
    for end in range(200, len(whole), 251):
        file.write_bytes(whole[:end])
        reader = CaptureReader(file)
        found = list(reader.entries())
        assert reader.is_cut
        assert found == made.records[: len(found)]
        most = max(most, len(found))
    assert most > 150


def test_it_ends_at_its_limit_and_says_so(tmp_path: Path) -> None:
    file, told = tmp_path / "a.capture", list[str]()
    writer = CaptureWriter(file, limit_bytes=100_000, clock=MovedClock(), changed=lambda: told.append("changed"))
    for number in range(200):
        writer.put(AnswerPart(id=number, data=os.urandom(1000)), 1000)
    wait(lambda: writer.stopped, "the limit")
    writer.close()
    assert file.stat().st_size <= 100_000
    last = read(file)[-1]
    assert isinstance(last, Stopped)
    assert last.why == writer.stopped == "it has reached its limit of 100,000 bytes"
    assert told == ["changed"]
    writer.put(SOME[0])  # nothing more, and no error


def test_a_full_disk_ends_the_capture_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = CaptureWriter(tmp_path / "a.capture", clock=MovedClock())

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    for number in range(1000):
        writer.put(AnswerPart(id=number, data=os.urandom(10_000)), 10_000)
    wait(lambda: writer.stopped, "the end")
    assert "No space left on device" in writer.stopped
    writer.close()


def test_what_waits_for_a_slow_disk_is_bounded(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.capture", clock=MovedClock())
    is_taken = threading.Event()

    def slow() -> list[AnyEntry]:
        is_taken.wait()
        return []

    for work in (slow, *[list[AnyEntry]] * 5):
        writer.put_work(work, 20 << 20)
    assert writer.stopped == "the disk takes it too slowly"
    is_taken.set()
    writer.close()


def test_a_file_that_exists_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.capture"
    file.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="exists, and a capture does not replace it"):
        CaptureWriter(file)
    assert file.read_bytes() == b"precious"
    with pytest.raises(ConfigError, match="cannot be written"):
        CaptureWriter(tmp_path)


def _packed(*records: bytes) -> bytes:
    return gzip.compress(FIRST_LINE + b"".join(records))


def _bomb() -> bytes:
    """Two hundred megabytes of nothing, in two hundred kilobytes."""
    return gzip.compress(FIRST_LINE + BEGAN + bytes(200 << 20), compresslevel=1)


def _raw(value: object) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(4, "big") + data


BEGAN = encoded(Began(wall=WALL))
NOISE = _packed(BEGAN, *(encoded(AnswerPart(id=1, data=random.Random(n).randbytes(1000))) for n in range(600)))
HOSTILE: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "nothing": (b"", "not a capture"),
    "text": (b"hello\n", "not packed by gzip"),
    "another": (gzip.compress(b"hello"), "not a capture"),
    "newer": (gzip.compress(b"eksml-capture 7\nrest"), "has version '7', and this program reads 1"),
    "empty": (gzip.compress(FIRST_LINE), "it is empty"),
    "no begin": (_packed(encoded(SOME[0])), "its first entry is not the one that begins it"),
    "twice": (_packed(BEGAN, BEGAN), "it begins twice"),
    "torn": (_packed(BEGAN, encoded(SOME[0])[:-3]), "it ends in the middle of an entry"),
    "long": (_packed(BEGAN, (ENTRY_BYTES + 1).to_bytes(4, "big")), "none may have more than"),
    "zero": (_packed(BEGAN, bytes(4)), "an entry has 0 bytes"),
    "garbage": (_packed(BEGAN, b"\0\0\0\x04\xc1\xc1\xc1\xc1"), "an entry cannot be read"),
    "unknown": (_packed(BEGAN, _raw({"type": "surprise"})), "an entry cannot be read"),
    "wrong type": (_packed(BEGAN, _raw({"type": "part", "id": "x", "data": b""})), "an entry cannot be read"),
    "no time": (_packed(BEGAN, _raw({"type": "part", "at": -5.0, "id": 1, "data": b""})), "an invalid time"),
    "nan": (_packed(BEGAN, _raw({"type": "part", "at": float("nan"), "id": 1, "data": b""})), "an invalid time"),
    "far": (_packed(encoded(Began(wall=1e300))), "an invalid time"),
    "long ago": (_packed(encoded(Began(wall=-1e18))), "an invalid time"),
    "late": (_packed(BEGAN, _raw({"type": "part", "at": 1e300, "id": 1, "data": b""})), "an invalid time"),
    "tick": (_packed(BEGAN, _raw({"type": "ticked", "at": 1.0, "wall": 1e300})), "an invalid time"),
    "deep": (_packed(BEGAN, (5000).to_bytes(4, "big") + b"\x91" * 5000), "an entry cannot be read"),
    "more": (_packed(BEGAN) + b"more", "something follows its end"),
    "bomb": (_bomb, "."),
    "one bit": (NOISE[:200_500] + bytes([NOISE[200_500] ^ 1]) + NOISE[200_501:], "it is damaged"),
    "damaged": (NOISE[:200_000] + b"\xff" * 300 + NOISE[200_300:], "."),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    data, sentence = HOSTILE[name]
    file = tmp_path / "hostile.capture"
    file.write_bytes(data if isinstance(data, bytes) else data())
    from actions.replay.index import read_index

    with pytest.raises(UnreadableError) as caught:
        read_index(CaptureReader(file))
    told = caught.value.sentence()
    assert sentence in told
    assert str(file) in told
    assert "\n" not in told
    assert len(told) < 400


def test_a_bomb_is_given_up_early(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    record = encoded(AnswerPart(id=1, data=bytes(1 << 20)))
    file = tmp_path / "bomb.capture"
    file.write_bytes(packer.compress(FIRST_LINE + BEGAN + record * 300) + packer.flush())
    reader = CaptureReader(file)
    with pytest.raises(UnreadableError, match="400 times its size"):
        list(reader.entries())
    assert reader.unpacked_bytes < 300 << 20


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UnreadableError, match=str(file)):
            read(file)
