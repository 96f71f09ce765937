"""Programs of the control plane while they run: started with a log of their own, ended by their process."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from actions.base.errors import ToolError, UnreachableError

_PASSED_ON = ("PATH", "HOME", "TMPDIR")
_POLL_SECONDS = 0.05
_TERM_SECONDS = 10.0
_TAIL_BYTES = 2000
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
"""So that nothing is left even when the harness itself is killed."""


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A child process and its log."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    async def until(
        self, condition: Callable[[], Awaitable[bool]], what: str, *, deadline_seconds: float = 180
    ) -> None:
        """Poll until the condition holds.

        Raises:
            ToolError: The program has ended instead.
            UnreachableError: It never did hold.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                while not await condition():
                    if self.process.returncode is not None:
                        raise ToolError([self.name], exit_code=self.process.returncode, tail=self.tail())
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            raise UnreachableError(f"{what} within {deadline_seconds:.0f} s did not happen: {self.tail()}") from error

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


@asynccontextmanager
async def running(
    argv: Sequence[str], *, name: str, logs: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[RunningProgram]:
    """Run a program until the context is left; then ask it to end, and end it if it does not."""
    log = logs / f"{name}.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *_DIES_WITH_US,
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={key: os.environ[key] for key in _PASSED_ON if key in os.environ} | dict(environment or {}),
            start_new_session=True,
        )
    try:
        yield RunningProgram(name, process, log)
    finally:
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_TERM_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether something accepts connections on a port."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
