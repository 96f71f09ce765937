"""Running programs, one step after the other at the speed of the sandbox, and processes that launchers start by ssh."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.sandbox.kubelet.images import program_of
from actions.sandbox.kubelet.rendezvous import Gathering, Meetings
from actions.sandbox.programs.program import GpuLoad, Inside, Load, PeerLost, Program, RemoteFailed, RemoteProcess, Step

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


_SHORTEST_SLEEP_SECONDS = 0.02

Write = Callable[[Step], Awaitable[None] | None]
"""Takes what a step writes."""


class Surroundings(msgspec.Struct, frozen=True):
    """What the programs of a cluster share."""

    speed: float
    """Seconds of a program in one second of the clock."""
    clock: Clock
    """Wall time."""
    meetings: Meetings
    shells: Shells


async def run_program(
    program: Program, inside: Inside, surroundings: Surroundings, *, member: str, write: Write, set_load: SetLoad
) -> int:
    """Run a program to its end and return its exit code.

    Args:
        program: The program.
        inside: What it sees; others may start processes there while the program lets them in.
        surroundings: What it shares with others.
        member: Its name in meetings; unique among all running programs.
        write: Where its output goes.
        set_load: Told of each change of the accelerators' load.
    """
    return await _Run(inside, surroundings, member, write, set_load).run(program)


class _Run:
    """One program on its way; `run` is called once."""

    def __init__(
        self, inside: Inside, surroundings: Surroundings, member: str, write: Write, set_load: SetLoad
    ) -> None:
        self._inside = inside
        self._surroundings = surroundings
        self._member = member
        self._write = write
        self._set_load = set_load
        self._due = surroundings.clock.monotonic()
        self._gathering: Gathering | None = None

    async def run(self, program: Program) -> int:
        meetings, shells = self._surroundings.meetings, self._surroundings.shells
        step = _next(program)
        try:
            while isinstance(step, Step):
                failure = await self._take(step)
                step = _next(program) if failure is None else _interrupted(program, failure)
        except asyncio.CancelledError:
            meetings.leave(self._member, is_finished=False)
            raise
        finally:
            program.close()
            shells.close(self._inside)
            self._set_load(GpuLoad())
        meetings.leave(self._member, is_finished=step == 0)
        return step

    async def _take(self, step: Step) -> Exception | None:
        """Wait and do what a step says. Returns what the program must be told of."""
        await self._wait(step.after_seconds)
        if step.load is not None:
            self._set_load(step.load)
        if step.text:
            outcome = self._write(step)
            if outcome is not None:
                await outcome
        if step.lets_in:
            self._surroundings.shells.open(self._inside, self._set_load)
        failure = await self._run_elsewhere(step.remote) if step.remote else None
        if step.meeting is not None:
            self._gathering = await self._surroundings.meetings.join(step.meeting, self._member)
            self._due = self._surroundings.clock.monotonic()
        if self._gathering is not None and self._gathering.is_broken:
            self._gathering = None
            return PeerLost()
        return failure

    async def _wait(self, seconds: float) -> None:
        clock = self._surroundings.clock
        self._due += seconds / self._surroundings.speed
        wait = self._due - clock.monotonic()
        if wait > _SHORTEST_SLEEP_SECONDS:
            await clock.sleep(wait)

    async def _run_elsewhere(self, processes: tuple[RemoteProcess, ...]) -> RemoteFailed | None:
        """Run processes in other pods to their end; what they write is written here."""

        async def start(inside: Inside, position: int, set_load: SetLoad) -> int:
            def write(step: Step) -> Awaitable[None] | None:
                return self._write(replace(step, text=processes[position].tagged(step.text, is_error=step.is_error)))

            member = f"{self._member}/{position}"
            program = program_of(inside)
            return await run_program(program, inside, self._surroundings, member=member, write=write, set_load=set_load)

        try:
            await self._surroundings.shells.run(self._inside.container.namespace, processes, start)
        except RemoteFailed as failed:
            return failed
        finally:
            self._due = self._surroundings.clock.monotonic()
        return None


def _next(program: Program) -> Step | int:
    """The next step, or the exit code. A program that stumbles over its arguments has crashed, as a real one would."""
    try:
        return next(program)
    except StopIteration as end:
        return int(end.value or 0)
    except (ValueError, ArithmeticError, LookupError):
        return 1


def _interrupted(program: Program, failure: Exception) -> Step | int:
    try:
        return program.throw(failure)
    except StopIteration as end:
        return int(end.value or 0)
    except (PeerLost, RemoteFailed):
        return 1
