"""The fault panel's control over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from actions.sandbox.apiserver.requests.request_info import RequestInfo, request_info_of
from actions.sandbox.faults.fault import SCENARIOS
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving
from tests.support.sandboxes import http_of

PODS = "/api/v1/pods"
FAULTS = "/sandbox/faults"


@asynccontextmanager
async def a_server(folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    options = SandboxOptions()
    async with (
        serving(folder, options, SandboxParts(Kubelet(options))) as server,
        http_of(server.kubeconfig) as http,
    ):
        yield http


async def status_of(http: aiohttp.ClientSession, path: str, **headers: str) -> int:
    async with http.get(path, headers=headers) as answer:
        return answer.status


async def test_a_fault_is_added_counted_replaced_and_lifted(tmp_path: Path) -> None:
    async with a_server(tmp_path) as http:
        fault = {"kind": "throttled", "resources": ["pods"], "retry-after-seconds": 7}
        async with http.post(FAULTS, json=fault) as answer:
            assert answer.status == 201
        async with http.get(PODS) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert await status_of(http, "/api/v1/nodes") == 200
        async with http.get(FAULTS) as answer:
            assert [(one["name"], one["hits"]) for one in await answer.json()] == [("throttled", 1)]
        async with http.post(FAULTS, json={"kind": "bad-gateway", "name": "throttled"}) as answer:
            assert answer.status == 201
        async with http.get(PODS) as answer:
            assert (answer.status, answer.content_type) == (502, "text/html")
        async with http.delete(f"{FAULTS}/throttled") as answer:
            assert (answer.status, await answer.json()) == (200, [])
        assert await status_of(http, PODS) == 200


async def test_a_fault_ends_after_its_hits_or_its_time(tmp_path: Path) -> None:
    async with a_server(tmp_path) as http:
        async with http.post(FAULTS, json={"kind": "broken", "count": 2}):
            pass
        assert [await status_of(http, PODS) for _ in range(3)] == [500, 500, 200]
        async with http.post(FAULTS, json={"kind": "broken", "seconds": 0.05}):
            pass
        assert await status_of(http, PODS) == 500
        while await status_of(http, PODS) != 200:
            pass
        async with http.get(FAULTS) as answer:
            assert await answer.json() == []


async def test_the_actors_of_the_sandbox_are_spared_unless_they_are_meant(tmp_path: Path) -> None:
    controller = {"User-Agent": "eksml-sandbox"}
    async with a_server(tmp_path) as http:
        async with http.post(FAULTS, json={"kind": "forbidden"}):
            pass
        assert await status_of(http, PODS) == 403
        assert await status_of(http, PODS, **controller) == 200
        async with http.post(FAULTS, json={"kind": "forbidden", "hits-controllers": True}):
            pass
        assert await status_of(http, PODS, **controller) == 403


@pytest.mark.parametrize(
    "body",
    ['{"kind": "earthquake"}', '{"kind": "cut", "colour": "red"}', '{"kind": "cut", "count": -1}', "[]", "no JSON",
     '{"scenario": "earthquake"}'],
)  # fmt: skip
async def test_what_is_no_fault_is_refused_with_a_reason(body: str, tmp_path: Path) -> None:
    async with a_server(tmp_path) as http, http.post(FAULTS, data=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]


async def test_scenarios_are_added_by_name(tmp_path: Path) -> None:
    async with a_server(tmp_path) as http:
        for name, faults in SCENARIOS.items():
            async with http.post(FAULTS, json={"scenario": name}) as answer:
                assert [one["name"] for one in await answer.json()] == [fault.name for fault in faults]
        async with http.delete(FAULTS) as answer:
            assert await answer.json() == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /api/v1/pods", ("list", "pods", "", "", "")),
        ("GET /api/v1/pods?watch=true", ("watch", "pods", "", "", "")),
        ("GET /api/v1/namespaces", ("list", "namespaces", "", "", "")),
        ("GET /api/v1/namespaces/a", ("get", "namespaces", "a", "a", "")),
        ("PATCH /api/v1/namespaces/a/status", ("patch", "namespaces", "a", "a", "status")),
        ("GET /api/v1/namespaces/a/pods/b/log", ("log", "pods", "a", "b", "log")),
        ("POST /apis/batch/v1/namespaces/a/jobs", ("create", "jobs", "a", "", "")),
        ("PUT /apis/apps/v1/namespaces/a/deployments/d/status", ("update", "deployments", "a", "d", "status")),
        ("DELETE /apis/batch/v1/namespaces/a/jobs", ("deletecollection", "jobs", "a", "", "")),
        ("GET /apis/batch/v1", ("get", "", "", "", "")),
        ("GET /version", ("get", "", "", "", "")),
    ],
)
def test_requests_are_read_as_rights_name_them(line: str, expected: tuple[str, ...]) -> None:
    method, _, rest = line.partition(" ")
    path, _, query = rest.partition("?")
    pairs = dict([query.split("=")]) if query else {}
    found: RequestInfo = request_info_of(method, path, pairs)
    assert (found.verb, found.resource, found.namespace, found.name, found.subresource) == expected
