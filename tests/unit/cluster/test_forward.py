"""Ports that lead into pods: framing, replacement, endings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.port_forward import PortForward, open_forward, pod_finder
from tests.support.pods import pod_named
from tests.support.polling import until
from tests.unit.cluster.faults import refusal
from tests.unit.cluster.servers import session_to

V4 = "v4.channel.k8s.io"
_PORT = (8080).to_bytes(2, "little")


class Kubelet:
    """Echoes what it gets, behind the pod's name; a pod called `broken` answers on the error channel."""

    def __init__(self, *protocols: str) -> None:
        self.protocols = protocols or (V4,)
        self.pods = ["web-1"]
        self.paths: list[str] = []
        self.open = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/portforward"):
            return web.json_response({"items": [self._pod(name) for name in self.pods]})
        pod = request.path.split("/")[-2]
        self.paths.append(f"{request.path}?{request.query_string}")
        if pod not in self.pods:
            return await refusal(404, "NotFound", f'pods "{pod}" not found')(request)
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        self.open += 1
        try:
            await self._speak(socket, pod)
        finally:
            self.open -= 1
        return socket

    def _pod(self, name: str) -> dict[str, object]:
        ready = {"type": "Ready", "status": "False" if name.startswith("young") else "True"}
        leaving = {"deletionTimestamp": "2026-11-21T10:00:00Z"} if name.startswith("leaving") else {}
        return {"metadata": {"name": name} | leaving, "status": {"phase": "Running", "conditions": [ready]}}

    async def _speak(self, socket: web.WebSocketResponse, pod: str) -> None:
        await socket.send_bytes(b"\x00" + _PORT)
        await socket.send_bytes(b"\x01" + _PORT)
        if pod == "broken":
            await socket.send_bytes(b"\x01connection refused inside the pod")
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[0] == 0:
                if message.data[1:] == b"bye":
                    break
                await socket.send_bytes(b"\x00" + pod.encode() + b":" + message.data[1:])


class Troubles:
    """The errors that occurred, to be waited for."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[ConsoleError] = asyncio.Queue()

    async def next(self) -> ConsoleError:
        async with asyncio.timeout(60):
            return await self.told.get()


@asynccontextmanager
async def forwarding(kubelet: Kubelet, folder: Path, *, pod: str = "") -> AsyncIterator[tuple[PortForward, Troubles]]:
    troubles = Troubles()
    async with session_to(kubelet, folder) as session:
        find = pod_named(pod) if pod else pod_finder(session, "work", "app=web")
        async with open_forward(session, "work", find, 8080, on_trouble=troubles.told.put_nowait) as forward:
            yield forward, troubles


async def _ask(port: int, data: bytes, answer: int) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        said = await reader.readexactly(answer) if answer else await reader.read()
        writer.close()
        return said


async def test_bytes_go_both_ways_without_the_port_numbers(tmp_path: Path) -> None:
    kubelet = Kubelet()
    async with forwarding(kubelet, tmp_path) as (forward, _):
        assert await _ask(forward.local_port, b"\x00\x01hello", 13) == b"web-1:\x00\x01hello"
    assert kubelet.paths == ["/api/v1/namespaces/work/pods/web-1/portforward?ports=8080"]


async def test_connections_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with forwarding(Kubelet(), tmp_path) as (forward, _):
        idle = await asyncio.open_connection("127.0.0.1", forward.local_port)
        answers = await asyncio.gather(*(_ask(forward.local_port, b"%d" % n, 7) for n in range(5)))
        assert sorted(answers) == [b"web-1:%d" % n for n in range(5)]
        idle[1].close()


async def test_connections_whose_far_side_stays_open_hold_up_no_others(tmp_path: Path) -> None:
    async with forwarding(Kubelet(), tmp_path) as (forward, _):
        for n in range(40):
            assert await _ask(forward.local_port, b"%02d" % n, 8) == b"web-1:%02d" % n


async def test_the_next_connection_reaches_the_pods_successor(tmp_path: Path) -> None:
    kubelet = Kubelet()
    async with forwarding(kubelet, tmp_path) as (forward, _):
        assert await _ask(forward.local_port, b"a", 7) == b"web-1:a"
        kubelet.pods = ["leaving-1", "young-3", "web-2"]
        assert await _ask(forward.local_port, b"b", 7) == b"web-2:b"


async def test_a_missing_pod_is_told_and_the_port_stays_open(tmp_path: Path) -> None:
    kubelet = Kubelet()
    kubelet.pods = []
    async with forwarding(kubelet, tmp_path) as (forward, troubles):
        assert await _ask(forward.local_port, b"a", 0) == b""
        assert isinstance(await troubles.next(), MissingError)
        kubelet.pods = ["web-1"]
        assert await _ask(forward.local_port, b"a", 7) == b"web-1:a"


async def test_a_pod_that_is_gone_by_name_is_told_in_the_apis_words(tmp_path: Path) -> None:
    async with forwarding(Kubelet(), tmp_path, pod="gone") as (forward, troubles):
        assert await _ask(forward.local_port, b"a", 0) == b""
        assert 'pods "gone" not found' in (await troubles.next()).message


async def test_what_the_kubelet_says_goes_wrong_is_told(tmp_path: Path) -> None:
    kubelet = Kubelet()
    kubelet.pods = ["broken"]
    async with forwarding(kubelet, tmp_path) as (forward, troubles):
        assert await _ask(forward.local_port, b"", 0) == b""
        assert "connection refused inside the pod" in (await troubles.next()).message


async def test_an_answer_to_what_was_ended_on_our_side_still_comes(tmp_path: Path) -> None:
    async with forwarding(Kubelet(), tmp_path) as (forward, _), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        writer.write(b"a")
        writer.write_eof()
        assert await reader.readexactly(7) == b"web-1:a"
        writer.close()


async def test_an_end_on_the_far_side_ends_the_connection(tmp_path: Path) -> None:
    async with forwarding(Kubelet(), tmp_path) as (forward, troubles):
        assert await _ask(forward.local_port, b"bye", 0) == b""
        assert troubles.told.empty()


async def test_closing_ends_every_connection(tmp_path: Path) -> None:
    kubelet = Kubelet()
    async with session_to(kubelet, tmp_path) as session:
        async with open_forward(session, "work", pod_named("web-1"), 8080) as forward:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(b"a")
            assert await reader.readexactly(7) == b"web-1:a"
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        await until(lambda: not kubelet.open, "the kubelet's side to close")
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", forward.local_port)


async def test_a_server_without_the_protocol_is_refused(tmp_path: Path) -> None:
    kubelet = Kubelet("v9.something")
    async with forwarding(kubelet, tmp_path, pod="web-1") as (forward, troubles):
        assert await _ask(forward.local_port, b"a", 0) == b""
        assert isinstance(await troubles.next(), RefusedError)


async def _refused(session: KubeSession, port: int) -> str:
    with pytest.raises(RefusedError) as caught:
        async with open_forward(session, "work", pod_named("web-1"), 8080, local_port=port):
            pass
    return caught.value.message


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with (
        session_to(Kubelet(), tmp_path) as session,
        open_forward(session, "work", pod_named("web-1"), 8080) as forward,
    ):
        assert str(forward.local_port) in await _refused(session, forward.local_port)


async def test_a_read_only_session_opens_no_port(tmp_path: Path) -> None:
    async with session_to(Kubelet(), tmp_path, readonly=True) as session:
        assert "read-only" in await _refused(session, 0)
