"""A real API server with forty finished pods, whose logs kwok serves: `python -m tests.bench.reallogs FOLDER`.

It writes FOLDER/target.json when it serves, and ends with its parent's stdin.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import aiohttp
import yaml

from tests.bench.etcd import Store
from tests.bench.fleet import Document, Fleet
from tests.bench.loglines import LINES, PODS, finished_pod, log_line
from tests.bench.serving import until_stdin_ends
from tests.bench.target import Target
from tests.realcluster.harness.controlplane import ControlPlane, api_server
from tests.realcluster.harness.kwok import kwok_folder
from tests.realcluster.harness.parts import VERSION, build_all, program
from tests.realcluster.harness.programs import free_ports, listens, running

_STAGE = "kustomize/stage/node/heartbeat/node-heartbeat.yaml"
"""kwok does not start without any; it applies to nodes that kwok manages, of which there are none."""


async def serve(folder: Path) -> None:
    """Serve until stdin ends, in a folder that is made if it is missing, by programs that are built if they are."""
    build_all()
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(api_server(folder / "cluster"))
        (port,) = free_ports(1)
        kwok = await stack.enter_async_context(running(_kwok(plane, port), name="kwok", logs=plane.folder / "logs"))
        await kwok.until(partial(listens, port), "the port of kwok")
        store = Store(plane.etcd, await stack.enter_async_context(aiohttp.ClientSession()))
        node = _node(port)
        await store.put([node, *(finished_pod(f"pod-{n}", node["metadata"]["name"]) for n in range(PODS))])
        Target(server=f"kube-apiserver {VERSION}, kwok", kubeconfig=str(plane.kubeconfig), nodes=1).write(folder)
        await until_stdin_ends()


def _kwok(plane: ControlPlane, port: int) -> list[str]:
    """kwok as a kubelet that only serves one log file for all containers; it manages no node."""
    log = plane.folder / "container.log"
    log.write_text("".join(f"{stamp} stdout F {text}\n" for stamp, text in map(log_line, range(LINES))))
    config = plane.folder / "kwok.yaml"
    logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "all"},
        "spec": {"logs": [{"logsFile": str(log), "follow": False}]},
    }
    stage = (kwok_folder() / _STAGE).read_text(encoding="utf-8")
    config.write_text(f"{stage}\n---\n{yaml.safe_dump(logs)}", encoding="utf-8")
    of = plane.credentials.path
    return [
        program("kwok"),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={config}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-label-selector=managed-by-kwok=yes",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={of('server.crt')}",
        f"--tls-private-key-file={of('server.key')}",
    ]


def _node(port: int) -> Document:
    """The node of all pods; its kubelet is kwok."""
    node = Fleet(1, PODS).node(0, 0)
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return node


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]).resolve()))
