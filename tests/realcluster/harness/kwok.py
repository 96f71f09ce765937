"""kwok: the kubelet of every node, behind a gate that knows what kwok does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from actions.base.files import private_directory
from tests.realcluster.harness.controlplane import ControlPlane
from tests.realcluster.harness.parts import module_folder, program
from tests.realcluster.harness.programs import free_ports, listens, running

POD_CIDR = "10.32.0.0/12"
_OWN_STAGES = Path(__file__).parent / "stages"
_THEIR_STAGES = (
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)
_DEFINITIONS = "kustomize/crd/bases"
_TOLD = {"Logs": "logs", "PortForward": "portforwards"}
"""The kinds by which kwok is told about single pods, with their plurals."""


def kwok_definitions() -> list[Path]:
    """The CRDs by which kwok is told where a pod's log files are, and what listens on its ports."""
    return [kwok_folder() / _DEFINITIONS / f"kwok.x-k8s.io_{plural}.yaml" for plural in _TOLD.values()]


def kwok_folder() -> Path:
    """kwok's own files."""
    return module_folder("kwok", "sigs.k8s.io/kwok")


@asynccontextmanager
async def kubelets(plane: ControlPlane, *, logs: Path, socket: Path) -> AsyncIterator[None]:
    """Serve all nodes until the context is left. The CRDs of `kwok_definitions` must be established.

    Args:
        plane: Whose nodes.
        logs: Below it lie the markers of running containers, NAMESPACE/POD/CONTAINER.run.
        socket: Where commands are run in containers.
    """
    kwok_port, gate_port = free_ports(2)
    folder = private_directory(plane.folder / "logs")
    config = plane.folder / "kwok.yaml"

    kwok = f"127.0.0.1:{kwok_port}"
    of = plane.credentials.path
    certificate = ["--tls-cert-file", of("server.crt"), "--tls-private-key-file", of("server.key")]
    argv = [
        program("kwok"), "--kubeconfig", str(plane.kubeconfig), "--config", str(config), "--manage-all-nodes",
        "--node-ip", "127.0.0.1", "--node-port", str(gate_port), "--server-address", kwok, "--cidr", POD_CIDR,
        "--node-lease-duration-seconds", "40", "--enable-crds", ",".join(_TOLD), *certificate,
    ]  # fmt: skip
    gate = [
        program("gate"), "-listen", f"127.0.0.1:{gate_port}", "-kwok", kwok, "-authority", of("ca.crt"),
        "-certificate", of("server.crt"), "-key", of("server.key"), "-logs", str(logs), "-socket", str(socket),
    ]  # fmt: skip
    async with AsyncExitStack() as stack:
        config.write_text(_config(await stack.enter_async_context(_service())), encoding="utf-8")
        for name, command, port in (("kwok", argv, kwok_port), ("gate", gate, gate_port)):
            started = await stack.enter_async_context(running(command, name=name, logs=folder))
            await started.until(partial(listens, port), f"the port of {name}")
        yield


@asynccontextmanager
async def _service() -> AsyncIterator[int]:
    """Serve the ports of pods over HTTP, whatever they are. Yields the port of the loopback address."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.path} of a pod\n")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hello)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _config(service_port: int) -> str:
    theirs = kwok_folder()
    files = [theirs / name for name in _THEIR_STAGES] + sorted(_OWN_STAGES.glob("*.yaml"))
    documents = [_forward_everywhere(service_port)]
    parts = [path.read_text(encoding="utf-8") for path in files]
    return "\n---\n".join([*parts, *(yaml.safe_dump(one) for one in documents)])


def _forward_everywhere(port: int) -> dict[str, Any]:
    """Behind every port that no container declares is the same service."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "everywhere"},
        "spec": {"forwards": [{"target": {"address": "127.0.0.1", "port": port}}]},
    }
