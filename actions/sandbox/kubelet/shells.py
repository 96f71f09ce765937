"""The containers that let launchers in, and what launchers run there: the sandbox's ssh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.sandbox.workloads.program import Load, RemoteFailed, RemoteProcess
from actions.sandbox.workloads.terminal import Inside

_OF_A_LOGIN = ("PATH", "HOME")
"""What a process has that comes by ssh: nothing of the container's own environment."""

SetLoad = Callable[[Load], None]
Start = Callable[[Inside, int, SetLoad], Coroutine[Any, Any, int]]
"""Runs a process to its end: what it sees, its position among the launcher's processes, who is told of its load."""


class _Door(msgspec.Struct, eq=False):
    inside: Inside
    set_load: SetLoad
    guests: set[asyncio.Task[int]] = msgspec.field(default_factory=set)


class Shells:
    """All open doors of a cluster, by namespace and pod."""

    def __init__(self) -> None:
        self._doors: dict[str, _Door] = {}

    def open(self, inside: Inside, set_load: SetLoad) -> None:
        """A container lets launchers in from now on.

        Args:
            inside: What its processes see.
            set_load: Told of the load of whatever runs there.
        """
        self._doors[_key(inside.container.namespace, inside.container.pod)] = _Door(inside, set_load)

    def close(self, inside: Inside) -> None:
        """The container has ended, and all that launchers had started there."""
        key = _key(inside.container.namespace, inside.container.pod)
        door = self._doors.get(key)
        if door is None or door.inside is not inside:
            return
        del self._doors[key]
        for guest in door.guests:
            guest.cancel()

    async def run(self, namespace: str, processes: tuple[RemoteProcess, ...], start: Start) -> None:
        """Run processes until all have ended with 0.

        Args:
            namespace: Of the launcher; a host's own name may say another one.
            processes: At least one.
            start: Runs one of them.

        Raises:
            RemoteFailed: A host cannot be reached, was lost, or its process ended with another code. The rest is ended.
        """
        doors = [self._door(namespace, position, process.host) for position, process in enumerate(processes)]
        running = {
            _enter(door, position, process, start): position
            for position, (process, door) in enumerate(zip(processes, doors, strict=True))
        }
        try:
            await self._first_failure(running, processes)
        finally:
            for guest in running:
                guest.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _first_failure(self, running: dict[asyncio.Task[int], int], processes: tuple[RemoteProcess, ...]) -> None:
        waiting = set(running)
        while waiting:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for guest in sorted(ended, key=running.__getitem__):
                position = running[guest]
                code = None if guest.cancelled() else guest.result()
                if code != 0:
                    raise RemoteFailed(position, processes[position].host, code)

    def _door(self, namespace: str, position: int, host: str) -> _Door:
        pod, _, domain = host.partition(".")
        parts = domain.split(".")
        door = self._doors.get(_key(parts[1] if len(parts) > 1 else namespace, pod))
        if door is None:
            raise RemoteFailed(position, host, None, is_unreachable=True)
        return door


def _enter(door: _Door, position: int, process: RemoteProcess, start: Start) -> asyncio.Task[int]:
    there = door.inside.container
    login = {name: there.environment[name] for name in _OF_A_LOGIN if name in there.environment}
    environment = login | process.environment
    container = replace(there, argv=process.argv, environment=environment, started_at=door.inside.now())
    guest = replace(door.inside, container=container, variables={}, last_code=0, folder=process.folder)
    task = asyncio.create_task(start(guest, position, door.set_load))
    door.guests.add(task)
    task.add_done_callback(door.guests.discard)
    return task


def _key(namespace: str, pod: str) -> str:
    return f"{namespace}/{pod}"
