"""Reading the spool of one stage while it grows: lines and findings by offset."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from actions.base.errors import FormatError
from actions.cluster.logrecords import line_in
from actions.run.spoolformat import (
    AcceleratorSample,
    EndLine,
    Finding,
    PointLine,
    ProgressLine,
    SourceLine,
    accelerators_file,
    check_records,
    finding_of_line,
    lines_file,
    points_file,
    source_in,
    sources_file,
    whole_lines,
    without_places,
)

CHUNK_BYTES = 1 << 20
_FINDINGS: msgspec.json.Decoder[PointLine | ProgressLine] = msgspec.json.Decoder(PointLine | ProgressLine)


class SpooledLine(msgspec.Struct, frozen=True, gc=False):
    """One line of one container."""

    at_ns: int
    """The server's timestamp, nanoseconds since the epoch."""
    pod: str
    container: str
    text: str
    """Cleaned, without newline; may hold SGR colours and `\\r`."""
    is_marker: bool
    """A line of ours: a restart, a gap."""


class SpooledFinding(msgspec.Struct, frozen=True):
    """A point of a curve or a state of progress, with the pod that printed it."""

    pod: str
    finding: Finding


class SpoolReader:
    """Reads what a runner spools for one stage. Cheap while nothing grows; any number of readers.

    Args:
        folder: The run's.
        stage: Id of the stage. It need not have begun.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self._folder = folder
        self._stage = stage
        self._sources: dict[int, SourceLine] = {}
        self._ends: dict[int, EndLine] = {}
        self._sources_offset = 0

    def lines(self, from_offset: int = 0, *, limit_bytes: int = CHUNK_BYTES) -> tuple[list[SpooledLine], int]:
        """Lines from `from_offset` on, at most about `limit_bytes` of them, and where to go on.

        Lines of one container are in order; containers are interleaved as they arrived.

        Raises:
            FormatError: The spool is damaged.
        """
        records, end = self.records(from_offset, limit_bytes=limit_bytes)
        return [self._line_of(record) for record in records], end

    def records(self, from_offset: int = 0, *, limit_bytes: int = CHUNK_BYTES) -> tuple[list[bytes], int]:
        """The same as records of `actions.cluster.logrecords`, which many lines at once are handled as.

        Raises:
            FormatError: The spool is damaged.
        """
        records, end = self.raw_records(from_offset, limit_bytes=limit_bytes)
        return without_places(records), end

    def records_at(self, places: Iterable[tuple[int, int]]) -> list[bytes]:
        """Records that have been looked at before.

        Args:
            places: Where they begin and end in the file.
        """
        descriptor = os.open(lines_file(self._folder, self._stage), os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = b"".join([os.pread(descriptor, end - begin, begin) for begin, end in places])
        finally:
            os.close(descriptor)
        return without_places(data[:-1].split(b"\n"))

    def raw_records(self, from_offset: int, *, limit_bytes: int) -> tuple[list[bytes], int]:
        """The same as they stand in the file, each as long as it is there without its newline.

        Raises:
            FormatError: The spool is damaged.
        """
        path = lines_file(self._folder, self._stage)
        records, end = whole_lines(path, from_offset, limit_bytes)
        check_records(records, path)
        return records, end

    def pod_of(self, number: int) -> str:
        """The pod of a source, by the number in its records' tag.

        Raises:
            FormatError: There is no such source.
        """
        return self._source(number).pod

    def tail_offset(self, size_bytes: int) -> int:
        """An offset for `lines` at most `size_bytes` before the end, at the beginning of a line."""
        path = lines_file(self._folder, self._stage)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0
        start = max(size - size_bytes, 0)
        if start:
            with path.open("rb") as file:
                file.seek(start - 1)
                start += len(file.readline()) - 1
        return start

    def findings(self, from_offset: int = 0, *, limit_bytes: int = CHUNK_BYTES) -> tuple[list[SpooledFinding], int]:
        """Points and progress from `from_offset` on, and where to go on.

        Raises:
            FormatError: The spool is damaged.
        """
        path = points_file(self._folder, self._stage)
        raws, end = whole_lines(path, from_offset, limit_bytes)
        found = []
        for raw in raws:
            try:
                line = _FINDINGS.decode(raw)
            except msgspec.MsgspecError as error:
                raise FormatError(f"{path} holds a line that cannot be read: {error}.") from error
            number = line.number if line.number >= 0 else -1 - line.number
            found.append(SpooledFinding(self._source(number).pod, finding_of_line(line)))
        return found, end

    def accelerators(self) -> dict[str, AcceleratorSample]:
        """The newest sample of each pod; empty if there are none."""
        try:
            data = accelerators_file(self._folder, self._stage).read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(data, type=dict[str, AcceleratorSample])
        except msgspec.MsgspecError as error:
            raise FormatError(f"The accelerator samples of {self._stage} cannot be read: {error}.") from error

    def exit_codes(self) -> dict[str, int | None]:
        """How containers ended whose log is complete, by `pod/container`; `None` if nobody knows."""
        self._read_sources()
        found = {}
        for number, end in self._ends.items():
            source = self._sources[number]
            found[f"{source.pod}/{source.container}"] = end.exit_code
        return found

    def has_lines(self) -> bool:
        """Whether any container has printed anything."""
        try:
            return lines_file(self._folder, self._stage).stat().st_size > 0
        except FileNotFoundError:
            return False

    def _line_of(self, record: bytes) -> SpooledLine:
        source, line = self._source(source_in(record)), line_in(record)
        return SpooledLine(line.at_ns, source.pod, source.container, line.text, line.is_marker)

    def _source(self, number: int) -> SourceLine:
        if number not in self._sources:
            self._read_sources()
        if number not in self._sources:
            raise FormatError(f"The spool of {self._stage} speaks of a container {number} that it does not name.")
        return self._sources[number]

    def _read_sources(self) -> None:
        path = sources_file(self._folder, self._stage)
        raws, self._sources_offset = whole_lines(path, self._sources_offset)
        for raw in raws:
            try:
                line = msgspec.json.decode(raw, type=SourceLine | EndLine)
            except msgspec.MsgspecError as error:
                raise FormatError(f"{path} holds a line that cannot be read: {error}.") from error
            if isinstance(line, SourceLine):
                self._sources[line.number] = line
            else:
                self._ends[line.number] = line
