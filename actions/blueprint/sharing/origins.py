"""The address of a blueprint in a git repository, and the lock file that pins what was added from it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from actions.base.decoding import convert
from actions.base.errors import ConfigError, FormatError, UsageError
from actions.base.files import PRIVATE_FILE, is_program, private_directory, read_file, wait_for_lock, write_private
from actions.base.process import holders_of_locks
from actions.blueprint.catalogue import BLUEPRINT_ID
from actions.blueprint.copied_files import copied_files

LOCK_NAME = "blueprints.lock"
SCRATCH = ".fetched-"
"""Begins the names of folders that a change needs while it lasts."""
_HELD = ".held"
_LOCK_SCHEMA = "eksml-blueprints-lock/1"
_LOCK_SECONDS = 5.0
_LOCK_BYTES = 1 << 20
_COPIED = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<rest>/?[^/].*)")
"""An address as scp(1) writes it."""
_HOSTED = re.compile(r"(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)/(?P<rest>.+)")
"""A host and a path alone, as browsers show them: it is fetched over https."""
_PLAIN = re.compile(r"[\w./@+-]+")
"""A ref or a path: with nothing that is an option, a refspec or an expression of git."""
_FORMS = "Write https://HOST/OWNER/REPOSITORY, git@HOST:OWNER/REPOSITORY or a folder; then @REF and //PATH if need be."


class Origin(msgspec.Struct, frozen=True):
    """A place in a git repository.

    Args:
        repository: As git takes it.
        ref: A branch, a tag or a commit; empty: what the repository has as its HEAD.
        path: The folder in it; empty: the whole.
    """

    repository: str
    ref: str = ""
    path: str = ""

    def __str__(self) -> str:
        return self.repository + (f"@{self.ref}" if self.ref else "") + (f"//{self.path}" if self.path else "")


def parse_origin(text: str) -> Origin:
    """Return the place that `GIT[@REF][//PATH]` names.

    Raises:
        UsageError: It is none, or holds a password, which the lock file would keep.
    """
    scheme, separator, rest = text.partition("://")
    if separator:
        if scheme not in ("https", "ssh", "file"):
            raise UsageError(f"{scheme}:// is not an address that is fetched from.", hint=_FORMS)
        host, _, rest = rest.partition("/")
        if ":" in host.rpartition("@")[0] or (scheme == "https" and "@" in host):
            raise UsageError("The address holds a password or a token.", hint="Leave it to git's credential helper.")
        start = f"{scheme}://{host}/"
    elif found := _COPIED.fullmatch(text):
        start, rest = f"{found['user']}@{found['host']}:", found["rest"]
    elif text.startswith((".", "/", "~")):
        start, rest = "", text
    elif found := _HOSTED.fullmatch(text):
        start, rest = f"https://{found['host']}/", found["rest"]
    else:
        raise UsageError(f"{text!r} is not an address of a git repository.", hint=_FORMS)
    rest, _, path = rest.partition("//")
    place, at, ref = rest.partition("@")
    path = path.strip("/")
    for part in ([ref] if at else []) + ([path] if path else []):
        if not _PLAIN.fullmatch(part) or part.startswith("-") or ".." in part:
            raise UsageError(f"{part!r} is not a ref or a path in a repository.", hint=_FORMS)
    if not place.strip("/"):
        raise UsageError(f"{text!r} names no repository.", hint=_FORMS)
    return Origin(start + place if start else str(Path(place).expanduser().resolve()), ref, path)


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A blueprint as it was added. What is read of a lock file is what this program may have written there.

    Args:
        repository: See `Origin`.
        ref: See `Origin`.
        path: See `Origin`.
        commit: The commit that the ref was.
        sha256: The digest of its files, see `digest_of_folder`.
        added_at: RFC 3339, UTC.
    """

    repository: str
    ref: str
    path: str
    commit: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    added_at: str

    @property
    def origin(self) -> Origin:
        """The place that it is from."""
        return Origin(self.repository, self.ref, self.path)


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    blueprints: dict[Annotated[str, msgspec.Meta(pattern=f"^{BLUEPRINT_ID.pattern}$")], Pin]


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Keep other processes from changing a folder of blueprints, and remove what one that was killed has left there.

    Raises:
        ConfigError: The folder cannot be written, or another process does not end its own change.
    """
    path = private_directory(folder) / _HELD
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if not wait_for_lock(descriptor, _LOCK_SECONDS):
            who = ", ".join(holders_of_locks([path])) or "another process"
            raise ConfigError(f"{folder} is being changed by {who}.", hint="Wait until that has ended; then try again.")
        for left in folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def read_pins(folder: Path) -> dict[str, Pin]:
    """Return what was added into a folder of blueprints, by id; empty if nothing was.

    Raises:
        ConfigError: The lock file cannot be read, so what is in the folder is not known.
    """
    path = folder / LOCK_NAME
    hint = "Bring it back from a copy, or remove it: then its blueprints are taken for your own."
    try:
        data = read_file(path, _LOCK_BYTES)
        if re.search(rb"^<{7} ", data, re.MULTILINE):
            hint = "It holds a merge conflict of git: resolve that."
        value = msgspec.json.decode(data)
        lock = convert(value, _Lock)
        if lock.schema != _LOCK_SCHEMA:
            raise FormatError(f"its schema is {lock.schema!r}, not {_LOCK_SCHEMA}")
        for pin in lock.blueprints.values():
            parse_origin(str(pin.origin))
    except FileNotFoundError:
        return {}
    except (OSError, FormatError, UsageError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {str(error).rstrip('.')}.", hint=hint) from error
    return lock.blueprints


def write_pin(folder: Path, blueprint_id: str, pin: Pin | None) -> None:
    """Write the pin of a blueprint into the lock file of a folder that is held by `changing`, or that there is none.

    Raises:
        ConfigError: The lock file cannot be read.
    """
    pins = {name: kept for name, kept in read_pins(folder).items() if name != blueprint_id}
    lock = _Lock(_LOCK_SCHEMA, dict(sorted((pins | ({blueprint_id: pin} if pin else {})).items())))
    write_private(folder / LOCK_NAME, msgspec.json.format(msgspec.json.encode(lock), indent=2), b"\n")


def digest_of_folder(folder: Path) -> str:
    """Return the SHA-256 of a folder's files: of each its path, size, `x` if it may be run, and bytes, by path.

    Raises:
        BlueprintError: A link leads out of it, or it is too large for a blueprint.
    """
    digest = hashlib.sha256()
    for place, path in sorted(copied_files(folder).items()):
        data = read_file(path)
        digest.update(f"{place.as_posix()}\0{len(data)}{' x' if is_program(path) else ''}\0".encode() + data)
    return digest.hexdigest()
