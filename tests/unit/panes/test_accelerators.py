"""Columns of links, chosen columns, pods of several jobs; and the accelerators' part of a described pod or node."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.cluster.job_pods import JobRef
from actions.cluster.remote import exec as remote
from actions.cluster.remote.exec import ExecResult
from actions.cluster.state.pod_requests import resources_of
from actions.fleet.facts import PodFacts
from actions.fleet.totals import totals_of
from actions.telemetry.tools.dcgm import KeptGpu
from actions.telemetry.tools.device_history import DeviceHistory, Extent, Quantity
from actions.telemetry.tools.devices import Device, DeviceReading
from tests.support.builders import NOW, ShownCluster, StillClock, a_node, a_pod, a_snapshot, console_services
from tests.support.waiting import settle
from tests.unit.panes.alone import PaneApp, text_of
from tests.unit.telemetry.test_topology import EIGHT
from tui.commands.accelerators import DeviceDetails
from tui.feeds.accelerators import WorkerReading
from tui.feeds.job import JobFeed
from tui.panes.accelerators import AcceleratorsPane
from tui.panes.nodes import NodesPane
from tui.present.cells import text_of as text_of_cells
from tui.present.header import HeaderFacts, header_line
from tui.present.home.home_board import HomeFacts, home_board
from tui.present.subject import Subject
from tui.textual_private import screen_text

POD = a_pod("worker-0", gpu=1)


def sampled(pane: AcceleratorsPane, device: Device, at: float = 1.0) -> None:
    pane._feed.readings = (WorkerReading(POD, DeviceReading((device,)), at, at),)
    pane._feed.revision += 1
    pane.refresh_data()


async def test_links_have_columns_where_they_are_counted_and_chosen_columns_stay() -> None:
    pane = AcceleratorsPane(console_services(a_snapshot(nodes=[a_node()], pods=[POD])))
    app = PaneApp(pane)
    async with app.run_test(size=(220, 20)) as pilot:
        pane.services.supervisor.drop("accelerators")
        sampled(pane, Device(0, "0", "NVIDIA H100", 97.0, temp_c=50))
        await settle(pilot)
        assert "NVLINK" not in screen_text(app)
        assert "EFA" not in screen_text(app)
        sampled(pane, Device(0, "0", "NVIDIA H100", 97.0, nvlink_bytes=1, nvlink_rate=412e9, nvlink_errors=2), 2.0)
        await settle(pilot)
        text = screen_text(app)
        assert "NVLINK TX+RX" in text
        assert "412GB/s" in text
        assert "LINK ERR" in text
        assert "EFA" not in text
        pane.choose_columns(["WORKER", "NVLINK TX+RX"])
        sampled(
            pane, Device(0, "0", "NVIDIA H100", 97.0, nvlink_bytes=1, nvlink_rate=9e9, efa_bytes=5, efa_rate=2e9), 3.0
        )
        await settle(pilot)
        text = screen_text(app)
        assert "9.0GB/s" in text
        assert "BUSY" not in text
        assert "EFA OF NODE" in pane.column_titles
        pane.choose_columns([])
        await settle(pilot)
        assert "2.0GB/s" in screen_text(app)


async def test_pods_of_several_jobs_do_not_wait_for_each_other() -> None:
    """Of all pods nobody knows what works together; of one job all do."""
    pane = AcceleratorsPane(console_services(a_snapshot(nodes=[a_node()], pods=[POD])))
    app = PaneApp(pane)
    gpus = tuple(
        Device(number, str(number), "NVIDIA H100", 99.0, power_w=watts) for number, watts in ((0, 366), (1, 697))
    )
    async with app.run_test(size=(120, 20)) as pilot:
        pane.services.supervisor.drop("accelerators")
        list(pane._workers())
        for is_one_job, sentence in ((False, "no lag"), (True, "the others wait for rank 1, worker-0 GPU 1")):
            pane._is_one_job |= is_one_job
            pane._feed.readings = (WorkerReading(POD, DeviceReading(gpus), 1.0, 1.0),)
            pane._feed.revision += 1
            pane.refresh_data()
            await settle(pilot)
            assert sentence in screen_text(app)


def a_gpu(pod: str, node: str, index: int, load: float, *, xid: tuple[float, int] | None = None) -> KeptGpu:
    now, history = NOW.timestamp(), DeviceHistory(is_whole=True)
    for ago in range(40, -1, -1):
        level = Extent(load, load, load) if ago < 20 else Extent(10, 10, 10)
        history.add(now - 60 * ago, now - 60 * ago, [level, *[None] * (len(Quantity) - 1)])
    device = Device(index, str(index), "NVIDIA H100", load, power_w=400.0, temp_c=60 + index, mem_used_bytes=30 << 30)
    return KeptGpu(pod, node, replace(device, mem_total_bytes=80 << 30), now, history, xid)


async def test_all_gpus_of_the_cluster_are_in_one_table_without_exec_where_a_prometheus_is() -> None:
    services = console_services(a_snapshot(nodes=[a_node()], pods=[POD]))
    services.clock = StillClock()
    pane = AcceleratorsPane(services)
    app = PaneApp(pane)
    async with app.run_test(size=(140, 20)) as pilot:
        for work in ("accelerators", "history of accelerators"):
            services.supervisor.drop(work)
        pane._history.gpus = [
            a_gpu("default/worker-0", "node-1", 0, 97.0),
            a_gpu("default/worker-0", "node-1", 1, 20.0, xid=(NOW.timestamp() - 60, 79)),
            a_gpu("", "node-2", 0, 0.0),
        ]
        pane._history.source, pane._history.is_known = "monitoring/prometheus-operated:9090", True
        gpus = pane._history.gpus
        pane.show_target("all")
        pane._history.gpus, pane._history.source = gpus, "monitoring/prometheus-operated:9090"
        pane._history.revision += 1
        assert list(pane._workers()) == []
        assert pane._remembered() == (), "of all nodes"
        pane.refresh_data()
        await settle(pilot)
        text = screen_text(app)
        assert "accelerators of the cluster" in text
        assert "3 GPUs, 39% busy on average · NVIDIA H100 · 1.2 kW · 90/240Gi" in text
        assert "✗ XID 79 at" in text
        assert "worker-0 GPU 1 · history by monitoring/prometheus-operated:9090" in " ".join(
            text.replace("│", "").split()
        )
        assert "no pod" in text
        assert "▁▁▄██" in text, "the trend is that of the hour"
        pane.order("TEMP", descending=True)
        await settle(pilot)
        text = screen_text(app)
        assert text.index("20% ") < text.index("97% "), "the hottest first"
        with pytest.raises(RefusedError):
            pane.show_target("some")
        assert pane.leave()
        assert not pane._history.gpus
        assert [pod.key for pod in pane._workers()] == [POD.key]


async def test_a_pod_that_does_not_answer_is_shown_as_the_prometheus_has_it() -> None:
    services = console_services(a_snapshot(nodes=[a_node()], pods=[POD]))
    services.clock = StillClock()
    pane = AcceleratorsPane(services)
    app = PaneApp(pane)
    async with app.run_test(size=(140, 20)) as pilot:
        for work in ("accelerators", "history of accelerators"):
            services.supervisor.drop(work)
        pane._feed.readings = (WorkerReading(POD, DeviceReading(error="pods/exec is forbidden"), 1.0),)
        pane._history.reason = "services is forbidden"
        pane._feed.revision += 1
        pane.refresh_data()
        await settle(pilot)
        assert "No worker answered: pods/exec is forbidden · no history: services is forbidden" in screen_text(app)
        pane._history.gpus, pane._history.reason = [a_gpu(POD.key, "node-1", 5, 64.0)], ""
        pane._history.revision += 1
        pane.refresh_data()
        await settle(pilot)
        assert "1 GPU, 64% busy" in screen_text(app)


async def test_a_job_without_accelerators_is_not_given_those_of_others() -> None:
    services = console_services(a_snapshot(nodes=[a_node(gpu=8)], pods=[POD]))
    services.watched = cast(
        "JobFeed", SimpleNamespace(title="Job work/tokenise", job=JobRef("Job", "work", "tokenise"))
    )
    pane = AcceleratorsPane(services)
    app = PaneApp(pane)
    async with app.run_test(size=(120, 20)) as pilot:
        services.supervisor.drop("accelerators")
        assert list(pane._workers()) == []
        pane.refresh_data()
        await settle(pilot)
        assert "No running pod of Job work/tokenise requests an accelerator." in screen_text(app)


async def test_pods_are_sampled_by_whatever_name_they_request_devices() -> None:
    names = ("nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice")
    pods = [replace(a_pod(f"of-{place}"), requests=resources_of({name: "1"})) for place, name in enumerate(names)]
    pane = AcceleratorsPane(console_services(a_snapshot(nodes=[a_node()], pods=[a_pod("none"), *pods])))
    async with PaneApp(pane).run_test(size=(120, 20)):
        pane.services.supervisor.drop("accelerators")
        assert list(pane._workers()) == pods


async def test_where_devices_of_claims_are_not_counted_panes_with_sums_state_it() -> None:
    """A node was idle, and requested by nobody, whose GPUs pods had by claims that may not be listed."""
    pod = a_pod("worker-0", gpu=0)
    for leaves_out in (True, False):
        snapshot = replace(a_snapshot(nodes=[a_node(gpu=4)], pods=[pod]), leaves_out_claims=leaves_out)
        services = console_services(snapshot)
        texts = {pane.NOUN: await text_of(pane) for pane in (AcceleratorsPane(services), NodesPane(services))}
        assert ("Devices of resource claims are not counted." in texts["accelerators"]) is leaves_out
        assert ("devices of resource claims are not counted" in texts["nodes"]) is leaves_out
        header = header_line(HeaderFacts(paid=services.paid.now(), leaves_out_claims=leaves_out), 120)
        assert ("idle" in text_of_cells(header)) is not leaves_out
        facts = HomeFacts(now=0.0, totals=totals_of(snapshot.nodes.values(), {}), leaves_out_claims=leaves_out)
        rows = [text_of_cells(block.cells) for line in home_board(facts, 80, 24).lines for block in line]
        assert any("Devices of resource claims are not counted." in row for row in rows) is leaves_out


class Asked:
    """`run_in_pod` of a cluster whose pods answer with one text."""

    def __init__(self, answer: bytes = EIGHT.encode(), error: RefusedError | None = None) -> None:
        self.pods: list[str] = []
        self._answer = answer
        self._error = error

    async def __call__(self, _session: object, _namespace: str, pod: str, *_: object, **_more: Any) -> ExecResult:
        self.pods.append(pod)
        if self._error is not None:
            raise self._error
        return ExecResult(self._answer, b"", 0)


def details(
    *pods: PodFacts, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> Callable[[Subject], Awaitable[Sequence[str]]]:
    """Return the way to the details of a cluster's pods."""
    monkeypatch.setattr(remote, "run_in_pod", asked)
    monkeypatch.setattr(ShownCluster, "session", property(lambda _: None))
    services = console_services(a_snapshot(nodes=[a_node()], pods=list(pods)))
    return partial(DeviceDetails().section, services.cluster)


