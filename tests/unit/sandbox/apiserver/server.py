"""An API server for tests, without a kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from actions.sandbox.apiserver.app import create_app
from actions.sandbox.apiserver.requests.access import ADMINISTRATOR, User
from actions.sandbox.apiserver.requests.fault_hook import NO_FAULTS
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


class NoKubelet:
    """No container runs: what is asked of one is another test's, on the whole cluster."""

    def log_chunks(self, source: ContainerLogRef, request: PodLogOptions) -> AsyncIterator[bytes]:
        raise KeyError(source.container)

    async def exec(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, tty: bool, streams: ExecStreams
    ) -> int:
        raise ContainerNotRunning(container)

    async def forward(self, namespace: str, pod: str, port: int, stream: PortStream) -> None:
        raise ContainerNotRunning("connection refused")


@asynccontextmanager
async def an_api(*, store: Store | None = None, tokens: Mapping[str, User] = NO_MORE_TOKENS) -> AsyncIterator[Client]:
    """A client of a running API server that has the namespace `default`."""
    users = {"administrators": ADMINISTRATOR, **tokens}
    app = create_app(
        store or Store(), NoKubelet(), NO_FAULTS, tokens=users, access_key=ACCESS_KEY, bookmark_seconds=0.05
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


async def patch(client: Client, path: str, body: Any, *, kind: str = "merge") -> tuple[int, dict[str, Any]]:
    """PATCH an object: by merge, or strategically."""
    prefix = "strategic-" if kind == "strategic" else ""
    headers = {"Content-Type": f"application/{prefix}merge-patch+json"}
    answer = await client.patch(path, data=msgspec.json.encode(body), headers=headers)
    return answer.status, await answer.json()


def a_pod(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}], **spec},
    }


PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
