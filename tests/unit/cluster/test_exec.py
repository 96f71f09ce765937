"""Programs in containers: framing, exit codes, versions of the protocol."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from actions.base.errors import MissingError, RefusedError, UnreachableError
from actions.cluster.remote.exec import ExecResult, open_exec, read_exit_code, run_in_pod
from tests.unit.cluster.servers import session_to

SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def _failure(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    body = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": "command terminated",
        "details": {"causes": causes},
    }
    return b"\x03" + json.dumps(body).encode()


class Container:
    """Speaks the server's side; `cat` echoes stdin, everything else answers by its name."""

    def __init__(self, *protocols: str) -> None:
        self.protocols = protocols
        self.query: list[tuple[str, str]] = []
        self.sizes: list[dict[str, int]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.query = list(request.query.items())
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        match request.query["command"]:
            case "cat":
                await self._cat(socket)
            case "fail":
                await socket.send_bytes(b"\x01out")
                await socket.send_bytes(b"\x02err")
                await socket.send_bytes(_failure(7))
            case "cut":
                await socket.send_bytes(b"\x01half")
            case "hang":
                await asyncio.Event().wait()
            case _:
                await socket.send_bytes(b'\x03{"status":"Failure","message":"exec: \\"nope\\": not found"}')
        await socket.close()
        return socket

    async def _cat(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            channel, payload = message.data[0], message.data[1:]
            if channel == 0:
                for index in range(len(payload)):
                    await socket.send_bytes(b"\x01" + payload[index : index + 1])
                if payload == b"quit":
                    break
            elif channel == 4:
                self.sizes.append(json.loads(payload))
            elif channel == 255:
                break
        await socket.send_bytes(SUCCESS)


async def test_stdin_is_closed_so_that_a_program_can_end(tmp_path: Path) -> None:
    container = Container("v5.channel.k8s.io", "v4.channel.k8s.io")
    async with session_to(container, tmp_path) as session:
        result = await run_in_pod(session, "work", "p", "main", ["cat"], stdin="größe".encode())
    assert result == ExecResult("größe".encode(), b"", 0)
    assert ("container", "main") in container.query
    assert ("tty", "false") in container.query


async def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    async with session_to(Container("v5.channel.k8s.io"), tmp_path) as session:
        result = await run_in_pod(session, "work", "p", "main", ["fail", "a b", "c"])
    assert result == ExecResult(b"out", b"err", 7)


async def test_a_program_that_cannot_be_started_is_quoted(tmp_path: Path) -> None:
    async with session_to(Container("v5.channel.k8s.io"), tmp_path) as session:
        with pytest.raises(RefusedError, match="not found"):
            await run_in_pod(session, "work", "p", "main", ["nope"])


async def test_a_connection_that_breaks_is_no_success(tmp_path: Path) -> None:
    async with session_to(Container("v5.channel.k8s.io"), tmp_path) as session:
        with pytest.raises(UnreachableError, match="broke"):
            await run_in_pod(session, "work", "p", "main", ["cut"])


async def test_a_program_that_does_not_end_is_left(tmp_path: Path) -> None:
    async with session_to(Container("v5.channel.k8s.io"), tmp_path) as session:
        with pytest.raises(UnreachableError, match="did not end"):
            await run_in_pod(session, "work", "p", "main", ["hang"], deadline_seconds=0.2)


async def test_a_missing_pod_is_missing(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"code": 404, "message": "pods p not found"}, status=404)

    async with session_to(refuse, tmp_path) as session:
        with pytest.raises(MissingError, match="pods p not found"):
            await run_in_pod(session, "work", "p", "main", ["x"])


async def test_version_four_is_enough_for_a_terminal(tmp_path: Path) -> None:
    container = Container("v4.channel.k8s.io")
    async with (
        session_to(container, tmp_path) as session,
        open_exec(session, "work", "p", "main", ["cat"]) as program,
    ):
        await program.resize(120, 40)
        with pytest.raises(RefusedError, match="version 4"):
            await program.close_stdin()
        await program.write(b"quit")
        output = b""
        while (part := await program.read()) is not None:
            output += part
        assert output == b"quit"
        assert program.exit_code == 0
    assert container.sizes == [{"Width": 120, "Height": 40}]
    assert ("tty", "true") in container.query


def test_a_status_without_details_is_a_refusal_not_a_crash() -> None:
    with pytest.raises(RefusedError, match="no reason given"):
        read_exit_code(b'{"status":"Failure"}')
    with pytest.raises(RefusedError, match="garbage"):
        read_exit_code(b"garbage")
