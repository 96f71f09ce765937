"""A file in a container, read by programs that every image has: `find`, `stat` and `tail`."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Sequence

import msgspec

from actions.base.errors import RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.exec import Channel, open_exec, run_in_pod

IDLE_SECONDS = 20.0
"""The silence after which the caller checks that the file is still the same one."""
CHOICE_SECONDS = 5.0
"""The same for one of several files, as a newer one may have come."""

_GLOB = re.compile(r"([*?])")
_LOOK_SECONDS = 15.0
_TRUNCATED = b"truncated"


class ContainerRef(msgspec.Struct, frozen=True):
    """A container."""

    namespace: str
    pod: str
    container: str


class FileState(msgspec.Struct, frozen=True):
    """A file as it is at one moment."""

    path: str
    inode: int
    size_bytes: int
    modified_at: int
    """Seconds since the epoch, by the file system's clock."""


async def find_file(session: KubeSession, place: ContainerRef, path: str) -> FileState | None:
    """Find the file at a path; `None` if there is none yet.

    Args:
        session: The session; a read-only one refuses.
        place: A running container.
        path: With `*` or `?`, the newest file that matches and is younger than the container, so that files of earlier
            runs on the volume are left out.

    Raises:
        RefusedError: The container does not run, or has no shell.
        UnreachableError: The connection broke.
    """
    younger = "-newer /proc/1 " if is_glob(path) else ""
    script = f"find {quoted_glob(path)} -type f {younger}-exec stat -c '%Y %i %s %n' {{}} + 2>/dev/null"
    argv = ["sh", "-c", script]
    result = await run_in_pod(
        session, place.namespace, place.pod, place.container, argv, deadline_seconds=_LOOK_SECONDS
    )
    found = [state for line in result.stdout.decode("utf-8", "replace").splitlines() if (state := _state_of(line))]
    return max(found, key=lambda state: (state.modified_at, state.path), default=None)


async def read_pod_file(
    session: KubeSession, place: ContainerRef, path: str, *, offset: int, idle_seconds: float = IDLE_SECONDS
) -> AsyncIterator[bytes]:
    """Yield a file's bytes from `offset` on, then those appended to it, until it has been silent for a while.

    Ends too when the file was truncated: the caller has to find it again.

    Raises:
        RefusedError: The container does not run.
        UnreachableError: The connection broke.
    """
    argv = ["tail", "-c", f"+{offset + 1}", "-f", path]
    async for chunk in follow_output(session, place, argv, idle_seconds=idle_seconds):
        yield chunk


async def follow_output(
    session: KubeSession, place: ContainerRef, argv: Sequence[str], *, idle_seconds: float = IDLE_SECONDS
) -> AsyncIterator[bytes]:
    """Yield a program's output on stdout, until it ends or has been silent for a while.

    Raises:
        RefusedError: The container does not run, or the program could not be started.
        UnreachableError: The connection broke.
    """
    async with open_exec(session, place.namespace, place.pod, place.container, argv, tty=False, stdin=False) as program:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    part = await program.read_part()
            except TimeoutError:
                return
            if part is None:
                if program.exit_code:
                    raise RefusedError(f"{argv[0]} in {place.namespace}/{place.pod} ended with {program.exit_code}.")
                return
            channel, data = part
            if channel is Channel.STDOUT:
                yield data
            elif _TRUNCATED in data:
                return


def is_glob(path: str) -> bool:
    """Return whether a path stands for the newest of several files."""
    return _GLOB.search(path) is not None


def quoted_glob(path: str) -> str:
    """Quote a path for a shell that still expands its `*` and `?`."""
    return "".join(part if _GLOB.fullmatch(part) else shlex.quote(part) for part in _GLOB.split(path) if part)


def _state_of(line: str) -> FileState | None:
    fields = line.split(" ", 3)
    if len(fields) != 4 or not all(field.isdigit() for field in fields[:3]):
        return None
    modified, inode, size = map(int, fields[:3])
    return FileState(fields[3], inode, size, modified)
