"""What programs listen on: HTTP services of containers, found by the host names that pods and Services have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class HttpAnswer(msgspec.Struct, frozen=True):
    """What a service says to a request."""

    status: int
    body: bytes
    content_type: str = "application/json"


class HttpService(Protocol):
    """Whatever listens on a port and understands HTTP."""

    def answer(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Serve one request. `path` begins with `/`; what follows a `?` is part of it."""
        ...


class HttpNetwork:
    """The listening ports of a cluster. One instance a kubelet; programs find it in their container."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, int], HttpService] = {}

    def listen(self, hosts: Iterable[str], port: int, service: HttpService) -> None:
        """Have requests to these hosts answered by `service`; who listened there before is forgotten."""
        for host in hosts:
            self._services[host, port] = service

    def close(self, service: HttpService) -> None:
        """A program has ended: nothing of it listens any more."""
        self._services = {place: one for place, one in self._services.items() if one is not service}

    def find(self, host: str, port: int) -> HttpService | None:
        """Who listens there; `None` if the connection would be refused."""
        return self._services.get((host, port))


def pod_host(namespace: str, pod: str) -> str:
    """The name under which a pod's own ports are found."""
    return f"{namespace}/{pod}"
