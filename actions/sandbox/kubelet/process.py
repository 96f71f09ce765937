"""Running programs, one step after the other at the speed of the sandbox, and processes that launchers start by ssh."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.sandbox.kubelet.images import program_of
from actions.sandbox.kubelet.rendezvous import RendezvousRound, RendezvousTable
from actions.sandbox.programs.program import (
    GpuLoad,
    Load,
    PeerLost,
    ProcessContext,
    Program,
    ProgramStep,
    RemoteFailed,
    RemoteProcess,
)

_OF_A_LOGIN = ("PATH", "HOME")
"""The variables of the container that a process started over ssh gets."""

SetLoad = Callable[[Load], None]
Start = Callable[[ProcessContext, int, SetLoad], Coroutine[Any, Any, int]]
"""Runs a process to its end: its context, its position among the launcher's processes, a setter for its load."""


class _SshServer(msgspec.Struct, eq=False):
    context: ProcessContext
    set_load: SetLoad
    sessions: set[asyncio.Task[int]] = msgspec.field(default_factory=set)


class SshServers:
    """The ssh servers of a cluster, by namespace and pod."""

    def __init__(self) -> None:
        self._servers: dict[str, _SshServer] = {}

    def open(self, context: ProcessContext, set_load: SetLoad) -> None:
        """Let launchers into a container.

        Args:
            context: That of the processes there.
            set_load: Called with the load of whatever runs there.
        """
        self._servers[_key(context.container.namespace, context.container.pod)] = _SshServer(context, set_load)

    def close(self, context: ProcessContext) -> None:
        """Refuse launchers from now on, and end all that they have started there."""
        key = _key(context.container.namespace, context.container.pod)
        server = self._servers.get(key)
        if server is None or server.context is not context:
            return
        del self._servers[key]
        for session in server.sessions:
            session.cancel()

    async def run(self, namespace: str, processes: tuple[RemoteProcess, ...], start: Start) -> None:
        """Run processes until all have ended with 0.

        Args:
            namespace: The launcher's; a host's name may contain another one.
            processes: At least one.
            start: Runs one of them.

        Raises:
            RemoteFailed: A host cannot be reached, was lost, or its process ended with another code. The rest is ended.
        """
        servers = [self._server(namespace, position, process.host) for position, process in enumerate(processes)]
        running = {
            _enter(server, position, process, start): position
            for position, (process, server) in enumerate(zip(processes, servers, strict=True))
        }
        try:
            await self._first_failure(running, processes)
        finally:
            for session in running:
                session.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _first_failure(self, running: dict[asyncio.Task[int], int], processes: tuple[RemoteProcess, ...]) -> None:
        waiting = set(running)
        while waiting:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for session in sorted(ended, key=running.__getitem__):
                position = running[session]
                code = None if session.cancelled() else session.result()
                if code != 0:
                    raise RemoteFailed(position, processes[position].host, code)

    def _server(self, namespace: str, position: int, host: str) -> _SshServer:
        pod, _, domain = host.partition(".")
        parts = domain.split(".")
        server = self._servers.get(_key(parts[1] if len(parts) > 1 else namespace, pod))
        if server is None:
            raise RemoteFailed(position, host, None, is_unreachable=True)
        return server


def _enter(server: _SshServer, position: int, process: RemoteProcess, start: Start) -> asyncio.Task[int]:
    there = server.context.container
    login = {name: there.environment[name] for name in _OF_A_LOGIN if name in there.environment}
    environment = login | process.environment
    container = replace(there, argv=process.argv, environment=environment, started_at=server.context.now())
    session = replace(server.context, container=container, variables={}, last_code=0, folder=process.folder)
    task = asyncio.create_task(start(session, position, server.set_load))
    server.sessions.add(task)
    task.add_done_callback(server.sessions.discard)
    return task


def _key(namespace: str, pod: str) -> str:
    return f"{namespace}/{pod}"


_SHORTEST_SLEEP_SECONDS = 0.02

Write = Callable[[ProgramStep], Awaitable[None] | None]
"""Takes the output of a step."""


