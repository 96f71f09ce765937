"""The small files of a run's folder in its store: what the launch has copied, environment, kubeconfig, and of Terraform
the locked providers.

What could hold a secret stays on this machine: Terraform's variables, plans and event streams (outputs and lines of the
roots' sources), and a kubeconfig with anything but an exec plugin. Event streams and pids of operations would be wrong
elsewhere, too: a stream that lacks its last seconds would pass for an operation whose end is known.
"""

from __future__ import annotations

import errno
import gzip
import io
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.files import PRIVATE_DIRECTORY, is_program, read_file, write_private
from actions.base.names import is_segment
from actions.base.untrusted import is_plain, redact
from actions.blueprint.operators import operators_path
from actions.blueprint.terraform_modules import archives_path
from actions.run.journal.folder import blueprint_path, environment_path, kubeconfig_path, terraform_path
from actions.terraform.working_directory import LOCK_FILE

LAUNCHED = "launch.tar.gz"
"""Blueprint, operators' releases and modules, as they were copied at the launch."""
MOST_LAUNCHED_BYTES = 32 << 20
"""Limit of the archive; of a run with more, the archives of modules are left out, then the operators' releases."""
MOST_UNPACKED_BYTES = 256 << 20
MOST_UNPACKED_FILES = 10_000
MOST_FILE_BYTES = 1 << 20
_TERRAFORM = "terraform"
_PARTS = 3
"""Of the name of a file of Terraform: `terraform/STAGE/FILE`."""
_PLAIN_USER = frozenset({"exec", "as", "as-uid", "as-groups", "as-user-extra"})
_PLAIN_VARIABLES = frozenset(
    {"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS", "AWS_CONFIG_FILE"}
)


def launched_archive(folder: Path, most_bytes: int = MOST_LAUNCHED_BYTES) -> bytes:
    """Return the archive of what the launch copied into a run's folder; the same bytes every time. Blocking.

    Raises:
        OSError: A file cannot be read.
    """
    parts = [blueprint_path(folder), operators_path(folder), archives_path(folder)]
    while True:
        data = _archive(folder, parts)
        if len(data) <= most_bytes or len(parts) == 1:
            return data
        parts.pop()


def _archive(folder: Path, parts: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in (path for part in parts for path in sorted(part.rglob("*")) if path.is_file()):
            data = read_file(path)
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = len(data), 0o700 if is_program(path) else 0o600
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def unpack_launched(data: bytes, folder: Path) -> None:
    """Write the files of such an archive into a folder. Blocking.

    Raises:
        FormatError: It is not such an archive: a link, a path that leaves the folder, too much.
        OSError: The disk is full.
    """
    try:
        for name, content, may_run in _entries(data):
            place = folder / name
            place.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            write_private(place, content, is_synced=False, is_program=may_run)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise FormatError(f"{LAUNCHED} in the store is damaged: {error}.") from error


def _entries(data: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """Yield name and content of each file, and whether it is a program."""
    size = 0
    with tarfile.open(fileobj=io.BytesIO(_unpacked(data)), mode="r:") as archive:
        for count, entry in enumerate(archive):
            size += entry.size
            path = PurePosixPath(entry.name)
            is_inside = not path.is_absolute() and ".." not in path.parts and path.parts[:1] in _PLACES
            if not entry.isreg() or not is_inside or not is_plain(entry.name):
                raise FormatError(f"{LAUNCHED} in the store holds {entry.name[:80]!r}, which no run has.")
            if not 0 <= size <= MOST_UNPACKED_BYTES or count > MOST_UNPACKED_FILES:
                raise _too_large()
            stream = archive.extractfile(entry)
            if stream is not None:
                yield entry.name, stream.read(), bool(entry.mode & stat.S_IXUSR)


def _unpacked(data: bytes) -> bytes:
    """Return the archive without its compression, no more than is read: a header of it may be larger than any file."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(MOST_UNPACKED_BYTES + 1)
    if len(content) > MOST_UNPACKED_BYTES:
        raise _too_large()
    return content


def _too_large() -> FormatError:
    return FormatError(f"{LAUNCHED} in the store holds more than any run.")


_PLACES = frozenset(part(Path()).parts[:1] for part in (blueprint_path, operators_path, archives_path))


def small_files(folder: Path) -> dict[str, bytes]:
    """Return the small files that may leave this machine, by name. Blocking.

    Raises:
        OSError: One cannot be read.
    """
    found = {"environment.json": _environment(folder), "kubeconfig": _kubeconfig(folder), **_of_terraform(folder)}
    return {name: data for name, data in found.items() if data}


def path_of_small(folder: Path, name: str) -> Path | None:
    """Return the place of a small file in a run's folder; `None` if a run has none of that name."""
    places = {"environment.json": environment_path(folder), "kubeconfig": kubeconfig_path(folder)}
    parts = name.split("/")
    if len(parts) == _PARTS and parts[0] == _TERRAFORM and is_segment(parts[1]) and parts[2] == LOCK_FILE:
        return terraform_path(folder, parts[1]) / parts[2]
    return places.get(name)


def _of_terraform(folder: Path) -> dict[str, bytes]:
    """Return the files of Terraform stages that another machine cannot make anew, by name."""
    found = {}
    for path in folder.glob(f"{_TERRAFORM}/*/{LOCK_FILE}"):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(folder).as_posix()] = _redacted(_read(path))
    return found


def _redacted(data: bytes) -> bytes:
    """Return a text without what looks like a secret; empty if it is none."""
    try:
        return redact(data.decode()).encode()
    except UnicodeDecodeError:
        return b""


def _environment(folder: Path) -> bytes:
    """Return the variables that the run was launched with, without what looks like a secret."""
    data = _read(environment_path(folder))
    try:
        values = decode_json(data, dict[str, str]) if data else {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return b""
    return msgspec.json.encode({name: value for name, value in values.items() if redact(value) == value})


def _kubeconfig(folder: Path) -> bytes:
    """Return the run's kubeconfig if its users have nothing but an exec plugin; empty otherwise."""
    data = _read(kubeconfig_path(folder))
    try:
        document = msgspec.json.decode(data) if data else {}
        users = [entry["user"] for entry in document["users"]]
        is_harmless = all(_is_harmless(user) for user in users) and redact(data.decode()) == data.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return b""
    return data if is_harmless else b""


def _is_harmless(user: dict[str, object]) -> bool:
    if not user.keys() <= _PLAIN_USER:
        return False
    plugin = user.get("exec") or {}
    variables = plugin.get("env") or [] if isinstance(plugin, dict) else [{}]
    return all(variable.get("name") in _PLAIN_VARIABLES for variable in variables)


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MOST_FILE_BYTES)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EFBIG):
            raise
        return b""
