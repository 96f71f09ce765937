"""A blueprint's files from a git repository: fetched, written out, and looked at; nothing of them is run."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from actions.base.errors import (
    BlueprintError,
    ConfigError,
    ConsoleError,
    MissingError,
    RefusedError,
    ToolError,
    UnreachableError,
)
from actions.base.files import private_directory
from actions.base.process import run_tool_now
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.model import Blueprint
from actions.blueprint.sharing.origins import Origin
from actions.blueprint.source_files import FILE_NAME

_SECONDS = 120.0
_MOST_BYTES = 16 << 20
_MOST_FILES = 2000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SETTINGS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "credential.interactive=false",
)  # fmt: skip
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "https:ssh:file", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "GCM_INTERACTIVE": "never",
    "LC_ALL": "C.UTF-8",
}  # fmt: skip
_OF_THE_OPERATOR = (
    "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_CONFIG_GLOBAL",
)  # fmt: skip
"""Variables by which git reaches repositories on this machine."""
_POINTER = b"version https://git-lfs.github.com/spec/"
_REFUSED = re.compile(
    r"Permission denied|Authentication failed|could not read (?:Username|Password)|returned error: (?:401|403)"
    r"|dubious ownership|Host key verification failed"
)
_SILENT = re.compile(
    r"Could not resolve host|unable to access|timed out|Connection (?:refused|reset|closed)|No route to host"
    r"|Network is unreachable|unexpected disconnect|early EOF|returned error: (?:429|5\d\d)"
)
_BY_NAME_REFUSED = re.compile(r"not our ref|unadvertised object|couldn't find remote ref|no such remote ref")
_NO_NEWS = re.compile(r"warning:|remote:|hint:|Connection to |fatal: Could not read from remote", re.IGNORECASE)


class Fetched(msgspec.Struct, frozen=True):
    """A blueprint that was fetched, in a folder that goes when it is left.

    Args:
        blueprint: Its folder is the temporary one.
        commit: Of the repository.
    """

    blueprint: Blueprint
    commit: str


@contextmanager
def fetched(origin: Origin, into: Path) -> Iterator[Fetched]:
    """Fetch a blueprint, and check its files; nothing of them is run.

    Args:
        origin: Its place.
        into: The folder beside which it lies for now, so that it can be moved there in one step.

    Raises:
        MissingError: No such repository, ref or folder; or there is no git.
        RefusedError: It may not be read without logging in, or its certificate is not trusted.
        UnreachableError: The repository does not answer.
        BlueprintError: There is no blueprint, or it has mistakes: the first, with the others.
    """
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=private_directory(into)) as scratch:
        repository, folder = Path(scratch, "git"), Path(scratch, "files")
        folder.mkdir()
        try:
            commit = _fetch(origin, repository)
            files = _files(origin, repository, commit)
        except ToolError as error:
            raise _refusal(origin, error) from error
        _write_out(files, folder)
        _require_blueprint(origin, folder)
        if mistakes := validate(folder):
            first, place = mistakes[0], f"{folder}/"
            raise BlueprintError(
                f"{origin} has {len(mistakes)} mistake{'s' if mistakes[1:] else ''}: {str(first).replace(place, '')}",
                hint=first.hint,
            )
        yield Fetched(load_blueprint(folder), commit)


def _git(repository: Path, *words: str, stdin: bytes | None = None) -> bytes:
    """Run git in a repository. It asks for nothing, and runs nothing of the repository's.

    Raises:
        ToolError: It ended with an error.
        UnreachableError: It did not end in time.
        MissingError: There is no git.
    """
    environment = {name: os.environ[name] for name in _OF_THE_OPERATOR if name in os.environ} | _ENVIRONMENT
    argv = ["git", *_SETTINGS, f"--git-dir={repository}", *words]
    try:
        return run_tool_now(argv, deadline_seconds=_SECONDS, extra_environment=environment, stdin=stdin)
    except ToolError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise MissingError("git is not on PATH.", hint="Install git.") from error
        raise


def _fetch(origin: Origin, repository: Path) -> str:
    """Fetch the one commit of a place, without files that are too large for a blueprint; return its name."""
    wanted = origin.ref or "HEAD"
    place = Path(origin.repository).as_uri() if origin.repository.startswith("/") else origin.repository
    fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", f"--filter=blob:limit={_MOST_BYTES}")
    _git(repository, "init", "--quiet", "--bare", "--template=")
    try:
        _git(repository, *fetch, "--depth=1", "--", place, wanted)
        commit = "FETCH_HEAD"
    except ToolError as error:
        if not _COMMIT.fullmatch(wanted) or not _BY_NAME_REFUSED.search(error.tail):
            raise
        # not every server gives a commit by its name: all that is there, and it among them
        _git(repository, *fetch, "--", place, "+refs/*:refs/fetched/*")
        commit = wanted
    return _git(repository, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}").decode().strip()


def _refusal(origin: Origin, error: ToolError) -> ConsoleError:
    """Return the sentence for git's own."""
    lines = [line.strip() for line in error.tail.splitlines() if line.strip()]
    cause = next((line for line in lines if not _NO_NEWS.match(line)), lines[0] if lines else str(error))
    if _BY_NAME_REFUSED.search(error.tail) or "Needed a single revision" in error.tail:
        return MissingError(
            f"{origin.repository} has no {origin.ref or 'HEAD'!r}.",
            hint="Name a branch, a tag, or a commit with all of its digits.",
        )
    if "No space left on device" in error.tail:
        return ConfigError(f"{origin.repository} cannot be fetched: {cause}.", hint="Free some space.")
    if "certificate" in error.tail:
        return RefusedError(
            f"The certificate of {origin.repository} is not trusted: {cause}",
            hint="Let GIT_SSL_CAINFO name the file of its authority.",
        )
    if _REFUSED.search(error.tail):
        return RefusedError(
            f"{origin.repository} refuses: {cause}", hint="Make `git ls-remote` work on it; nothing is asked for here."
        )
    if _SILENT.search(error.tail):
        return UnreachableError(
            f"{origin.repository} does not answer: {cause}", hint="Check the network and HTTPS_PROXY."
        )
    return MissingError(
        f"{origin.repository} cannot be fetched: {cause}",
        hint="Check the address, and that `git ls-remote` may read it without asking for a password.",
    )


