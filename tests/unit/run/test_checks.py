"""The results of checks for what they find."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.errors import ConfigError
from actions.blueprint.checks import PoolCheck
from actions.blueprint.parts import Expectation
from actions.blueprint.stages import CheckStage
from actions.cloud.ec2 import Reservation, Zone
from actions.run.checks.capacity import CapacityRequest, check_reservation, describe_reservation, require_reservation
from actions.run.checks.cluster import free_gib_of, nodes_observation, version_observation
from actions.run.checks.external import (
    Image,
    check_huggingface,
    check_image,
    image_of,
)
from actions.run.checks.observation import Observation, failed, passed
from actions.run.context.stage_context import StageContext
from actions.run.stages.check import CheckHandler, summary_of
from actions.run.state.records import CheckResult, StageFinding
from actions.run.volume.commands import below
from tests.support.smallrun import Unheard
from tests.unit.cluster.clocks import HastyClock

EFA = "vpc.amazonaws.com/efa"
PASSED, FAILED, UNKNOWN = CheckResult.PASSED, CheckResult.FAILED, CheckResult.UNKNOWN


def a_node(name: str, *, is_ready: bool = True, **allocatable: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(is_ready)}
    named = {key.replace("_", "-") if key.startswith("huge") else EFA: value for key, value in allocatable.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [condition], "allocatable": named},
    }


def test_nodes_that_lack_a_device_are_named_with_what_they_have() -> None:
    seen = nodes_observation(
        [a_node("a", efa="4"), a_node("b", efa="1"), a_node("c")], resource=EFA, at_least=3, amount="4"
    )
    assert seen.result is FAILED
    assert seen.detail == (f"1 of 3 nodes are ready with 4 {EFA}, 3 required. b has 1 {EFA}; c has no {EFA}.")
    assert nodes_observation([a_node("a", efa="4")], resource=EFA, at_least=1, amount="4").result is PASSED


def test_hugepages_are_compared_as_quantities() -> None:
    nodes = [a_node("a", hugepages_2Mi="21122Mi")]
    assert nodes_observation(nodes, resource="hugepages-2Mi", at_least=1, amount="5120Mi").result is PASSED
    assert nodes_observation(nodes, resource="hugepages-2Mi", at_least=1, amount="32Gi").result is FAILED


def test_no_node_at_all_is_said_in_other_words() -> None:
    assert nodes_observation([], resource="", at_least=2, amount="0").detail == "No node matches, 2 required."


NOW = datetime(2026, 11, 21, tzinfo=UTC)
REQUEST = CapacityRequest(region="us-west-2", instance_type="p5.48xlarge", count=2, reservation="cr-1")


@pytest.mark.parametrize(
    ("version", "result"),
    [
        ("v1.32.3-eks-bb2d", PASSED),
        ("v1.28.9", FAILED),
        ("v1.35.0", FAILED),
        ("", UNKNOWN),
    ],
)
def test_a_version_is_compared_by_its_numbers(version: str, result: CheckResult) -> None:
    assert version_observation(version, minimum="1.29", maximum="1.34").result is result


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Reservation("cr-1", "active", "p5.48xlarge", "us-west-2b", 2, 2), "cr-1 has 2 × p5.48xlarge in us-west-2b"),
        (Reservation("cr-1", "expired", "p5.48xlarge", "us-west-2b", 2, 2), "cr-1 is expired"),
        (Reservation("cr-1", "active", "p4de.24xlarge", "us-west-2b", 2, 2), "is for p4de.24xlarge, not p5.48xlarge"),
        (Reservation("cr-1", "active", "p5.48xlarge", "us-west-2b", 4, 1), "has 1 of 4 left, 2 required"),
    ],
)
def test_a_reservation_must_be_open_for_the_nodes(found: Reservation, words: str) -> None:
    if "in us-west-2b" in words:
        check_reservation(found, REQUEST, now=NOW)
        assert words in describe_reservation(found, Zone(found.zone, found.zone_id), now=NOW)
    else:
        with pytest.raises(ConfigError, match=words):
            check_reservation(found, REQUEST, now=NOW)


def test_a_capacity_block_without_its_reservation_is_refused_without_asking() -> None:
    block = replace(REQUEST, reservation="", capacity_type="CAPACITY_BLOCK")
    with pytest.raises(ConfigError, match="needs the id of its reservation"):
        require_reservation(block)
    require_reservation(replace(block, capacity_type="ON_DEMAND"))


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("nginx", Image("registry-1.docker.io", "library/nginx", "latest")),
        ("team/tool:1.2", Image("registry-1.docker.io", "team/tool", "1.2")),
        ("nvcr.io/nvidia/nemo:24.01", Image("nvcr.io", "nvidia/nemo", "24.01")),
        ("127.0.0.1:5000/a@sha256:00", Image("127.0.0.1:5000", "a", "sha256:00")),
    ],
)
def test_an_image_is_read_as_runtimes_do(text: str, image: Image) -> None:
    assert image_of(text) == image


@asynccontextmanager
async def a_host(handler: Any) -> AsyncIterator[str]:
    """Host and port of a server that answers everything with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_registry_that_wants_a_token_is_asked_with_one() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/token":
            return web.json_response({"token": f"for {request.query['scope']}"})
        if request.headers.get("Authorization") == "Bearer for repository:a/b:pull":
            return web.Response(status=200 if request.path.endswith("/good") else 404)
        realm = f'Bearer realm="http://{request.host}/token",service="x",scope="repository:a/b:pull"'
        return web.Response(status=401, headers={"WWW-Authenticate": realm})

    async with a_host(answer) as host:
        assert (await check_image(f"{host}/a/b:good", has_login=False)).result is PASSED
        missing = await check_image(f"{host}/a/b:bad", has_login=False)
    assert (missing.result, missing.detail) == (FAILED, f"{host}/a/b has no bad.")


