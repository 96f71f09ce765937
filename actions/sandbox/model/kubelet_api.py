"""The interface of a kubelet to the API server: logs, exec and forwarded ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from actions.cluster.remote.exec import Channel


class ContainerLogRef(msgspec.Struct, frozen=True):
    """The address of one log: that of a container (or init container)."""

    namespace: str
    pod: str
    uid: str
    """The pod's, so that a new pod of the same name never answers with the old one's log."""
    container: str
    previous: bool = False
    """The log of the terminated instance before the running one."""


class PodLogOptions(msgspec.Struct, frozen=True):
    """The part of a log that is wanted, and its form."""

    follow: bool = False
    """Continue until the container has ended for good; without it, end with the log's present end."""
    since_ns: int | None = None
    """Only lines at or after this moment, nanoseconds since the epoch."""
    tail_lines: int | None = None
    """Only the last so many lines (after `since_ns`)."""
    limit_bytes: int | None = None
    """End after this many bytes."""
    timestamps: bool = False
    """Begin every line with its RFC 3339 time with nanoseconds, and a space."""


class ContainerNotRunning(Exception):
    """There is no such container, or it does not run: nothing can be executed in it."""


class ExecStreams(Protocol):
    """The process side of one exec session. Lives as long as the call of `KubeletApi.exec`."""

    async def read(self) -> bytes:
        """The next bytes of standard input; `b""` once it is closed (at once if the client sends none)."""
        ...

    async def write(self, channel: Channel, data: bytes) -> None:
        """Write to `Channel.STDOUT` or `Channel.STDERR` (with a terminal, all is STDOUT)."""
        ...


class ClientInput:
    """The bytes that a client sends on one stream, until it closes its end."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_ended = False

    def feed(self, data: bytes) -> None:
        """Take what the client has sent; nothing is its end."""
        self._pieces.put_nowait(data)

    def end(self) -> None:
        """Take the client's end."""
        self._pieces.put_nowait(b"")

    async def read(self) -> bytes:
        """Return the next bytes; `b""` from the client's end on."""
        if self._is_ended:
            return b""
        data = await self._pieces.get()
        self._is_ended = not data
        return data


class PortStream(Protocol):
    """The client's side of one forwarded connection."""

    async def read(self) -> bytes:
        """The next bytes from the client; `b""` once it has closed its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        ...


class KubeletApi(Protocol):
    """The part of a kubelet that serves logs, exec and forwarded ports."""

    def log_chunks(self, source: ContainerLogRef, request: PodLogOptions) -> AsyncIterator[bytes]:
        """Return the log of a container, in chunks of any size.

        An ordinary function that checks first and then returns an asynchronous iterator, so that a missing log is
        known before the response begins.

        Raises:
            KeyError: There is no such container, or it has no (previous) log. Raised by the call itself.
        """
        ...

    async def exec(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, tty: bool, streams: ExecStreams
    ) -> int:
        """Run a program in a running container and return its exit code.

        Cancelled when the client goes away.

        Raises:
            ContainerNotRunning: The container does not run here.
        """
        ...

    async def forward(self, namespace: str, pod: str, port: int, stream: PortStream) -> None:
        """Connect a port of a pod with a client; returns when either side has closed.

        Cancelled when the client goes away.

        Raises:
            ContainerNotRunning: The pod does not run here, or nothing listens on the port.
        """
        ...