def _files(origin: Origin, repository: Path, commit: str) -> dict[str, bytes]:
    """Return the files of a folder as they were committed: no attribute, filter or line end changes them.

    Raises:
        MissingError: There is no such folder.
        BlueprintError: It has what is not a plain file, or is too large; all of it is in memory.
    """
    try:
        entries = _git(repository, "ls-tree", "-r", "-l", "-z", f"{commit}:{origin.path}").split(b"\0")[:-1]
    except ToolError as error:
        if "Not a valid object name" in error.tail:
            raise MissingError(
                f"{origin.repository} has no folder {origin.path!r} at {commit[:12]}.",
                hint="Name the folder behind //.",
            ) from error
        if "not a tree object" in error.tail:
            hint = "Name the folder that it is in."
            raise BlueprintError(f"{origin.path!r} is a file, not a folder.", hint=hint) from error
        raise
    names: dict[str, bytes] = {}
    most = _MOST_BYTES
    for entry in entries:
        details, _, path = entry.partition(b"\t")
        mode, _, name, size = details.split()
        place = os.fsdecode(path)
        _require_plain(place, mode)
        names[place] = name
        most -= int(size)
    if len(names) > _MOST_FILES or most < 0:
        limits = f"{_MOST_FILES} files or {_MOST_BYTES >> 20} MiB"
        raise BlueprintError(f"{origin} has more than {limits}, the limits of a blueprint.", hint="Name its folder.")
    return dict(zip(names, _contents(repository, names.values()), strict=True))


def _require_plain(place: str, mode: bytes) -> None:
    if mode == b"160000":
        raise BlueprintError(f"{place} is a submodule.", hint="Submodules are not taken: add its own repository.")
    if not mode.startswith(b"100"):
        raise BlueprintError(f"{place} is not a plain file.", hint="Links are not taken: copy the file.")
    if PurePosixPath(place).is_absolute() or {"..", ".git"} & {*place.split("/")}:
        raise BlueprintError(f"{place!r} leads out of the folder.", hint="Ask its authors to mend it.")


def _contents(repository: Path, names: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of objects, in the order of their names."""
    answer = _git(repository, "cat-file", "--batch", stdin=b"".join(name + b"\n" for name in names))
    start = 0
    while start < len(answer):
        end = answer.index(b"\n", start)
        size = int(answer[start:end].split()[2])
        yield answer[end + 1 : end + 1 + size]
        start = end + 1 + size + 1


def _write_out(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into an empty folder.

    Raises:
        BlueprintError: The content of one is elsewhere, or its name cannot be written.
    """
    for place, content in files.items():
        if content.startswith(_POINTER):
            hint = "Ask its authors to commit the file itself."
            raise BlueprintError(f"{place} is a pointer of Git LFS: its content is not in git.", hint=hint)
        target = folder / place
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            raise BlueprintError(f"{place} cannot be written: {error.strerror}.") from error


def _require_blueprint(origin: Origin, folder: Path) -> None:
    if (folder / FILE_NAME).is_file():
        return
    found = sorted(path.parent.relative_to(folder).as_posix() for path in folder.glob(f"**/{FILE_NAME}"))
    if not found:
        raise BlueprintError(f"{origin} has no {FILE_NAME}.", hint="Name the folder of a blueprint behind //.")
    below = f"{origin}{'/' if origin.path else '//'}"
    raise BlueprintError(
        f"{origin} is not a blueprint, and has {len(found)}: {', '.join(found[:8])}{', …' if found[8:] else ''}.",
        hint=f"Add one of them: {below}{found[0]}",
    )
