"""`eksml-tui blueprints add`, `update` and `remove`: blueprints of git repositories, pinned in a lock file."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from msgspec.structs import replace

from actions.base.clock import SystemClock, format_rfc3339
from actions.base.errors import BlueprintError, ConfigError, Mistakes, RefusedError, UnknownNameError, UsageError
from actions.base.files import config_folder, shipped_blueprints
from actions.base.untrusted import one_line, plain_text
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint
from actions.blueprint.sharing.effects import effects_of
from actions.blueprint.sharing.fetching import SILENT_SECONDS, Fetched, fetched
from actions.blueprint.sharing.origins import (
    SCRATCH,
    Origin,
    Pin,
    changing,
    digest_of_folder,
    parse_origin,
    read_pins,
    write_pin,
)
from actions.blueprint.source_files import SHARED
from tui.cli.target import asked

_CHANGED = "changed here"
_WORD_SECONDS = 5.0


def add_blueprint(options: Namespace) -> int:
    """Fetch a blueprint, print what it may do, ask, and keep it with its pin; nothing of it is run."""
    origin = parse_origin(options.origin)
    with _changing() as folder, _fetched(origin, folder) as found:
        name = found.blueprint.id
        _require_free(name, folder)
        _say(f"{name}: {one_line(found.blueprint.title)}\n{origin} at {found.commit[:12]}\n")
        _say("When it is launched, it")
        for line in effects_of(found.blueprint):
            _say(f"  {one_line(line)}")
        _require_yes(f"\nAdd {name}?", options, "Nothing was added.")
        _keep(found, origin, folder)
    _say(f"Look at it: eksml-tui blueprints show {name}; what a launch would make: eksml-tui plan {name}")
    return 0


def update_blueprints(options: Namespace) -> int:
    """Fetch blueprints anew, print what differs, ask, and take them; without names all that were added."""
    mistakes = Mistakes()
    with _changing() as folder:
        pins = read_pins(folder)
        for name in options.names or sorted(pins):
            with mistakes.collected():
                _update(name, _pin_of(name, pins), folder, options)
    mistakes.require_none()
    return 0


def _update(name: str, pin: Pin, folder: Path, options: Namespace) -> None:
    _require_unchanged(name, pin, folder)
    origin = parse_origin(str(replace(pin.origin, ref=options.ref))) if options.ref else pin.origin
    with _fetched(origin, folder) as found:
        if found.blueprint.id != name:
            raise BlueprintError(f"{origin} is now {found.blueprint.id}, not {name}.", hint="Add it under that id.")
        is_there = (folder / name).exists()  # an update that was killed leaves the pin alone
        if is_there and digest_of_folder(found.blueprint.folder) == pin.sha256 and origin == pin.origin:
            _say(f"{name} is as it was at {pin.commit[:12]}.")
            return
        sys.stdout.write(plain_text(found.repository.difference(found.commit, folder / name)))
        before = set(effects_of(Catalogue([folder]).find(name))) if is_there else set()
        if new := [line for line in effects_of(found.blueprint) if line not in before]:
            _say("It now also")
            for line in new:
                _say(f"  {one_line(line)}")
        sys.stdout.flush()
        question = f"\nUpdate {name} from {pin.commit[:12]} to {found.commit[:12]}?"
        _require_yes(question, options, f"{name} was not changed.")
        _keep(found, origin, folder)
        _say(f"{name} is that of {origin} at {found.commit[:12]} now.")


def remove_blueprint(options: Namespace) -> int:
    """Remove a blueprint that was added, and its pin; its runs have copies of their own."""
    name = options.blueprint
    with _changing() as folder, TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch:
        pin = _pin_of(name, read_pins(folder))
        if is_changed(name, pin, folder) and not options.yes:
            raise RefusedError(f"{folder / name} was changed after it was added.", hint="Keep a copy, then add --yes.")
        if (folder / name).exists():
            (folder / name).rename(Path(scratch, name))
        write_pin(folder, name, None)
    return 0


def origin_of(blueprint: Blueprint, pins: dict[str, Pin]) -> str:
    """Return where a blueprint is from: `shipped`, a folder of the operator's, or the repository with its commit."""
    if blueprint.folder.is_relative_to(shipped_blueprints()):
        return "shipped"
    pin = pins.get(blueprint.id)
    if pin is None or blueprint.folder.parent != _own_folder():
        return str(blueprint.folder)
    suffix = f", {_CHANGED}" if is_changed(blueprint.id, pin, blueprint.folder.parent) else ""
    return f"{pin.origin} at {pin.commit[:12]}{suffix}"


