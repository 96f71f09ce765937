"""The file of a journal, as it is read: a head with the version, then a line for each record, only ever appended.

A line is a `RecordRow` as JSON, written by one call, and counts once it is whole. Behind the last one may be zeros:
space that is reserved for later records. A block that was never written, as after a loss of power, reads as zeros, too,
and JSON has none. So a journal ends at its first zero, and what is behind the last newline before that is a record that
was never finished, and so never confirmed.

A reader takes no lock and writes nothing. Records do not change, so it goes on where it was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from actions.base.decoding import decode_json, json_decoder
from actions.base.errors import JournalError
from actions.run.state.records import JournalRecord, decode_body

SCHEMA_VERSION = 1
MOST_RECORDS = 50_000
"""A run of a month has some hundred: a journal with more is not one, and takes minutes and gigabytes to read."""
MOST_BYTES = 64 << 20
"""More than any journal reaches, below 1 MB after a month; a larger file is not a journal."""
_CHUNK_BYTES = 1 << 20
_LOOK_BYTES = 16 << 10
_LOOKS = 3
"""A page of a write may be seen before the one in front of it, for a moment."""


class RecordRow(NamedTuple):
    """One record, its body as the text that is stored."""

    seq: int
    at: float
    writer: str
    kind: str
    stage: str
    attempt: int
    json: str


_ROWS: msgspec.json.Decoder[RecordRow] = json_decoder(RecordRow)


class _Head(msgspec.Struct, frozen=True):
    """The first line of a journal."""

    journal: int
    """Its version."""


HEAD = msgspec.json.encode(_Head(SCHEMA_VERSION)) + b"\n"


def damaged(path: Path, detail: str) -> JournalError:
    """Return the error for a journal with unexpected content."""
    return JournalError(
        f"{path} is damaged: {detail}.",
        hint="Copy the run's folder away; what the run made is found in the cluster by the label eksml.dev/run.",
    )


def open_journal(path: Path, flags: int) -> int:
    """Return a descriptor of a journal.

    Raises:
        JournalError: It does not exist, or is not a journal's file.
        OSError: It cannot be opened for another reason.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise JournalError(f"{path} does not exist.", hint="Name an existing run.") from error
    except IsADirectoryError as error:
        raise JournalError(f"{path} is not a file.", hint="Move it away.") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise JournalError(f"{path} is not a file.", hint="Move it away.")
        if status.st_size > MOST_BYTES:
            raise JournalError(f"{path} has {status.st_size} bytes: it is not a journal.", hint="Move it away.")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class JournalFile:
    """The places of the records in one journal's file, as far as it was read.

    Args:
        path: The file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: list[int] = []
        self.end = 0
        """Offset behind the last record; 0 before the first look."""

    @property
    def last_seq(self) -> int:
        """Number of the newest record; 0 if there is none."""
        return len(self._places)

    def take(self, descriptor: int) -> bytes:
        """Find the records that were added since the last call. Returns what is unfinished behind them.

        Raises:
            JournalError: It is damaged, or has another version.
        """
        if self.end and not os.pread(descriptor, 1, self.end).strip(b"\0"):
            return b""
        for _ in range(_LOOKS):
            data = _content(descriptor, self.end, is_first=not self.end)
            sound = data.partition(b"\0")[0]
            whole = sound[: sound.rfind(b"\n") + 1]
            is_broken = b"\n" in data[len(whole) : -1]  # a record behind one that is not whole
            if not is_broken:
                break
        if self.last_seq + whole.count(b"\n") > MOST_RECORDS + 1:
            raise damaged(self._path, f"it has more than {MOST_RECORDS} records, which no run writes")
        lines = whole.split(b"\n")[:-1]
        if not self.end:
            self._require_head(lines, data)
        if is_broken:
            raise damaged(self._path, f"record {self.last_seq + len(lines) + bool(self.end)} is not whole")
        place = self.end
        for line in lines:
            if place:
                self._places.append(place)
            place += len(line) + 1
        self.end = place
        return data[len(whole) :]

    def rows(self, descriptor: int, after: int, limit: int = MOST_RECORDS) -> list[RecordRow]:
        """Return at most `limit` rows with a number above `after`, of those that were found.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        places = [*self._places, self.end][after : after + limit + 1]
        if len(places) < 2:
            return []
        lines = os.pread(descriptor, places[-1] - places[0], places[0]).split(b"\n")[:-1]
        return [_row_in(self._path, line, seq) for seq, line in enumerate(lines, start=after + 1)]

    def newest(self, descriptor: int) -> bytes:
        """Return the bytes of the newest record, or of the head, as they are now: in one file they never change."""
        place = self._places[-1] if self._places else 0
        return os.pread(descriptor, self.end - place, place)

    def _require_head(self, lines: Sequence[bytes], data: bytes) -> None:
        if not data:
            raise damaged(self._path, "it is empty")
        try:
            version = decode_json(lines[0] if lines else b"", _Head).journal
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise damaged(self._path, "it is not a journal") from error
        if version != SCHEMA_VERSION:
            raise JournalError(
                f"{self._path} has version {version}; this program reads version {SCHEMA_VERSION}.",
                hint="Another version of eksml-tui has written it: use that one.",
            )


def _content(descriptor: int, place: int, *, is_first: bool) -> bytes:
    """Return the content of a file from an offset on, without the zeros at its end; later ones only up to the first."""
    parts: list[bytes] = []
    while part := os.pread(descriptor, _CHUNK_BYTES if is_first else _LOOK_BYTES, place):
        parts.append(part)
        place += len(part)
        if place > MOST_BYTES or not (is_first or part[-1]):
            break
    return b"".join(parts).rstrip(b"\0")


def _row_in(path: Path, line: bytes, seq: int) -> RecordRow:
    try:
        row = _ROWS.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise damaged(path, f"record {seq} cannot be read ({error})") from error
    if row.seq != seq:
        raise damaged(path, f"record {seq} is missing")
    return row


def record_of(path: Path, row: RecordRow) -> JournalRecord:
    """Return a row's record.

    Raises:
        JournalError: It cannot be read.
    """
    try:
        return JournalRecord(row.seq, row.at, row.writer, row.stage, row.attempt, decode_body(row.json))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise damaged(path, f"record {row.seq} cannot be read ({error})") from error


class JournalReader:
    """The polling reader of one journal. One thread may use it; keeps no file open.

    Args:
        path: The journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = JournalFile(path)
        self._newest = b""

    def read(self) -> tuple[list[JournalRecord], bool]:
        """Return the records since the last call, and whether they are of another file: one that has taken the name.

        Raises:
            JournalError: It does not exist, cannot be read, or is damaged.
        """
        with _opened(self._path) as descriptor:
            is_other = bool(self._file.end) and self._file.newest(descriptor) != self._newest
            file = JournalFile(self._path) if is_other else self._file
            before = file.last_seq
            file.take(descriptor)
            if not file.last_seq:
                raise damaged(self._path, "it has no records")
            records = [record_of(self._path, row) for row in file.rows(descriptor, before)]
            self._file, self._newest = file, file.newest(descriptor)
        return records, is_other


def read_stored(path: Path) -> list[RecordRow]:
    """Return all records of a journal, oldest first, with their bodies as stored.

    Raises:
        JournalError: It cannot be read.
    """
    with _opened(path) as descriptor:
        file = JournalFile(path)
        file.take(descriptor)
        return file.rows(descriptor, 0)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = open_journal(path, os.O_RDONLY)
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}.", hint="Check its rights.") from error
    try:
        yield descriptor
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}.", hint="Check its rights.") from error
    finally:
        os.close(descriptor)
