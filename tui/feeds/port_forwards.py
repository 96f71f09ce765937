"""Port forwards: ports of this machine into pods, for as long as the console is open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import ConfigError, ConsoleError, MissingError
from actions.cluster import prometheus
from actions.fleet.facts import PodFacts
from tui.feeds.supervisor import Supervisor

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.remote.port_forward import PortForward

OPEN_SECONDS = 10.0


class WebInterface(msgspec.Struct, frozen=True):
    """A web interface that pods serve.

    Args:
        name: Name in the command `forward`.
        title: Name in sentences.
        port: Port in the pod.
        is_served_by: Returns whether a pod serves it.
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
    WebInterface("prometheus", "Prometheus", prometheus.PORT, prometheus.is_prometheus),
)
"""The web interfaces of the blueprints, and of a Prometheus that the cluster has."""


def parse_port(text: str) -> tuple[str, int]:
    """Split `NAMESPACE/POD:PORT` into the pod and its port.

    Raises:
        ConfigError: It has another form.
    """
    target, _, port = text.rpartition(":")
    if not target or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        known = ", ".join(service.name for service in SERVICES)
        raise ConfigError(f"{text!r} cannot be forwarded.", hint=f"Write {known}, or NAMESPACE/POD:PORT.")
    return target, int(port)


def served_by(service: WebInterface, pods: Iterable[PodFacts]) -> PodFacts | None:
    """Return a running pod that serves the interface."""
    return next((pod for pod in pods if pod.phase == "Running" and service.is_served_by(pod)), None)


class OpenPort(msgspec.Struct, frozen=True):
    """An open port forward."""

    address: str
    token: str

    @property
    def link(self) -> str:
        """The address for a browser, with the token, which must not appear in titles and logs."""
        return f"http://{self.address}/?token={self.token}"


class Forwards:
    """The open port forwards on 127.0.0.1. Used on the loop only.

    Args:
        supervisor: Runs the listeners.
        tell: Called with the reason of a refused or broken connection; not twice in a row with the same one.
    """

    def __init__(self, supervisor: Supervisor, tell: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._tell = tell
        self._told = ""
        self._token = secrets.token_urlsafe(24)
        self._open: dict[str, OpenPort] = {}

    @property
    def opened(self) -> Mapping[str, OpenPort]:
        """The open ports, by name."""
        return dict(self._open)

    async def open(
        self,
        session: KubeSession,
        name: str,
        namespace: str,
        find: Callable[[], PodFacts | None],
        *,
        port: int,
        local: int,
    ) -> str:
        """Open a port. HTTP requires the console's own token, and connections of other users are refused.

        Args:
            session: The session with the pod's cluster.
            name: Name of the forward; an open one of that name is closed.
            namespace: Namespace of the pod.
            find: Returns the pod; called for every connection.
            port: Port in the pod.
            local: Local port; 0 for any.

        Returns:
            The address, without the token.

        Raises:
            ConsoleError: It cannot be opened.
        """
        from actions.cluster.remote.port_forward import open_forward

        opened: asyncio.Future[PortForward] = asyncio.get_running_loop().create_future()

        async def found() -> str:
            pod = find()
            if pod is None:
                raise MissingError(f"No pod serves {name} now.")
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
        """Close a forward; return whether there was one of that name."""
        self._supervisor.drop(f"forward {name}")
        return self._open.pop(name, None) is not None
