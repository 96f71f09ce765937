"""`eksml-tui mirror`: a local copy of the operators, Terraform modules and providers that blueprints pin."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, MissingError, UnknownNameError, UnreadableError
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


_Had = tuple[str, str, str, str]
"""State, SHA-256, basis and origin of a `_Line`."""


class _Wanted(msgspec.Struct, frozen=True):
    """One operator, module or provider that blueprints pin."""

    kind: str
    name: str
    version: str
    blueprints: tuple[str, ...]
    had: Callable[[Mirror, Namespace], _Had]
    """Look for it in a mirror, and add it unless only to check; raises a `ConsoleError` if it is not there then."""

    def words(self) -> set[str]:
        """The words that choose it."""
        return {self.name, f"{self.name}/{self.version}", *self.blueprints}


def run(options: Namespace) -> int:
    """Add what is missing, and check what is there.

    Returns:
        0 if everything that was asked for is in the mirror.
    """
    wanted = [*_wanted(Catalogue.usual(options.blueprints).list())]
    for name in options.name:
        if not any(name in one.words() for one in wanted):
            known = ", ".join(sorted({one.name for one in wanted}))
            raise UnknownNameError(f"No blueprint pins an operator {name!r}.", hint=f"Known: {known}.")
    wanted = [one for one in wanted if not options.name or one.words() & {*options.name}]
    if options.source is not None:
        wanted = [one for one in wanted if one.kind == "operators"]
        if len(wanted) != 1:
            hint = "Write eksml-tui mirror NAME --from FILE."
            raise ConfigError("--from gives one file: name one operator.", hint=hint)
    mirror = Mirror(expanded(options.to or mirror_folder()))
    everything = [(one.kind, _line(mirror, one, options)) for one in wanted]
    kinds = {kind: [line for of, line in everything if of == kind] for kind in ("operators", "modules", "providers")}
    document: object = {"folder": str(mirror.folder), **kinds}
    if options.output in ("csv", "wide"):
        document = [{"kind": kind, **msgspec.to_builtins(line)} for kind, line in everything]
    print_table(
        options.output,
        table=lambda: "".join(f"{_sentence(line)}\n" for _, line in everything),
        document=lambda: msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n",
    )
    errors = [line.error for _, line in everything if line.error]
    sys.stderr.writelines(f"eksml-tui: {error}\n" for error in errors)
    return _FAILED if errors else 0


def _wanted(blueprints: Sequence[Blueprint]) -> Iterator[_Wanted]:
    for one in pinned_operators(blueprints):
        yield _Wanted("operators", one.source.name, one.source.version, one.blueprints, partial(_operator, one))
    modules: dict[str, tuple[ModuleRelease, list[str]]] = {}
    providers: dict[str, tuple[ProviderPackage, list[str]]] = {}
    for blueprint in blueprints:
        for release in called_modules(blueprint):
            modules.setdefault(release.key, (release, []))[1].append(blueprint.id)
        for package in pinned_packages(blueprint):
            known, users = providers.get(package.key, (package, []))
            merged = replace(package, sha256s=known.sha256s | package.sha256s)
            providers[package.key] = (merged, [*users, blueprint.id])
    for _, (release, users) in sorted(modules.items()):
        yield _Wanted("modules", release.source, release.version, tuple(users), partial(_module, release))
    for _, (package, users) in sorted(providers.items()):
        yield _Wanted("providers", package.name, package.version, tuple(users), partial(_provider, package))


def _line(mirror: Mirror, wanted: _Wanted, options: Namespace) -> _Line:
    line = _Line(wanted.name, wanted.version, "missing", None, None, None, wanted.blueprints)
    try:
        line.state, line.sha256, line.basis, line.origin = wanted.had(mirror, options)
    except ConsoleError as error:
        line.error = error.sentence()
    return line


def _operator(pinned: PinnedOperator, mirror: Mirror, options: Namespace) -> _Had:
    held = None if options.source is not None else mirror.held(pinned.source)
    if held is None and options.check:
        raise MissingError(f"{pinned.key} is not in {mirror.folder}.", hint=mirror_command(pinned.source))
    entry = held or _take(mirror, pinned, options.source)
    return "held" if held else "taken", entry.sha256, entry.basis.value, entry.origin


def _module(release: ModuleRelease, mirror: Mirror, options: Namespace) -> _Had:
    path, folder = archives_path(mirror.folder) / release.file_name, mirror.folder
    state = "held" if path.is_file() else "taken"
    if state == "held":
        release_files(_bytes_of(path, MAX_ARCHIVE_BYTES), release)
    elif options.check:
        raise MissingError(f"{release.key} is not in {folder}.", hint=f"Run eksml-tui mirror {release.source}.")
    else:
        asyncio.run(fetch_module(folder, release))
    return state, digest_of(_bytes_of(path, MAX_ARCHIVE_BYTES)), Basis.RECORDED.value, release.url


def _provider(package: ProviderPackage, mirror: Mirror, options: Namespace) -> _Had:
    platform, folder = options.platform or this_platform(), mirror.folder
    path = package.path_in(packages_path(folder), platform)
    state = "held" if path.is_file() else "taken"
    if state == "held":
        package.require(_bytes_of(path, MAX_PACKAGE_BYTES), platform)
    elif options.check:
        missing = f"{package.key} for {platform} is not in {folder}."
        raise MissingError(missing, hint=f"Run eksml-tui mirror {package.name}.")
    else:
        asyncio.run(fetch_package(folder, package, platform))
    return state, digest_of(_bytes_of(path, MAX_PACKAGE_BYTES)), Basis.RECORDED.value, package.url(platform)


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
