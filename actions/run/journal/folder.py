"""The files of a run's folder: paths, blocks overwritten in place, and space reserved for a full disk.

A block is a small file that is overwritten in place. A temporary file that is renamed, or a longer log, needs space; a
block needs none, since all of it was allocated when the file was made. A length and a checksum in front of the content
show a reader that a write is under way.

Space is reserved twice. The journal's file is longer than its records, so that later ones go into blocks that exist
already. A file of the run's folder takes more of them and is removed when that is not enough, as etcd leaves space for
deletions when its quota is exceeded.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_FILE, free_bytes, read_file, state_folder

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
"""The variable that names the AWS endpoint; a run keeps the one that it was launched with."""
ALLOCATION_BYTES = 512
"""The unit of `st_blocks`."""
S3_ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_S3"
"""The one for S3 alone, where a run's store may be."""


def runs_folder() -> Path:
    """Return the folder of all runs; it may not exist yet."""
    return state_folder() / "runs"


def journal_path(folder: Path) -> Path:
    """Return the path of the run's journal."""
    return folder / "journal.jsonl"


def kubeconfig_path(folder: Path) -> Path:
    """Return the path of the run's own kubeconfig, which a kubeconfig stage writes."""
    return folder / "kubeconfig"


def blueprint_path(folder: Path) -> Path:
    """Return the run's copy of its blueprint, made when the run was created."""
    return folder / "blueprint"


def environment_path(folder: Path) -> Path:
    """Return the file of variables that the run's processes get in addition to the console's, as JSON."""
    return folder / "environment.json"


def rehearsals_path(folder: Path) -> Path:
    """Return the file of the recorded logs by which the embedded cluster plays stages, as JSON; no runner reads it."""
    return folder / "rehearsals.json"


def runner_log_path(folder: Path) -> Path:
    """Return the path of the runner's log."""
    return folder / "runner.log"


def terraform_path(folder: Path, stage: str) -> Path:
    """Return the folder with the working directory, state and output of a Terraform stage."""
    return folder / "terraform" / stage


def output_path(folder: Path, stage: str) -> Path:
    """Return the folder of a stage's output: log lines, points, samples of accelerators."""
    return folder / "output" / stage


def heartbeat_path(folder: Path) -> Path:
    """Return the block with the runner's last heartbeat and what it waits for."""
    return folder / "heartbeat"


def watched_path(folder: Path) -> Path:
    """Return the block with the reason why the run can only be watched in this folder."""
    return folder / "watched"


def lease_path(folder: Path) -> Path:
    """Return the block with the lease of the runner, written under the journal's lock."""
    return folder / "lease"


def starts_path(folder: Path) -> Path:
    """Return the block with the start times of runners since the last one that ended normally."""
    return folder / "starts"


def reserve_path(folder: Path) -> Path:
    """Return the file that reserves space for a cancel or a teardown on a full disk."""
    return folder / "reserve"


def load_environment(folder: Path) -> dict[str, str]:
    """Return the environment that the run was launched with.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = environment_path(folder)
    try:
        return decode_json(read_file(path), dict[str, str])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


BLOCK_BYTES = 16 << 10
_HEADER = struct.Struct(">4sII")
_MAGIC = b"EKB1"
_TRIES = 20


def make_block(path: Path) -> None:
    """Create an empty block with all the space it will ever need; an existing one is left as it is.

    Raises:
        OSError: It cannot be created.
    """
    _allocate(path, BLOCK_BYTES)


def write_block(path: Path, content: bytes) -> bool:
    """Replace the content of a block. A missing file is created if the disk has space.

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


def folders_in(base: Path) -> list[Path]:
    """Return the folders in a folder, hidden ones too; none if it cannot be read."""
    try:
        return [base / entry.name for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


_ASIDE = re.compile(r"\.(?P<run>.+)\.before-epoch-(?P<epoch>[0-9]{1,9})")


def aside_path(folder: Path, epoch: int) -> Path:
    """Return the place of a run's folder that is put aside for one of a later epoch."""
    return folder.with_name(f".{folder.name}.before-epoch-{epoch}")


def run_put_aside(name: str) -> str:
    """Return the run whose folder of this name was put aside; empty for any other folder."""
    match = _ASIDE.fullmatch(name)
    return match["run"] if match else ""


def put_aside_of(folder: Path) -> list[Path]:
    """Return the earlier folders of a run that were put aside, in the order of their epochs."""
    found = [one for one in folders_in(folder.parent) if run_put_aside(one.name) == folder.name]
    return sorted(found, key=lambda one: int(one.name.rpartition("-")[2]))


def allocated_bytes(folder: Path) -> int:
    """Return the bytes of the disk that a folder takes, with all below it; links are not followed."""
    total = 0
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * ALLOCATION_BYTES
        except OSError:
            continue
    return total


def remove_folder(folder: Path) -> None:
    """Remove a folder of a run: in one step for whoever lists runs.

    Raises:
        ConfigError: It cannot be removed.
    """
    gone = folder.with_name(f".{folder.name.removeprefix('.')}.{os.getpid()}.forgotten")
    try:
        folder.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be removed: {error.strerror}.", hint="Check its permissions.") from error


def read_block(path: Path) -> bytes:
    """Return the content of a block; empty if there is none, or it cannot be read."""
    try:
        return require_block(path)
    except OSError:
        return b""


def require_block(path: Path) -> bytes:
    """Return the content of a block; empty if there is none, or a loss of power has torn it.

    Raises:
        OSError: It cannot be read: what it has is not known.
    """
    for _ in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            data = os.pread(descriptor, BLOCK_BYTES, 0)
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
_FULL_BYTES = 128 << 10
_PLENTY_BYTES = 4 * RESERVE_BYTES


def has_room(folder: Path) -> bool:
    """Return whether a journal in `folder` can grow."""
    return free_bytes(folder) >= _FULL_BYTES


def keep_reserve(folder: Path) -> None:
    """Reserve space in a run's folder, unless it has some or the disk has little. Failure is ignored."""
    path = reserve_path(folder)
    if path.exists() or free_bytes(folder) < _PLENTY_BYTES:
        return
    with suppress(OSError):
        _allocate(path, RESERVE_BYTES)


def release_reserve(folder: Path) -> bool:
    """Release the reserved space to the disk, for the caller's next write. Returns whether there was any."""
    try:
        reserve_path(folder).unlink()
    except OSError:
        return False
    return True


def _allocate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)
