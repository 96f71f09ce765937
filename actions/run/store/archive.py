"""The archive of a run: a tar of the objects that a store has of it, with its output files as they lie on the disk.

    runs/RUN/lease.json             who carried it out, and its state then
    runs/RUN/journal/…              its records
    runs/RUN/files/…                blueprint, operators and modules of the launch; region and endpoints
    runs/RUN/terraform/STAGE.tfstate   unless it may hold a secret, or is in a bucket
    runs/RUN/output/…               what containers printed, points and samples
    runs/RUN/SHA256SUMS             of all of them, as sha256sum prints it; the last file

An archive is opened as a store in memory, and a run comes out of it by a takeover. It brings no credentials and no
programs but those of the run's blueprint; everything in it is checked before anything is written beside its scratch
folder, which takes the output.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, FormatError, JournalError
from actions.base.files import PRIVATE_DIRECTORY, PRIVATE_FILE, free_bytes, open_file, private_directory, read_file
from actions.base.names import is_label
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.untrusted import is_plain, one_line, redact
from actions.base.wording import listed
from actions.run.context.operator import present_operator
from actions.run.context.secrets import referenced_environment
from actions.run.context.store_address import run_key
from actions.run.journal.folder import ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE, journal_path, runs_folder
from actions.run.journal.journal_file import RecordRow, read_stored
from actions.run.journal.reader import RunReader
from actions.run.journal.store import refuse_network_filesystem
from actions.run.output.segments import (
    SealedSegment,
    StreamReader,
    list_stream,
    moved_segment,
    plain_of,
    sealed,
    tail_name,
)
from actions.run.output.streams import COPIED, stages_with_output, stream_path
from actions.run.state.view import RunView
from actions.run.store.files import LAUNCHED, launched_archive, small_files
from actions.run.store.lease import LEASE_SECONDS, about_run, take_lease
from actions.run.store.objects import LATEST, LEASE, ObjectStore, RunStatus, run_id_in
from actions.run.store.rows import append_rows
from actions.terraform.working_directory import STATE_FILE

MOST_FILES = 50_000
MOST_JOURNAL_BYTES = 64 << 20
MOST_NAME_BYTES = 1000
_MOST_PARTS = 32
_PIECE_BYTES = 1 << 20
_SPARE_BYTES = 16 << 20
_RUNS, _OUTPUT, _SUMS = "runs", "output", "SHA256SUMS"
_SUMS_BYTES = 64 << 20
_MOST_OBJECTS_BYTES = 256 << 20
"""Of all that is not output, which is held in memory."""
_ENVIRONMENT = "environment.json"
_LARGEST_STATE_BYTES = 64 << 20
_SHOWN = 5
_SECRET_NAME = re.compile(r"passw|secret|token|private_key|credential|_pem$|access_key", re.I)
"""Attributes of resources that hold secrets though the state does not mark them: older Terraform marks few."""
_PLACES = frozenset({"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE})
"""Variables whose values are names and places. No other leaves the machine."""


class Withheld(msgspec.Struct, frozen=True):
    """Something of a run that is not in its archive."""

    path: str
    why: str
    """A clause."""


class Archived(msgspec.Struct, frozen=True):
    """An archive that was written."""

    run_id: str
    file: Path
    files: int
    is_living: bool
    """A runner was at work: this is how the run was at that moment."""
    withheld: tuple[Withheld, ...]

    def sentences(self) -> Iterator[str]:
        """Yield what an operator should see."""
        if self.is_living:
            yield f"Run {self.run_id} is at work: the archive has it as it is now."
        for each in self.withheld:
            yield f"Left out: {each.path}, as {each.why}."
        yield f"Archived run {self.run_id} to {self.file}."


def archive_run(folder: Path, file: Path, clock: Clock) -> Archived:
    """Write an archive of a run, 0600, whole or not at all. The run may be at work. Blocking.

    Args:
        folder: The run's.
        file: The archive, which must not exist.
        clock: Time.

    Raises:
        ConfigError: The file exists or cannot be written, or the run's environment cannot be read.
        JournalError: The journal cannot be read.
    """
    reader = RunReader(folder)
    view = reader.poll()
    is_living = reader.runner_alive
    reader.close()
    if view is None:
        raise JournalError(f"{journal_path(folder)} cannot be read.")
    if os.path.lexists(file):
        raise ConfigError(f"{file} exists.", hint="Name another file.")
    referenced_environment(view.parameters.values())  # known secrets are replaced in records
    withheld: list[Withheld] = []
    store = ArchiveStore(str(file), clock)
    with _beside(file) as (descriptor, unnamed):
        asyncio.run(_fill(store, folder, view, withheld, is_living=is_living))
        with os.fdopen(descriptor, "wb") as target, tarfile.open(fileobj=target, mode="w") as archive:
            files = _add_all(archive, store, folder)
            archive.close()
            target.flush()
            os.fsync(target.fileno())
        os.link(unnamed, file)
    return Archived(view.id, file, files, is_living, tuple(withheld))


class ArchiveStore(ObjectStore):
    """The objects of a run in memory: those that an archive gets, or has. See `RunStore`.

    Args:
        address: The archive, for sentences.
        clock: Stamps objects, and tells their age.
    """

    def __init__(self, address: str, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self.held: dict[str, tuple[bytes, float]] = {}
        """Content and time of each object, by name."""

    async def run_ids(self) -> list[str]:
        return sorted({run_id_in(name) for name in self.held})

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        run_id_in(name)
        if name not in self.held:
            return None
        data, at = self.held[name]
        if len(data) > limit_bytes:
            raise FormatError(f"{name} in {self.address} has more than {limit_bytes} bytes.")
        return StoredObject(data, _digest(data), at, self._clock.now().timestamp())

    async def objects(self, prefix: str) -> list[ListedObject]:
        names = sorted(name for name in self.held if name.startswith(prefix) and not name.endswith(f"/{LEASE}"))
        return [ListedObject(name, _digest(data), len(data), at) for name in names for data, at in [self.held[name]]]

    async def _put(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        found = await self.get(name)
        if found is not None and found.body == data:
            return WriteReceipt(found.etag, found.modified_at)
        if (found.etag if found else "") != etag:
            raise PreconditionError(f"{name} in {self.address} was written by another.", found)
        self.held[name] = data, self._clock.now().timestamp()
        return WriteReceipt(_digest(data), self.held[name][1])

    async def _delete(self, name: str) -> None:
        self.held.pop(name, None)

    def close(self) -> None:
        return


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _beside(file: Path) -> Iterator[tuple[int, Path]]:
    """Open a private file beside `file`, removed at the end; convert errors of the disk."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        yield os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE), scratch
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{file} cannot be written: {reason}.", hint="Choose another path.") from error
    finally:
        with suppress(OSError):
            scratch.unlink()


