"""Ports of this machine that lead into pods, for as long as the console is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.fleet.facts import PodFacts
from tui.live.cluster_feed import ClusterFeed
from tui.live.supervisor import Supervisor

if TYPE_CHECKING:
    from actions.cluster.forward import Forward

OPEN_SECONDS = 10.0


class Service(msgspec.Struct, frozen=True):
    """Something that pods serve and that people look at with a browser.

    Args:
        name: What it is asked for by.
        title: For sentences.
        port: In the pod.
        is_served_by: Whether a pod serves it.
    """

    name: str
    title: str
    port: int
    is_served_by: Callable[[PodFacts], bool]


SERVICES = (
    Service("dashboard", "Ray dashboard", 8265, lambda pod: pod.owner_kind == "RayCluster" and "-head" in pod.name),
    Service("tensorboard", "TensorBoard", 6006, lambda pod: "tensorboard" in pod.name),
)
"""What blueprints bring."""


def served_by(service: Service, pods: Iterable[PodFacts]) -> PodFacts | None:
    """The pod to reach, a running one."""
    return next((pod for pod in pods if pod.phase == "Running" and service.is_served_by(pod)), None)


class Forwards:
    """Opens ports on 127.0.0.1, and keeps them. Used on the loop only.

    Args:
        cluster: Whose pods.
        supervisor: Keeps the listeners.
    """

    def __init__(self, cluster: ClusterFeed, supervisor: Supervisor) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._open: dict[str, str] = {}

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where each leads from, by name."""
        return dict(self._open)

    async def open(self, name: str, namespace: str, find: Callable[[], PodFacts | None], port: int, local: int) -> str:
        """Open a port, the same number as in the pod if it is free and no other is asked for.

        Args:
            name: Opening it again ends the one before.
            namespace: Of the pod.
            find: The pod, looked up for every connection.
            port: In the pod.
            local: Ours; 0 for any.

        Returns:
            The address.

        Raises:
            ConsoleError: It cannot be opened.
        """
        from actions.cluster.forward import open_forward

        session = self._cluster.session
        opened: asyncio.Future[Forward] = asyncio.get_running_loop().create_future()

        async def found() -> str:
            pod = find()
            if pod is None:
                raise MissingError(f"No pod serves {name} at present.")
            return pod.name

        async def serve(own: int) -> None:
            async with open_forward(session, namespace, found, port, local_port=own) as forward:
                if not opened.done():
                    opened.set_result(forward)
                await asyncio.Event().wait()

        async def work() -> None:
            try:
                try:
                    await serve(local or port)
                except RefusedError:
                    if local or session.readonly or opened.done():
                        raise
                    await serve(0)
            except ConsoleError as error:
                if not opened.done():
                    opened.set_exception(error)

        self.close(name)
        self._supervisor.keep(f"forward {name}", work)
        async with asyncio.timeout(OPEN_SECONDS):
            forward = await opened
        self._open[name] = f"http://127.0.0.1:{forward.local_port}"
        return self._open[name]

    def close(self, name: str) -> bool:
        """End one; whether there was one of that name."""
        self._supervisor.drop(f"forward {name}")
        return self._open.pop(name, "") != ""
