"""Streams into pods end with their session: nothing of it stays open.

That can be counted where the cluster is in another process; a sandbox that this one serves has clients of its own here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from actions.base.errors import ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog, LogLine, follow
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.remote.port_forward import open_forward
from tests.flow.kubectl import Kubectl
from tests.support.pods import pod_named
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PORT = 8080
_DEADLINE_SECONDS = 120.0


def sockets_to(server: str) -> int:
    """Return the number of this process's connections to a server: the descriptors whose far end is its port."""
    far_end = f":{urlsplit(server).port:04X}"
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(far_end)}
    open_files = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(_target(file) in inodes for file in open_files)


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # closed since it was listed
        return ""


async def a_running_pod(session: KubeSession) -> dict[str, Any]:
    """A pod with a port, once it runs."""
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "echo one; sleep 100000"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container | {"ports": [{"containerPort": _PORT}]}]}
    discovery, ref = Discovery(session), ObjectRef("v1", "Pod", session.namespace, "worker")
    metadata = {"name": "worker", "namespace": session.namespace}
    await apply(session, discovery, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while object_status(pod := await fetch_object(session, discovery, ref)).state is not WorkState.RUNNING:
            await asyncio.sleep(0.05)
    return pod


async def asked_on_the_port(session: KubeSession) -> bytes:
    """Return the pod's answer to a request on its port."""
    troubles: list[ConsoleError] = []
    opening = open_forward(session, session.namespace, pod_named("worker"), _PORT, on_trouble=troubles.append)
    async with asyncio.timeout(_DEADLINE_SECONDS), opening as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        writer.write(b"GET /somewhere HTTP/1.1\r\nHost: pod\r\n\r\n")
        answer = await reader.readuntil(b"/somewhere\n")
        writer.close()
        await writer.wait_closed()
    assert not troubles
    return answer


async def test_log_exec_and_port_leave_no_socket_behind(cluster: Kubectl) -> None:
    session = await KubeSession.connect(ClusterTarget(cluster.kubeconfig))
    try:
        pod = await a_running_pod(session)
        seen = asyncio.Event()

        async def take(lines: Sequence[LogLine]) -> None:
            if lines:
                seen.set()

        source = ContainerLog(session.namespace, "worker", "main", pod["metadata"]["uid"])
        following = asyncio.create_task(follow(session, source, on_lines=take))
        await until(seen.is_set, "a line", deadline_seconds=_DEADLINE_SECONDS)
        assert f"worker:{_PORT}/somewhere".encode() in await asked_on_the_port(session)
        assert (await run_in_pod(session, session.namespace, "worker", "main", ["sh", "-c", "exit 3"])).exit_code == 3
        assert sockets_to(session.server)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    finally:
        await session.aclose()
    if cluster.is_real:
        await until(lambda: not sockets_to(session.server), "the sockets to close", deadline_seconds=_DEADLINE_SECONDS)