async def _fill(store: ArchiveStore, folder: Path, view: RunView, withheld: list[Withheld], *, is_living: bool) -> None:
    """Write what the store of a run has of it, but output."""
    rows = _rows(folder)
    while rows:
        done = await append_rows(store, view.id, rows, epoch=view.epoch)
        rows = [row for row in rows if row.seq > done]
    files = {**small_files(folder), LAUNCHED: launched_archive(folder)}
    files.pop("kubeconfig", None)
    files[_ENVIRONMENT] = _places_of(files.get(_ENVIRONMENT, b"{}"))
    for name, data in files.items():
        await store.put_if_absent(run_key(view.id, f"files/{name}"), data)
    for stage, data in _states(folder, withheld).items() if not view.store else ():
        await store.put_if_absent(run_key(view.id, f"terraform/{stage}.tfstate"), data)
    owner, status = view.owner or present_operator(), RunStatus(view.state.value, last_seq=view.last_seq)
    seconds = LEASE_SECONDS if is_living else 0.0
    about = about_run(view)
    await take_lease(store, view.id, owner, after=None, epoch=view.epoch, status=status, about=about, seconds=seconds)


def _rows(folder: Path) -> list[RecordRow]:
    """Return the records of a run's journal, without known secrets."""
    return [row._replace(json=redact(row.json)) for row in read_stored(journal_path(folder))]


def _states(folder: Path, withheld: list[Withheld]) -> dict[str, bytes]:
    """Return the Terraform states in a run's folder that hold no secret, by stage."""
    found = {}
    for path in sorted(folder.glob(f"terraform/*/{STATE_FILE}")):
        if reason := secrets_of_state(path):
            withheld.append(Withheld(path.relative_to(folder).as_posix(), reason))
        else:
            found[path.parent.name] = read_file(path)
    return found


def _places_of(environment: bytes) -> bytes:
    values = decode_json(environment, dict[str, str])
    return msgspec.json.encode(
        {name: text for name, text in values.items() if name in _PLACES and "@" not in text and redact(text) == text}
    )


