"""What KubeRay asks the dashboard of a Ray head: the state of a job, and to start or stop one.

The real operator reaches it by the head's Service; a client of the API reaches the same port of the head's pod.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol

import msgspec

from actions.base.errors import ConsoleError, FormatError, UnreachableError
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.port_forward import open_forward, pod_of
from actions.sandbox.actors.ray_names import CLUSTER, HEAD, NODE_TYPE

_PORT = 8265
_DEADLINE_SECONDS = 10.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)
_TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class UnknownJob(Exception):
    """The dashboard answers, and knows no job of that id."""


class JobInfo(msgspec.Struct, frozen=True):
    """A job as the dashboard tells of it."""

    status: str
    message: str

    @property
    def is_terminal(self) -> bool:
        """Whether it will not change any more."""
        return is_terminal(self.status)


def is_terminal(status: str) -> bool:
    """Whether a job in this state is over."""
    return status in _TERMINAL


class DashboardAddress(msgspec.Struct, frozen=True):
    """Whose dashboard."""

    namespace: str
    cluster: str


class Dashboard(Protocol):
    """The three requests. Each raises a `ConsoleError` if nobody answers."""

    async def job(self, address: DashboardAddress, job_id: str) -> JobInfo:
        """The job of that id; raises `UnknownJob` if there is none."""
        ...

    async def submit(self, address: DashboardAddress, request: dict[str, Any]) -> None:
        """Start a job."""
        ...

    async def stop(self, address: DashboardAddress, job_id: str) -> None:
        """Ask a job to end."""
        ...


class PodDashboard:
    """The dashboard in the head's pod, through the API's port-forward.

    Args:
        session: With the API.
    """

    def __init__(self, session: KubeSession) -> None:
        self._session = session

    async def job(self, address: DashboardAddress, job_id: str) -> JobInfo:
        """See `Dashboard`."""
        code, body = await self._ask(address, "GET", f"/api/jobs/{job_id}")
        if code == 404:
            raise UnknownJob(job_id)
        found = _document(body)
        return JobInfo(str(found.get("status") or ""), str(found.get("message") or ""))

    async def submit(self, address: DashboardAddress, request: dict[str, Any]) -> None:
        """See `Dashboard`."""
        await self._ask(address, "POST", "/api/jobs/", msgspec.json.encode(request))

    async def stop(self, address: DashboardAddress, job_id: str) -> None:
        """See `Dashboard`."""
        await self._ask(address, "POST", f"/api/jobs/{job_id}/stop")

    async def _ask(self, address: DashboardAddress, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        troubles: list[ConsoleError] = []
        head = pod_of(self._session, address.namespace, f"{CLUSTER}={address.cluster},{NODE_TYPE}={HEAD}")
        opening = open_forward(self._session, address.namespace, head, _PORT, on_trouble=troubles.append)
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS), opening as forward:
                answer = await _exchange(forward.local_port, method, path, body)
        except (TimeoutError, OSError) as error:
            raise UnreachableError(f"The dashboard of {address.cluster} does not answer.") from error
        if troubles:
            raise troubles[0]
        return _parse(answer, address)


async def _exchange(port: int, method: str, path: str, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: dashboard\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        await writer.drain()
        return await _read_answer(reader)
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """A whole answer, by the length that it tells: not every kubelet passes on that the other side has closed."""
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        told = _LENGTH.search(head)
        return head + (await reader.readexactly(int(told[1])) if told else await reader.read())
    except asyncio.IncompleteReadError as cut:
        return head + cut.partial


def _parse(answer: bytes, address: DashboardAddress) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[1].isdigit():
        raise UnreachableError(f"The dashboard of {address.cluster} closed the connection without an answer.")
    return int(words[1]), body


def _document(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise FormatError("The dashboard's answer is not JSON.") from error
