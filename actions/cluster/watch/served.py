"""The groups of the API that a server has, for reflectors whose kind is missing: asked for once for all of them.

A console follows kinds that most clusters lack. Asked for one by one, they cost more than all else at rest.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import ConsoleError, MissingError, UnreachableError
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import KubeKind
from actions.cluster.watch.liveness import ServerLiveness

MISSING_SECONDS: Final = 5.0
"""Time between two looks for what is missing."""


class _Group(msgspec.Struct):
    name: str = ""


class _GroupList(msgspec.Struct):
    groups: tuple[_Group, ...] = ()


class _Version(msgspec.Struct):
    version: str = ""


class _GroupVersions(msgspec.Struct):
    versions: tuple[_Version, ...] = ()


async def served_versions(session: KubeSession, kind: KubeKind) -> tuple[str, ...]:
    """Return the versions of a kind that the server has of its group, the best first; none without the group.

    Raises:
        ConsoleError: The server does not answer.
    """
    path = f"/apis/{kind.group}"
    try:
        answer = await session.request("GET", path, accept="application/json", deadline_seconds=60)
    except MissingError:
        return ()
    try:
        found = decode_json(answer, _GroupVersions)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"{path} did not answer with the versions of a group.") from error
    served = {one.version for one in found.versions}
    return tuple(version for version in kind.versions if version in served)


async def served_groups(session: KubeSession) -> frozenset[str] | None:
    """Return the groups of the API that the server has; `None` if that cannot be found out."""
    try:
        answer = await session.request("GET", "/apis", accept="application/json", deadline_seconds=60)
        return frozenset(group.name for group in decode_json(answer, _GroupList).groups)
    except (ConsoleError, msgspec.DecodeError):
        return None


class ServedGroups:
    """The wait of reflectors until the server may have their kind. Used on the session's loop only.

    Args:
        session: The session with the server.
        liveness: Updated by every answer.
        clock: For waits.
    """

    def __init__(self, session: KubeSession, liveness: ServerLiveness, *, clock: Clock) -> None:
        self._session = session
        self._liveness = liveness
        self._clock = clock
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._is_wanted = asyncio.Event()

    async def wait(self, path: str) -> None:
        """Wait a while, and on for as long as the server is known to lack the group of a list path."""
        _, root, group, *_ = path.split("/")
        if root != "apis":
            await self._clock.sleep(MISSING_SECONDS)
            return
        served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((group, served))
        self._is_wanted.set()
        await served

    async def run(self) -> NoReturn:
        """Ask for the groups now and then while any reflector waits, until cancelled."""
        while True:
            await self._is_wanted.wait()
            await self._clock.sleep(MISSING_SECONDS)
            groups = await served_groups(self._session)
            if groups is not None:
                self._liveness.mark_alive()
            self._release(groups)

    def _release(self, groups: frozenset[str] | None) -> None:
        """End the waits for groups that are there, and all of them if that is not known."""
        waiting, self._waiting = self._waiting, []
        for group, served in waiting:
            if groups is not None and group not in groups:
                if not served.cancelled():
                    self._waiting.append((group, served))
            elif not served.done():
                served.set_result(None)
        if not self._waiting:
            self._is_wanted.clear()