def _add_all(archive: tarfile.TarFile, store: ArchiveStore, folder: Path) -> int:
    """Add the objects, then the output, which the records mention, then the sums. Returns the number of files."""
    sums: dict[str, str] = {}
    output = ((f"{_RUNS}/{folder.name}/{name}", (data, 0.0)) for name, data in _output(folder))
    for name, (data, at) in chain(sorted(store.held.items()), output):
        _add_bytes(archive, name, data, int(at))
        sums[name] = _digest(data)
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    _add_bytes(archive, f"{_RUNS}/{folder.name}/{_SUMS}", text)
    return len(sums)


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, modified_at: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), PRIVATE_FILE, modified_at
    archive.addfile(entry, io.BytesIO(data))


def _output(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the segments of a run's output and their open ends, as they are now and without known secrets.

    Of each stage the list of containers and the points come before the lines that they follow from, so that whatever
    is cut off is read again from the lines.
    """
    for stage in stages_with_output(folder):
        for stream in COPIED:
            yield from _stream(folder, stream_path(folder, stage, stream))


def _stream(folder: Path, place: Path) -> Iterator[tuple[str, bytes]]:
    listing = list_stream(place)
    parts = StreamReader(place).stretches(listing.tail) if listing.tail is not None else []
    end = _redacted(b"".join(part.data or b"" for part in parts))
    prefix, shift = place.relative_to(folder).as_posix(), 0
    for segment in listing.segments:
        kept, data = _without_secrets(segment, read_file(place / segment.name), shift)
        yield f"{prefix}/{kept.name}", data
        shift += kept.length - segment.length
    if listing.tail is not None:
        yield f"{prefix}/{tail_name(listing.tail + shift)}", end


def _without_secrets(segment: SealedSegment, data: bytes, shift: int) -> tuple[SealedSegment, bytes]:
    """Return a segment with its content, behind earlier ones that are longer by `shift` than they were."""
    plain, place = plain_of(segment, data), segment.place + shift
    if plain is None:
        return SealedSegment(place, segment.length, segment.checksum), data
    kept = _redacted(plain)
    return (moved_segment(segment, data, place), data) if kept == plain else sealed(place, kept)


def _redacted(data: bytes) -> bytes:
    """Return bytes with every known secret and likely credential in them replaced; others stay as they are."""
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


class ArchivedRun(ArchiveStore):
    """A run of an archive: its objects, and its output in a scratch folder.

    Args:
        folder: The scratch folder.
        file: The archive.
        clock: The machine's.
    """

    def __init__(self, folder: Path, file: Path, clock: Clock) -> None:
        super().__init__(str(file), clock)
        self.run_id = ""
        self.folder = folder

    def bring_output(self, folder: Path) -> None:
        """Move the output into a run's folder. Blocking.

        Raises:
            OSError: It cannot be moved.
        """
        if (self.folder / _OUTPUT).exists():
            (self.folder / _OUTPUT).rename(folder / _OUTPUT)


@contextmanager
def opened_archive(file: Path, clock: Clock) -> Iterator[ArchivedRun]:
    """Open an archive as a store, in a scratch folder that is removed at the end. Blocking.

    Args:
        file: The archive.
        clock: The machine's.

    Raises:
        FormatError: It is not an archive, is damaged, or holds what no archive holds; nothing is left of it.
        ConfigError: The disk has no room, or the file cannot be read.
        JournalError: The folder of all runs lies on a network file system.
    """
    runs = private_directory(runs_folder())
    refuse_network_filesystem(runs)
    with TemporaryDirectory(prefix=".archive-", dir=runs) as scratch:
        try:
            with open_file(file) as source, tarfile.open(fileobj=_Bounded(source), mode="r:") as archive:
                found = ArchivedRun(Path(scratch), file, clock)
                _unpack(archive, file, found)
        except (tarfile.TarError, EOFError, ValueError, UnicodeError, OverflowError) as error:
            raise _not_whole(file, one_line(str(error)) or type(error).__name__) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{file} cannot be read: {reason}.", hint="Check file and disk.") from error
        yield found


class _Bounded(io.RawIOBase):
    """A file of which no piece is read that could fill the memory: headers of an archive name their own length."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _PIECE_BYTES:
            raise ValueError("a header of it is longer than any file's")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _not_whole(file: Path, detail: str) -> FormatError:
    return FormatError(f"{file} is not an archive of a run, or damaged: {detail}.", hint="Archive the run again.")


def _unpack(archive: tarfile.TarFile, file: Path, found: ArchivedRun) -> None:
    """Take the files of an archive: objects into memory, output into the scratch folder."""
    sums, size, journal, left = b"", 0, 0, free_bytes(found.folder) - _SPARE_BYTES
    seen: dict[str, str] = {}
    for entry in archive:
        parts = _parts_of(entry, file)
        if parts[2] == _SUMS:
            sums = _read(archive, entry, file, _SUMS_BYTES)
            continue
        found.run_id = found.run_id or parts[1]
        journal += entry.size if parts[2] == "journal" else 0
        size += entry.size if parts[2] != _OUTPUT else 0
        left -= entry.size
        if parts[1] != found.run_id or entry.name in seen:
            raise _not_whole(file, f"{one_line(entry.name, limit=120)} is there twice, or of another run")
        if len(seen) >= MOST_FILES or journal > MOST_JOURNAL_BYTES or size > _MOST_OBJECTS_BYTES:
            raise _not_whole(file, "it holds more than any run")
        if left < 0:
            raise ConfigError(f"{file} has more than is free in {found.folder.parent}.", hint="Free some space there.")
        if parts[2] == _OUTPUT:
            seen[entry.name] = _write(archive, entry, found.folder.joinpath(*parts[2:]), found.folder)
        else:
            data = _read(archive, entry, file, MOST_OBJECT_BYTES)
            seen[entry.name] = _digest(data)
            found.held[entry.name] = data, min(max(float(entry.mtime), 0.0), LATEST)
    told = {name: digest for digest, _, name in (line.partition("  ") for line in sums.decode().splitlines())}
    if told != seen:
        raise _not_whole(file, "its files are not those of its list of sums")
    if f"{_RUNS}/{found.run_id}/{LEASE}" not in seen:
        raise _not_whole(file, "it has no lease")


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo, file: Path, most: int) -> bytes:
    source = archive.extractfile(entry)
    if entry.size > most or source is None:
        raise _not_whole(file, "it holds more than any run")
    return b"".join(iter(lambda: source.read(_PIECE_BYTES), b""))


