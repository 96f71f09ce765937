"""The files of a run's folder: paths, blocks overwritten in place, and space reserved for a full disk.

A block is a small file that is overwritten in place. A temporary file that is renamed, or a longer log, needs space; a
block needs none, since all of it was allocated when the file was made. A length and a checksum in front of the content
tell a reader that a write is under way.

Space is reserved twice. The journal's log is made longer than it is, so that records go into blocks that exist already.
A file of the run's folder takes more of them and is removed when that is not enough, as etcd leaves space for deletions
when its quota is exceeded.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_FILE, free_bytes, state_home

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
"""Names the AWS endpoint; a run stays with the one that it was launched into."""


def runs_home() -> Path:
    """The folder of all runs. Not created here."""
    return state_home() / "runs"


def journal_path(folder: Path) -> Path:
    """The run's journal."""
    return folder / "journal.db"


def kubeconfig_path(folder: Path) -> Path:
    """The run's own kubeconfig; there is none before a kubeconfig stage has succeeded."""
    return folder / "kubeconfig"


def blueprint_path(folder: Path) -> Path:
    """The blueprint's folder as it was when the run was created."""
    return folder / "blueprint"


def environment_path(folder: Path) -> Path:
    """Names and values that the run's processes get on top of the console's environment, as JSON."""
    return folder / "environment.json"


def runner_log_path(folder: Path) -> Path:
    """What the runner said of its work."""
    return folder / "runner.log"


def terraform_path(folder: Path, stage: str) -> Path:
    """Working folder, state and output of a Terraform stage."""
    return folder / "terraform" / stage


def logs_path(folder: Path, stage: str) -> Path:
    """Spooled log lines of the pods that a stage watches."""
    return folder / "logs" / stage


def series_path(folder: Path, stage: str) -> Path:
    """Spooled curve points and accelerator samples of a stage."""
    return folder / "series" / stage


def heartbeat_path(folder: Path) -> Path:
    """When the runner was last alive, and what it waits for."""
    return folder / "heartbeat"


def starts_path(folder: Path) -> Path:
    """When the run's runners were started since the last one that came to an end by itself."""
    return folder / "starts"


def reserve_path(folder: Path) -> Path:
    """Room on disk for a cancel or a teardown on a full one."""
    return folder / "reserve"


def load_environment(folder: Path) -> dict[str, str]:
    """Return the environment that the run was launched with.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = environment_path(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


BLOCK_BYTES = 16 << 10
_HEADER = struct.Struct(">4sII")
_MAGIC = b"EKB1"
_TRIES = 20


def make_block(path: Path) -> None:
    """Make the file with all the room it will ever need, empty; one that is there is left as it is.

    Raises:
        OSError: It cannot be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, BLOCK_BYTES)
    finally:
        os.close(descriptor)


def write_block(path: Path, content: bytes) -> bool:
    """Replace the content. A file that is not there is made, if there is room.

    Returns:
        Whether it was written: it fits, and the disk takes it.
    """
    data = _HEADER.pack(_MAGIC, len(content), zlib.crc32(content)) + content
    if len(data) > BLOCK_BYTES:
        return False
    with suppress(OSError):
        if not path.exists():
            make_block(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pwrite(descriptor, data, 0) == len(data)
        finally:
            os.close(descriptor)
    return False


def read_block(path: Path) -> bytes:
    """The content; empty if there is none, or it cannot be read."""
    for _ in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            data = os.pread(descriptor, BLOCK_BYTES, 0)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        if len(data) < _HEADER.size:
            return b""
        magic, length, checksum = _HEADER.unpack_from(data)
        content = data[_HEADER.size : _HEADER.size + length]
        if magic != _MAGIC:
            return b""
        if zlib.crc32(content) == checksum:
            return content
    return b""


RESERVE_BYTES = 1 << 20
LOG_ROOM_BYTES = 512 << 10
"""Some hundred records: more than a teardown writes."""
_FULL_BYTES = 128 << 10
_PLENTY_BYTES = 4 * RESERVE_BYTES


def has_room(folder: Path) -> bool:
    """Return whether a journal in `folder` can grow."""
    return free_bytes(folder) >= _FULL_BYTES


def keep_reserve(folder: Path) -> None:
    """Set room aside in a run's folder, if there is none yet and the disk has plenty. Failing is no harm."""
    path = reserve_path(folder)
    if path.exists() or free_bytes(folder) < _PLENTY_BYTES:
        return
    with suppress(OSError):
        _allocate(path, RESERVE_BYTES)


def release_reserve(folder: Path) -> bool:
    """Give the room back to the disk. Returns whether there was any; the caller uses it before others do."""
    try:
        reserve_path(folder).unlink()
    except OSError:
        return False
    return True


def extend_log(folder: Path, *, by: int = 0) -> None:
    """Give the journal's log room for records to come. What is behind its end is not read by SQLite.

    Called while the journal is open, so that there is a log.

    Args:
        folder: The run's.
        by: So many bytes more than it has, rather than what it should have at least.
    """
    path = journal_path(folder)
    log = path.with_name(f"{path.name}-wal")
    with suppress(OSError):
        size = log.stat().st_size
        wanted = max(LOG_ROOM_BYTES, size + by)
        if size < wanted:
            _allocate(log, wanted)


def _allocate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)
