"""The capture of runs, as far as a console reads them: journals, heartbeats, logs, curves, Terraform's events.

Files are copied as they grow, a whole line at a time. Nothing is taken of a run's kubeconfig, environment, variables
and Terraform states: they may hold secrets, and the console shows nothing of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import JournalError
from actions.base.files import open_file
from actions.capture.entries import PART_BYTES, AnyEntry, JournalRow, RunFile, RunLived, RunWritten
from actions.capture.redaction import redacted_document, redacted_documents, redacted_lines, redacted_text
from actions.capture.writer import CaptureWriter
from actions.run.journal.folder import journal_path, runs_folder
from actions.run.journal.lease import Lease, read_heartbeat, read_runner_lease
from actions.run.journal.snapshot import SnapshotReader
from actions.run.journal.store import translated
from actions.run.output.segments import StreamReader, tail_name
from actions.run.output.streams import LINES, STREAMS, stages_with_output, stream_path

LOOK_SECONDS = 0.5
MOST_RUNS = 100
"""Of so many runs, the newest ones, something is kept."""
_FIRST_BYTES = 64 << 20
"""A file that is longer when the capture begins is left out; so is what is longer all together."""
_FIRST_TOTAL_BYTES = 256 << 20
_LOOK_BYTES = 8 << 20
"""Of one file at one look."""
_QUIET_LOOKS = 6
"""A run whose journal has not changed for so many looks, and that has no runner, is looked at by its journal alone."""
_ROWS_AT_ONCE = 200

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
KEPT = re.compile(
    rf"output/{_NAME}/(?:{'|'.join(STREAMS)})/{re.escape(tail_name(0))}"
    rf"|terraform/{_NAME}/(?:plan|apply|destroy)\.jsonl"
    r"|blueprint/blueprint\.yaml"
)
"""The files of a run's folder that are kept; a replay writes no others. A stream of output is one open end."""
_GROWING = re.compile(r".*\.jsonl")


class _Copied(msgspec.Struct):
    """The position up to which a file has been copied."""

    inode: int
    offset: int
    signature: tuple[int, int]


def _written_at(folder: Path) -> float:
    """Return when a run's journal was written last; the folder's time changes when a summary is kept there."""
    found = [0.0]
    for path in (journal_path(folder), folder / "journal.db-wal"):
        with suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found)


