"""A Prometheus in the cluster: how its pods and Services are known, and what it has of GPUs.

Requests go through the API server, which takes the right to `get` `services/proxy`.

Amazon Managed Service for Prometheus has no pods: what writes to it from inside the cluster is not looked for.

Source:
    prometheus-operator (also kube-prometheus-stack): label `app.kubernetes.io/name=prometheus`, container `prometheus`,
    port 9090, governing Service `prometheus-operated`; chart prometheus: the same label and port, container
    `prometheus-server`. The Services of both select pods by that label; the operator's have a port `web` or
    `http-web`, the chart's is `http`, 80. Prometheus 3: `/api/v1/query_range`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.errors import AccessError, ConfigError, ConsoleError
from actions.base.executors import in_thread
from actions.base.names import segment
from actions.fleet.facts import PodFacts
from actions.telemetry.tools.dcgm import KeptGpu, KeptSeries, gpus_in, queries, read_answer

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects.client import Discovery

PORT = 9090
SELECTOR = ("app.kubernetes.io/name", "prometheus")
"""The label by which Services select the pods."""
_PORT_NAMES = frozenset({"web", "http-web", "http"})
_SERVICE = re.compile(r"([a-z0-9-]{1,63})/([a-z0-9-]{1,63}):([a-z0-9-]{1,15})")
_POINTS, _POINTS_OF_ALL = 240, 20
"""Points of each curve: what a trend has room for."""
_LEAST_STEP_SECONDS = 15.0
_DEADLINE_SECONDS = 10.0
CONTAINERS = frozenset({"prometheus", "prometheus-server"})


def is_prometheus(pod: PodFacts) -> bool:
    """Return whether a pod is a Prometheus, by its containers: no labels are kept of pods."""
    return not CONTAINERS.isdisjoint(pod.containers)


class PrometheusService(msgspec.Struct, frozen=True):
    """A Service of a Prometheus."""

    namespace: str
    name: str
    port: str

    @property
    def title(self) -> str:
        """As it is written in `config.yaml`."""
        return f"{self.namespace}/{self.name}:{self.port}"

    @property
    def path(self) -> str:
        """The path of its own API below the API server."""
        place = f"{segment(self.name)}:{segment(self.port)}"
        return f"/api/v1/namespaces/{segment(self.namespace)}/services/{place}/proxy/api/v1"


def parse_service(text: str) -> PrometheusService:
    """Read `NAMESPACE/SERVICE:PORT`.

    Raises:
        ConfigError: It has another form.
    """
    found = _SERVICE.fullmatch(text)
    if found is None:
        raise ConfigError(f"prometheus: {text!r} is not a Service.", hint="Write NAMESPACE/SERVICE:PORT.")
    return PrometheusService(*found.groups())


async def find_services(session: KubeSession, discovery: Discovery) -> tuple[PrometheusService, ...]:
    """Return the Services of all Prometheus in the cluster; none if there certainly is none.

    Raises:
        AccessError: Services may not be listed, and the session's own namespace has none.
        UnreachableError: The cluster does not answer.
    """
    from actions.cluster.objects.client import list_objects

    try:
        services = await list_objects(session, discovery, "v1", "Service")
    except AccessError:
        own = session.namespace or "default"
        services = await list_objects(session, discovery, "v1", "Service", namespace=own)
        if not any(map(_selects_prometheus, services)):
            raise
    found = (_service_of(one) for one in services if _selects_prometheus(one))
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.title))


async def gpu_history(
    session: KubeSession, services: Iterable[PrometheusService], pods: Sequence[str], *, since: float, until: float
) -> tuple[str, list[KeptGpu]]:
    """Return what the first Prometheus that knows them has of GPUs, and its Service; empty if none knows any.

    Args:
        session: The session.
        services: Of every Prometheus.
        pods: `namespace/name` of those that have the GPUs; empty for all GPUs.
        since: The first moment, in seconds since the epoch.
        until: The last one.

    Raises:
        ConsoleError: Every one of them refuses, or does not answer.
    """
    step = max(_LEAST_STEP_SECONDS, (until - since) / (_POINTS if pods else _POINTS_OF_ALL))
    span = {"start": f"{since:.0f}", "end": f"{until:.0f}", "step": f"{step:.0f}"}
    has_answered, refusal = False, None
    for service in services:
        try:
            series = await _series(session, service, queries(pods), span)
        except ConsoleError as error:
            refusal = error
            continue
        has_answered = True
        if series:
            return service.title, await in_thread("prometheus", gpus_in, series)
    if refusal is not None and not has_answered:
        raise refusal
    return "", []


async def _series(
    session: KubeSession, service: PrometheusService, asked: Sequence[str], span: Mapping[str, str]
) -> list[KeptSeries]:
    """Return the series of all metrics, or of none if the first one has none; each answer is read by itself."""
    found: list[KeptSeries] = []
    for query in asked:
        path, values = f"{service.path}/query_range", {"query": query, **span}
        body = await session.request("GET", path, query=values, deadline_seconds=_DEADLINE_SECONDS)
        found += await in_thread("prometheus", read_answer, body)
        if not found:
            break
    return found


def _selects_prometheus(service: dict[str, Any]) -> bool:
    selector = (service.get("spec") or {}).get("selector") or {}
    return isinstance(selector, dict) and SELECTOR in selector.items()


def _service_of(service: dict[str, Any]) -> PrometheusService | None:
    """Return a Service with the port of the API: by its name, its number, or as the only one."""
    ports = [port for port in (service.get("spec") or {}).get("ports") or () if isinstance(port, dict)]
    known = [port for port in ports if port.get("name") in _PORT_NAMES or port.get("port") == PORT]
    if not known and len(ports) != 1:
        return None
    metadata = service["metadata"]
    return PrometheusService(metadata["namespace"], metadata["name"], str((known or ports)[0].get("port")))
