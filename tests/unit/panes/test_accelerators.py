"""Columns of links are there where links are counted, and a choice of columns stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from msgspec.structs import replace

from actions.cluster.job_pods import JobRef
from actions.cluster.state.pod_requests import resources_of
from actions.fleet.totals import totals_of
from actions.telemetry.tools.devices import Device, DeviceReading
from tests.support.builders import a_node, a_pod, a_snapshot, console_services
from tests.support.waiting import settle
from tests.unit.panes.alone import PaneApp, text_of
from tui.feeds.accelerators import WorkerReading
from tui.feeds.job import JobFeed
from tui.panes.accelerators import AcceleratorsPane
from tui.panes.nodes import NodesPane
from tui.present.cells import text_of as text_of_cells
from tui.present.header import HeaderFacts, header_line
from tui.present.home.home_board import HomeFacts, home_board
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