def _parts_of(entry: tarfile.TarInfo, file: Path) -> Sequence[str]:
    """Return the parts of the name of an entry, if an archive may have it: a plain file at a known place."""
    parts = entry.name.split("/")
    shown = one_line(entry.name, limit=120)
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.sparse is not None or entry.size < 0:
        raise _not_whole(file, f"{shown!r} is not a plain file")
    is_short = len(os.fsencode(entry.name)) <= MOST_NAME_BYTES and len(parts) <= _MOST_PARTS
    is_good = all(part not in ("", ".", "..") and "\\" not in part for part in parts)
    is_run = len(parts) > 2 and parts[0] == _RUNS and is_label(parts[1])
    if not (is_short and is_plain(entry.name) and is_good and is_run and _is_known(parts[2:])):
        raise _not_whole(file, f"{shown!r} is not a file of a run")
    return parts


def _is_known(rest: Sequence[str]) -> bool:
    folders = {"journal": 2, "files": 4, "terraform": 2}
    if rest[0] == _OUTPUT:
        return len(rest) > 2
    return tuple(rest) in ((LEASE,), (_SUMS,)) or 2 <= len(rest) <= folders.get(rest[0], 0)


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, place: Path, scratch: Path) -> str:
    """Write one file. Returns its SHA-256."""
    digest = hashlib.sha256()
    for parent in reversed(place.relative_to(scratch).parents[:-1]):
        (scratch / parent).mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    source = archive.extractfile(entry)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as target:
        while source is not None and (piece := source.read(_PIECE_BYTES)):
            target.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def secrets_of_state(path: Path) -> str:
    """Return why a Terraform state is not put into an archive, as a clause; empty if nothing in it may be a secret."""
    try:
        if path.stat().st_size > _LARGEST_STATE_BYTES:
            return "a state of this size is not searched for secrets"
        data = read_file(path)
        state = msgspec.json.decode(data) if data.strip() else {}
        found = list(dict.fromkeys(_secrets_in(state)))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, AttributeError, TypeError):
        return "the state cannot be read"
    if found:
        return f"the state holds values that may be secrets, of {listed(found, _SHOWN)}"
    return "" if redact(data.decode()) == data.decode() else "the state holds a secret"


def _secrets_in(state: Mapping[str, Any]) -> Iterator[str]:
    for name, output in (state.get("outputs") or {}).items():
        if output.get("sensitive") and output.get("value") not in (None, ""):
            yield f"output {name}"
    for resource in state.get("resources") or []:
        for instance in resource.get("instances") or []:
            if instance.get("sensitive_attributes") or _has_secret(instance.get("attributes") or {}):
                yield f"{resource.get('type')}.{resource.get('name')}"


def _has_secret(value: object, name: str = "") -> bool:
    match value:
        case dict():
            return any(_has_secret(inner, key) for key, inner in value.items())
        case list():
            return any(_has_secret(inner, name) for inner in value)
        case str():
            return bool(value) and _SECRET_NAME.search(name) is not None and not value.startswith("arn:")
    return False
