"""The Terraform modules that a blueprint's roots call, and the providers that they pin: archives of both.

A folder of archives lies in the operator's mirror, beside what launches have fetched, and in a run's own folder, from
which its working directories are filled (`actions.terraform.modules`). Launches do not fetch providers: Terraform does,
into the cache that all runs share (`actions.terraform.providers`); where there is no way to the registry, an init takes
them from the mirror.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

from actions.base.errors import ConfigError, ConsoleError, FormatError, MissingError, RefusedError, UnreachableError
from actions.base.files import read_file, write_private
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import cache_folder, mirror_folder
from actions.blueprint.parameters import Binding, skipped_stages
from actions.blueprint.source_files import located
from actions.blueprint.stages import TerraformStage
from actions.terraform.modules import MAX_ARCHIVE_BYTES, ModuleRelease, module_calls, release_files
from actions.terraform.providers import MAX_PACKAGE_BYTES, ProviderPackage, locked_packages
from actions.terraform.working_directory import LOCK_FILE

_FOLDER = "modules"
_PACKAGES = "providers"
_DOWNLOAD_SECONDS = 1800.0


def archives_path(folder: Path) -> Path:
    """Return the folder of archives in a mirror, or in a run's folder."""
    return folder / _FOLDER


def called_modules(blueprint: Blueprint, skipped: Iterable[str] = ()) -> tuple[ModuleRelease, ...]:
    """Return the pinned releases that the roots of a blueprint call, each once.

    Args:
        blueprint: With a preset applied, or as it stands.
        skipped: Stages that are left out.
    """
    left_out = frozenset(skipped)
    stages = [each for each in blueprint.stages if isinstance(each, TerraformStage) and each.id not in left_out]
    calls = [call for stage in stages for call in module_calls(located(blueprint.folder, stage.root))]
    return tuple({call.release.key: call.release for call in calls}.values())


def needed_modules(blueprint: Blueprint, binding: Binding) -> tuple[ModuleRelease, ...]:
    """Return the releases that a run's roots call.

    Args:
        blueprint: With its preset applied.
        binding: The values of its parameters.
    """
    return called_modules(blueprint, skipped_stages(blueprint, binding))


def module_archive(release: ModuleRelease) -> Path | None:
    """Return the archive of a release on this machine, of the mirror first; `None` if there is none.

    Raises:
        FormatError, ConflictError: Its files are not those that are pinned.
    """
    for folder in (mirror_folder(), cache_folder()):
        path = archives_path(folder) / release.file_name
        if path.is_file():
            try:
                data = read_file(path, MAX_ARCHIVE_BYTES)
            except OSError as error:
                raise FormatError(f"{path} cannot be read: {error.strerror}.", hint="Remove it.") from error
            release_files(data, release)
            return path
    return None


async def fetch_module(folder: Path, release: ModuleRelease, *, total_seconds: float = 300.0) -> Path:
    """Fetch the archive of a release into a mirror.

    Raises:
        ConsoleError: It cannot be had, or its files are not those that are pinned.
    """
    from actions.cloud.download import download  # aiohttp: only a launch that has to fetch needs it

    data = await download(release.url, limit_bytes=MAX_ARCHIVE_BYTES, total_seconds=total_seconds)
    return take_module(folder, release, data)


def take_module(folder: Path, release: ModuleRelease, data: bytes) -> Path:
    """Put the archive of a release into a mirror.

    Raises:
        FormatError, ConflictError: Its files are not those that are pinned.
        ConfigError: It cannot be written.
    """
    release_files(data, release)
    return _put(archives_path(folder) / release.file_name, data)


def missing_modules(blueprint: Blueprint, binding: Binding) -> tuple[ModuleRelease, ...]:
    """Return the releases that a run's roots call and whose archives are not on this machine.

    Raises:
        FormatError, ConflictError: One that is here is not what is pinned.
    """
    return tuple(release for release in needed_modules(blueprint, binding) if module_archive(release) is None)


async def fetch_missing_modules(releases: Iterable[ModuleRelease], *, total_seconds: float = 60.0) -> list[str]:
    """Fetch archives before a launch. Without one Terraform fetches the module itself, if git is there.

    Returns:
        A sentence for each that cannot be had.

    Raises:
        MissingError, RefusedError, UnreachableError: One cannot be had, and git is not there either.
        FormatError, ConflictError: One is not what is pinned.
    """
    missing = tuple(releases)

    async def one(release: ModuleRelease) -> ConsoleError | None:
        try:
            await fetch_module(cache_folder(), release, total_seconds=total_seconds)
        except (MissingError, RefusedError, UnreachableError) as error:
            return error
        return None

    found = await asyncio.gather(*(one(release) for release in missing))
    for error in found if shutil.which("git") is None else ():
        if error is not None:
            raise error
    return [
        f"Terraform fetches {release.key} itself, with git: {error.sentence()}"
        for release, error in zip(missing, found, strict=True)
        if error is not None
    ]


def copy_archives(releases: Iterable[ModuleRelease], folder: Path) -> None:
    """Copy the archives that are on this machine into a run's folder.

    Raises:
        FormatError, ConflictError: One is not what is pinned.
        OSError: There is no room.
    """
    for release in releases:
        found = module_archive(release)
        if found is not None:
            archives_path(folder).mkdir(parents=True, exist_ok=True)
            write_private(archives_path(folder) / release.file_name, read_file(found, MAX_ARCHIVE_BYTES))


def packages_path(folder: Path) -> Path:
    """Return the folder of providers' archives in a mirror."""
    return folder / _PACKAGES


def pinned_packages(blueprint: Blueprint) -> tuple[ProviderPackage, ...]:
    """Return the packages that the lock files of a blueprint's roots pin, each once."""
    stages = [stage for stage in blueprint.stages if isinstance(stage, TerraformStage)]
    roots = dict.fromkeys(stage.root for stage in stages)
    found = [one for root in roots for one in locked_packages(located(blueprint.folder, root) / LOCK_FILE)]
    return tuple({package.key: package for package in found}.values())


async def fetch_package(folder: Path, package: ProviderPackage, platform: str) -> Path:
    """Fetch the archive of a package into a mirror.

    Raises:
        MissingError: Its address has to be asked of the registry.
        ConsoleError: It cannot be had, or is not what the lock file records.
    """
    from actions.cloud.download import download  # aiohttp: only this needs it

    url = package.url(platform)
    if not url:
        raise MissingError(
            f"The address of {package.key} has to be asked of the registry.",
            hint=f"Run terraform providers mirror -platform={platform} {packages_path(folder)} in its root.",
        )
    data = await download(url, limit_bytes=MAX_PACKAGE_BYTES, total_seconds=_DOWNLOAD_SECONDS)
    return take_package(folder, package, platform, data)


def take_package(folder: Path, package: ProviderPackage, platform: str, data: bytes) -> Path:
    """Put the archive of a package into a mirror, where `terraform init` looks for it.

    Raises:
        ConflictError: It is not what the lock file records.
        ConfigError: It cannot be written.
    """
    package.require(data, platform)
    return _put(package.path_in(packages_path(folder), platform), data)


def _put(path: Path, data: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Free some space there.") from error
    return path
