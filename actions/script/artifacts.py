"""The files that a script may write: below the folder of its artifacts, and below folders that its operator allows.

Scripts come from third parties, so their file names are not trusted: no `..`, absolute path or symbolic link leads out
of these folders, and a file is replaced only if a script has made it. `.eksml-artifacts` in the folder lists those.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_DIRECTORY, PRIVATE_FILE, expanded, open_file

MADE = ".eksml-artifacts"
_LARGEST_BYTES = 64 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Artifacts:
    """The files of a script.

    Args:
        folder: The folder of artifacts; relative names begin there.
        allowed: Other folders that it may write to.
    """

    def __init__(self, folder: Path, allowed: Sequence[Path] = ()) -> None:
        self._folder = _absolute(folder)
        self._roots = (self._folder, *(_absolute(root) for root in allowed))

    def place(self, file: Path) -> Path:
        """Return the path that a file would be written to.

        Raises:
            ConfigError: The script may not write there.
        """
        return _joined(*self._divided(file))

    def check(self, file: Path) -> None:
        """Check that a file can be written, as far as is known before the script is played.

        Raises:
            ConfigError: The script may not write there, or would replace a file that no script has made.
        """
        root, inside = self._divided(file)
        with suppress(OSError), _opened(root, inside.parent, makes=False) as folder:
            _require_own(folder, inside, _MadeFiles(root))

    def write(self, file: Path, data: bytes) -> None:
        """Write a file, 0600, in one step; folders are made.

        Raises:
            ConfigError: It cannot be written, or see `check`.
        """
        root, inside = self._divided(file)
        made = _MadeFiles(root)
        try:
            with _opened(root, inside.parent, makes=True) as folder:
                _require_own(folder, inside, made)
                _replace(folder, inside.name, data)
            made.add(inside, data)
        except OSError as error:
            raise ConfigError(
                f"{_joined(root, inside)} cannot be written: {error.strerror}.", hint="Name another file."
            ) from error

    def _divided(self, file: Path) -> tuple[Path, Path]:
        """Split a file's path into the allowed folder and the path below it."""
        target = Path(os.path.normpath(self._folder / file))
        for root in self._roots:
            if target != root and target.is_relative_to(root):
                inside = target.relative_to(root)
                if inside.name != MADE:
                    return root, inside
        raise ConfigError(
            f"A script may not write {str(file)!r}: it is not below {self._folder}.",
            hint="Name a file there, or start with --allow-write DIR.",
        )


class _MadeFiles:
    """The list of files that scripts have made in a folder: digests of the path below it, and of the content.

    The path itself is not stored, since it may hold a value of the environment.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, inside: Path, data: bytes) -> bool:
        """Return whether a script has made a file, and it has not changed since."""
        return self._read().get(_digest(os.fsencode(inside))) == _digest(data)

    def add(self, inside: Path, data: bytes) -> None:
        """Add a file and its content."""
        made = self._read() | {_digest(os.fsencode(inside)): _digest(data)}
        with _opened(self._root, Path(), makes=True) as folder:
            _replace(folder, MADE, msgspec.json.format(msgspec.json.encode(made)) + b"\n")

    def _read(self) -> dict[str, str]:
        try:
            with _opened(self._root, Path(), makes=False) as folder:
                return decode_json(_content(folder, MADE), dict[str, str])
        except (OSError, ConfigError, msgspec.MsgspecError):
            return {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _opened(root: Path, inside: Path, *, makes: bool) -> Iterator[int]:
    """Open a folder below `root` without following links, and yield its descriptor.

    Args:
        root: The allowed folder.
        inside: Path of the folder below it.
        makes: Make missing folders.

    Raises:
        ConfigError: A part of the path is a link or a file.
        OSError: It cannot be opened.
    """
    if makes:
        root.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    descriptor = os.open(root.resolve(), _FOLDER)
    try:
        for part in inside.parts:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=descriptor)
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                raise ConfigError(
                    f"A script may not write through {part!r} in {root}: it is a link or a file.",
                    hint="Name a file elsewhere.",
                ) from error
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _require_own(folder: int, inside: Path, made: _MadeFiles) -> None:
    """Refuse to replace a file that no script has made."""
    try:
        status = os.stat(inside.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    is_plain = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_size <= _LARGEST_BYTES
    data = _content(folder, inside.name) if is_plain else b""
    if not is_plain or not made.has(inside, data):
        raise ConfigError(
            f"A script may not replace {str(inside)!r}: it exists already, and no script has made it.",
            hint="Name another file, or remove it.",
        )


def _content(folder: int, name: str) -> bytes:
    with open_file(name, is_followed=False, folder=folder) as file:
        return file.read(_LARGEST_BYTES)


def _replace(folder: int, name: str, data: bytes) -> None:
    scratch = f".{name}.{os.getpid()}.tmp"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch, dir_fd=folder)
        raise


def _absolute(folder: Path) -> Path:
    return Path(os.path.abspath(expanded(folder)))


def _joined(root: Path, inside: Path) -> Path:
    return root / inside
