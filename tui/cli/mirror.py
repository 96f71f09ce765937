"""`eksml-tui mirror`: a local copy of the operators, Terraform modules and providers that blueprints pin."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, UnknownNameError, UnreadableError
from actions.base.files import expanded, read_file
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.mirror import (
    Basis,
    LockEntry,
    Mirror,
    PinnedOperator,
    fetch_release,
    mirror_command,
    pinned_operators,
)
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import MAX_BYTES, digest_of, mirror_folder
from actions.blueprint.terraform_modules import (
    archives_path,
    called_modules,
    fetch_module,
    fetch_package,
    packages_path,
    pinned_packages,
)
from actions.terraform.modules import MAX_ARCHIVE_BYTES, ModuleRelease, release_files
from actions.terraform.providers import MAX_PACKAGE_BYTES, ProviderPackage, this_platform
from tui.cli.tables.output import print_table

_FAILED = 1


class _Line(msgspec.Struct):
    """The outcome for one operator, module or provider."""

    name: str
    version: str
    state: str
    """`taken`, `held` or `missing`."""
    sha256: str | None
    basis: str | None
    origin: str | None
    blueprints: tuple[str, ...]
    error: str | None = None


def run(options: Namespace) -> int:
    """Add what is missing, and check what is there.

    Returns:
        0 if everything that was asked for is in the mirror.
    """
    blueprints = Catalogue.usual(options.blueprints).list()
    others: list[_CalledModule | _PinnedProvider] = [*_called(blueprints), *_pinned(blueprints)]
    _require_known(options.name, [*pinned_operators(blueprints), *others])
    wanted = [one for one in pinned_operators(blueprints) if _is_asked_for(one, options.name)]
    others = [one for one in others if _is_asked_for(one, options.name)] if options.source is None else []
    if options.source is not None and len(wanted) != 1:
        raise ConfigError("--from gives one file: name one operator.", hint="Write eksml-tui mirror NAME --from FILE.")
    mirror = Mirror(expanded(options.to or mirror_folder()))
    lines = [_line(mirror, one, options) for one in wanted]
    modules = [_module_line(mirror.folder, one, options) for one in others if isinstance(one, _CalledModule)]
    providers = [_provider_line(mirror.folder, one, options) for one in others if isinstance(one, _PinnedProvider)]
    everything = [*lines, *modules, *providers]
    kinds = {"operators": lines, "modules": modules, "providers": providers}
    document: object = {"folder": str(mirror.folder), **kinds}
    if options.output in ("csv", "wide"):
        document = [{"kind": kind, **msgspec.to_builtins(line)} for kind, few in kinds.items() for line in few]
    print_table(
        options.output,
        table=lambda: "".join(f"{_sentence(line)}\n" for line in everything),
        document=lambda: msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n",
    )
    for line in everything:
        if line.error:
            sys.stderr.write(f"eksml-tui: {line.error}\n")
    return _FAILED if any(line.error for line in everything) else 0


class _CalledModule(msgspec.Struct, frozen=True):
    """A Terraform module, with the blueprints whose roots call it."""

    release: ModuleRelease
    blueprints: tuple[str, ...]


class _PinnedProvider(msgspec.Struct, frozen=True):
    """A Terraform provider, with the blueprints whose roots pin it."""

    package: ProviderPackage
    blueprints: tuple[str, ...]


_Wanted = PinnedOperator | _CalledModule | _PinnedProvider


def _called(blueprints: Sequence[Blueprint]) -> list[_CalledModule]:
    found: dict[str, _CalledModule] = {}
    for blueprint in blueprints:
        for release in called_modules(blueprint):
            users = found[release.key].blueprints if release.key in found else ()
            found[release.key] = _CalledModule(release, (*users, blueprint.id))
    return [found[key] for key in sorted(found)]


def _pinned(blueprints: Sequence[Blueprint]) -> list[_PinnedProvider]:
    found: dict[str, _PinnedProvider] = {}
    for blueprint in blueprints:
        for package in pinned_packages(blueprint):
            known = found.get(package.key, _PinnedProvider(package, ()))
            sha256s = known.package.sha256s | package.sha256s
            found[package.key] = _PinnedProvider(replace(package, sha256s=sha256s), (*known.blueprints, blueprint.id))
    return [found[key] for key in sorted(found)]


def _names(wanted: _Wanted) -> tuple[str, ...]:
    """Return the words that choose one; its own comes first."""
    if isinstance(wanted, PinnedOperator):
        return (wanted.source.name, wanted.key, *wanted.blueprints)
    if isinstance(wanted, _PinnedProvider):
        return (wanted.package.name, wanted.package.key, *wanted.blueprints)
    return (wanted.release.source, wanted.release.key, *wanted.blueprints)


def _is_asked_for(wanted: _Wanted, names: Sequence[str]) -> bool:
    """Return whether one is named, or its blueprint; without names, all are."""
    return not names or bool({*names} & {*_names(wanted)})


def _require_known(names: Sequence[str], wanted: Sequence[_Wanted]) -> None:
    for name in names:
        if not any(name in _names(one) for one in wanted):
            known = ", ".join(sorted({_names(one)[0] for one in wanted}))
            raise UnknownNameError(f"No blueprint pins an operator {name!r}.", hint=f"Known: {known}.")


def _module_line(folder: Path, wanted: _CalledModule, options: Namespace) -> _Line:
    release = wanted.release
    line = _Line(release.source, release.version, "missing", None, None, None, wanted.blueprints)
    path = archives_path(folder) / release.file_name
    try:
        if path.is_file():
            release_files(_bytes_of(path, MAX_ARCHIVE_BYTES), release)
            line.state = "held"
        elif options.check:
            line.error = f"{release.key} is not in {folder}. Run eksml-tui mirror {release.source}."
            return line
        else:
            asyncio.run(fetch_module(folder, release))
            line.state = "taken"
        line.sha256 = digest_of(_bytes_of(path, MAX_ARCHIVE_BYTES))
    except ConsoleError as error:
        line.error = error.sentence()
        return line
    line.basis, line.origin = Basis.RECORDED.value, release.url
    return line


def _provider_line(folder: Path, wanted: _PinnedProvider, options: Namespace) -> _Line:
    package = wanted.package
    line = _Line(package.name, package.version, "missing", None, None, None, wanted.blueprints)
    try:
        platform = options.platform or this_platform()
        path = package.path_in(packages_path(folder), platform)
        if path.is_file():
            package.require(_bytes_of(path, MAX_PACKAGE_BYTES), platform)
            line.state = "held"
        elif options.check:
            line.error = f"{package.key} for {platform} is not in {folder}. Run eksml-tui mirror {package.name}."
            return line
        else:
            asyncio.run(fetch_package(folder, package, platform))
            line.state = "taken"
        line.sha256 = digest_of(_bytes_of(path, MAX_PACKAGE_BYTES))
    except ConsoleError as error:
        line.error = error.sentence()
        return line
    line.basis, line.origin = Basis.RECORDED.value, package.url(platform)
    return line


def _line(mirror: Mirror, wanted: PinnedOperator, options: Namespace) -> _Line:
    source = wanted.source
    line = _Line(source.name, source.version, "missing", None, None, None, wanted.blueprints)
    try:
        held = None if options.source is not None else mirror.held(source)
        entry = held or (None if options.check else _take(mirror, wanted, options.source))
    except ConsoleError as error:
        line.error = error.sentence()
        return line
    if entry is None:
        line.error = f"{wanted.key} is not in {mirror.folder}. {mirror_command(wanted.source)}"
        return line
    line.state = "held" if held else "taken"
    line.sha256, line.basis, line.origin = entry.sha256, entry.basis.value, entry.origin
    return line


def _take(mirror: Mirror, wanted: PinnedOperator, given: Path | None) -> LockEntry:
    source, clock = wanted.source, SystemClock()
    if given is None:
        return asyncio.run(fetch_release(mirror, source, clock=clock))
    if given.is_dir() and source.files:
        files = {file: _bytes_of(given / file) for file in source.files}
        return mirror.take_files(source, files, origin=str(given), clock=clock)
    return mirror.take(source, _bytes_of(given), origin=str(given), by_hand=True, clock=clock)


def _bytes_of(path: Path, limit: int = MAX_BYTES) -> bytes:
    try:
        return read_file(path, limit, may_be_pipe=True)
    except OSError as error:
        raise UnreadableError(f"It cannot be read: {error.strerror or error}.", file=str(path)) from error


def _sentence(line: _Line) -> str:
    head = f"{line.name} {line.version}: {line.state}"
    if line.sha256 is None:
        return head
    trust = {
        Basis.RECORDED.value: "verified against what is recorded",
        Basis.FIRST_DOWNLOAD.value: "UNVERIFIED: the blueprint records no sha256; this one is recorded from now on",
        Basis.BY_HAND.value: "UNVERIFIED: given by hand; its sha256 is recorded from now on",
    }[line.basis or ""]
    return f"{head}, sha256 {line.sha256[:16]}…, {trust} ({line.origin})"