class _RunCopy:
    """One run's folder, as far as it has been copied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.quiet = 0
        self.rows = 0
        self.life: RunLived | None = None
        self.files: dict[str, _Copied] = {}
        self.streams: dict[str, tuple[StreamReader, int]] = {}
        """Each stream with the place up to which it is copied; -1 for one that is left out."""
        self.journal = SnapshotReader(journal_path(folder))
        self.signature: tuple[object, ...] = ()
        self.lease: Lease | None = None


class RunsCapture:
    """The runs of this machine, copied into a capture. One thread may use it.

    Args:
        writer: The capture.
        clock: Time, for heartbeats.
        base: The folder of all runs; empty for the usual one.
    """

    def __init__(self, writer: CaptureWriter, clock: Clock, base: Path | None = None) -> None:
        self._writer = writer
        self._clock = clock
        self._base = base
        self._known: dict[str, _RunCopy] = {}
        self._first_bytes = 0

    def look(self) -> None:
        """Copy what is new. Blocking disk I/O; what cannot be read now is tried again at the next look."""
        for folder in self._folders():
            run = self._known.setdefault(folder.name, _RunCopy(folder))
            try:
                self._look_at(run)
            except (OSError, JournalError, msgspec.MsgspecError):
                continue  # the console shows by itself that it is unreadable

    def _folders(self) -> list[Path]:
        base = self._base or runs_folder()
        try:
            with os.scandir(base) as entries:
                found = [
                    (_written_at(base / entry.name), entry.name)
                    for entry in entries
                    if RUN_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
                ]
        except OSError:
            return []
        return [base / name for _, name in sorted(found, reverse=True)[:MOST_RUNS]]

    def _look_at(self, run: _RunCopy) -> None:
        path = journal_path(run.folder)
        signature = (_signature(path), _signature(path.with_name(f"{path.name}-wal")))
        if signature != run.signature:
            run.signature, run.quiet = signature, 0
            self._copy_rows(run)
        self._copy_life(run)
        if run.life is not None and run.life.is_alive:
            run.quiet = 0
        if run.quiet >= _QUIET_LOOKS:
            return
        run.quiet += 1
        for name in _files_in(run.folder):
            self._copy_file(run, name)
        for stage in stages_with_output(run.folder):
            for stream in STREAMS:
                self._copy_stream(run, stage, stream)

    def _copy_rows(self, run: _RunCopy) -> None:
        connection = run.journal.connect(only_news=run.rows > 0)
        if connection is None:
            return
        with translated(run.folder), closing(connection):
            rows = connection.execute(
                "SELECT seq, at, writer, stage, attempt, kind, json FROM record WHERE seq > ? ORDER BY seq", (run.rows,)
            ).fetchall()
            run.lease = read_runner_lease(connection)
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            few = [JournalRow(*row) for row in rows[begin : begin + _ROWS_AT_ONCE]]
            self._put_rows(run.name, few)
        if rows:
            run.rows = rows[-1][0]

    def _put_rows(self, run: str, rows: list[JournalRow]) -> None:
        at = self._writer.at

        def work() -> Iterable[AnyEntry]:
            kept: list[JournalRow] = []
            size = 0
            for row in rows:
                text = redacted_document(row.json.encode()).decode()
                if size + len(text) > PART_BYTES and kept:
                    yield RunWritten(at=at, run=run, rows=tuple(kept))
                    kept, size = [], 0
                if len(text) <= PART_BYTES:
                    kept.append(msgspec.structs.replace(row, json=text))
                    size += len(text)
            yield RunWritten(at=at, run=run, rows=tuple(kept))

        self._writer.put_work(work, sum(len(row.json) for row in rows))

    def _copy_life(self, run: _RunCopy) -> None:
        lease = run.lease
        is_alive = lease is not None and lease.is_alive
        beat = read_heartbeat(run.folder, lease.holder) if lease is not None and is_alive else None
        life = RunLived(
            run=run.name,
            is_alive=is_alive,
            token=lease.token if lease is not None and is_alive else "",
            is_stalled=beat is not None and beat.is_stalled(self._clock.monotonic()),
            notes=_redacted(beat.notes) if beat else {},
            troubles=_redacted(beat.troubles) if beat else {},
        )
        if life != run.life:
            run.life = life
            self._writer.put(msgspec.structs.replace(life, at=self._writer.at))

    def _copy_file(self, run: _RunCopy, name: str) -> None:
        path = run.folder / name
        status = path.stat()
        known, signature = run.files.get(name), (status.st_mtime_ns, status.st_size)
        if known is not None and known.signature == signature:
            return
        if known is None and not self._may_begin(status.st_size):
            run.files[name] = _Copied(status.st_ino, -1, signature)
            return
        if known is not None and known.offset < 0:
            return
        is_growing = _GROWING.fullmatch(name) is not None
        is_new = known is None or not is_growing or known.inode != status.st_ino or status.st_size < known.offset
        offset = 0 if known is None or is_new else known.offset
        with open_file(path) as file:
            file.seek(offset)
            data = file.read(_LOOK_BYTES)
        if is_growing:
            data = data[: data.rfind(b"\n") + 1]
        end = offset + len(data)
        is_read = end == status.st_size
        run.files[name] = _Copied(status.st_ino, end, signature if is_read else (0, 0))
        if data or is_new:
            self._put_file(run.name, name, data, is_new=is_new)

    def _copy_stream(self, run: _RunCopy, stage: str, stream: str) -> None:
        name = f"output/{stage}/{stream}/{tail_name(0)}"
        reader, place = run.streams.get(name) or (StreamReader(stream_path(run.folder, stage, stream)), 0)
        end = reader.end()
        is_new = name not in run.streams and end > 0
        if is_new and (not KEPT.fullmatch(name) or not self._may_begin(end - reader.begin())):
            place = -1
        if end > place >= 0:
            parts = reader.stretches(max(place, reader.begin()), _LOOK_BYTES)
            place = parts[-1].end if parts else place
            self._put_file(run.name, name, b"".join(part.data or b"" for part in parts), is_new=is_new)
        if end:
            run.streams[name] = reader, place

    def _may_begin(self, size: int) -> bool:
        self._first_bytes += size
        return size <= _FIRST_BYTES and self._first_bytes <= _FIRST_TOTAL_BYTES

    def _put_file(self, run: str, name: str, data: bytes, *, is_new: bool) -> None:
        at = self._writer.at
        redact: Callable[[bytes], bytes] = redacted_lines
        if name.endswith(".json"):
            redact = redacted_document
        elif name.endswith(".jsonl") or (name.endswith(".tail") and f"/{LINES}/" not in name):
            redact = redacted_documents

        def work() -> Iterable[AnyEntry]:
            kept = redact(data)
            first = is_new
            for begin in range(0, max(1, len(kept)), PART_BYTES):
                yield RunFile(at=at, run=run, path=name, data=kept[begin : begin + PART_BYTES], is_new=first)
                first = False

        self._writer.put_work(work, len(data))


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _files_in(folder: Path) -> Iterator[str]:
    """Return the files to keep, by their path below the run's folder."""
    if (folder / "blueprint" / "blueprint.yaml").is_file():
        yield "blueprint/blueprint.yaml"
    try:
        stages = sorted(os.listdir(folder / "terraform"))
    except OSError:
        return
    for stage in stages:
        with suppress(OSError):
            names = sorted(os.listdir(folder / "terraform" / stage))
            yield from (path for name in names if KEPT.fullmatch(path := f"terraform/{stage}/{name}"))


def _redacted(notes: dict[str, str]) -> dict[str, str]:
    return {name: redacted_text(text) for name, text in notes.items()}
