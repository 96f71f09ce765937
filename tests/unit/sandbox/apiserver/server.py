"""An API server for tests, with a kubelet that answers at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from actions.cluster.remote.exec import Channel
from actions.sandbox.apiserver.app import create_app
from actions.sandbox.apiserver.requests.access import ADMINISTRATOR, User
from actions.sandbox.apiserver.requests.fault_hook import NO_FAULTS, FaultHook
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.model.keys import AccessKey
from actions.sandbox.model.kubelet_api import (
    ContainerLogRef,
    ContainerNotRunning,
    ExecStreams,
    PodLogOptions,
    PortStream,
)

Client = TestClient[Any, Any]
TOKEN = {"Authorization": "Bearer administrators"}
"""The administrator's, which every request brings that does not say otherwise."""
ACCESS_KEY = AccessKey("AKIAAAAAAAAAAAAAAAAA", "secret")
NO_MORE_TOKENS: Mapping[str, User] = {}


class EchoKubelet:
    """Logs a line for every argument; `exec` of `cat` echoes, of `exit N` ends with N."""

    async def _lines(self, texts: Sequence[str]) -> AsyncIterator[bytes]:
        for text in texts:
            yield f"{text}\n".encode()

    def log_chunks(self, source: ContainerLogRef, request: PodLogOptions) -> AsyncIterator[bytes]:
        if source.previous:
            raise KeyError(source.container)
        asked = f"tail={request.tail_lines} since={request.since_ns}"
        return self._lines([f"{source.namespace}/{source.pod}/{source.container}", asked])

    async def exec(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, tty: bool, streams: ExecStreams
    ) -> int:
        if argv[0] == "absent":
            raise ContainerNotRunning(container)
        while argv[0] == "cat" and (data := await streams.read()):
            await streams.write(Channel.STDOUT, data)
        return int(argv[1]) if argv[0] == "exit" else 0

    async def forward(self, namespace: str, pod: str, port: int, stream: PortStream) -> None:
        if port == 1:
            raise ContainerNotRunning("connection refused")
        while data := await stream.read():
            await stream.write(data)


@asynccontextmanager
async def an_api(
    *, store: Store | None = None, faults: FaultHook = NO_FAULTS, tokens: Mapping[str, User] = NO_MORE_TOKENS
) -> AsyncIterator[Client]:
    """A client of a running API server that has the namespace `default`."""
    users = {"administrators": ADMINISTRATOR, **tokens}
    app = create_app(
        store or Store(), EchoKubelet(), faults, tokens=users, access_key=ACCESS_KEY, bookmark_seconds=0.05
    )
    async with TestClient(TestServer(app), headers=TOKEN) as client:
        await create(client, "/api/v1/namespaces", {"metadata": {"name": "default"}})
        yield client


async def create(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST an object, which has to succeed."""
    answer = await client.post(path, json=body)
    assert answer.status == 201, await answer.text()
    made: dict[str, Any] = await answer.json()
    return made


async def patch(client: Client, path: str, body: Any, *, kind: str, **query: str) -> tuple[int, dict[str, Any]]:
    """PATCH an object in one of the ways: merge, json, strategic, apply."""
    types = {
        "merge": "application/merge-patch+json",
        "json": "application/json-patch+json",
        "strategic": "application/strategic-merge-patch+json",
        "apply": "application/apply-patch+yaml",
    }
    data, headers = msgspec.json.encode(body), {"Content-Type": types[kind]}
    answer = await client.patch(path, data=data, headers=headers, params=query)
    return answer.status, await answer.json()


def a_pod(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}], **spec},
    }


PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
