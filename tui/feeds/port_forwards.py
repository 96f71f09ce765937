"""Ports of this machine that lead into pods, for as long as the console is open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import ConsoleError, MissingError
from actions.fleet.facts import PodFacts
from tui.feeds.cluster import ClusterFeed
from tui.feeds.supervisor import Supervisor

if TYPE_CHECKING:
    from actions.cluster.remote.port_forward import PortForward

OPEN_SECONDS = 10.0


class WebInterface(msgspec.Struct, frozen=True):
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
    WebInterface(
        "dashboard", "Ray dashboard", 8265, lambda pod: pod.owner_kind == "RayCluster" and "-head" in pod.name
    ),
    WebInterface("tensorboard", "TensorBoard", 6006, lambda pod: "tensorboard" in pod.name),
)
"""What blueprints bring."""


def served_by(service: WebInterface, pods: Iterable[PodFacts]) -> PodFacts | None:
    """The pod to reach, a running one."""
    return next((pod for pod in pods if pod.phase == "Running" and service.is_served_by(pod)), None)


class OpenPort(msgspec.Struct, frozen=True):
    """A port that leads into a pod."""

    address: str
    token: str

    @property
    def link(self) -> str:
        """The address for a browser, with the token, which belongs into no title and no log."""
        return f"http://{self.address}/?token={self.token}"


class Forwards:
    """Opens ports on 127.0.0.1, and keeps them. Used on the loop only.

    Args:
        cluster: Whose pods.
        supervisor: Keeps the listeners.
        tell: Told why a connection was refused or broke; the same twice in a row once only.
    """

    def __init__(self, cluster: ClusterFeed, supervisor: Supervisor, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._tell = tell
        self._told = ""
        self._token = secrets.token_urlsafe(24)
        self._open: dict[str, OpenPort] = {}

    @property
    def opened(self) -> Mapping[str, OpenPort]:
        """The ports that are open, by name."""
        return dict(self._open)

    async def open(self, name: str, namespace: str, find: Callable[[], PodFacts | None], port: int, local: int) -> str:
        """Open a port. HTTP needs the console's own token, and connections of other users are refused.

        Args:
            name: Opening it again ends the one before.
            namespace: Of the pod.
            find: The pod, looked up for every connection.
            port: In the pod.
            local: Ours; 0 for any.

        Returns:
            The address, without the token.

        Raises:
            ConsoleError: It cannot be opened.
        """
        from actions.cluster.remote.port_forward import open_forward

        session = self._cluster.session
        opened: asyncio.Future[PortForward] = asyncio.get_running_loop().create_future()

        async def found() -> str:
            pod = find()
            if pod is None:
                raise MissingError(f"No pod serves {name} at present.")
            return pod.name

        async def work() -> None:
            try:
                opening = open_forward(
                    session, namespace, found, port, local_port=local, token=self._token, on_trouble=self._trouble
                )
                async with opening as forward:
                    if not opened.done():
                        opened.set_result(forward)
                    await asyncio.Event().wait()
            except ConsoleError as error:
                if not opened.done():
                    opened.set_exception(error)

        self.close(name)
        self._supervisor.keep(f"forward {name}", work)
        async with asyncio.timeout(OPEN_SECONDS):
            forward = await opened
        self._open[name] = OpenPort(f"127.0.0.1:{forward.local_port}", self._token)
        return self._open[name].address

    def _trouble(self, error: ConsoleError) -> None:
        if error.message != self._told:
            self._told = error.message
            self._tell(error.sentence())

    def close(self, name: str) -> bool:
        """End one; whether there was one of that name."""
        self._supervisor.drop(f"forward {name}")
        return self._open.pop(name, None) is not None
