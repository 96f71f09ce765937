"""The files of a run that go into an archive, in an order that keeps a living run consistent, and without secrets.

The journal comes first: what it mentions is there already. Of each stage's output the list of containers and the points
come before the lines that they follow from, so that whatever is cut off is read again from the lines. Output is
archived in its segments; one with a secret is made anew without it.

What is not known to be free of secrets stays out, and the manifest lists it with the reason. Texts pass `redact`.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from actions.base.errors import ConsoleError, InputError
from actions.base.files import open_file, read_file
from actions.base.untrusted import redact
from actions.base.wording import listed
from actions.base.yamldoc import load_documents
from actions.run.journal.folder import (
    environment_path,
    journal_path,
    kubeconfig_path,
    load_environment,
    runner_log_path,
)
from actions.run.journal.schema import make_tables, migrate
from actions.run.journal.snapshot import SnapshotReader
from actions.run.journal.store import translated
from actions.run.output.segments import (
    SealedSegment,
    StreamReader,
    list_stream,
    moved_segment,
    plain_of,
    sealed,
    tail_name,
)
from actions.run.output.streams import COPIED, stages_with_output, stream_path
from actions.terraform.working_directory import SIMULATED_STATE

FOLDERS = ("blueprint", "operators", "modules", "terraform", "output")
"""The folders of a run that an archive holds."""
JOURNAL, ENVIRONMENT, KUBECONFIG, RUNNER_LOG = "journal.db", "environment.json", "kubeconfig", "runner.log"
SINGLE_FILES = (JOURNAL, ENVIRONMENT, KUBECONFIG, RUNNER_LOG)
_PIECE_BYTES = 1 << 20
_LARGEST_STATE_BYTES = 64 << 20
_SHOWN = 5

_PLAIN_VARIABLES = frozenset(
    {
        "AWS_CA_BUNDLE",
        "AWS_CONFIG_FILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_STS_REGIONAL_ENDPOINTS",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "EKSML_ALLOW_PLUGINS",
        "EKSML_IMAGE_REGISTRY",
        "KUBECONFIG",
        "NO_PROXY",
        "no_proxy",
    }
)
"""Variables whose values are names, places and switches. Of any other the value stays out."""
_PLAIN_USER = frozenset(
    {"client-certificate", "client-key", "tokenFile", "username", "as", "as-uid", "as-groups", "exec"}
)
"""Keys of a kubeconfig's user that are not secrets themselves."""
_SECRET_NAME = re.compile(r"passw|secret|token|private_key|credential|_pem$|access_key", re.I)
"""Attributes of resources that hold secrets though the state does not mark them: older Terraform marks few."""
_LEFT_OUT = re.compile(r"\.tfplan$|\.pid$|^terraform/[^/]+/[a-z]+\.log$|\.tmp$|/\.terraform/|/\.[^/]*\.(?:tmp|mended)$")
"""Saved plans hold every value in plain text; providers and modules are fetched again; the rest is of one process."""
_STATE = re.compile(r"\.tfstate(?:\.[a-z]+)*$")


class Withheld(msgspec.Struct, frozen=True):
    """Something of a run that is not in its archive."""

    path: str
    """In the run's folder; a name of a variable behind `environment.json:`."""
    why: str
    """A clause."""


class ArchiveEntry(msgspec.Struct, frozen=True):
    """One file of an archive."""

    path: str
    """In the run's folder, with `/`."""
    pieces: Callable[[], Iterator[bytes]]
    modified_at: float = 0.0


