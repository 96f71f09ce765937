"""A container as clients of the API reach it: commands and shells by exec, its ports by port forward."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from http import HTTPStatus

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.cluster.remote.exec import Channel
from actions.sandbox.kubelet.images import exec_program
from actions.sandbox.kubelet.process import ProgramRuntime, SshServers, run_program
from actions.sandbox.kubelet.rendezvous import RendezvousTable
from actions.sandbox.model.kubelet_api import ExecStreams, PortStream
from actions.sandbox.programs.network import HttpAnswer, HttpService
from actions.sandbox.programs.program import Load, ProcessContext, Program, ProgramStep
from actions.sandbox.programs.shell.commands import reads_input
from actions.sandbox.programs.shell.shell import ShellExit, is_interactive, run_lines, without_env

_INTERRUPT, _END, _BACKSPACES = b"\x03", b"\x04", (b"\x7f", b"\x08")
_INTERRUPTED = 130
_PIECE = 4096


class RemoteCommand:
    """A session of exec. Its time is wall time, whatever the sandbox's speed.

    Args:
        context: The container's process context; the session gets its own folder and variables.
        streams: The client's end.
        tty: The client's terminal is attached: input is echoed and lines end in CR LF.
        clock: Wall time.
    """

    def __init__(self, context: ProcessContext, streams: ExecStreams, *, tty: bool, clock: Clock) -> None:
        self._context = replace(context, variables={"TERM": "xterm"} if tty else {}, last_code=0)
        self._streams = streams
        self._tty = tty
        self._clock = clock
        self._input = bytearray()

    async def run(self, argv: Sequence[str]) -> int:
        """Run the command and return its exit code."""
        argv = without_env(argv)
        if not is_interactive(argv):
            given = await self._all_input() if reads_input(argv) else ""
            running = self._run(exec_program(self._context, list(argv), given))
            return await (self._watch(running) if self._tty else running)
        return await (self._run_interactively() if self._tty else self._run_input())

    async def _watch(self, running: Coroutine[None, None, int]) -> int:
        """Run a program at a terminal, until it ends or is interrupted."""
        codes: list[int] = []

        async def run() -> int:
            codes.append(await running)
            return codes[0]

        await self._unless_interrupted(run())
        return codes[0] if codes else _INTERRUPTED

    async def _run_input(self) -> int:
        """Run a shell that reads its script from standard input."""
        return await self._run(_until_exit(self._context, await self._all_input()))

    async def _all_input(self) -> str:
        """Return standard input to its end."""
        read = bytearray()
        while data := await self._streams.read():
            read += data
        return read.decode(errors="replace")

    async def _run_interactively(self) -> int:
        """Run a shell at a terminal: prompt, line, output."""
        while True:
            await self._write(f"root@{self._context.container.pod}:{self._context.folder}# ".encode())
            line = await self._read_line()
            if line is None:
                await self._write(b"exit\r\n")
                return self._context.last_code
            leaving: list[int] = []
            program = _noting_exit(self._context, line, leaving)
            interrupted = await self._unless_interrupted(self._run(program))
            if interrupted:
                self._context.last_code = _INTERRUPTED
            if leaving:
                return leaving[0]

    async def _unless_interrupted(self, running: Coroutine[None, None, int]) -> bool:
        """Run a command; Control-C, or the end of input, ends it. Return whether it was ended so."""
        command = asyncio.create_task(running)
        try:
            while not command.done():
                typing = asyncio.create_task(self._streams.read())
                await asyncio.wait({command, typing}, return_when=asyncio.FIRST_COMPLETED)
                if not typing.done():
                    typing.cancel()
                    await asyncio.gather(typing, return_exceptions=True)
                    break
                data = typing.result()
                if not data or _INTERRUPT in data:
                    await self._write(b"^C\r\n")
                    return True
                self._input += data
            await command
            return False
        finally:
            command.cancel()
            await asyncio.gather(command, return_exceptions=True)

    async def _read_line(self) -> str | None:
        """Return a line as typed, echoed; `None` at the end of input."""
        line = bytearray()
        while True:
            if not self._input:
                data = await self._streams.read()
                if not data:
                    return None
                self._input += data
            byte = bytes(self._input[:1])
            del self._input[:1]
            if byte in (b"\r", b"\n"):
                await self._write(b"\r\n")
                return line.decode(errors="replace")
            if byte == _END and not line:
                return None
            await self._edit(line, byte)

    async def _edit(self, line: bytearray, byte: bytes) -> None:
        if byte in _BACKSPACES:
            if line:
                del line[-1:]
                await self._write(b"\b \b")
        elif byte == _INTERRUPT:
            line.clear()
            await self._write(b"^C\r\n" + f"root@{self._context.container.pod}:{self._context.folder}# ".encode())
        elif byte >= b" ":
            line += byte
            await self._write(byte)

    async def _run(self, program: Program) -> int:
        return await run_program(
            program,
            self._context,
            ProgramRuntime(1.0, self._clock, RendezvousTable(), SshServers()),
            member=f"exec/{id(program)}",
            write=self._write_step,
            set_load=_ignore,
        )

    async def _write_step(self, step: ProgramStep) -> None:
        data = step.text.encode()
        if self._tty:
            await self._write(data.replace(b"\n", b"\r\n"))
            return
        channel = Channel.STDERR if step.is_error else Channel.STDOUT
        for start in range(0, len(data), _PIECE):
            await self._streams.write(channel, data[start : start + _PIECE])

    async def _write(self, data: bytes) -> None:
        await self._streams.write(Channel.STDOUT, data)


def _ignore(_load: Load) -> None:
    """Drop the load of a program: what runs by exec does not keep accelerators busy."""


def _until_exit(context: ProcessContext, script: str) -> Program:
    try:
        return (yield from run_lines(context, script))
    except ShellExit as leave:
        return leave.code


def _noting_exit(context: ProcessContext, line: str, leaving: list[int]) -> Program:
    try:
        return (yield from run_lines(context, line))
    except ShellExit as leave:
        leaving.append(leave.code)
        return leave.code


_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})", re.IGNORECASE)
_LONGEST_BODY = 1 << 20
_HTTP = re.compile(rb"^(?P<method>GET|HEAD|POST|PUT|DELETE|OPTIONS) (?P<path>\S+) HTTP/1\.[01]\r?$", re.MULTILINE)


async def answer(stream: PortStream, *, pod: str, port: int, service: HttpService | None = None) -> None:
    """Serve one connection until it is closed.

    Args:
        stream: The client.
        pod: Named in the page.
        port: Named in the page.
        service: What the container's program serves there, if it does.
    """
    while data := await stream.read():
        request = _HTTP.match(data)
        if request is None:
            await stream.write(data)
            continue
        path = request["path"].decode("latin-1")
        has_body = data[:4] != b"HEAD"
        if service is None:
            answer = HttpAnswer(200, f"{pod}:{port}{path}\n".encode(), "text/plain")
        else:
            answer = service.answer(request["method"].decode(), path, await _body(stream, data))
        await stream.write(_response(answer, has_body=has_body))
        return


async def _body(stream: PortStream, data: bytes) -> bytes:
    """Return the body of a request, as long as its head announces."""
    head, _, body = data.partition(b"\r\n\r\n")
    announced = _LENGTH.search(head)
    length = min(int(announced[1]), _LONGEST_BODY) if announced else 0
    while len(body) < length and (more := await stream.read()):
        body += more
    return body[:length]


def _response(answer: HttpAnswer, *, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")
