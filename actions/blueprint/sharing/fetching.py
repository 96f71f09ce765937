"""A blueprint's files from a git repository: fetched, written out, and looked at; nothing of them is run."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from actions.base.errors import BlueprintError, ConsoleError, MissingError, RefusedError, ToolError, UnreachableError
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
_SAFELY = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never",
    "-c", "submodule.recurse=false", "-c", "gc.auto=0",
)  # fmt: skip
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "LC_ALL": "C.UTF-8"}


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
        RefusedError: It may not be read without logging in.
        UnreachableError: The repository does not answer.
        BlueprintError: There is no blueprint, or it has mistakes: the first, with the others.
    """
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=private_directory(into)) as scratch:
        repository, folder = Path(scratch, "git"), Path(scratch, "files")
        folder.mkdir()
        commit = _fetch(origin, repository)
        _write_out(_archive(origin, repository, commit), folder)
        _require_blueprint(origin, folder)
        if mistakes := validate(folder):
            first, place = mistakes[0], f"{folder}/"
            raise BlueprintError(
                f"{origin} has {len(mistakes)} mistake{'s' if mistakes[1:] else ''}: {str(first).replace(place, '')}",
                hint=first.hint,
            )
        yield Fetched(load_blueprint(folder), commit)


def _git(repository: Path, *words: str) -> bytes:
    argv = ["git", *_SAFELY, "-C", str(repository), *words]
    return run_tool_now(argv, deadline_seconds=_SECONDS, extra_environment=_ENVIRONMENT)


def _fetch(origin: Origin, repository: Path) -> str:
    """Fetch the one commit of a place; return its name."""
    repository.mkdir()
    try:
        _git(repository, "init", "--quiet", "--bare")
        wanted = origin.ref or "HEAD"
        try:
            _git(repository, "fetch", "--quiet", "--no-tags", "--depth=1", "--", origin.repository, wanted)
        except ToolError:
            if not _COMMIT.fullmatch(wanted):
                raise
            # not every server gives a commit by its name: all that is there, and it among them
            _git(repository, "fetch", "--quiet", "--", origin.repository, "+refs/*:refs/fetched/*")
            return (
                _git(repository, "rev-parse", "--verify", "--end-of-options", f"{wanted}^{{commit}}").decode().strip()
            )
        return _git(repository, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
    except ToolError as error:
        raise _refusal(origin, error) from error


def _refusal(origin: Origin, error: ToolError) -> ConsoleError:
    """Return the sentence for git's own."""
    last = next((line for line in reversed(error.tail.splitlines()) if line.strip()), str(error))
    if "couldn't find remote ref" in error.tail or "Needed a single revision" in error.tail:
        return MissingError(f"{origin.repository} has no {origin.ref!r}.", hint="Name a branch, a tag or a commit.")
    if "Could not resolve host" in error.tail or "unable to access" in error.tail or "timed out" in error.tail:
        return UnreachableError(
            f"{origin.repository} does not answer: {last}", hint="Check the network and HTTPS_PROXY."
        )
    if any(word in error.tail for word in ("Permission denied", "Authentication failed", "could not read Username")):
        return RefusedError(f"{origin.repository} refuses: {last}", hint="Log in to it; git asks for nothing here.")
    return MissingError(
        f"{origin.repository} cannot be fetched: {last}",
        hint="Check the address, and that `git ls-remote` may read it without asking for a password.",
    )


def _archive(origin: Origin, repository: Path, commit: str) -> bytes:
    """Return the files of a folder as a tar, after their sizes were looked at: all of it is in memory."""
    try:
        entries = _git(repository, "ls-tree", "-r", "-l", "-z", f"{commit}:{origin.path}").split(b"\0")[:-1]
        sizes = [entry.split(None, 4)[3] for entry in entries]
        if len(sizes) > _MOST_FILES or sum(int(size) for size in sizes if size.isdigit()) > _MOST_BYTES:
            limits = f"{_MOST_FILES} files or {_MOST_BYTES >> 20} MiB"
            raise BlueprintError(f"it has more than {limits}, the limits of a blueprint.", hint="Name its folder.")
        return _git(repository, "archive", "--format=tar", f"{commit}:{origin.path}")
    except ToolError as error:
        raise MissingError(
            f"{origin.repository} has no folder {origin.path!r} at {commit[:12]}.", hint="Name the folder behind //."
        ) from error


def _write_out(archive: bytes, folder: Path) -> None:
    """Write the plain files of an archive into an empty folder.

    Raises:
        BlueprintError: It has a link, or a name that leads elsewhere.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            place = PurePosixPath(member.name)
            if place.is_absolute() or ".." in place.parts:
                raise BlueprintError(f"{member.name!r} leads out of the folder.", hint="Ask its authors to mend it.")
            if member.isdir():
                continue
            source = tar.extractfile(member) if member.isreg() else None
            if source is None:
                raise BlueprintError(f"{member.name} is not a plain file.", hint="Links are not taken: copy the file.")
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read())


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
