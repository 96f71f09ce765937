"""`kubectl exec`: a typed conversation, a piped script, a program that repeats."""

from __future__ import annotations

import asyncio

from actions.base.clock import SystemClock
from actions.cluster.remote.exec import Channel
from actions.sandbox.kubelet.remote import RemoteCommand
from tests.unit.sandbox.programs.containers import a_container, context


class _Terminal:
    """A client's end: what is typed, when the shell has asked for it, and what came back."""

    def __init__(self, *typed: bytes) -> None:
        self.typed: asyncio.Queue[bytes] = asyncio.Queue()
        for data in typed:
            self.typed.put_nowait(data)
        self.shown = {Channel.STDOUT: b"", Channel.STDERR: b""}
        self.changed = asyncio.Event()

    async def read(self) -> bytes:
        return await self.typed.get()

    async def write(self, channel: Channel, data: bytes) -> None:
        self.shown[channel] += data
        self.changed.set()

    async def until_shown(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.shown[Channel.STDOUT]:
                self.changed.clear()
                await self.changed.wait()


def _command(terminal: _Terminal, *, tty: bool) -> RemoteCommand:
    return RemoteCommand(context(a_container("worker-0")), terminal, tty=tty, clock=SystemClock())


async def test_ctrl_c_ends_the_command_and_not_the_shell() -> None:
    terminal = _Terminal(b"echo here; sleep 600\r")
    conversation = asyncio.create_task(_command(terminal, tty=True).run(["sh"]))
    await terminal.until_shown(b"\r\nhere")
    terminal.typed.put_nowait(b"\x03")
    await terminal.until_shown(b"^C")
    terminal.typed.put_nowait(b"echo $?\r")
    await terminal.until_shown(b"130\r\n")
    terminal.typed.put_nowait(b"\x04")
    assert await conversation == 0


async def test_a_shell_without_a_terminal_runs_what_it_reads() -> None:
    terminal = _Terminal(b"echo out\nls /nowhere\n", b"exit 5\n", b"")
    assert await _command(terminal, tty=False).run(["sh"]) == 5
    assert terminal.shown[Channel.STDOUT] == b"out\n"
    assert b"No such file" in terminal.shown[Channel.STDERR]