def own_pins() -> dict[str, Pin]:
    """Return the pins of the operator's own folder of blueprints."""
    return read_pins(_own_folder())


def is_changed(name: str, pin: Pin, folder: Path) -> bool:
    """Return whether a blueprint's files are not those that were added; of one that is gone, no."""
    try:
        return (folder / name).exists() and digest_of_folder(folder / name) != pin.sha256
    except (BlueprintError, OSError):  # nothing that cannot be read was added
        return True


def _own_folder() -> Path:
    return config_folder() / "blueprints"


@contextmanager
def _changing() -> Iterator[Path]:
    """Hold the operator's own folder of blueprints. A signal ends the work in order, as Ctrl+C does."""
    folder = _own_folder()
    ends = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ends:
        signal.signal(number, signal.default_int_handler)
    try:
        with changing(folder):
            yield folder
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _fetched(origin: Origin, folder: Path) -> Iterator[Fetched]:
    """Fetch a blueprint; a person who waits for it reads for what, and how that ends."""
    end = f"It is given up when nothing comes for {SILENT_SECONDS:.0f} s; Ctrl+C ends it now."
    word = Timer(_WORD_SECONDS, _say, [f"Waiting for {origin.repository}. {end}"])
    word.start()
    try:
        with fetched(origin, folder) as found:
            word.cancel()
            yield found
    finally:
        word.cancel()


def _keep(found: Fetched, origin: Origin, folder: Path) -> None:
    """Pin the files, then move them to their place: with the pin alone, `add` and `update` bring them again."""
    name, fresh = found.blueprint.id, found.blueprint.folder
    pin = Pin(
        origin.repository,
        origin.ref,
        origin.path,
        commit=found.commit,
        sha256=digest_of_folder(fresh),
        added_at=format_rfc3339(SystemClock().now()),
    )
    write_pin(folder, name, pin)
    if (folder / name).exists():
        (folder / name).rename(fresh.parent / "before")
    fresh.rename(folder / name)


def _require_free(name: str, folder: Path) -> None:
    if name == SHARED:
        raise ConfigError(f"{name!r} is the folder of what blueprints share.", hint="Its authors have to rename it.")
    if (shipped_blueprints() / name).exists():
        raise ConfigError(f"{name} is a blueprint that ships with the program.", hint="Its authors have to rename it.")
    if (folder / name).exists():
        hint = f"eksml-tui blueprints update {name}, or remove it first."
        raise ConfigError(f"{folder / name} is there already.", hint=hint)


def _pin_of(name: str, pins: dict[str, Pin]) -> Pin:
    if name not in pins:
        known = ", ".join(sorted(pins)) or "none"
        raise UnknownNameError(f"{name!r} was not added from a repository.", hint=f"Those that were: {known}.")
    return pins[name]


def _require_unchanged(name: str, pin: Pin, folder: Path) -> None:
    if is_changed(name, pin, folder):
        raise RefusedError(
            f"{folder / name} was changed after it was added, and an update would lose that.",
            hint="Rename the folder and its id to keep it, or remove it with --yes and add it again.",
        )


def _require_yes(question: str, options: Namespace, otherwise: str) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("Without a terminal it cannot be confirmed.", hint="Read the lines above, then add --yes.")
    if not asked(question):
        raise RefusedError(otherwise)


def _say(text: str) -> None:
    sys.stderr.write(f"{plain_text(text)}\n")
