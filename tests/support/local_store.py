"""A store in a folder: the objects are its files, which a test can look at and spoil."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, FormatError
from actions.base.executors import in_thread
from actions.base.files import open_file, private_directory, write_private
from actions.base.names import is_segment
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line
from actions.run.store.objects import LEASE, ObjectStore, run_id_in

_RUNS = "runs"
_writing = threading.Lock()

T = TypeVar("T")


class LocalStore(ObjectStore):
    """See `RunStore`.

    Args:
        folder: Of the objects; made with the first of them.
        address: For sentences, such as the file that the folder comes from; empty for the folder's path.
        clock: Stamps objects, and tells their age.
    """

    def __init__(self, folder: Path, *, address: str = "", clock: Clock | None = None) -> None:
        self.address = address or str(folder)
        self._folder = folder
        self._clock: Clock = clock or SystemClock()

    async def run_ids(self) -> list[str]:
        return await self._in_thread(self._names_of_runs)

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        return await self._in_thread(lambda: self._read(name, limit_bytes))

    async def _put(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        return await self._in_thread(lambda: self._write(name, data, etag=etag))

    async def objects(self, prefix: str) -> list[ListedObject]:
        return await self._in_thread(lambda: list(self._listed(prefix)))

    async def _delete(self, name: str) -> None:
        await self._in_thread(lambda: self._remove(name))

    def close(self) -> None:
        return

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await in_thread("store", work)
        except (OSError, RuntimeError) as error:  # the latter for links in a circle
            reason = getattr(error, "strerror", "") or str(error)
            raise ConfigError(f"{self.address}: {reason}.", hint="Check the folder, and its rights.") from error

    def _names_of_runs(self) -> list[str]:
        try:
            entries = list(os.scandir(self._folder / _RUNS))
        except FileNotFoundError:
            return []
        return sorted(
            entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and any(_files_in(entry.path))
        )

    def _listed(self, prefix: str) -> Iterator[ListedObject]:
        root = self._folder / _RUNS
        for key in sorted(path.relative_to(self._folder).as_posix() for path in _files_in(root)):
            is_lease = key.endswith(f"/{LEASE}") and key.count("/") == 2
            if is_lease or not key.startswith(prefix):
                continue
            stored = self._read(key, MOST_OBJECT_BYTES)
            if stored is not None:
                yield ListedObject(key, stored.etag, len(stored.body), stored.modified_at)

    def _path(self, name: str) -> Path:
        run_id_in(name)
        parts = name.split("/")
        if not all(is_segment(part) and not _is_scratch(part) for part in parts):
            raise ConfigError(f"{one_line(name)!r} is not the name of an object.")
        path = self._folder.joinpath(*parts)
        if self._folder.resolve() not in path.parent.resolve().parents:
            raise ConfigError(f"{path} is outside of {self.address}.")
        return path

    def _read(self, name: str, limit_bytes: int) -> StoredObject | None:
        try:
            with open_file(self._path(name), is_followed=False) as file:
                body, written_at = file.read(limit_bytes + 1), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        if len(body) > limit_bytes:
            raise FormatError(f"{name} in {self.address} has more than {limit_bytes} bytes.")
        return StoredObject(body, _etag_of(body), written_at, self._clock.now().timestamp())

    def _write(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        """Write an object; `etag` is that of the one to be replaced, empty for none."""
        self._require_writes(f"writing {name}")
        path = self._path(name)
        with _writing:
            found = self._read(name, MOST_OBJECT_BYTES)
            if found is not None and found.body == data:
                return WriteReceipt(found.etag, found.modified_at)
            if (found.etag if found else "") != etag:
                raise PreconditionError(f"{name} in {self.address} was written by another.", found)
            private_directory(path.parent)
            write_private(path, data)
            now = self._clock.now().timestamp()
            os.utime(path, (now, now))
        return WriteReceipt(_etag_of(data), now)

    def _remove(self, name: str) -> None:
        self._require_writes(f"deleting {name}")
        path = self._path(name)
        with _writing:
            path.unlink(missing_ok=True)

    def _require_writes(self, deed: str) -> None:
        refuse_if_readonly(deed)


def _files_in(folder: Path | str) -> Iterator[Path]:
    """Yield all files below a folder. What a write is about to put there is none.

    Raises:
        OSError: Something of it cannot be read; only what is not there is certainly not there.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(place) / name for name in names if not _is_scratch(name))


def _is_scratch(name: str) -> bool:
    """Return whether a file is one that a write is about to give its name."""
    return name.startswith(".") and name.endswith(".tmp")


def _etag_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