async def test_a_pod_is_asked_once_and_its_node_by_the_pod_with_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    pods = a_pod("one", gpu=1), a_pod("four", gpu=4), a_pod("none", gpu=0)
    found = details(*pods, monkeypatch=monkeypatch, asked=asked)
    section = await found(Subject("Node", "node-1"))
    assert "as four sees it" in section[0]
    assert await found(Subject("Pod", "four", "default")) == section
    assert asked.pods == ["four"]
    assert "as one sees it" in (await found(Subject("Pod", "one", "default")))[0]
    for other in (Subject("Pod", "none", "default"), Subject("Pod", "gone", "default"), Subject("Service", "four")):
        assert not await found(other)
    assert asked.pods == ["four", "one"]


async def test_a_refusal_is_one_line_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(error=RefusedError("The console is read-only."))
    found = details(a_pod("one", gpu=1), monkeypatch=monkeypatch, asked=asked)
    for _ in range(2):
        section = await found(Subject("Pod", "one", "default"))
        assert "read-only" in section[1]
    assert asked.pods == ["one", "one"]


async def test_neuron_devices_have_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = {"neuron_device": 0, "bdf": "00:1e.0", "connected_to": [1], "nc_count": 2, "neuron_processes": []}
    pod = replace(a_pod("trn"), requests=resources_of({"aws.amazon.com/neuroncore": "1"}))
    found = details(pod, monkeypatch=monkeypatch, asked=Asked(json.dumps([chip]).encode()))
    section = "\n".join(await found(Subject("Pod", "trn", "default")))
    assert "ND0" in section
    assert "ND1" in section
