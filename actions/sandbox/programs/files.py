"""A container's file tree, in memory: volumes that several containers share, mounted into one view."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import msgspec

from actions.base.clock import Clock, SystemClock


class File(msgspec.Struct, frozen=True):
    """A file: what can be read of it, next to the size that it claims."""

    content: bytes
    size_bytes: int
    changed_at: float = 0.0
    """Seconds since the epoch."""


class MemoryVolume:
    """A file system. Paths in it are absolute and normalised; folders exist because files are in them."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.files: dict[str, File] = {}
        self.folders: set[str] = {"/"}

    def add_folder(self, path: str) -> None:
        """Make a folder with its parents."""
        while path not in self.folders:
            self.folders.add(path)
            path = posixpath.dirname(path)

    def put(self, path: str, content: bytes, *, size_bytes: int | None = None) -> None:
        """Put a file, its folders included."""
        self.add_folder(posixpath.dirname(path))
        size = len(content) if size_bytes is None else size_bytes
        self.files[path] = File(content, size, self._clock.now().timestamp())


class FileView:
    """The tree that one container sees.

    Args:
        mounts: Mount point → volume. `/` is added if absent: a scratch volume of the container's own.
    """

    def __init__(self, mounts: Mapping[str, MemoryVolume]) -> None:
        self._mounts = {"/": MemoryVolume()} | {posixpath.normpath(point): volume for point, volume in mounts.items()}

    def write(self, path: str, content: bytes, *, size_bytes: int | None = None) -> None:
        """Put a file, its folders included."""
        volume, inner = self._locate(path)
        volume.put(inner, content, size_bytes=size_bytes)

    def append(self, path: str, content: bytes) -> None:
        """Add to a file, or begin it."""
        found = self.file(path)
        size_bytes = found.size_bytes if found else 0
        self.write(path, (found.content if found else b"") + content, size_bytes=size_bytes + len(content))

    def make_folder(self, path: str) -> None:
        """Put an empty folder."""
        volume, inner = self._locate(path)
        volume.add_folder(inner)

    def file(self, path: str) -> File | None:
        """The file at `path`, or `None` if there is none."""
        volume, inner = self._locate(path)
        return volume.files.get(inner)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder at `path`."""
        volume, inner = self._locate(path)
        return inner in volume.folders

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; empty if there is no such folder."""
        path = posixpath.normpath(path)
        volume, inner = self._locate(path)
        found = {posixpath.basename(child) for child in (*volume.files, *volume.folders) if _is_child(child, inner)}
        found |= {posixpath.basename(point) for point in self._mounts if _is_child(point, path)}
        return sorted(found)

    def walk(self, path: str) -> list[str]:
        """The paths of all files below `path`, sorted."""
        found: list[str] = []
        for name in self.names(path):
            child = posixpath.join(path, name)
            found.extend(self.walk(child) if self.is_folder(child) else [child])
        return found

    def remove(self, path: str) -> bool:
        """Take a file, or a folder with all in it, away. Returns whether there was one."""
        volume, inner = self._locate(path)
        gone = [name for name in volume.files if name == inner or name.startswith(inner + "/")]
        folders = {name for name in volume.folders if name == inner or name.startswith(inner + "/")}
        for name in gone:
            del volume.files[name]
        volume.folders -= folders
        return bool(gone or folders)

    def mount_points(self) -> list[str]:
        """Return the mount points of volumes, `/` first."""
        return sorted(self._mounts)

    def _locate(self, path: str) -> tuple[MemoryVolume, str]:
        path = posixpath.normpath(path)
        point = max((point for point in self._mounts if point in ("/", path) or path.startswith(point + "/")), key=len)
        inner = path if point == "/" else path[len(point) :] or "/"
        return self._mounts[point], inner


def _is_child(path: str, folder: str) -> bool:
    return path != folder and posixpath.dirname(path) == folder
