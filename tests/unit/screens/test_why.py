"""Asking why: the key, the page, the cluster that answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from aiohttp import web

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.arguments import ObjectArguments
from actions.run.journal import reader
from actions.run.state.view import StageState
from tests.support import fixed_runs
from tests.support.builders import a_run, a_stage, console_services
from tests.support.fixed_cluster import picture
from tests.support.fixed_console import Scene, a_fixed_console
from tests.support.waiting import settle, wait_for
from tests.unit.cluster.servers import serving, write_kubeconfig
from tests.unit.diagnose.samples import a_node, an_event, unschedulable
from tests.unit.screens.test_verbs import Hands
from tui.app import ConsoleApp
from tui.commands.objects import WhyCommand
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.present.subject import Subject
from tui.screens.workspace import PaneWorkspace
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

FAILED = "nemo-gpt3-5b-1119-qd2ah5kcwp4tc"
_REFUSAL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
_KINDS = {
    "pods": ("Pod", True, [unschedulable(_REFUSAL)]),
    "nodes": ("Node", False, [a_node("n1", "m5.large")]),
    "events": ("Event", True, [an_event("FailedScheduling", _REFUSAL)]),
}


async def _cluster(request: web.Request) -> web.StreamResponse:
    """A cluster of before WatchList with one pod that no node takes; it answers watches with silence."""
    if request.path == "/api/v1":
        resources = [{"name": name, "kind": kind, "namespaced": scoped} for name, (kind, scoped, _) in _KINDS.items()]
        return web.json_response({"kind": "APIResourceList", "resources": resources})
    name = request.path.rpartition("/")[2]
    if name not in _KINDS or not request.path.startswith("/api/v1/"):
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
    if request.query.get("sendInitialEvents"):
        refusal = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid", "message": refusal}, status=422)
    if request.query.get("watch"):
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()  # until the client goes
        return response
    return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": _KINDS[name][2]})


@pytest.fixture
async def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleApp]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with serving(_cluster) as address:
        target = ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, address))
        yield ConsoleApp(ConsoleSettings(target=target))


async def test_w_tells_why_the_selected_pod_is_stuck(console: ConsoleApp) -> None:
    async with console.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await console.script_driver.press(["2"])
        await wait_for(pilot, lambda: "train-0" in screen_text(console), "the pod is listed")
        await console.script_driver.press(["w"])
        await wait_for(pilot, lambda: "GPU_SHORTAGE" in screen_text(console), "the reason is shown")
        shown = screen_text(console)
        assert "Why: Pod ml/train-0" in shown
        assert "1 Insufficient nvidia.com/gpu" in shown
        await console.script_driver.press(["escape"])
        await wait_for(pilot, lambda: "GPU_SHORTAGE" not in screen_text(console), "the page is left")


class _OnStage:
    """A workspace whose cursor is on a stage."""

    @property
    def current(self) -> _OnStage:
        return self

    def subject(self) -> Subject:
        return Subject("Stage", "network")


async def test_a_stage_without_a_cluster_tells_what_its_journal_says() -> None:
    stage = a_stage("network", StageState.FAILED, message="VpcLimitExceeded: 5 of 5")
    services = console_services(view=a_run(stage))
    shown = Hands()
    why = WhyCommand(cast("PaneWorkspace", _OnStage()), services, shown.app_actions())
    await why.handlers()["why"](ObjectArguments())

    lines = shown.shown[0].splitlines()
    assert lines[0] == "Stage network, failed: VpcLimitExceeded: 5 of 5"
    assert "not connected" in lines[2]


async def test_the_page_is_as_wide_as_the_screen_and_follows_it(console: ConsoleApp) -> None:
    async with console.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        await console.script_driver.press(["2"])
        await wait_for(pilot, lambda: "train-0" in screen_text(console), "the pod is listed")
        await console.script_driver.press(["w"])
        await wait_for(pilot, lambda: "GPU_SHORTAGE" in screen_text(console), "the reason is shown")

        def longest() -> int:
            return max(len(line.strip("│ ")) for line in screen_text(console).splitlines() if line.startswith("│"))

        assert longest() > 100
        await pilot.resize_terminal(90, 30)
        await settle(pilot)
        assert 60 < longest() <= 88
        assert "GPU_SHORTAGE" in screen_text(console)


async def test_w_on_a_run_of_the_table_tells_why_its_stage_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = a_run(a_stage("data", StageState.FAILED, message="No space left on device"))
    monkeypatch.setattr(reader, "load_run", lambda _folder: failed)
    health = FeedHealth(FeedState.WAITING, "no answer")
    scene = Scene(picture(), health=health, view=fixed_runs.a_training_run(), summaries=fixed_runs.summaries(tmp_path))
    async with a_fixed_console(scene, monkeypatch, size=(160, 36)) as fixed:
        await fixed.press("0")
        await fixed.calm(FAILED[:22])
        await fixed.press("down", "down", "w")
        await fixed.calm(f"Why: {FAILED}, stage data")
        text = screen_text(fixed.app)
        assert "Stage data, failed" in text
        assert "No space left on device" in text
        await fixed.press("escape", "down", "down", "down", "w")
        await fixed.calm("No stage of bionemo-esm1nv-1112-c4c4rjtx3ldvk")
