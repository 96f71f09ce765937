"""A Prometheus is found by the label and the containers of its pods, and forwarded by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actions.cluster.objects.client import Discovery
from actions.cluster.prometheus import LABEL, PrometheusFound, find_prometheus, is_prometheus
from actions.fleet.facts import PodFacts
from actions.run.doctor.cluster import check_prometheus
from actions.run.state.records import CheckResult
from tests.unit.cluster.servers import session_to

_CORE = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}
_MONITORS = {"resources": [{"name": "podmonitors", "kind": "PodMonitor", "namespaced": True}]}


def a_pod(name: str, container: str, *, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "monitoring", "name": name, "uid": name},
        "spec": {"containers": [{"name": "config-reloader"}, {"name": container}]},
        "status": {"phase": phase},
    }


STACK = a_pod("prometheus-kube-prometheus-stack-prometheus-0", "prometheus")
CHART = a_pod("prometheus-server-6d-x", "prometheus-server")
EXPORTER = a_pod("node-exporter-x", "node-exporter")


class Api:
    """Pods, and perhaps the definitions of Prometheus' operator."""

    def __init__(self, *pods: dict[str, Any], has_operator: bool = False, is_bound: bool = True) -> None:
        self.pods = pods
        self.has_operator = has_operator
        self.is_bound = is_bound
        self.asked: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        match request.path:
            case "/api/v1":
                return web.json_response(_CORE)
            case "/apis/monitoring.coreos.com/v1" if self.has_operator:
                return web.json_response(_MONITORS)
            case "/api/v1/pods" if not self.is_bound:
                return web.json_response({"code": 403, "message": "pods is forbidden"}, status=403)
            case "/api/v1/pods" | "/api/v1/namespaces/work/pods":
                self.asked.append(f"{request.path}?{request.query['labelSelector']}")
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": list(self.pods)})
        return web.json_response({"code": 404, "message": "not found"}, status=404)


@pytest.mark.parametrize("pod", [STACK, CHART])
async def test_a_prometheus_is_found_in_any_namespace(pod: dict[str, Any], tmp_path: Path) -> None:
    api = Api(EXPORTER, pod, has_operator=True)
    async with session_to(api, tmp_path) as session:
        found = await find_prometheus(session, Discovery(session))
        observed = await check_prometheus(session)
    assert found == PrometheusFound((f"monitoring/{pod['metadata']['name']}",), reads_pod_monitors=True)
    assert api.asked[0] == f"/api/v1/pods?{LABEL}"
    assert observed.result is CheckResult.PASSED
    assert "eksml-tui forward prometheus opens port 9090. It finds exporters by a PodMonitor." in observed.detail


async def test_without_one_exporters_wait_for_a_later_one(tmp_path: Path) -> None:
    async with session_to(Api(EXPORTER, a_pod("x", "prometheus", phase="Pending")), tmp_path) as session:
        assert await find_prometheus(session, Discovery(session)) == PrometheusFound()
        observed = await check_prometheus(session)
    assert observed.result is CheckResult.PASSED
    assert (
        observed.detail
        == "None runs in the cluster. One installed later finds exporters by the annotation prometheus.io/scrape."
    )


async def test_without_the_right_to_all_pods_the_own_namespace_is_looked_at(tmp_path: Path) -> None:
    api = Api(STACK, is_bound=False)
    async with session_to(api, tmp_path) as session:
        assert (await find_prometheus(session, Discovery(session))).pods
    assert api.asked == [f"/api/v1/namespaces/work/pods?{LABEL}"]


def test_the_console_knows_one_by_its_containers() -> None:
    assert is_prometheus(PodFacts("u", "monitoring", "p-0", containers=("prometheus", "config-reloader")))
    assert not is_prometheus(PodFacts("u", "monitoring", "prometheus-node-exporter", containers=("node-exporter",)))
