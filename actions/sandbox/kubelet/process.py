"""One running program: its steps, taken at the speed of the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.sandbox.kubelet.meetings import Gathering, Meetings
from actions.sandbox.kubelet.shells import SetLoad, Shells
from actions.sandbox.workloads.images import program_of
from actions.sandbox.workloads.program import GpuLoad, PeerLost, Program, RemoteFailed, RemoteProcess, Step
from actions.sandbox.workloads.terminal import Inside

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
