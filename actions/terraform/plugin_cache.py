"""The providers in the cache that all runs share: which working directories need them, and the removal of the others.

A working directory holds links into the cache. Every init notes its directory there, so that runs of other state
folders count, too; a note of a directory that is gone is dropped. Looking and removing hold the lock of an init.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import RefusedError
from actions.base.files import private_directory, read_file, take_lock, user_cache_folder, write_private
from actions.base.readonly import refuse_if_readonly
from actions.terraform.program import PUBLIC_REGISTRY
from actions.terraform.working_directory import PROVIDERS_FOLDER

LOCK_FILE = "eksml-tui.lock"
_USERS_FILE = "eksml-tui.users.json"
_LEVELS = "*/*/*/*/*"
"""Host, owner, name, version, platform: the folders of a cache, and those of a working directory."""


class CachedProvider(msgspec.Struct, frozen=True):
    """One version of a provider in the cache."""

    name: str
    """As in `required_providers`: `hashicorp/aws`; with its host if that is not the public registry."""
    version: str
    platform: str
    folder: Path
    size_bytes: int
    used_by: tuple[Path, ...]
    """Working directories with a link to it."""


def plugin_cache_folder() -> Path:
    """Return the folder of the cache; it may not exist."""
    return user_cache_folder() / "terraform-plugins"


def note_user(cache: Path, work: Path) -> None:
    """Note a working directory as a user of the cache. The caller holds the lock of the cache.

    Raises:
        OSError: There is no room.
    """
    users = {path for path in (*_users(cache), work.absolute()) if path.is_dir()}
    write_private(cache / _USERS_FILE, msgspec.json.encode(sorted(map(str, users))))


def survey_providers(works: Iterable[Path] = (), *, cache: Path | None = None) -> tuple[CachedProvider, ...]:
    """Return what is in the cache, by name and version.

    Args:
        works: Working directories beside those that are noted.
        cache: The folder of the cache, if not the usual one.
    """
    place = cache or plugin_cache_folder()
    if not place.is_dir():
        return ()
    links = dict(_links(place, {*works, *_users(place)}))
    used: dict[Path, list[Path]] = {}
    for link, work in links.items():
        used.setdefault(link.resolve(), []).append(work)
    return tuple(
        CachedProvider(
            name="/".join(folder.relative_to(place).parts[:3]).removeprefix(f"{PUBLIC_REGISTRY}/"),
            version=folder.parts[-2],
            platform=folder.parts[-1],
            folder=folder,
            size_bytes=_size_of(folder),
            used_by=tuple(sorted(used.get(folder.resolve(), ()))),
        )
        for folder in sorted(place.glob(_LEVELS))
        if folder.is_dir()
    )


def remove_unused_providers(works: Iterable[Path] = (), *, cache: Path | None = None) -> tuple[CachedProvider, ...]:
    """Remove what no working directory needs; an init brings it back.

    Args:
        works: Working directories beside those that are noted.
        cache: The folder of the cache, if not the usual one.

    Returns:
        What was removed.

    Raises:
        RefusedError: An init is using the cache now, or this process is read-only.
    """
    refuse_if_readonly("the removal of Terraform's providers")
    place = cache or plugin_cache_folder()
    if not place.is_dir():
        return ()
    with _locked(place):
        unused = tuple(item for item in survey_providers(works, cache=place) if not item.used_by)
        for item in unused:
            gone = place / f".{os.getpid()}.removed"
            item.folder.rename(gone)  # in one step: an init finds all of it, or nothing
            shutil.rmtree(gone, ignore_errors=True)
            _remove_empty(item.folder.parent, place)
    return unused


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    private_directory(place)
    with (place / LOCK_FILE).open("w") as lock:
        if not take_lock(lock.fileno()):
            raise RefusedError("A terraform init is using the cache of providers.", hint="Try again when it has ended.")
        yield


def _users(cache: Path) -> list[Path]:
    try:
        return [Path(name) for name in decode_json(read_file(cache / _USERS_FILE), list[str])]
    except (OSError, msgspec.DecodeError):
        return []


def _links(cache: Path, works: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield the links of working directories into the cache, each with its directory."""
    place = cache.resolve()
    for work in works:
        for link in (work / PROVIDERS_FOLDER).glob(_LEVELS):
            if link.is_symlink() and link.resolve().is_relative_to(place):
                yield link, work


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _remove_empty(folder: Path, place: Path) -> None:
    """Remove folders that have become empty, up to the cache itself."""
    while folder != place and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
