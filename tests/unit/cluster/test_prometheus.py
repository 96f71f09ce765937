"""A Prometheus is found by the label and the containers of its pods, and forwarded by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actions.base.errors import AccessError, ConfigError, ConsoleError, UnreachableError
from actions.cluster import prometheus
from actions.cluster.objects.client import Discovery
from actions.cluster.prometheus import (
    PrometheusService,
    find_services,
    gpu_history,
    is_prometheus,
    parse_service,
)
from actions.fleet.facts import PodFacts
from actions.run.doctor.cluster import check_prometheus
from actions.run.state.records import CheckResult
from tests.unit.cluster.servers import session_to

_CORE = {
    "resources": [
        {"name": "services", "kind": "Service", "namespaced": True},
    ]
}
_RECORDED = json.loads((Path(__file__).parents[2] / "fixtures" / "prometheus" / "dcgm.json").read_text("utf-8"))
_SELECTOR = {"app.kubernetes.io/name": "prometheus"}
_MONITORS = {"resources": [{"name": "podmonitors", "kind": "PodMonitor", "namespaced": True}]}


def test_the_console_knows_one_by_its_containers() -> None:
    assert is_prometheus(PodFacts("u", "monitoring", "p-0", containers=("prometheus", "config-reloader")))
    assert not is_prometheus(PodFacts("u", "monitoring", "prometheus-node-exporter", containers=("node-exporter",)))


def a_service(name: str, *ports: tuple[str, int], selector: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"selector": selector, "ports": [{"name": port, "port": number} for port, number in ports]}
    return {"metadata": {"namespace": "monitoring", "name": name, "uid": name}, "spec": spec}


OPERATED = a_service("prometheus-operated", ("web", 9090), ("reloader", 8080), selector=_SELECTOR)
OF_CHART = a_service("prometheus-server", ("", 80), selector=_SELECTOR)
OTHERS = (a_service("web", ("http", 80), selector={"app": "web"}), a_service("kubernetes", ("https", 443)))


class Proxied:
    """An API server with Services, one of which leads to a Prometheus with recorded answers."""

    has_operator = False

    def __init__(self, *services: dict[str, Any], status: int = 200, lists: int = 200, is_silent: bool = False) -> None:
        self.services = services
        self.status = status
        self.lists = lists
        self.is_silent = is_silent
        self.asked: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/api/v1":
            return web.json_response(_CORE)
        if request.path == "/apis/monitoring.coreos.com/v1":
            return web.json_response(
                _MONITORS if self.has_operator else {"code": 404}, status=200 if self.has_operator else 404
            )
        if request.path.endswith("/services"):
            document = {"metadata": {"resourceVersion": "1"}, "items": list(self.services)}
            here = self.lists if request.path == "/api/v1/services" else 200
            return web.json_response(document if here == 200 else {"code": here, "message": "no"}, status=here)
        self.asked.append(request.path)
        if self.is_silent:
            await asyncio.sleep(60)
        if self.status != 200:
            return web.json_response({"code": self.status, "message": "services is forbidden"}, status=self.status)
        metric = request.query["query"].partition("{")[0]
        assert float(request.query["end"]) - float(request.query["start"]) == 900
        return web.json_response(_RECORDED[metric])


async def test_the_service_of_a_prometheus_is_found_by_the_pods_that_it_selects(tmp_path: Path) -> None:
    async with session_to(Proxied(*OTHERS, OF_CHART, OPERATED), tmp_path) as session:
        found = await find_services(session, Discovery(session))
    assert [one.title for one in found] == ["monitoring/prometheus-operated:9090", "monitoring/prometheus-server:80"]
    assert found[0].path == "/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy/api/v1"
    assert parse_service(found[0].title) == found[0]
    with pytest.raises(ConfigError, match="is not a Service"):
        parse_service("http://prometheus:9090")


async def test_the_doctor_names_it_and_how_it_finds_exporters(tmp_path: Path) -> None:
    api = Proxied(*OTHERS, OPERATED, OF_CHART)
    api.has_operator = True
    async with session_to(api, tmp_path) as session:
        found = await check_prometheus(session)
    assert found.result is CheckResult.PASSED
    assert found.detail.startswith("monitoring/prometheus-operated:9090 and 1 more: eksml-tui forward prometheus opens")
    assert found.detail.endswith("It finds exporters by a PodMonitor.")
    async with session_to(Proxied(*OTHERS), tmp_path) as session:
        none = await check_prometheus(session)
    assert none.result is CheckResult.PASSED
    told = "None is in the cluster. One installed later finds exporters by the annotation prometheus.io/scrape."
    assert none.detail == told


async def test_there_certainly_is_none_or_it_is_not_known(tmp_path: Path) -> None:
    async with session_to(Proxied(*OTHERS), tmp_path) as session:
        assert await find_services(session, Discovery(session)) == ()
        assert await gpu_history(session, (), [], since=0, until=900) == ("", [])
    async with session_to(Proxied(*OTHERS, lists=403), tmp_path) as session:
        with pytest.raises(AccessError):
            await find_services(session, Discovery(session))
    async with session_to(Proxied(OPERATED, lists=403), tmp_path) as session:  # in the user's own namespace
        assert len(await find_services(session, Discovery(session))) == 1


async def history_by(api: Proxied, folder: Path, pods: tuple[str, ...] = ()) -> tuple[str, int]:
    service = PrometheusService("monitoring", "prometheus-operated", "9090")
    async with session_to(api, folder, readonly=True) as session:
        source, gpus = await gpu_history(session, (service,), pods, since=1_000, until=1_900)
    return source, len(gpus)


async def test_the_history_of_gpus_is_read_through_the_api_server(tmp_path: Path) -> None:
    api = Proxied(OPERATED)
    assert await history_by(api, tmp_path) == ("monitoring/prometheus-operated:9090", 4)
    assert await history_by(api, tmp_path, ("train/esm-worker-0",)) == ("monitoring/prometheus-operated:9090", 4)
    assert set(api.asked) == {
        "/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy/api/v1/query_range"
    }


async def test_a_prometheus_that_refuses_or_is_silent_is_not_taken_for_one_without_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AccessError):
        await history_by(Proxied(status=403), tmp_path)
    with pytest.raises(ConsoleError):
        await history_by(Proxied(status=503), tmp_path)
    monkeypatch.setattr(prometheus, "_DEADLINE_SECONDS", 0.3)
    with pytest.raises(UnreachableError):
        await history_by(Proxied(is_silent=True), tmp_path)
