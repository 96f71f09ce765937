"""A blueprint's files from a git repository: fetched, written out, and looked at; nothing of them is run."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from actions.base.files import is_program, private_directory, write_private
from actions.base.process import run_tool_now
from actions.base.untrusted import is_plain
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.copied_files import copied_files
from actions.blueprint.model import Blueprint
from actions.blueprint.sharing.origins import SCRATCH, Origin
from actions.blueprint.source_files import FILE_NAME

SILENT_SECONDS = 30.0
"""A repository that sends nothing for so long is given up."""
_SECONDS = 300.0
"""For one that sends slowly."""
_MOST_SENT_BYTES = 1 << 30
_MOST_PRINTED_BYTES = 64 << 20
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
_PROGRAM, _FILE = "100755", "100644"
"""Modes of git."""
_POINTER = b"version https://git-lfs.github.com/spec/"
_MEANINGS: tuple[tuple[type[ConsoleError], str, str, str], ...] = (
    (
        MissingError,
        r"not our ref|unadvertised object|couldn't find remote ref|no such remote ref|Needed a single revision",
        "{0.repository} has no {ref!r}",
        "Name a branch, a tag, or a commit with all of its digits.",
    ),
    (MissingError, r"Not a valid object name", "{0.repository} has no folder {0.path!r}", "Name the folder behind //."),
    (BlueprintError, r"not a tree object", "{0.path!r} is a file, not a folder", "Name the folder that it is in."),
    (
        MissingError,
        r"^fatal: repository .* not found$|Repository not found|does not appear to be a git repository",
        "{0.repository} is not there",
        "Check the address; a server may also hide what you may not read.",
    ),
    (ConfigError, r"No space left on device", "{0.repository} cannot be fetched", "Free some space."),
    (
        RefusedError,
        r"': .*certificate",
        "The certificate of {0.repository} is not trusted",
        "Let GIT_SSL_CAINFO name the file of its authority.",
    ),
    (
        RefusedError,
        r"Permission denied|Authentication failed|could not read (?:Username|Password)|returned error: (?:401|403)"
        r"|dubious ownership|Host key verification failed",
        "{0.repository} refuses",
        "Make `git ls-remote` work on it; nothing is asked for here.",
    ),
    (
        UnreachableError,
        r"Could not resolve|Failed to connect|timed out|Connection (?:refused|reset|closed)|Broken pipe"
        r"|No route to host|Network is unreachable|hung up unexpectedly|unexpected disconnect|early EOF"
        r"|non-properly terminated|returned error: (?:429|5\d\d)",
        "{0.repository} does not answer",
        "Check the network and HTTPS_PROXY.",
    ),
)
"""Errors by what git or a server has written: the first that matches a line. Anything else is not known."""
_NO_NEWS = re.compile(
    r"(?:remote|hint):\s*\W*$|Connection to |fatal: Could not read from remote repository|Please make sure you have"
    r"|and the repository exists"
)


class GitRepository(msgspec.Struct, frozen=True):
    """A repository of git with what was fetched, in a scratch folder: it asks for nothing, and runs nothing of it.

    Its methods raise a `MissingError` for what is certainly not there, a `RefusedError` or an `UnreachableError` for
    what only this machine may not see, or not now, and a `ToolError` with git's own last line for all else.
    """

    origin: Origin
    folder: Path

    def fetch(self) -> str:
        """Fetch the one commit, without files that are too large for a blueprint; return its name."""
        origin, wanted = self.origin, self.origin.ref or "HEAD"
        place = Path(origin.repository).as_uri() if origin.repository.startswith("/") else origin.repository
        fetch = ("fetch", "--progress", "--no-tags", "--no-recurse-submodules", f"--filter=blob:limit={_MOST_BYTES}")
        self._git("init", "--quiet", "--bare", "--template=")
        try:
            self._git(*fetch, "--depth=1", "--", place, wanted)
            commit = "FETCH_HEAD"
        except MissingError:
            if not _COMMIT.fullmatch(wanted):
                raise
            # not every server gives a commit by its name: all that is there, and it among them
            self._git(*fetch, "--", place, "+refs/*:refs/fetched/*")
            commit = wanted
        return self._git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}").decode().strip()

    def files(self, commit: str) -> dict[str, tuple[bytes, bool]]:
        """Return the files of the folder as they were committed, and which may be run: no attribute changes them.

        Raises:
            BlueprintError: It has what is not a plain file, or is too large; all of it is in memory.
        """
        names: dict[str, bytes] = {}
        programs = set()
        most = _MOST_BYTES
        for entry in self._git("ls-tree", "-r", "-l", "-z", f"{commit}:{self.origin.path}").split(b"\0")[:-1]:
            details, _, path = entry.partition(b"\t")
            mode, _, name, size = details.decode().split()
            place = os.fsdecode(path)
            _require_plain(place, mode)
            names[place] = name.encode()
            programs |= {place} if mode == _PROGRAM else set()
            most -= int(size)
        if len(names) > _MOST_FILES or most < 0:
            raise self._too_large()
        contents = zip(names, self._contents(names.values()), strict=True)
        return {place: (content, place in programs) for place, content in contents}

    def difference(self, commit: str, before: Path) -> str:
        """Return the difference from a folder to that of the commit, as git prints it: modes, and what is not text."""
        files = copied_files(before) if before.exists() else {}
        paths = b"".join(os.fsencode(path) + b"\n" for path in files.values())
        names = self._git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths).decode().split()
        index = b"".join(
            f"{_PROGRAM if is_program(path) else _FILE} {name}\t".encode() + os.fsencode(place) + b"\0"
            for name, (place, path) in zip(names, files.items(), strict=True)
        )
        self._git("update-index", "-z", "--index-info", stdin=index)
        tree = self._git("write-tree").decode().strip()
        plain = ("--no-ext-diff", "--no-textconv")
        diff = self._git("diff-tree", "-r", "-p", *plain, tree, f"{commit}:{self.origin.path}")
        return diff.decode(errors="replace")

    def _contents(self, names: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes of objects, in the order of their names."""
        answer = self._git("cat-file", "--batch", stdin=b"".join(name + b"\n" for name in names))
        start = 0
        while start < len(answer):
            end = answer.index(b"\n", start)
            size = int(answer[start:end].split()[2])
            yield answer[end + 1 : end + 1 + size]
            start = end + 1 + size + 1

    def _git(self, *words: str, stdin: bytes | None = None) -> bytes:
        environment = {name: os.environ[name] for name in _OF_THE_OPERATOR if name in os.environ} | _ENVIRONMENT
        argv = ["git", *_SETTINGS, f"--git-dir={self.folder}", *words]
        try:
            return run_tool_now(
                argv, deadline_seconds=_SECONDS, extra_environment=environment, stdin=stdin, look=self._limits()
            )
        except UnreachableError as error:
            message = f"{self.origin.repository} does not answer: {error.message}"
            raise UnreachableError(message, hint="Check the network and HTTPS_PROXY.") from error
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise MissingError("git is not on PATH.", hint="Install git.") from error
            raise self._refusal(error) from error

    def _limits(self) -> Callable[[int], None]:
        """Return a function that looks at what git has fetched and printed, and raises when that is enough."""
        seen, since = -1, time.monotonic()

        def look(printed: int) -> None:
            nonlocal seen, since
            sent = 0
            with suppress(OSError):  # git renames its files
                sent = sum(path.stat().st_size for path in self.folder.rglob("*"))
            if sent > _MOST_SENT_BYTES or printed > _MOST_PRINTED_BYTES:
                raise self._too_large()
            if sent + printed != seen:
                seen, since = sent + printed, time.monotonic()
            elif time.monotonic() - since > SILENT_SECONDS:
                raise UnreachableError(f"nothing has come for {SILENT_SECONDS:.0f} s.")

        return look

    def _too_large(self) -> BlueprintError:
        limits = f"{_MOST_FILES} files or {_MOST_BYTES >> 20} MiB"
        return BlueprintError(
            f"{self.origin} has more than {limits}, the limits of a blueprint.", hint="Name its folder."
        )

    def _refusal(self, error: ToolError) -> ConsoleError:
        """Return the error that git's own means."""
        lines = [line.strip() for line in re.split(r"[\r\n]", error.tail) if line.strip()]
        for kind, pattern, message, hint in _MEANINGS:
            if line := next((line for line in lines if re.search(pattern, line)), None):
                return kind(f"{message.format(self.origin, ref=self.origin.ref or 'HEAD')}: {line}", hint=hint)
        news = [line for line in lines if not _NO_NEWS.match(line)] or lines
        hint = f"Try `git ls-remote {self.origin.repository}`."
        return ToolError(
            ("git", "fetch", self.origin.repository), exit_code=error.exit_code, tail="\n".join(news[-1:]), hint=hint
        )


