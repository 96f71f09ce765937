"""The archive of a run, one file: written at any moment, checked in full before anything of it is used.

It is a ZIP file with a manifest. A restored run is to look at only: `restored.json` in its folder keeps every command
and every console from starting a runner for it, because the machine that it comes from may have one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, ConflictError, FormatError, RefusedError
from actions.base.files import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    free_bytes,
    open_file,
    private_directory,
    read_file,
    write_private,
)
from actions.base.names import is_label
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line, redact
from actions.run.context.secrets import referenced_environment
from actions.run.journal.folder import (
    heartbeat_path,
    journal_path,
    make_block,
    restored_path,
    runs_folder,
    starts_path,
)
from actions.run.journal.reader import RunReader, load_run
from actions.run.journal.schema import SCHEMA_VERSION
from actions.run.journal.store import Journal, refuse_network_filesystem
from actions.run.output.segments import sync_folder
from actions.run.storage.contents import ArchiveEntry, Withheld, contents, require_path

SCHEMA = "eksml-run-archive/1"
MANIFEST = "manifest.json"
MOST_FILES = 50_000
_MANIFEST_BYTES = 32 << 20
_DIRECTORY_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20
_SPARE_BYTES = 16 << 20
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)


class ArchivedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of an archive."""

    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of an archive."""

    schema: str
    run: str
    journal_version: int
    archived_at: str
    """RFC 3339, UTC."""
    state: str
    is_living: bool
    """A runner was at work on it: this is how it was at that moment."""
    files: tuple[ArchivedFile, ...]
    withheld: tuple[Withheld, ...] = ()


class Restored(msgspec.Struct, frozen=True):
    """The note in the folder of a restored run."""

    archived_at: str
    restored_at: str
    state: str
    """Of the run when it was archived."""
    is_living: bool
    withheld: tuple[Withheld, ...] = ()


def archive_run(folder: Path, file: Path, clock: Clock) -> Manifest:
    """Write an archive of a run. It may be at work: the archive has it as it is now.

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
    is_living, state = reader.runner_alive, view.state.value if view else ""
    reader.close()
    if view is not None:
        referenced_environment(view.parameters.values())  # known secrets are replaced wherever they are
    if file.exists() or file.is_symlink():
        raise ConfigError(f"{file} exists.", hint="Name another file.")
    withheld: list[Withheld] = []
    with _scratch(file) as (descriptor, scratch), os.fdopen(descriptor, "w+b") as target:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            files = tuple(_add(archive, entry) for entry in contents(folder, withheld))
            manifest = Manifest(
                SCHEMA,
                folder.name,
                SCHEMA_VERSION,
                format_rfc3339(clock.now()),
                state,
                is_living,
                files,
                tuple(Withheld(redact(each.path), redact(each.why)) for each in withheld),
            )
            text = msgspec.json.format(msgspec.json.encode(manifest))
            _add(archive, ArchiveEntry(MANIFEST, lambda: iter([text]), clock.now().timestamp()))
        target.flush()
        os.fsync(descriptor)
        os.link(scratch, file)
    return manifest


