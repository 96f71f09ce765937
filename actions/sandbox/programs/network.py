"""The HTTP services of containers, found by the host names that pods and Services have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer of a service to a request."""

    status: int
    body: bytes
    content_type: str = "application/json"


class HttpService(Protocol):
    """A program that answers HTTP on a port."""

    def answer(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Serve one request. `path` begins with `/`; what follows a `?` is part of it."""
        ...


class HttpNetwork:
    """The listening ports of a cluster. One instance a kubelet; programs get it with their container view."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, int], HttpService] = {}

    def listen(self, hosts: Iterable[str], port: int, service: HttpService) -> None:
        """Have requests to these hosts answered by `service`, in the place of an earlier one."""
        for host in hosts:
            self._services[host, port] = service

    def close(self, service: HttpService) -> None:
        """Forget a service whose program has ended."""
        self._services = {place: one for place, one in self._services.items() if one is not service}

    def find(self, host: str, port: int) -> HttpService | None:
        """Return the service at an address; `None` if the connection would be refused."""
        return self._services.get((host, port))


def pod_host(namespace: str, pod: str) -> str:
    """The name under which a pod's own ports are found."""
    return f"{namespace}/{pod}"
