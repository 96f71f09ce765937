"""Output on a disk that takes nothing, or too little; readers need no right to write; the limit of a log is said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.cluster.logs.lines import LogLine
from actions.run.output import program_log as toollog
from actions.run.output import writer as output
from actions.run.output.program_log import ProgramLog
from actions.run.output.reader import OutputReader
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import stored_losses
from actions.run.output.writer import OutputWriter
from tests.support.smalldisk import a_small_disk
from tests.support.streams import append_raw
from tests.unit.run.test_output import losses, step, texts, write

STAGE = "train"


class Disk:
    """Refuses what is appended to a stream of this name; `*` for all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = ""
        append = StreamWriter.append

        def refuse(stream: StreamWriter, data: bytes) -> None:
            if self.refused and self.refused in ("*", stream.folder.name):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            append(stream, data)

        monkeypatch.setattr(StreamWriter, "append", refuse)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def a_writer(folder: Path) -> tuple[OutputWriter, output.OutputSource]:
    writer = OutputWriter(folder, STAGE)
    return writer, writer.source("default", "worker-0", "pytorch", "uid-worker-0")


def test_points_that_had_no_room_are_made_up_by_the_next_write(tmp_path: Path, disk: Disk) -> None:
    writer, source = a_writer(tmp_path)
    writer.write_lines(source, [step(1)])
    disk.refused = "points"
    writer.write_lines(source, [step(2)])  # the line has room, its point has not
    with pytest.raises(OSError, match="No space"):
        writer.write_lines(source, [step(3)])
    assert (texts(tmp_path), losses(tmp_path)) == ([step(1).text, step(2).text], [(1, 2.99)])
    disk.refused = ""
    writer.write_lines(source, [step(3)])
    assert texts(tmp_path) == [step(number).text for number in (1, 2, 3)]
    assert losses(tmp_path) == [(1, 2.99), (2, 2.98), (3, 2.97)]
    writer.close()


def test_points_that_had_no_room_are_made_up_by_the_next_runner(tmp_path: Path, disk: Disk) -> None:
    writer, source = a_writer(tmp_path)
    disk.refused = "points"
    writer.write_lines(source, [step(1)])
    writer.close()
    disk.refused = ""
    again, source = a_writer(tmp_path)
    assert (losses(tmp_path), source.cursor.at_ns) == ([], step(1).at_ns)
    again.write_lines(source, [step(2)])
    again.close()
    assert losses(tmp_path) == [(1, 2.99), (2, 2.98)]


def test_a_line_that_has_no_room_moves_nothing(tmp_path: Path, disk: Disk) -> None:
    writer, source = a_writer(tmp_path)
    writer.write_lines(source, [step(1)])
    disk.refused = "lines"
    before = source.cursor
    with pytest.raises(OSError, match="No space"):
        writer.write_lines(source, [step(2)])
    assert (source.cursor, losses(tmp_path)) == (before, [(1, 2.99)])
    disk.refused = ""
    writer.write_lines(source, [step(2)])
    writer.close()
    assert (texts(tmp_path), losses(tmp_path)) == ([step(1).text, step(2).text], [(1, 2.99), (2, 2.98)])


def test_an_end_without_room_is_told_later(tmp_path: Path, disk: Disk) -> None:
    writer, source = a_writer(tmp_path)
    writer.write_lines(source, [step(1)])
    disk.refused = "sources"
    with pytest.raises(OSError, match="No space"):
        writer.write_end(source, 0, "Completed")
    assert not source.is_ended
    disk.refused = ""
    writer.write_end(source, 0, "Completed")
    writer.close()
    assert OutputReader(tmp_path, STAGE).exit_codes() == {"worker-0/pytorch": 0}


def test_more_than_the_limit_is_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_LINES_BYTES", 1000)
    writer, source = a_writer(tmp_path)
    for number in range(20):
        writer.write_lines(source, [step(number)])
    kept = len([line for line in OutputReader(tmp_path, STAGE).lines()[0] if not line.is_marker])
    assert 0 < kept < 20
    writer.write_end(source, 0, "Completed")
    (told,) = writer.losses()
    assert f"1,000 bytes are kept; {20 - kept} lines behind them are not, from 22:13:20" in told
    writer.close()
    assert len(losses(tmp_path)) == 19  # of all lines but the first, in which there is none: the curve is whole
    assert stored_losses(tmp_path, STAGE) == (told,)
    marks = [line.text for line in OutputReader(tmp_path, STAGE).lines()[0] if line.is_marker]
    assert marks[0] == "-- 1,000 bytes are kept, and no more --"
    again, source = a_writer(tmp_path)
    assert source.is_ended
    again.close()


class Journal:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def trouble(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class Work:
    """As much of a stage as a program's log asks for."""

    class stage:  # noqa: N801 - a value, not a kind
        id = STAGE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal()
        self.clock = SystemClock()


def a_log(folder: Path, *, is_adopted: bool = False) -> tuple[ProgramLog, Journal]:
    work = Work(folder)
    return ProgramLog(work, "terraform", "apply", is_adopted=is_adopted), work.journal  # type: ignore[arg-type]


def test_what_a_program_prints_waits_for_room(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toollog, "_PAUSE_SECONDS", 0.0)
    disk.refused = "*"
    log, journal = a_log(tmp_path)
    log.take("one")
    log.take("two")
    assert journal.warnings[-1] == "Its log cannot be kept: No space left on device."
    disk.refused = ""
    log.take("three")
    assert journal.warnings[-1] == ""
    log.close()
    assert texts(tmp_path) == ["one", "two", "three"]


def test_what_a_program_prints_beyond_that_is_counted(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toollog, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(toollog, "MOST_WAITING_BYTES", 8)
    log, _ = a_log(tmp_path)
    log.take("first")
    disk.refused = "*"
    for text in ("1234", "5678", "9012"):
        log.take(text)
    disk.refused = ""
    log.close()
    assert texts(tmp_path)[:3] == ["first", "1234", "5678"]
    assert stored_losses(tmp_path, STAGE) != ()
    assert "1 lines did not fit on the disk" in stored_losses(tmp_path, STAGE)[0]


def test_a_program_that_tells_everything_anew_doubles_nothing(tmp_path: Path) -> None:
    log, _ = a_log(tmp_path)
    log.take("one")
    log.take("two")
    log.close()
    again, _ = a_log(tmp_path, is_adopted=True)
    for text in ("one", "two", "three"):
        again.take(text)
    again.close()
    assert texts(tmp_path) == ["one", "two", "three"]


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def read_all(folder: Path) -> None:
    reader = OutputReader(folder, STAGE)
    assert reader.lines()[0]
    reader.placed_lines(0, limit_bytes=1 << 20)
    reader.values()
    reader.accelerators()
    reader.exit_codes()
    reader.tail_offset(10)
    assert reader.has_lines()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, step(1), LogLine(5, "torn"))
    append_raw(tmp_path, STAGE, "lines", b"\0\0 damaged\nL000000")
    before = contents(tmp_path)
    read_all(tmp_path)
    assert contents(tmp_path) == before


def test_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    with a_small_disk(tmp_path / "disk") as small:
        write(small.path, step(1))
        small.make_read_only()
        read_all(small.path)
        with pytest.raises(OSError, match="Read-only"):
            OutputWriter(small.path, STAGE).open()


def test_a_full_disk_can_be_read(tmp_path: Path) -> None:
    with a_small_disk(tmp_path / "disk") as small:
        write(small.path, step(1))
        small.fill()
        read_all(small.path)