@contextmanager
def _scratch(file: Path) -> Iterator[tuple[int, Path]]:
    """Open a private file beside `file`, removed at the end; convert errors of the disk."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        yield os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE), scratch
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror or error}.", hint="Choose another path."
        ) from error
    finally:
        with suppress(OSError):
            scratch.unlink()


def _add(archive: zipfile.ZipFile, entry: ArchiveEntry) -> ArchivedFile:
    moment = datetime.fromtimestamp(entry.modified_at, UTC).timetuple()[:6] if entry.modified_at else _FIRST_DATE
    info = zipfile.ZipInfo(entry.path, max(_FIRST_DATE, moment))
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, _UNIX, PRIVATE_FILE << 16
    digest, size = hashlib.sha256(), 0
    with archive.open(info, "w", force_zip64=True) as target:
        for piece in entry.pieces():
            target.write(piece)
            digest.update(piece)
            size += len(piece)
    return ArchivedFile(entry.path, size, digest.hexdigest())


def restore_run(file: Path, clock: Clock, *, base: Path | None = None) -> Manifest:
    """Restore a run from its archive, to look at only. Everything is checked before it gets its name.

    Args:
        file: The archive.
        clock: Time.
        base: The folder of all runs, if not the usual one.

    Raises:
        FormatError: It is not an archive, is damaged, or holds what no archive holds; nothing is left of it.
        ConflictError: There is a run with its id.
        ConfigError: The disk has no room, or the file cannot be read.
        JournalError: The folder lies on a network file system; or its journal is of a later version.
    """
    refuse_if_readonly(f"the restoration of {file.name}")
    runs = private_directory(base or runs_folder())
    refuse_network_filesystem(runs)
    try:
        with open_file(file) as source:
            _require_archive(source, file)
            with zipfile.ZipFile(source) as archive:
                manifest = _manifest_of(archive, file)
                _restore(archive, manifest, runs, file, clock)
    except _DAMAGE as error:
        raise _not_whole(file, one_line(str(error)) or type(error).__name__) from error
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be restored: {error.strerror or error}.", hint="Check file and disk."
        ) from error
    return manifest


def _not_whole(file: Path, detail: str) -> FormatError:
    return FormatError(f"{file} is not an archive of a run, or damaged: {detail}.", hint="Archive the run again.")


def _require_archive(source: IO[bytes], file: Path) -> None:
    """Refuse what is not a file, and a directory of entries that is larger than one of ours: it is read into memory."""
    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        raise _not_whole(file, "it is not a file")
    end = source.seek(0, os.SEEK_END)
    tail = end - _END.size
    if tail < 0:
        raise _not_whole(file, "it is too short")
    source.seek(tail)
    magic, _, _, _, count, size, _, comment = _END.unpack(source.read(_END.size))
    if magic != b"PK\x05\x06" or comment:
        raise _not_whole(file, "its end is missing")
    if count == 0xFFFF or size == 0xFFFFFFFF or _has_locator(source, tail):
        source.seek(max(0, tail - _LOCATOR.size))
        locator = _LOCATOR.unpack(source.read(_LOCATOR.size))
        source.seek(min(locator[2], end))
        record = _END_64.unpack(source.read(_END_64.size))
        count, size = record[7], record[8]
    if count > MOST_FILES + 1 or size > _DIRECTORY_BYTES:
        raise _not_whole(file, f"it has {count} files")


def _has_locator(source: IO[bytes], tail: int) -> bool:
    source.seek(max(0, tail - _LOCATOR.size))
    return source.read(4) == b"PK\x06\x07"


def _manifest_of(archive: zipfile.ZipFile, file: Path) -> Manifest:
    """Return the manifest, if the archive has exactly the files that it names."""
    infos = archive.infolist()
    names = [info.filename for info in infos]
    if names.count(MANIFEST) != 1 or archive.getinfo(MANIFEST).file_size > _MANIFEST_BYTES:
        raise _not_whole(file, "it has no manifest")
    try:
        manifest = decode_json(_bounded(archive, MANIFEST, _MANIFEST_BYTES), Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _not_whole(file, f"its manifest cannot be read ({one_line(str(error))})") from error
    if manifest.schema != SCHEMA:
        raise FormatError(
            f"{file} is of the form {one_line(manifest.schema)}; this program reads {SCHEMA}.",
            hint="A later version of eksml-tui has written it: install that one.",
        )
    if not is_label(manifest.run):
        raise _not_whole(file, f"{one_line(manifest.run, limit=80)!r} is not the id of a run")
    listed = [each.path for each in manifest.files]
    if len(set(listed)) != len(listed) or sorted([*listed, MANIFEST]) != sorted(names):
        raise _not_whole(file, "its files are not those of its manifest")
    for info, size in ((archive.getinfo(each.path), each.size) for each in manifest.files):
        _require_plain(info, size, file)
    return manifest


def _require_plain(info: zipfile.ZipInfo, size: int, file: Path) -> None:
    """Refuse an entry that leads elsewhere, is a link or folder, is encrypted, or has another size."""
    shown = one_line(info.filename, limit=120)
    try:
        require_path(info.filename)
    except ValueError as error:
        raise _not_whole(file, f"{shown!r} is not a file of a run") from error
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or info.is_dir() or info.flag_bits & 1:
        raise _not_whole(file, f"{shown} is not a plain file")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size != size or size < 0:
        raise _not_whole(file, f"{shown} has another size")


def _bounded(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    with archive.open(name) as source:
        return source.read(limit)


def _restore(archive: zipfile.ZipFile, manifest: Manifest, runs: Path, file: Path, clock: Clock) -> None:
    final = runs / manifest.run
    if os.path.lexists(final):
        raise ConflictError(
            f"There is already a run {manifest.run}; nothing was restored.", hint=f"It is in {final}: move it away."
        )
    needed = sum(each.size for each in manifest.files) + _SPARE_BYTES
    if needed > free_bytes(runs):
        raise ConfigError(
            f"{file} needs {needed} bytes in {runs}, and fewer are free there.", hint="Free some space there."
        )
    scratch = runs / f".{manifest.run}.{os.getpid()}.restored"
    try:
        scratch.mkdir(mode=PRIVATE_DIRECTORY)
        for each in manifest.files:
            _extract(archive, each, scratch, file)
        _require_run(scratch, manifest, file)
        note = Restored(
            manifest.archived_at, format_rfc3339(clock.now()), manifest.state, manifest.is_living, manifest.withheld
        )
        write_private(restored_path(scratch), msgspec.json.format(msgspec.json.encode(note)))
        for block in (heartbeat_path(scratch), starts_path(scratch)):
            make_block(block)
        scratch.rename(final)
        sync_folder(runs)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _extract(archive: zipfile.ZipFile, entry: ArchivedFile, folder: Path, file: Path) -> None:
    path = folder / require_path(entry.path)
    for parent in reversed(path.relative_to(folder).parents[:-1]):
        (folder / parent).mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as target, archive.open(entry.path) as source:
        while piece := source.read(_PIECE_BYTES):
            size += len(piece)
            if size > entry.size:
                break
            digest.update(piece)
            target.write(piece)
        target.flush()
        os.fsync(descriptor)
    if size != entry.size or digest.hexdigest() != entry.sha256:
        raise _not_whole(file, f"{one_line(entry.path, limit=120)} is not what its manifest says")
    moment = datetime(*archive.getinfo(entry.path).date_time, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))


def _require_run(folder: Path, manifest: Manifest, file: Path) -> None:
    """Refuse a journal that is not that of the run."""
    reader = RunReader(folder)
    view = reader.poll()
    reader.close()
    if view is None or view.id != manifest.run:
        raise _not_whole(file, "its journal is that of another run")


def read_restored(folder: Path) -> Restored | None:
    """Return the note of a restored run; `None` if the run is this machine's own.

    Raises:
        ConfigError: It cannot be read.
    """
    path = restored_path(folder)
    if not path.exists():
        return None
    try:
        return decode_json(read_file(path), Restored)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", hint="Restore the run again.") from error


def require_fit(folder: Path) -> None:
    """Require that a run was restored whole, so that this machine could carry it out.

    Raises:
        RefusedError: It was not restored; or the archive lacks a Terraform state, so that what it made is not known.
        ConfigError: Its note cannot be read.
    """
    note = read_restored(folder)
    if note is None:
        raise RefusedError(f"Run {folder.name} was not restored from an archive.", hint="Omit --restored.")
    missing = [each.path for each in note.withheld if ".tfstate" in each.path and not (folder / each.path).exists()]
    if missing:
        raise RefusedError(
            f"{missing[0]} of run {folder.name} is not in its archive: what Terraform has made is not known here.",
            hint=f"Copy it to {folder / missing[0]}, or tear the run down where it is.",
        )


def take_up(folder: Path, clock: Clock) -> None:
    """Make a restored run one that this machine may carry out; the caller has made sure that no other one does.

    Raises:
        RefusedError: See `require_fit`.
        ConsoleError: Its files cannot be read or written.
    """
    refuse_if_readonly(f"carrying out {folder.name}")
    require_fit(folder)
    load_run(folder)
    journal = Journal(journal_path(folder), clock)  # can it be written?
    journal.close()
    try:
        restored_path(folder).unlink()
    except OSError as error:
        raise ConfigError(f"{restored_path(folder)} cannot be removed: {error.strerror}.") from error


def archive_sentences(manifest: Manifest, file: Path) -> Iterator[str]:
    """Yield what an operator should see about an archive that was written."""
    if manifest.is_living:
        yield f"Run {manifest.run} is at work: the archive has it as of {manifest.archived_at}."
    for each in manifest.withheld:
        yield f"Left out: {each.path}, as {each.why}."
    yield f"Archived run {manifest.run} to {file}."
