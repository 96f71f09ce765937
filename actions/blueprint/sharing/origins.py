"""The address of a blueprint in a git repository, and the lock file that pins what was added from it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from actions.base.decoding import convert
from actions.base.errors import ConfigError, FormatError, UsageError
from actions.base.files import private_directory, read_file, wait_for_lock, write_private
from actions.blueprint.copied_files import copied_files

LOCK_NAME = "blueprints.lock"
_LOCK_SCHEMA = "eksml-blueprints-lock/1"
_LOCK_SECONDS = 10.0
_LOCK_BYTES = 1 << 20
_COPIED = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<rest>[^/].*)")
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
    """A blueprint as it was added.

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
    commit: str
    sha256: str
    added_at: str

    @property
    def origin(self) -> Origin:
        """The place that it is from."""
        return Origin(self.repository, self.ref, self.path)


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    blueprints: dict[str, Pin]


def read_pins(folder: Path) -> dict[str, Pin]:
    """Return what was added into a folder of blueprints, by id; empty if nothing was.

    Raises:
        ConfigError: The lock file cannot be read, so what is in the folder is not known.
    """
    path = folder / LOCK_NAME
    hint = "Bring it back from a copy, or remove it: then its blueprints are taken for your own."
    try:
        value = msgspec.json.decode(read_file(path, _LOCK_BYTES))
        lock = convert(value, _Lock)
        if lock.schema != _LOCK_SCHEMA:
            raise FormatError(f"its schema is {lock.schema!r}, not {_LOCK_SCHEMA}")
    except FileNotFoundError:
        return {}
    except (OSError, FormatError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", hint=hint) from error
    return lock.blueprints


def write_pin(folder: Path, blueprint_id: str, pin: Pin | None) -> None:
    """Write the pin of a blueprint into the lock file, or that there is none; others may write theirs meanwhile.

    Raises:
        ConfigError: The lock file cannot be read, or another process does not end its own change.
    """
    held = os.open(private_directory(folder), os.O_RDONLY)
    try:
        if not wait_for_lock(held, _LOCK_SECONDS):
            raise ConfigError(f"{folder / LOCK_NAME} is being changed by another process.", hint="Try it again.")
        pins = {name: kept for name, kept in read_pins(folder).items() if name != blueprint_id}
        lock = _Lock(_LOCK_SCHEMA, dict(sorted((pins | ({blueprint_id: pin} if pin else {})).items())))
        write_private(folder / LOCK_NAME, msgspec.json.format(msgspec.json.encode(lock), indent=2), b"\n")
    finally:
        os.close(held)


def digest_of_folder(folder: Path) -> str:
    """Return the SHA-256 of a folder's files: of each its path, size and bytes, in the order of the paths.

    Raises:
        BlueprintError: A link leads out of it, or it is too large for a blueprint.
    """
    digest = hashlib.sha256()
    for place, path in sorted(copied_files(folder).items()):
        data = read_file(path)
        digest.update(f"{place.as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
