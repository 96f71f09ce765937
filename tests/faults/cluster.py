"""A sandbox whose faults a test controls over HTTP, with somebody who changes it past all faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from actions.base.clock import SystemClock
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.watch.health import Health
from actions.sandbox.apiserver.requests.request_info import CONTROLLER_AGENT
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import NAMESPACES, PODS
from actions.sandbox.controllers.start import start_controllers
from actions.sandbox.faults.panel import FaultPanel
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving
from tests.support.sandboxes import http_of

_HURRY = 40.0
_PATIENCE_SECONDS = 90.0
_FAST = SandboxOptions(speed=200.0, image_pull_seconds=0.02, container_start_seconds=0.02, stop_seconds=0.02)


class HurriedClock:
    """The machine's clock, on which every wait is shorter by a factor."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / _HURRY)


@dataclass(frozen=True, slots=True)
class FaultyCluster:
    """A cluster. `owner` changes it, and no fault hits it; `session` is the console's."""

    url: str
    session: KubeSession
    owner: ApiClient
    http: aiohttp.ClientSession

    async def add(self, **fault: Any) -> None:
        """Turn a fault on."""
        body = {name.replace("_", "-"): value for name, value in fault.items()}
        async with self.http.post(f"{self.url}/sandbox/faults", json=body) as answer:
            assert answer.status == 201, await answer.text()

    async def lift(self, name: str = "") -> None:
        """Turn one fault off, or all."""
        async with self.http.delete(f"{self.url}/sandbox/faults" + (f"/{name}" if name else "")) as answer:
            assert answer.status == 200, await answer.text()

    async def hits(self) -> dict[str, int]:
        """Return the number of hits of each fault."""
        async with self.http.get(f"{self.url}/sandbox/faults") as answer:
            return {fault["name"]: fault["hits"] for fault in await answer.json()}

    async def break_watches(self, resource: str) -> None:
        """Cut the watches of a resource that are open."""
        await self.add(kind="cut", name="break", verbs=["watch"], resources=[resource], after_bytes=0)
        await self.lift("break")

    async def make_pod(self, name: str) -> None:
        """Make a pod; without controllers nothing runs it."""
        spec = {"containers": [{"name": "main", "image": "busybox:1"}]}
        assert await self.owner.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def end_pod(self, name: str) -> None:
        """Delete a pod at once."""
        assert await self.owner.delete(PODS, f"default/{name}", grace_seconds=0)


@asynccontextmanager
async def a_faulty_cluster(folder: Path, *, has_actors: bool = False) -> AsyncIterator[FaultyCluster]:
    """The API alone, or with everything that makes pods run."""
    panel = FaultPanel(SystemClock())
    kubelet = Kubelet(_FAST, panel.clock)
    start = (lambda session: start_controllers(session, kubelet, _FAST, panel.clock)) if has_actors else None
    async with (
        serving(folder, _FAST, SandboxParts(kubelet, controllers=start, panel=panel)) as server,
        http_of(server.kubeconfig) as http,
    ):
        target = ClusterTarget(kubeconfig=server.kubeconfig)
        session = await KubeSession.connect(target)
        owner = await KubeSession.connect(target, user_agent=CONTROLLER_AGENT)
        try:
            client = ApiClient(owner, SystemClock())
            await client.create(NAMESPACES, {"metadata": {"name": "default"}})
            yield FaultyCluster(server.url, session, client, http)
        finally:
            await session.aclose()
            await owner.aclose()


@asynccontextmanager
async def watched(cluster: FaultyCluster) -> AsyncIterator[ClusterState]:
    """The console's picture of a cluster, complete when the context is entered."""
    state = ClusterState(cluster.session, clock=HurriedClock())
    task = asyncio.create_task(state.run())
    try:
        await until(state, lambda: state.snapshot().is_complete)
        yield state
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(state: ClusterState, holds: Callable[[], object]) -> None:
    """Wait until the picture is as wanted."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not holds():
                await state.wait_changed()
                state.snapshot()
    except TimeoutError:
        raise AssertionError(f"{sorted(state.snapshot().pods)} {state.snapshot().health}") from None


def pods_of(state: ClusterState) -> set[str]:
    """The names of the pods in the picture."""
    return {pod.name for pod in state.snapshot().pods.values()}


def health_of(state: ClusterState, source: str) -> Health:
    """Return the health of a source; syncing if it has not reported any yet."""
    told = state.snapshot().health.get(source)
    return told.state if told is not None else Health.SYNCING
