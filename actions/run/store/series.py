"""Append-only files of a run in its store, as ranges of whole lines: points, accelerators, and the logs' sources.

An object holds the lines from the byte in its name on. The last one grows, by writes on the condition of the one
before, until it has `TAIL_BYTES`; then the next one begins. So a curve of weeks is some objects, not one for each
write. A file that was mended, or comes from another machine, is rewritten under the next generation, its first
object last; readers take the last generation that has its first object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from actions.base.executors import in_thread
from actions.base.files import open_file
from actions.base.names import is_segment
from actions.base.objects import ListedObject, PreconditionError
from actions.run.context.store_address import run_key
from actions.run.journal.folder import logs_path, series_path
from actions.run.store.objects import RunStore

TAIL_BYTES = 256 << 10
"""Size from which on an object is not written again."""
_READ_BYTES = 4 << 20
POINTS, DEVICES, SOURCES = "points.jsonl", "accelerators.jsonl", "sources.jsonl"
_FILES = (POINTS, DEVICES, SOURCES)
_GENERATION = re.compile(r"[0-9]{6}-[0-9]{6}")
_OFFSET = re.compile(r"[0-9]{12,15}")


class SeriesPart(msgspec.Struct, frozen=True):
    """One object of a file."""

    stage: str
    file: str
    generation: str
    """`EPOCH-NUMBER`, in the order of texts."""
    begin: int
    size: int
    etag: str
    name: str

    @property
    def place(self) -> tuple[str, str]:
        """Stage and name of the file."""
        return self.stage, self.file

    @property
    def end(self) -> int:
        """The offset in the file behind its last byte."""
        return self.begin + self.size


def series_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield stage and name of each replicated file that a run has."""
    for stages, name in ((folder / "logs", SOURCES), (folder / "series", POINTS), (folder / "series", DEVICES)):
        try:
            found = sorted(entry.name for entry in os.scandir(stages) if entry.is_dir())
        except FileNotFoundError:
            continue
        for stage in found:
            if (stages / stage / name).exists():
                yield stage, name


def series_file(folder: Path, stage: str, file: str) -> Path:
    """Return the place of such a file in a run's folder."""
    return (logs_path(folder, stage) if file == SOURCES else series_path(folder, stage)) / file


def parts_of(listed: Sequence[ListedObject], run_id: str) -> dict[tuple[str, str], list[SeriesPart]]:
    """Return the objects of each file's last generation, by stage and file, in their order; others are skipped."""
    known = [part for part in (_part_of(item, run_id) for item in listed) if part is not None]
    newest: dict[tuple[str, str], str] = {}
    for part in known:
        if part.begin == 0:
            newest[part.place] = max(part.generation, newest.get(part.place, ""))
    found: dict[tuple[str, str], list[SeriesPart]] = {}
    for part in sorted(known, key=lambda part: part.begin):
        if part.generation == newest.get(part.place):
            found.setdefault(part.place, []).append(part)
    return found


def _part_of(item: ListedObject, run_id: str) -> SeriesPart | None:
    places = item.key.removeprefix(run_key(run_id, "series/")).split("/")
    if len(places) != 4 or not is_segment(places[0]) or places[1] not in _FILES:
        return None
    if not (_GENERATION.fullmatch(places[2]) and _OFFSET.fullmatch(places[3])):
        return None
    return SeriesPart(places[0], places[1], places[2], int(places[3]), item.size, item.etag, item.key)