def contents(folder: Path, withheld: list[Withheld]) -> Iterator[ArchiveEntry]:
    """Yield the files of a run's archive in the order in which they have to be read.

    Args:
        folder: The run's.
        withheld: Gets what is left out.

    Raises:
        JournalError: The journal cannot be read.
        ConfigError: The environment cannot be.
    """
    journal = journal_image(folder)
    yield ArchiveEntry(JOURNAL, lambda: iter([journal]))
    environment = _environment(folder, withheld)
    yield ArchiveEntry(ENVIRONMENT, lambda: iter([environment]))
    if kubeconfig_path(folder).is_file():
        kubeconfig = _kubeconfig(kubeconfig_path(folder), withheld)
        yield ArchiveEntry(KUBECONFIG, lambda: iter([kubeconfig]))
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if _LEFT_OUT.search(name):
            continue
        if _STATE.search(name) and path.name != SIMULATED_STATE:  # that has names and parameters, which are redacted
            reason = secrets_of_state(path)
            if reason:
                withheld.append(Withheld(name, reason))
                continue
        yield ArchiveEntry(name, _reading(path, name), _modified(path))
    for stage in stages_with_output(folder):
        for stream in COPIED:
            yield from _stream(folder, stream_path(folder, stage, stream))
    yield ArchiveEntry(RUNNER_LOG, _reading(runner_log_path(folder), RUNNER_LOG))


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files of the folders that are archived. Links are left out: nothing of a run is one."""
    for name in FOLDERS[:-1]:
        found = [path for path in (folder / name).rglob("*") if path.is_file() and not path.is_symlink()]
        yield from sorted(found, key=lambda path: (path.parent, path.name))


def _stream(folder: Path, place: Path) -> Iterator[ArchiveEntry]:
    """Yield the segments of a stream and its open end, as they are now and without secrets."""
    listing = list_stream(place)
    parts = StreamReader(place).stretches(listing.tail) if listing.tail is not None else []
    end = redacted(b"".join(part.data or b"" for part in parts))
    prefix, shift = place.relative_to(folder).as_posix(), 0
    for segment in listing.segments:
        kept, data = _without_secrets(segment, read_file(place / segment.name), shift)
        yield ArchiveEntry(f"{prefix}/{kept.name}", partial(_once, data), _modified(place / segment.name))
        shift += kept.length - segment.length
    if listing.tail is not None:
        yield ArchiveEntry(f"{prefix}/{tail_name(listing.tail + shift)}", partial(_once, end), _modified(place))


def _without_secrets(segment: SealedSegment, data: bytes, shift: int) -> tuple[SealedSegment, bytes]:
    """Return a segment with its content, behind earlier ones that are longer by `shift` than they were."""
    plain, place = plain_of(segment, data), segment.place + shift
    if plain is None:
        return SealedSegment(place, segment.length, segment.checksum), data
    kept = redacted(plain)
    return (moved_segment(segment, data, place), data) if kept == plain else sealed(place, kept)


def _once(data: bytes) -> Iterator[bytes]:
    yield data


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _reading(path: Path, name: str) -> Callable[[], Iterator[bytes]]:
    if name.startswith("modules/"):  # public, pinned by digest, and compressed: nothing in it reads as a secret
        return lambda: iter([read_file(path)])
    return lambda: _pieces(path, is_growing=name == RUNNER_LOG)


def _pieces(path: Path, *, is_growing: bool) -> Iterator[bytes]:
    """Yield a file as it is now, without secrets, in whole lines; of one that grows, whole lines alone."""
    try:
        with open_file(path) as file:
            left, rest = os.fstat(file.fileno()).st_size, b""
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                whole, newline, rest = (rest + piece).rpartition(b"\n")
                if newline:
                    yield redacted(whole + newline)
            if rest and not is_growing:
                yield redacted(rest)
    except FileNotFoundError:
        return


def redacted(data: bytes) -> bytes:
    """Return bytes with every known secret and likely credential in them replaced; others stay as they are."""
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def journal_image(folder: Path) -> bytes:
    """Return the journal as it is now, as one SQLite file of the present version, without a lease and without secrets.

    Raises:
        JournalError: It cannot be read.
    """
    path = journal_path(folder)
    with translated(path):
        source = SnapshotReader(path).connect()
        if source is None:
            return b""
        with closing(source), closing(sqlite3.connect(":memory:", isolation_level=None)) as target:
            migrate(source, path)
            make_tables(target, folder.name)
            for name, value in source.execute("SELECT name, value FROM meta"):
                target.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
            for *row, text in source.execute("SELECT seq, at, writer, kind, stage, attempt, json FROM record"):
                target.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, redact(text)))
            return target.serialize()


def _environment(folder: Path, withheld: list[Withheld]) -> bytes:
    kept: dict[str, str] = {}
    if environment_path(folder).exists():
        for name, value in load_environment(folder).items():
            if not value or (name in _PLAIN_VARIABLES and "@" not in value and redact(value) == value):
                kept[name] = value
            else:
                withheld.append(Withheld(f"{ENVIRONMENT}:{name}", "a variable's value may be a secret"))
    return msgspec.json.encode(kept)


def _kubeconfig(path: Path, withheld: list[Withheld]) -> bytes:
    try:
        documents = load_documents(read_file(path), file=str(path), kind=InputError)
        document = documents[0].value
        left_out = list(_without_credentials(document))
    except (ConsoleError, OSError, UnicodeDecodeError, IndexError, AttributeError, TypeError):
        withheld.append(Withheld(KUBECONFIG, "it cannot be read"))
        return b"{}"
    if left_out:
        withheld.append(Withheld(KUBECONFIG, f"without {listed(left_out, _SHOWN)}"))
    return redacted(msgspec.json.format(msgspec.json.encode(document)))


def _without_credentials(document: dict[str, Any]) -> Iterator[str]:
    """Remove credentials from a kubeconfig, and yield the names of what was removed."""
    for cluster in document.get("clusters") or []:
        if "@" in str(cluster["cluster"].get("proxy-url", "")):
            del cluster["cluster"]["proxy-url"]
            yield "proxy-url"
    for entry in document.get("users") or []:
        user = entry["user"]
        for key in [key for key in user if key not in _PLAIN_USER]:
            del user[key]
            yield key
        plugin = user.get("exec") or {}
        for variable in [each for each in plugin.get("env") or [] if each.get("name") not in _PLAIN_VARIABLES]:
            plugin["env"].remove(variable)
            yield f"exec variable {variable.get('name')}"


def secrets_of_state(path: Path) -> str:
    """Return why a Terraform state is not put into an archive, as a clause; empty if nothing in it may be a secret."""
    try:
        if path.stat().st_size > _LARGEST_STATE_BYTES:
            return "a state of this size is not searched for secrets"
        data = read_file(path)
        state = msgspec.json.decode(data) if data.strip() else {}
        found = list(dict.fromkeys(_secrets_in(state)))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, AttributeError, TypeError):
        return "the state cannot be read"
    if found:
        return f"the state holds values that may be secrets, of {listed(found, _SHOWN)}"
    return "" if redacted(data) == data else "the state holds a secret"


def _secrets_in(state: Mapping[str, Any]) -> Iterator[str]:
    for name, output in (state.get("outputs") or {}).items():
        if output.get("sensitive") and output.get("value") not in (None, ""):
            yield f"output {name}"
    for resource in state.get("resources") or []:
        for instance in resource.get("instances") or []:
            if instance.get("sensitive_attributes") or _has_secret(instance.get("attributes") or {}):
                yield f"{resource.get('type')}.{resource.get('name')}"


def _has_secret(value: object, name: str = "") -> bool:
    match value:
        case dict():
            return any(_has_secret(inner, key) for key, inner in value.items())
        case list():
            return any(_has_secret(inner, name) for inner in value)
        case str():
            return bool(value) and _SECRET_NAME.search(name) is not None and not value.startswith("arn:")
    return False


def require_path(path: str) -> PurePosixPath:
    """Return the path of an entry, if an archive may have it.

    Raises:
        ValueError: It leads elsewhere, or to a file that no archive holds.
    """
    parts = path.split("/")
    is_plain = all(part not in ("", ".", "..") and part.isprintable() and "\\" not in part for part in parts)
    is_known = path in SINGLE_FILES or (len(parts) > 1 and parts[0] in FOLDERS)
    if not is_plain or not is_known or len(os.fsencode(path)) > 1000 or len(parts) > 32:
        raise ValueError(path)
    return PurePosixPath(path)
