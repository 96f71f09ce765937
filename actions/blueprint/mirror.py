"""A mirror folder of operator manifests: what belongs into it, what lies in it, and how sure that is.

`NAME/VERSION/manifest.yaml` with its `manifest.yaml.sha256`, and `lock.json`, which keeps for every file where it came
from and what its digest was when it was first taken: from then on nothing else is accepted under that name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import BlueprintError, ConflictError, FormatError
from actions.base.files import write_private
from actions.blueprint.model import Blueprint
from actions.blueprint.source_files import MANIFEST_FILE, SUM_FILE, parse_manifests
from actions.blueprint.stages import ManifestsStage, Source

LOCK_FILE = "lock.json"


class Basis(StrEnum):
    """The reason to trust a file."""

    RECORDED = "recorded"
    """The blueprint pins its digest."""
    FIRST_DOWNLOAD = "first download"
    """No digest is recorded: it is what came first, from the address in the blueprint."""
    BY_HAND = "given by hand"
    """It was added by hand."""


class LockEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the mirror."""

    sha256: str
    size: int
    basis: Basis
    origin: str
    """The address, or the file that was given."""
    taken_at: str


class PinnedOperator(msgspec.Struct, frozen=True):
    """An operator that blueprints pin."""

    source: Source
    blueprints: tuple[str, ...]

    @property
    def key(self) -> str:
        """`NAME/VERSION`."""
        return key_of(self.source)


def key_of(source: Source) -> str:
    """Return `NAME/VERSION`: the path of a source in a mirror, and its key in the lock file."""
    return f"{source.name}/{source.version}"


def pinned_operators(blueprints: Iterable[Blueprint]) -> list[PinnedOperator]:
    """Return every operator that any blueprint pins, once, by name.

    Raises:
        ConflictError: Two blueprints pin the same version differently.
    """
    found: dict[str, PinnedOperator] = {}
    for blueprint in blueprints:
        for stage in blueprint.stages:
            if isinstance(stage, ManifestsStage) and stage.source is not None:
                known = found.get(key_of(stage.source))
                found[key_of(stage.source)] = _joined(known, stage.source, blueprint.id)
    return [found[key] for key in sorted(found)]


def _joined(known: PinnedOperator | None, source: Source, blueprint: str) -> PinnedOperator:
    if known is None:
        return PinnedOperator(source, (blueprint,))
    for name in ("url", "sha256"):
        one, other = getattr(known.source, name), getattr(source, name)
        if one and other and one != other:
            raise ConflictError(
                f"{known.blueprints[0]} and {blueprint} give two values for the {name} of {known.key}.",
                hint="Correct one of the two blueprints.",
            )
    best = replace(
        known.source,
        url=known.source.url or source.url,
        sha256=known.source.sha256 or source.sha256,
        made_by=known.source.made_by or source.made_by,
    )
    return PinnedOperator(best, tuple(dict.fromkeys((*known.blueprints, blueprint))))


class Mirror:
    """A folder that is filled.

    Args:
        folder: Made when the first file is taken.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lock(self) -> dict[str, LockEntry]:
        """Return the files of the mirror, by `NAME/VERSION`.

        Raises:
            FormatError: The lock file is damaged.
        """
        path = self.folder / LOCK_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, LockEntry])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:
            raise FormatError(f"{path} cannot be read: {error}.", hint="Restore it, or begin a new mirror.") from error

    def held(self, source: Source) -> LockEntry | None:
        """The entry of a file that is there and is what it was when it was taken; `None` if there is none.

        Raises:
            ConflictError: The file is another one than was taken, or than the blueprint records.
        """
        path = self._path(source)
        if not path.is_file():
            return None
        data = path.read_bytes()
        entry = self.lock().get(key_of(source))
        self._require(source, data, entry)
        recorded = entry or LockEntry(_digest(data), len(data), Basis.BY_HAND, str(path), "")
        return replace(recorded, basis=Basis.RECORDED) if source.sha256 else recorded

    def take(self, source: Source, data: bytes, *, origin: str, by_hand: bool, clock: Clock) -> LockEntry:
        """Put a file into its place.

        Raises:
            ConflictError: It is not the one that was recorded, or taken the first time.
            FormatError: It holds no Kubernetes objects: a web page, half a file.
        """
        self._require(source, data, self.lock().get(key_of(source)))
        try:
            objects = parse_manifests(data, file=origin)
        except BlueprintError as error:
            raise FormatError(f"{origin} is not a file of Kubernetes objects: {error.message}") from error
        if not objects:
            raise FormatError(f"{origin} is empty.")
        basis = Basis.RECORDED if source.sha256 else Basis.BY_HAND if by_hand else Basis.FIRST_DOWNLOAD
        entry = LockEntry(_digest(data), len(data), basis, origin, format_rfc3339(clock.now()))
        path = self._path(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, data)
        write_private(path.with_name(SUM_FILE), f"{entry.sha256}  {MANIFEST_FILE}\n".encode())
        lock = self.lock() | {key_of(source): entry}
        text = msgspec.json.format(msgspec.json.encode(lock, order="sorted"), indent=1)
        write_private(self.folder / LOCK_FILE, text + b"\n")
        return entry

    def _path(self, source: Source) -> Path:
        return self.folder / source.name / source.version / MANIFEST_FILE

    def _require(self, source: Source, data: bytes, entry: LockEntry | None) -> None:
        """Refuse bytes that are not those that are known."""
        expected = source.sha256.lower() or (entry.sha256 if entry else "")
        found = _digest(data)
        if expected and expected != found:
            where = "the blueprint records" if source.sha256 else f"{LOCK_FILE} recorded the first time"
            raise ConflictError(
                f"{key_of(source)} has the sha256 {found[:16]}…, and {where} {expected[:16]}….",
                hint="Find out why before you use it.",
            )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
