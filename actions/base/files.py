"""Places on disk: the operator's private state, and data that ships with the program."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Collection
from importlib import resources
from io import BufferedReader
from pathlib import Path
from threading import Event

from actions.base.errors import ConfigError

APPLICATION = "eksml-tui"
PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
_LOOK_SECONDS = 0.02
"""Pause between two attempts to take a lock."""

_NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "fuse.sshfs", "afs", "ceph"})


def state_folder() -> Path:
    """`$XDG_STATE_HOME/eksml-tui`: runs and sandboxes. Not created here."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def config_folder() -> Path:
    """`$XDG_CONFIG_HOME/eksml-tui`: the operator's settings, keymap and blueprints. Not created here."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def user_cache_folder() -> Path:
    """`$XDG_CACHE_HOME/eksml-tui`: what can be downloaded again. Not created here."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def expanded(path: Path | str) -> Path:
    """Return a path with the folder of a user for its `~`; that of a user who is not known here stays as it is."""
    return Path(os.path.expanduser(path))


def asset(relative: str) -> Path:
    """A file of the `assets` package, e.g. `prices/ec2.csv`."""
    return _packaged("assets", relative)


def shipped_blueprints() -> Path:
    """The folder of the blueprints that ship with the program."""
    return _packaged("blueprints", "")


def documents() -> Path:
    """The folder of the documentation: in an installed program among its assets, else that of the repository."""
    shipped = _packaged("assets", "") / "docs"
    return shipped if shipped.exists() else shipped.parents[1] / "docs"


def private_directory(path: Path) -> Path:
    """Make `path` and its parents, 0700, and return it.

    Raises:
        ConfigError: Another user owns it, or it cannot be made.
    """
    try:
        for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
            missing.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)  # by itself it makes parents as the umask lets it
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"{path}: {os.strerror(error.errno or errno.EIO)}.", hint="Set XDG_STATE_HOME.") from error
    if status.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user.", hint="Set XDG_STATE_HOME to a folder of your own.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(PRIVATE_DIRECTORY)
    return path


def write_private(path: Path, *parts: bytes, is_synced: bool = True, is_program: bool = False) -> None:
    """Replace the content of `path` in one step, 0600.

    Args:
        path: The file.
        parts: Its new content; a large one in parts, so that there is no copy of all of it.
        is_synced: It is on disk when this returns; else some seconds later, for what is rewritten soon anyway.
        is_program: Its owner may run it: 0700.

    Raises:
        OSError: There is no room; the file is as it was.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    mode = PRIVATE_FILE | stat.S_IXUSR if is_program else PRIVATE_FILE
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def is_program(path: Path) -> bool:
    """Return whether the owner of a file may run it, which is all that git keeps of its mode.

    Raises:
        OSError: It cannot be looked at.
    """
    return bool(path.stat().st_mode & stat.S_IXUSR)


def take_lock(descriptor: int) -> bool:
    """Take the kernel's lock of an open file, which goes with the descriptor; return whether it was free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int, seconds: float) -> bool:
    """Wait for the lock of `take_lock`, at most so long; return whether it was taken. Blocking."""
    deadline = time.monotonic() + seconds
    while not take_lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        Event().wait(_LOOK_SECONDS)
    return True


def require_writable(file: Path) -> None:
    """Make sure that `file` can be written later. A file that was there is left as it is, none is left behind.

    Raises:
        ConfigError: It cannot be written.
    """
    existed = file.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, PRIVATE_FILE))
        if not existed:
            file.unlink()
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Choose another path.") from error


def require_folder(folder: Path) -> None:
    """Make sure that files can be written into `folder`, which is made if need be.

    Raises:
        ConfigError: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}.", hint="Choose another folder.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder} cannot be written to.", hint="Choose another folder.")


MOST_BYTES = 64 << 20
"""The most that is read of a file whose reader gives no bound of its own."""


def read_file(path: Path, limit: int = MOST_BYTES, *, is_cut: bool = False, may_be_pipe: bool = False) -> bytes:
    """Return what is in a file; with `open_file` the only door to content that others may have made.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        is_cut: Return the first `limit` bytes of a longer one.
        may_be_pipe: See `open_file`.

    Raises:
        FileNotFoundError: It is certainly not there.
        OSError: What is in it is not known: it cannot be read, has no end, or more bytes than the limit (`EFBIG`).
    """
    with open_file(path, may_be_pipe=may_be_pipe) as file:
        data = file.read(limit if is_cut else limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes, which is the limit", str(path))
    return data


def open_file(
    path: Path | str,
    *,
    is_followed: bool = True,
    may_be_pipe: bool = False,
    waits: bool = False,
    folder: int | None = None,
) -> BufferedReader:
    """Open a regular file to be read. Nothing else is opened: a device and a pipe have no end, or no beginning.

    Args:
        path: The file.
        is_followed: It may be a link to one.
        may_be_pipe: The operator has named it, so that it may be a pipe; one without a writer is empty.
        waits: A pipe is waited for until it has a writer, as a shell does.
        folder: Descriptor of the folder that `path` begins in.

    Raises:
        FileNotFoundError: It is certainly not there.
        OSError: It cannot be opened, or is not a file.
    """
    kinds = {stat.S_IFREG, stat.S_IFIFO} if may_be_pipe else {stat.S_IFREG}
    try:
        _require_kind(os.stat(path, dir_fd=folder, follow_symlinks=is_followed), kinds, path)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if is_followed else os.O_NOFOLLOW)
        flags |= 0 if waits else os.O_NONBLOCK
        descriptor = os.open(path, flags, dir_fd=folder)
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    try:
        _require_kind(os.fstat(descriptor), kinds, path)  # another one may have taken its place
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_kind(status: os.stat_result, kinds: Collection[int], path: Path | str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind not in kinds:
        raise OSError(errno.EINVAL, "it is not a file", str(path))


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write to the disk of `folder`; 0 without inodes, a lot if unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return sys.maxsize
    if not status.f_blocks:  # a file system that does not count
        return sys.maxsize
    if status.f_files and not status.f_favail:
        return 0
    return (status.f_bfree if os.geteuid() == 0 else status.f_bavail) * status.f_frsize


def is_read_only(folder: Path) -> bool:
    """Return whether the file system of `folder` is mounted read-only."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def filesystem_type(path: Path) -> str:
    """The type of the file system that holds `path`, as the kernel names it; empty if unknown."""
    target = path.resolve()
    best, kind = -1, ""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = fields[1].replace("\\040", " ")
        if target.is_relative_to(mount) and len(mount) > best:
            best, kind = len(mount), fields[2]
    return kind


def is_network_filesystem(path: Path) -> bool:
    """Return whether `path` lies on a file system where a process cannot rely on locks."""
    return filesystem_type(path) in _NETWORK_FILESYSTEMS


def _xdg(variable: str, fallback: str) -> Path:
    configured = os.environ.get(variable, "")
    base = Path(configured) if configured and Path(configured).is_absolute() else Path.home() / fallback
    return base / APPLICATION


def _packaged(package: str, relative: str) -> Path:
    root = resources.files(package)
    path = Path(str(root)) / relative
    if not path.exists():
        raise ConfigError(f"{package}/{relative} is not part of this installation.", hint="Install the package again.")
    return path
