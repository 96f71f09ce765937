"""`eksml-tui mirror`: a local copy of the operators that blueprints pin."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, MissingError, UnreadableError
from actions.base.files import read_bounded
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.mirror import Basis, LockEntry, Mirror, PinnedOperator, fetch, pinned_operators, remedy_of
from actions.blueprint.operators import MAX_BYTES, mirror_folder

_FAILED = 1


class _Line(msgspec.Struct):
    """The outcome for one operator."""

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
        0 if every requested operator is in the mirror.
    """
    blueprints = Catalogue.usual(options.blueprints).list()
    wanted = _chosen(pinned_operators(blueprints), options.name)
    if options.source is not None and len(wanted) != 1:
        raise ConfigError("--from gives one file: name one operator.", hint="Write eksml-tui mirror NAME --from FILE.")
    mirror = Mirror((options.to or mirror_folder()).expanduser())
    lines = [_line(mirror, one, options) for one in wanted]
    if options.output == "json":
        document = {"folder": str(mirror.folder), "operators": lines}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")
    else:
        sys.stdout.write("".join(f"{_sentence(line)}\n" for line in lines))
    for line in lines:
        if line.error:
            sys.stderr.write(f"eksml-tui: {line.error}\n")
    return _FAILED if any(line.error for line in lines) else 0


def _chosen(wanted: list[PinnedOperator], names: list[str]) -> list[PinnedOperator]:
    """Select operators by their names or those of blueprints; all of them without names."""
    for name in names:
        if not any(name in (one.source.name, one.key, *one.blueprints) for one in wanted):
            known = ", ".join(sorted({one.source.name for one in wanted}))
            raise MissingError(f"No blueprint pins an operator {name!r}.", hint=f"Known: {known}.")
    return [
        one for one in wanted if not names or any(name in (one.source.name, one.key, *one.blueprints) for name in names)
    ]


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
        line.error = f"{wanted.key} is not in {mirror.folder}. {remedy_of(wanted.source)}"
        return line
    line.state = "held" if held else "taken"
    line.sha256, line.basis, line.origin = entry.sha256, entry.basis.value, entry.origin
    return line


def _take(mirror: Mirror, wanted: PinnedOperator, given: Path | None) -> LockEntry:
    source, clock = wanted.source, SystemClock()
    if given is None:
        return asyncio.run(fetch(mirror, source, clock=clock))
    if given.is_dir() and source.files:
        files = {file: _bytes_of(given / file) for file in source.files}
        return mirror.take_files(source, files, origin=str(given), clock=clock)
    return mirror.take(source, _bytes_of(given), origin=str(given), by_hand=True, clock=clock)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bounded(path, MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableError(f"It cannot be read: {error.strerror or error}.", file=str(path)) from error


def _sentence(line: _Line) -> str:
    head = f"{line.name} {line.version}: {line.state}"
    if line.sha256 is None:
        return head
    trust = {
        Basis.RECORDED.value: "verified against the sha256 in the blueprint",
        Basis.FIRST_DOWNLOAD.value: "UNVERIFIED: the blueprint records no sha256; this one is recorded from now on",
        Basis.BY_HAND.value: "UNVERIFIED: given by hand; its sha256 is recorded from now on",
    }[line.basis or ""]
    return f"{head}, sha256 {line.sha256[:16]}…, {trust} ({line.origin})"
