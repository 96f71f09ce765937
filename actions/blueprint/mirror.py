"""Folders of operators' releases: what belongs into them, what lies in them, how sure that is, and how they are filled.

There are two: the mirror, which people fill, and what launches have fetched by themselves. In both lies
`NAME/VERSION/manifest.yaml` with its `manifest.yaml.sha256`, and `lock.json`, which keeps for every file where it came
from and what its digest was when it was first taken: from then on nothing else is accepted under that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, format_rfc3339
from actions.base.decoding import decode_json
from actions.base.errors import (
    BlueprintError,
    ConfigError,
    ConflictError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.base.files import read_file, write_private
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import (
    MANIFEST_FILE,
    MAX_BYTES,
    SUM_FILE,
    address_of,
    built_manifest,
    cache_folder,
    checked_bytes,
    digest_of,
    mirror_folder,
    needed_operators,
    recipe_of,
)
from actions.blueprint.parameters import Binding
from actions.blueprint.source_files import parse_manifests
from actions.blueprint.stages import ManifestsStage, Source

LOCK_FILE = "lock.json"
_AT_ONCE = 4
"""Files that are fetched at the same time, of one release."""


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
    """The address, or the file or folder that was given."""
    taken_at: str
    recipe: str = ""
    """Of a release of several files: `operators.recipe_of` when it was made of them."""


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
    for name in ("url", "sha256", "files", "namespace", "images", "changes"):
        one, other = getattr(known.source, name), getattr(source, name)
        if one and other and one != other:
            raise ConflictError(
                f"{known.blueprints[0]} and {blueprint} give two values for the {name} of {known.key}.",
                hint="Correct one of the two blueprints.",
            )
    best = known.source if known.source.is_pinned or not source.is_pinned else source
    best = replace(
        best,
        url=best.url or source.url,
        sha256=best.sha256 or source.sha256,
        made_by=best.made_by or source.made_by or known.source.made_by,
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
            return decode_json(read_file(path), dict[str, LockEntry])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FormatError(f"{path} cannot be read: {error}.", hint="Restore it, or begin a new mirror.") from error

    def held(self, source: Source) -> LockEntry | None:
        """The entry of a file that is there and is what it was when it was taken; `None` if there is none.

        What was made of several files is none of this release, once the blueprint names others or other steps.

        Raises:
            ConflictError: The file is another one than was taken, or than the blueprint records.
        """
        path = self.path_of(source)
        if not path.is_file():
            return None
        try:
            data = read_file(path, MAX_BYTES)
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror}.", hint="Remove it.") from error
        entry = self.lock().get(key_of(source))
        if entry is not None and entry.recipe != recipe_of(source) and entry.recipe:
            return None
        self._require(source, data, entry)
        recorded = entry or LockEntry(digest_of(data), len(data), Basis.BY_HAND, str(path), "")
        return replace(recorded, basis=Basis.RECORDED) if source.sha256 else recorded

    def take(self, source: Source, data: bytes, *, origin: str, by_hand: bool, clock: Clock) -> LockEntry:
        """Put a file into its place.

        Raises:
            ConflictError: It is not the one that was recorded, or taken the first time.
            FormatError: It holds no Kubernetes objects: a web page, half a file.
        """
        self._require(source, data, self.lock().get(key_of(source)))
        try:
            objects = parse_manifests(data, file=origin, limit_bytes=MAX_BYTES)
        except BlueprintError as error:
            raise FormatError(f"{origin} is not a file of Kubernetes objects: {error.message}") from error
        if not objects:
            raise FormatError(f"{origin} is empty.")
        basis = Basis.RECORDED if source.sha256 else Basis.BY_HAND if by_hand else Basis.FIRST_DOWNLOAD
        return self._keep(source, data, LockEntry(digest_of(data), len(data), basis, origin, _moment(clock)))

    def take_files(self, source: Source, files: Mapping[str, bytes], *, origin: str, clock: Clock) -> LockEntry:
        """Make one file of those of a release, and put it into its place.

        Raises:
            ConflictError: One of them is not the one that the blueprint records.
            FormatError: They cannot be made one.
        """
        for file, sha256 in source.files.items():
            require_digest(f"{file} of {key_of(source)}", files[file], sha256)
        try:
            data = built_manifest(source, files)
        except BlueprintError as error:
            raise FormatError(f"{key_of(source)} cannot be made of its files: {error.sentence()}") from error
        entry = LockEntry(digest_of(data), len(data), Basis.RECORDED, origin, _moment(clock), recipe_of(source))
        return self._keep(source, data, entry)

    def path_of(self, source: Source) -> Path:
        """Return the path of a release in the mirror."""
        return self.folder / source.name / source.version / MANIFEST_FILE

    def _keep(self, source: Source, data: bytes, entry: LockEntry) -> LockEntry:
        path = self.path_of(source)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, data)
            write_private(path.with_name(SUM_FILE), f"{entry.sha256}  {MANIFEST_FILE}\n".encode())
            lock = self.lock() | {key_of(source): entry}
            text = msgspec.json.format(msgspec.json.encode(lock, order="sorted"), indent=1)
            write_private(self.folder / LOCK_FILE, text + b"\n")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Free some space there.") from error
        return entry

    def _require(self, source: Source, data: bytes, entry: LockEntry | None) -> None:
        """Refuse bytes that are not those that are known."""
        if source.sha256:
            require_digest(key_of(source), data, source.sha256)
        elif entry is not None:
            require_digest(key_of(source), data, entry.sha256, recorded_by=f"{LOCK_FILE} recorded the first time")


def require_digest(what: str, data: bytes, sha256: str, *, recorded_by: str = "the blueprint records") -> None:
    """Refuse bytes that are not those that were recorded.

    Raises:
        ConflictError: They are others.
    """
    found = digest_of(data)
    if found != sha256.lower():
        raise ConflictError(
            f"{what} has the sha256 {found[:16]}…, and {recorded_by} {sha256[:16].lower()}….",
            hint="Find out why before you use it.",
        )


def _moment(clock: Clock) -> str:
    return format_rfc3339(clock.now())


async def fetch_release(mirror: Mirror, source: Source, *, clock: Clock, total_seconds: float = 300.0) -> LockEntry:
    """Fetch a release from its address into a folder.

    Args:
        mirror: The folder.
        source: The release; what is not pinned is taken as it comes.
        clock: Stamps the entry.
        total_seconds: The most that one file may take.

    Raises:
        MissingError: It has no address, or its server does not have it.
        ConflictError: It is not what the blueprint records.
        FormatError: It holds no Kubernetes objects.
        RefusedError, UnreachableError, ConfigError: See `download`.
    """
    from actions.cloud.download import download  # aiohttp: only a launch that has to fetch needs it

    if not source.url:
        raise MissingError(f"No single file of {key_of(source)} is known.", hint=mirror_command(source))
    if not source.files:
        data = await download(source.url, limit_bytes=MAX_BYTES, total_seconds=total_seconds)
        return mirror.take(source, data, origin=source.url, by_hand=False, clock=clock)
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(file: str) -> tuple[str, bytes]:
        async with places:
            address = address_of(source, file)
            return file, await download(address, limit_bytes=MAX_BYTES, total_seconds=total_seconds)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(file)) for file in source.files]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the others were cancelled, or fail for the same reason
    files = dict(task.result() for task in tasks)
    return mirror.take_files(source, files, origin=source.url, clock=clock)


def mirror_command(source: Source) -> str:
    """Return the command that brings a release into the mirror, in a sentence."""
    if source.url:
        return f"Run eksml-tui mirror {source.name}."
    how = f"Make it with {source.made_by} > FILE, then run" if source.made_by else "Run"
    return f"{how} eksml-tui mirror {source.name} --from FILE."


class CopyState(StrEnum):
    """The state of a release before a launch."""

    VERIFIED = "verified"
    """Here, and what the blueprint records."""
    UNVERIFIED = "unverified"
    """Here, as it came first or was given by hand."""
    FETCHED = "fetched"
    """Not here: the launch fetches it, and verifies it."""
    MISSING = "missing"
    """Not here, and nothing is recorded by which a launch could verify it: a person has to bring it."""


class OperatorCopy(msgspec.Struct, frozen=True):
    """One release that a run needs, and where it comes from."""

    name: str
    version: str
    state: CopyState
    note: str
    """Its place or origin and how sure that is, or the remedy, in a few words."""
    path: str = ""
    """Its file; empty if it is not here."""
    sha256: str = ""
    """Of that file."""


def operator_copies(blueprint: Blueprint, binding: Binding) -> tuple[OperatorCopy, ...]:
    """Return the releases that a run needs, from what lies on this machine. Nothing is fetched.

    Args:
        blueprint: With its preset applied.
        binding: The values of its parameters.

    Raises:
        BlueprintError: A file is not the one of the sum beside it.
        ConflictError: A file is not the one that the blueprint records, and was not given by hand.
    """
    return tuple(copy_of(source) for source in needed_operators(blueprint, binding))


def copy_of(source: Source) -> OperatorCopy:
    """Return the state of one release: of the mirror, else of what was fetched.

    Raises:
        BlueprintError, ConflictError: See `operator_copies`.
    """
    for folder in (mirror_folder(), cache_folder()):
        found = _copy_in(Mirror(folder), source)
        if found is not None:
            return found
    if not source.is_pinned:
        return OperatorCopy(source.name, source.version, CopyState.MISSING, mirror_command(source))
    files = f"{len(source.files)} files" if source.files else "1 file"
    note = f"{files} from {source.url}, sha256 recorded"
    return OperatorCopy(source.name, source.version, CopyState.FETCHED, note)


def _copy_in(mirror: Mirror, source: Source) -> OperatorCopy | None:
    path = mirror.path_of(source)
    if not path.is_file():
        return None
    sha256 = digest_of(checked_bytes(path, source))
    entry = mirror.lock().get(key_of(source))
    if entry is not None and entry.recipe and entry.recipe != recipe_of(source):
        return None  # made of other files than the blueprint names now
    if entry is not None and entry.basis is not Basis.BY_HAND:
        mirror.held(source)  # refuses what has changed
    is_verified = sha256 == source.sha256.lower() or (entry is not None and bool(entry.recipe))
    basis = Basis.BY_HAND if entry is None else entry.basis
    note = str(path) if is_verified else f"{basis.value}: {path}"
    state = CopyState.VERIFIED if is_verified else CopyState.UNVERIFIED
    return OperatorCopy(source.name, source.version, state, note, str(path), sha256)


async def fetch_missing(
    blueprint: Blueprint, binding: Binding, *, clock: Clock, total_seconds: float = 60.0
) -> list[str]:
    """Fetch what a run needs and what is not on this machine, before there is a run. Reading megabytes of YAML takes a
    second, so run it in a thread with a loop of its own.

    Args:
        blueprint: With its preset applied.
        binding: The values of its parameters.
        clock: Stamps what is fetched.
        total_seconds: The most that one file may take.

    Returns:
        With an existing cluster, where the operator may run already, a sentence for each that cannot be had. Otherwise
        nothing.

    Raises:
        ConsoleError: One cannot be had, or is not what the blueprint records.
    """
    sentences = []
    for source in needed_operators(blueprint, binding):
        try:
            await _fetch_one(source, clock, total_seconds)
        except (MissingError, RefusedError, UnreachableError) as error:
            if not binding.existing_cluster:
                raise
            sentences.append(
                f"{source.name} {source.version} can only be used as it is in the cluster: {error.sentence()}"
            )
    return sentences


async def _fetch_one(source: Source, clock: Clock, total_seconds: float) -> None:
    state = copy_of(source).state
    if state is CopyState.MISSING:
        raise MissingError(
            f"{source.name} {source.version} is not on this machine, and its blueprint records no sha256 for it.",
            hint=mirror_command(source),
        )
    if state is CopyState.FETCHED:
        await fetch_release(Mirror(cache_folder()), source, clock=clock, total_seconds=total_seconds)
