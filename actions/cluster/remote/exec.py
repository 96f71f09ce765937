"""Programs run inside containers: the remote command protocol over one websocket.

Source: kubernetes/kubernetes `staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go`, v1.34. The first
byte of a message is its channel. Version 5 can close the other side's stdin, version 4 cannot.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import RefusedError, UnreachableError
from actions.base.names import segment
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession

if TYPE_CHECKING:
    import aiohttp

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MAX_OUTPUT_BYTES = 8 << 20
_EXIT_CODE = re.compile(r"[0-9]{1,9}", re.ASCII)


class Channel(IntEnum):
    """The first byte of every message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class ExecResult(msgspec.Struct, frozen=True):
    """A program's output, raw, and its exit code."""

    stdout: bytes
    stderr: bytes
    exit_code: int

    @property
    def text(self) -> str:
        """Its output; its errors, if that is empty."""
        return (self.stdout or self.stderr).decode("utf-8", "replace")


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Outcome(msgspec.Struct):
    status: str = ""
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


class ExecSession:
    """A program that runs in a container, as long as its context is open. Used from one loop.

    `exit_code` is `None` until the program has ended.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.exit_code: int | None = None
        self._socket = socket
        self._can_close_stdin = socket.protocol == PROTOCOLS[0]

    async def read(self) -> bytes | None:
        """Return output of either stream as it comes; `None` when the program has ended.

        Raises:
            RefusedError: The program could not be started.
            UnreachableError: The connection broke before the program ended.
        """
        part = await self.read_part()
        return None if part is None else part[1]

    async def read_part(self) -> tuple[Channel, bytes] | None:
        """Like `read`, with the stream's channel."""
        import aiohttp

        while True:
            message = await self._socket.receive()
            if message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                data = message.data if isinstance(message.data, bytes) else message.data.encode()
                if not data:
                    continue
                channel, payload = data[0], data[1:]
                if channel == Channel.ERROR:
                    self.exit_code = read_exit_code(payload)
                elif channel in (Channel.STDOUT, Channel.STDERR) and payload:
                    return Channel(channel), payload
                continue
            if self.exit_code is None:
                raise UnreachableError("The connection to the container broke before its program had ended.")
            return None

    async def write(self, data: bytes) -> None:
        """Send to the program's stdin.

        Raises:
            UnreachableError: The connection is gone.
        """
        await self._send(Channel.STDIN, data)

    async def close_stdin(self) -> None:
        """Close the program's stdin.

        Raises:
            RefusedError: The server speaks version 4, which cannot do this.
        """
        if not self._can_close_stdin:
            raise RefusedError("This cluster cannot close a program's stdin (remote command version 4).")
        await self._send(Channel.CLOSE, bytes([Channel.STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal."""
        await self._send(Channel.RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))

    async def _send(self, channel: Channel, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except (ConnectionError, RuntimeError) as error:
            raise UnreachableError("The connection to the container is gone.") from error


@asynccontextmanager
async def open_exec(
    session: KubeSession,
    namespace: str,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    tty: bool = True,
    stdin: bool = True,
) -> AsyncIterator[ExecSession]:
    """Run a program in a container and talk to it.

    Args:
        session: The session; a read-only one refuses.
        namespace: The pod's namespace.
        pod: Its name.
        container: The container's name.
        argv: Program and arguments; no shell.
        tty: Give it a terminal; then all output is on stdout.
        stdin: Connect its stdin.

    Raises:
        MissingError: No such pod or container.
        RefusedError: The container does not run, or the session is read-only.
    """
    streams = [("stdin", stdin), ("stdout", True), ("stderr", not tty), ("tty", tty)]
    query = [("container", container), *((name, "true" if wanted else "false") for name, wanted in streams)]
    query += [("command", argument) for argument in argv]
    path = f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(pod)}/exec"
    async with session.websocket(path, query=query, protocols=PROTOCOLS) as socket:
        if socket.protocol not in PROTOCOLS:
            raise RefusedError(f"{session.server} supports none of {', '.join(PROTOCOLS)}.")
        yield ExecSession(socket)


async def run_in_pod(
    session: KubeSession,
    namespace: str,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    deadline_seconds: float = 15.0,
    stdin: bytes | None = None,
) -> ExecResult:
    """Run a program to its end.

    Args:
        session: The session; a read-only one refuses.
        namespace: The pod's namespace.
        pod: Its name.
        container: The container's name.
        argv: Program and arguments; no shell.
        deadline_seconds: For the whole run.
        stdin: The bytes for its stdin; `None` for no stdin at all.

    Raises:
        UnreachableError: It did not end in time, or the connection broke.
        RefusedError: It could not be started, or wrote more than 8 MiB.
    """
    out: dict[Channel, bytearray] = {Channel.STDOUT: bytearray(), Channel.STDERR: bytearray()}
    try:
        async with (
            asyncio.timeout(deadline_seconds),
            open_exec(session, namespace, pod, container, argv, tty=False, stdin=stdin is not None) as program,
        ):
            if stdin is not None:
                await program.write(stdin)
                await program.close_stdin()
            while (part := await program.read_part()) is not None:
                out[part[0]] += part[1]
                if sum(map(len, out.values())) > _MAX_OUTPUT_BYTES:
                    raise RefusedError(f"{argv[0]} in {namespace}/{pod} writes more than 8 MiB.")
    except TimeoutError as error:
        raise UnreachableError(
            f"{argv[0]} in {namespace}/{pod} did not end within {deadline_seconds:.0f} s."
        ) from error
    return ExecResult(bytes(out[Channel.STDOUT]), bytes(out[Channel.STDERR]), program.exit_code or 0)


def read_exit_code(payload: bytes) -> int:
    """Read the exit code from the error channel's `Status`.

    Raises:
        RefusedError: The program was not run at all; the server's reason is quoted.
    """
    try:
        outcome = decode_json(payload, _Outcome)
    except msgspec.DecodeError:
        outcome = _Outcome(message=payload.decode("utf-8", "replace"))
    if outcome.status == "Success":
        return 0
    for cause in (outcome.details or _Details()).causes or ():
        if cause.reason == "ExitCode" and _EXIT_CODE.fullmatch(cause.message or ""):
            return int(cause.message or 0)
    raise RefusedError(f"The program was not run: {one_line(outcome.message or outcome.reason or 'no reason given')}.")