class FileReplica:
    """The replication of one append-only file.

    Args:
        store: The store.
        run_id: The run.
        folder: The run's.
        stage: Of the file.
        file: Its name.
        epoch: Of the lease.
    """

    def __init__(self, store: RunStore, run_id: str, folder: Path, stage: str, file: str, *, epoch: int) -> None:
        self._store = store
        self._prefix = run_key(run_id, f"series/{stage}/{file}/")
        self._run_id = run_id
        self._path = series_file(folder, stage, file)
        self._epoch = epoch
        self._number = 0
        self._inode = 0
        self._seen = (0, 0)
        self._begin = 0
        self._tail = b""
        self._etag = ""
        self._is_new = True
        """The store has nothing of this generation, or not its first object."""

    async def push(self) -> None:
        """Write what the file has more than the store. Cheap while it does not grow.

        Raises:
            ConsoleError: As `S3Bucket`.
            OSError: The file cannot be read.
        """
        status = self._path.stat()
        if (status.st_ino, status.st_size) == self._seen:
            return
        if status.st_ino != self._inode or status.st_size < self._begin + len(self._tail):
            await self._begin_anew()
            self._inode = status.st_ino
        while await self._push_part():
            pass
        self._seen = (status.st_ino, status.st_size)

    async def _push_part(self) -> bool:
        """Write one object; return whether there may be more to write."""
        if self._is_new:
            return await self._write_new()
        data = await in_thread("store-read", _read_at, self._path, self._begin, max(TAIL_BYTES, len(self._tail)) + 1)
        lines = _whole(data, TAIL_BYTES)
        if not lines.startswith(self._tail):  # mended in place
            await self._begin_anew(is_known=False)
            return True
        if len(lines) > len(self._tail):
            try:
                await self._write(lines)
            except PreconditionError as error:
                if error.found is None or not lines.startswith(error.found.body):
                    await self._begin_anew(is_known=False)
                    return True
                self._tail, self._etag = error.found.body, error.found.etag  # an earlier write that took
                return True
        if not lines or len(data) <= len(lines):
            return False
        self._begin, self._tail, self._etag = self._begin + len(lines), b"", ""
        return True

    async def _write_new(self) -> bool:
        """Write the objects of a new generation, its first one last: until then readers take the generation before.

        Returns:
            True if something was written, and there may be more.
        """
        self._begin, self._tail, self._etag = 0, b"", ""
        first, begin = b"", 0
        while True:
            data = await in_thread("store-read", _read_at, self._path, begin, TAIL_BYTES + 1)
            lines = _whole(data, TAIL_BYTES)
            if begin and lines:
                self._begin, self._etag = begin, ""
                await self._write_over(lines)
            first = first or lines
            begin += len(lines)
            if not lines or len(data) <= len(lines):
                break
        if not first:
            return False
        later = self._begin, self._tail, self._etag
        self._begin, self._etag = 0, ""
        await self._write_over(first)
        if later[0]:
            self._begin, self._tail, self._etag = later
        self._is_new = False
        return True

    async def _write_over(self, lines: bytes) -> None:
        """Write an object that the store has not, or has from an earlier write whose answer was lost."""
        try:
            await self._write(lines)
        except PreconditionError as error:
            if error.found is None or not lines.startswith(error.found.body):
                self._number += 1  # the next push begins with it
                raise
            self._tail, self._etag = error.found.body, error.found.etag
            if self._tail != lines:
                await self._write(lines)

    async def _write(self, lines: bytes) -> None:
        name = f"{self._prefix}{self._generation}/{self._begin:012}"
        if self._etag:
            receipt = await self._store.replace(name, lines, etag=self._etag)
        else:
            receipt = await self._store.put_if_absent(name, lines)
        self._tail, self._etag = lines, receipt.etag

    @property
    def _generation(self) -> str:
        return f"{self._epoch:06}-{self._number:06}"

    async def _begin_anew(self, *, is_known: bool = True) -> None:
        """Go on behind what the store has of this file and epoch, if that is what the file has; else from its begin."""
        listed = await self._store.objects(self._prefix)
        parts = [part for part in (_part_of(item, self._run_id) for item in listed) if part is not None]
        own = [part for part in parts if part.generation.startswith(f"{self._epoch:06}-")]
        newest = max((part.generation for part in own), default="")
        self._number = int(newest.partition("-")[2] or 0) if newest else 0
        parts = [part for part in own if part.generation == newest]
        last = max(parts, key=lambda part: part.begin, default=None)
        self._begin, self._tail, self._etag, self._is_new = 0, b"", "", True
        if last is None:
            return
        is_known = is_known and any(part.begin == 0 for part in parts)
        found = await self._store.get(last.name)
        here = await in_thread("store-read", _read_at, self._path, last.begin, last.size)
        if is_known and found is not None and found.body == here:
            self._begin, self._tail, self._etag = last.begin, found.body, found.etag
            self._is_new = False
        else:
            self._number += 1


def _read_at(path: Path, offset: int, size: int) -> bytes:
    """Return bytes of a file, and so many more that a line which is longer than `size` is whole."""
    with open_file(path) as file:
        file.seek(offset)
        data = file.read(size)
        if len(data) == size and b"\n" not in data:
            data += file.readline(_READ_BYTES)
    return data


def _whole(data: bytes, limit: int) -> bytes:
    """Return as many whole lines as `limit` bytes have, at least one if there is one."""
    end = data.rfind(b"\n", 0, limit) + 1
    return data[: end or data.find(b"\n") + 1]