class ProgramRuntime(msgspec.Struct, frozen=True):
    """The part that the programs of a cluster share."""

    speed: float
    """Seconds of a program in one second of the clock."""
    clock: Clock
    """Wall time."""
    rendezvous_table: RendezvousTable
    ssh_servers: SshServers


async def run_program(
    program: Program, context: ProcessContext, runtime: ProgramRuntime, *, member: str, write: Write, set_load: SetLoad
) -> int:
    """Run a program to its end and return its exit code.

    Args:
        program: The program.
        context: Its own; launchers may start processes in it while the program accepts ssh.
        runtime: Shared with the other programs.
        member: Its name in a rendezvous; unique among all running programs.
        write: Takes its output.
        set_load: Called with each change of the accelerators' load.
    """
    return await _ProgramRun(context, runtime, member, write, set_load).run(program)


class _ProgramRun:
    """A running program; `run` is called once."""

    def __init__(
        self, context: ProcessContext, runtime: ProgramRuntime, member: str, write: Write, set_load: SetLoad
    ) -> None:
        self._context = context
        self._runtime = runtime
        self._member = member
        self._write = write
        self._set_load = set_load
        self._due = runtime.clock.monotonic()
        self._round: RendezvousRound | None = None

    async def run(self, program: Program) -> int:
        rendezvous_table, ssh_servers = self._runtime.rendezvous_table, self._runtime.ssh_servers
        step = _next(program)
        try:
            while isinstance(step, ProgramStep):
                failure = await self._take(step)
                step = _next(program) if failure is None else _interrupted(program, failure)
        except asyncio.CancelledError:
            rendezvous_table.leave(self._member, is_finished=False)
            raise
        finally:
            program.close()
            ssh_servers.close(self._context)
            self._set_load(GpuLoad())
        rendezvous_table.leave(self._member, is_finished=step == 0)
        return step

    async def _take(self, step: ProgramStep) -> Exception | None:
        """Wait, then carry out a step. Return the failure to raise in the program, or `None`."""
        await self._wait(step.after_seconds)
        if step.load is not None:
            self._set_load(step.load)
        if step.text:
            outcome = self._write(step)
            if outcome is not None:
                await outcome
        if step.accepts_ssh:
            self._runtime.ssh_servers.open(self._context, self._set_load)
        failure = await self._run_elsewhere(step.remote) if step.remote else None
        if step.rendezvous is not None:
            self._round = await self._runtime.rendezvous_table.join(step.rendezvous, self._member)
            self._due = self._runtime.clock.monotonic()
        if self._round is not None and self._round.is_broken:
            self._round = None
            return PeerLost()
        return failure

    async def _wait(self, seconds: float) -> None:
        clock = self._runtime.clock
        self._due += seconds / self._runtime.speed
        wait = self._due - clock.monotonic()
        if wait > _SHORTEST_SLEEP_SECONDS:
            await clock.sleep(wait)

    async def _run_elsewhere(self, processes: tuple[RemoteProcess, ...]) -> RemoteFailed | None:
        """Run processes in other pods to their end; what they write is written here."""

        async def start(context: ProcessContext, position: int, set_load: SetLoad) -> int:
            def write(step: ProgramStep) -> Awaitable[None] | None:
                return self._write(replace(step, text=processes[position].tagged(step.text, is_error=step.is_error)))

            member = f"{self._member}/{position}"
            program = program_of(context)
            return await run_program(program, context, self._runtime, member=member, write=write, set_load=set_load)

        try:
            await self._runtime.ssh_servers.run(self._context.container.namespace, processes, start)
        except RemoteFailed as failed:
            return failed
        finally:
            self._due = self._runtime.clock.monotonic()
        return None


def _next(program: Program) -> ProgramStep | int:
    """Return the next step, or the exit code. A program that fails on its arguments has crashed, as in reality."""
    try:
        return next(program)
    except StopIteration as end:
        return int(end.value or 0)
    except (ValueError, ArithmeticError, LookupError):
        return 1


def _interrupted(program: Program, failure: Exception) -> ProgramStep | int:
    try:
        return program.throw(failure)
    except StopIteration as end:
        return int(end.value or 0)
    except (PeerLost, RemoteFailed):
        return 1
