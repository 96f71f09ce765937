"""Logs and exec reach the kubelet and bring back what it says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actions.cluster.remote.exec import Channel
from tests.unit.sandbox.apiserver.server import PODS, Client, a_pod, an_api, create


async def a_bound_pod(client: Client, **spec: Any) -> None:
    await create(client, PODS, a_pod(**spec))
    await client.post(f"{PODS}/web/binding", json={"target": {"name": "n1"}})


async def test_a_log_is_asked_for_with_its_bounds() -> None:
    async with an_api() as client:
        await a_bound_pod(client)
        query = {"tailLines": "5", "sinceTime": "2026-11-21T10:00:00.000000007Z"}
        answer = await client.get(f"{PODS}/web/log", params=query)
        assert await answer.text() == "default/web/main\ntail=5 since=1795255200000000007\n"


async def test_a_pod_without_a_node_has_an_empty_log() -> None:
    async with an_api() as client:
        await create(client, PODS, a_pod())
        answer = await client.get(f"{PODS}/web/log")
        assert (answer.status, await answer.text()) == (200, "")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, "a container name must be specified for pod web, choose one of: [a b]"),
        ({"container": "c"}, "container c is not valid for pod web"),
        ({"container": "a", "previous": "true"}, 'previous terminated container "a" in pod "web" not found'),
        ({"container": "a", "tailLines": "-1"}, "tailLines: Invalid value: '-1': must be greater than or equal to 0"),
    ],
)
async def test_a_log_that_cannot_be_had_says_why(query: dict[str, str], message: str) -> None:
    async with an_api() as client:
        await a_bound_pod(client, containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])
        answer = await client.get(f"{PODS}/web/log", params=query)
        status = await answer.json()
    assert (status["code"], status["message"]) == (400, message)


async def run(client: Client, *argv: str, stdin: bytes = b"", protocol: str = "v5.channel.k8s.io") -> list[bytes]:
    query = [("command", word) for word in argv] + [("stdin", "true" if stdin else "false")]
    async with client.ws_connect(f"{PODS}/web/exec", params=query, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        if stdin:
            await socket.send_bytes(bytes([Channel.STDIN]) + stdin)
            await socket.send_bytes(bytes([Channel.CLOSE, Channel.STDIN]))
        return [message.data async for message in socket]


async def test_exec_carries_input_output_and_the_end_of_input() -> None:
    async with an_api() as client:
        await a_bound_pod(client)
        frames = await run(client, "cat", stdin=b"hello")
    assert frames[0] == bytes([Channel.STDOUT]) + b"hello"
    assert msgspec.json.decode(frames[1][1:]) == {"metadata": {}, "status": "Success"}


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_exec_tells_the_exit_code(protocol: str) -> None:
    async with an_api() as client:
        await a_bound_pod(client)
        (frame,) = await run(client, "exit", "3", protocol=protocol)
    status = msgspec.json.decode(frame[1:])
    assert frame[0] == Channel.ERROR
    assert (status["reason"], status["details"]["causes"][0]) == (
        "NonZeroExitCode",
        {"reason": "ExitCode", "message": "3"},
    )


async def test_exec_without_a_running_container_ends_with_an_error() -> None:
    async with an_api() as client:
        await a_bound_pod(client)
        (frame,) = await run(client, "absent")
    assert msgspec.json.decode(frame[1:])["message"] == 'container not found ("main")'
