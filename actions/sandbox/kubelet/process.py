"""One running program: its steps, taken at the speed of the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from actions.base.clock import Clock
from actions.sandbox.kubelet.meetings import Gathering, Meetings
from actions.sandbox.workloads.program import GpuLoad, PeerLost, Program, Step

_SHORTEST_SLEEP_SECONDS = 0.02

Write = Callable[[Step], Awaitable[None] | None]
"""Takes what a step writes."""


async def run_program(
    program: Program,
    *,
    member: str,
    write: Write,
    speed: float,
    clock: Clock,
    meetings: Meetings,
    set_load: Callable[[GpuLoad], None],
) -> int:
    """Run a program to its end and return its exit code.

    Args:
        program: The program.
        member: Its name in meetings; unique among all running programs.
        write: Where its output goes.
        speed: Seconds of the program in one second of the clock.
        clock: Wall time.
        meetings: Of the cluster.
        set_load: Told of each change of the accelerators' load.
    """
    due = clock.monotonic()
    gathering: Gathering | None = None
    step = _next(program)
    try:
        while isinstance(step, Step):
            due += step.after_seconds / speed
            wait = due - clock.monotonic()
            if wait > _SHORTEST_SLEEP_SECONDS:
                await clock.sleep(wait)
            if step.load is not None:
                set_load(step.load)
            if step.text:
                outcome = write(step)
                if outcome is not None:
                    await outcome
            if step.meeting is not None:
                gathering = await meetings.join(step.meeting, member)
                due = clock.monotonic()
            if gathering is not None and gathering.is_broken:
                gathering = None
                step = _interrupted(program)
            else:
                step = _next(program)
    except asyncio.CancelledError:
        meetings.leave(member, is_finished=False)
        raise
    finally:
        set_load(GpuLoad())
    meetings.leave(member, is_finished=step == 0)
    return step


def _next(program: Program) -> Step | int:
    """The next step, or the exit code. A program that stumbles over its arguments has crashed, as a real one would."""
    try:
        return next(program)
    except StopIteration as end:
        return int(end.value or 0)
    except (ValueError, ArithmeticError, LookupError):
        return 1


def _interrupted(program: Program) -> Step | int:
    try:
        return program.throw(PeerLost())
    except StopIteration as end:
        return int(end.value or 0)
    except PeerLost:
        return 1
