"""After a session is closed nothing of it is left: no socket, no task, however many streams were open."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import web

from actions.base.errors import UnreachableError
from actions.cluster import kinds
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.http import pool
from actions.cluster.http.pool import UNACKNOWLEDGED_SECONDS
from actions.cluster.logs.follow import ContainerLog, LogFollower
from actions.cluster.state.cluster_state import ClusterState
from tests.support.polling import until
from tests.unit.cluster.faults import bookmark, stream
from tests.unit.cluster.servers import serving, write_kubeconfig

_STREAMS = len(kinds.WATCHED) + 6
"""Kinds of jobs, nodes, pods, events, claims of nodes; slices and claims of devices."""
_FOLLOWERS = 12


class Hanging:
    """Every stream stays open until its client goes."""

    def __init__(self) -> None:
        self.open = 0
        self._reply = stream(bookmark(5, ends_initial=True), then="hang")

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/pods/p"):
            running = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-21T10:00:00Z"}}}
            return web.json_response({"metadata": {"uid": "u1"}, "status": {"containerStatuses": [running]}})
        if request.path == "/apis/resource.k8s.io":
            return web.json_response({"versions": [{"version": "v1"}]})
        self.open += 1
        try:
            return await self._reply(request)
        finally:
            self.open -= 1


def _sockets() -> int:
    """Of this process."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except FileNotFoundError:  # the one of the listing itself
            continue
    return count


async def test_what_the_network_loses_of_a_request_is_given_up_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    make = socket.socket

    def noted(*arguments: int) -> socket.socket:
        made.append(make(*arguments))
        return made[-1]

    monkeypatch.setattr(pool, "socket", SimpleNamespace(**vars(socket) | {"socket": noted}))
    async with serving(Hanging()) as address:
        session = await KubeSession.connect(ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, address)))
        await session.get("/api/v1/namespaces/default/pods/p")
        limits = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in made]
        await session.aclose()
    assert limits == [UNACKNOWLEDGED_SECONDS * 1000]


@pytest.mark.parametrize("tasks_end_first", [True, False])
async def test_closing_leaves_no_socket(tmp_path: Path, tasks_end_first: bool) -> None:
    server = Hanging()
    async with serving(server) as address:
        before = _sockets()
        session = await KubeSession.connect(ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, address)))
        followers = [
            LogFollower(session, ContainerLog("work", "p", "main", "u1"), on_lines=lambda _: None)
            for _ in range(_FOLLOWERS)
        ]
        tasks = [
            asyncio.create_task(ClusterState(session).run()),
            *(asyncio.create_task(follower.run()) for follower in followers),
        ]
        await until(lambda: server.open == _STREAMS + _FOLLOWERS, "all streams")
        if not tasks_end_first:
            await session.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await session.aclose()
        await until(lambda: not server.open, "no stream")
        await until(lambda: _sockets() <= before, "no more sockets than before")
        with pytest.raises(UnreachableError):
            await session.get("/version")
        await until(lambda: _sockets() <= before, "no more sockets than before")