class Fetched(msgspec.Struct, frozen=True):
    """A blueprint that was fetched, in a folder that goes when it is left.

    Args:
        blueprint: Its folder is the temporary one.
        commit: Of the repository.
        repository: With that commit.
    """

    blueprint: Blueprint
    commit: str
    repository: GitRepository


@contextmanager
def fetched(origin: Origin, into: Path) -> Iterator[Fetched]:
    """Fetch a blueprint, and check its files; nothing of them is run.

    Args:
        origin: Its place.
        into: The folder in which it lies for now, so that it can be moved to its place there in one step.

    Raises:
        ConsoleError: See `GitRepository`; or there is no git.
        BlueprintError: There is no blueprint, or it has mistakes: the first, with the others.
    """
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=private_directory(into)) as scratch:
        folder = Path(scratch, "files")
        folder.mkdir()
        repository = GitRepository(origin, Path(scratch, "git"))
        commit = repository.fetch()
        _write_out(repository.files(commit), folder)
        _require_blueprint(origin, folder)
        if mistakes := validate(folder):
            first, place = mistakes[0], f"{folder}/"
            raise BlueprintError(
                f"{origin} has {len(mistakes)} mistake{'s' if mistakes[1:] else ''}: {str(first).replace(place, '')}",
                hint=first.hint,
            )
        yield Fetched(load_blueprint(folder), commit, repository)


def _require_plain(place: str, mode: str) -> None:
    if mode == "160000":
        raise BlueprintError(f"{place} is a submodule.", hint="Submodules are not taken: add its own repository.")
    if not mode.startswith("100"):
        raise BlueprintError(f"{place} is not a plain file.", hint="Links are not taken: copy the file.")
    if not is_plain(place):
        raise BlueprintError(f"{place!r} has a control character.", hint="Ask its authors to rename it.")
    if PurePosixPath(place).is_absolute() or {"..", ".git"} & {*place.split("/")}:
        raise BlueprintError(f"{place!r} leads out of the folder.", hint="Ask its authors to mend it.")


def _write_out(files: Mapping[str, tuple[bytes, bool]], folder: Path) -> None:
    """Write files into an empty folder.

    Raises:
        BlueprintError: The content of one is elsewhere, or its name cannot be written.
    """
    for place, (content, may_run) in files.items():
        if content.startswith(_POINTER):
            hint = "Ask its authors to commit the file itself."
            raise BlueprintError(f"{place} is a pointer of Git LFS: its content is not in git.", hint=hint)
        target = folder / place
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_private(target, content, is_synced=False, is_program=may_run)
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