async def test_a_registry_that_wants_a_login_passes_only_if_the_pods_have_one() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=401)

    async with a_host(answer) as host:
        assert (await check_image(f"{host}/a:1", has_login=True)).result is PASSED
        assert (await check_image(f"{host}/a:1", has_login=False)).result is FAILED


async def test_what_cannot_be_reached_is_unknown() -> None:
    seen = await check_image("127.0.0.1:9/a:1", has_login=False)
    assert (seen.result, "cannot be reached" in seen.detail) == (UNKNOWN, True)


@pytest.mark.parametrize(
    ("status", "result", "words"),
    [(200, PASSED, "may read"), (401, FAILED, "not accept the token"), (403, FAILED, "licence")],
)
async def test_hugging_face_says_whether_a_token_is_good(
    monkeypatch: pytest.MonkeyPatch, status: int, result: CheckResult, words: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer hf_secret"
        return web.Response(status=status)

    async with a_host(answer) as host:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{host}")
        seen = await check_huggingface("meta-llama/Llama-2-7b-hf", "hf_secret")
    assert seen.result is result
    assert words in seen.detail
    assert "hf_secret" not in seen.detail


def test_what_df_says_is_read() -> None:
    text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n10.0.0.1@tcp:/x 2516582400 1 1048576 1% /fsx\n"
    assert free_gib_of(text) == 1.0
    assert free_gib_of("df: /fsx: no such file") is None


def test_a_path_is_found_where_another_pod_mounts_the_volume() -> None:
    assert below("/fsx/processed/train", "/fsx", "/data") == "/data/processed/train"
    assert below("/fsx", "/fsx", "/") == "/"


async def test_a_warning_is_looked_at_again_after_what_is_required_was_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device plugin's pod is not ready at the first look; at the last it is, as its devices are there."""
    looks: list[str] = []

    async def look(_: object, program: str) -> Observation:
        looks.append(program)
        return passed("there") if looks.count("devices") > 1 else failed("not yet")

    monkeypatch.setattr("actions.run.stages.check.check_pool", look)
    stage = CheckStage(
        id="fabric",
        title="",
        expect=Expectation(1, 2),
        checks=(
            PoolCheck(title="devices", instance_type="devices"),
            PoolCheck(title="plugin", instance_type="plugin", is_required=False),
        ),
    )

    async def connect() -> None:
        return None

    context = SimpleNamespace(
        declared=lambda _: stage,
        stage=stage,
        binding=SimpleNamespace(existing_cluster=False),
        namespace="default",
        clock=HastyClock(),
        journal=Unheard(),
        connect=connect,
        text=str,
    )
    done = await CheckHandler(cast(StageContext, context)).perform()
    assert done.message == "2 of 2 checks passed."
    assert looks == ["devices", "plugin", "devices", "plugin"]


def test_what_is_not_known_is_no_failure_and_has_its_reason() -> None:
    findings = (
        StageFinding(CheckResult.PASSED, "the nodes", ""),
        StageFinding(CheckResult.FAILED, "the quota", "It is 0."),
        StageFinding(CheckResult.UNKNOWN, "the registry", "quay.io does not answer."),
    )
    assert summary_of(findings) == (
        "1 of 3 checks passed; failed: the quota; not known: the registry (quay.io does not answer)."
    )
    assert summary_of(findings[:1]) == "1 of 1 checks passed."
