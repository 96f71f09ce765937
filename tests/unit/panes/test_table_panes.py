"""Panes that are tables: a desk in, text out."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.fleet.facts import NodeFacts
from tests.support import fixed_runs
from tests.support.builders import ShownCluster, a_node, a_pod, a_run, a_snapshot, a_stage, an_event, console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import WIDE, PaneApp, text_of
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.cost import CostPane
from tui.panes.events import EventsPane
from tui.panes.nodes import NodesPane
from tui.panes.pods import PodsPane
from tui.panes.runs import columns_of, with_who
from tui.present.cells import text_of as cell_text
from tui.present.pods import PodOwner
from tui.present.remote_runs import RunRow, spent_cell, state_cell
from tui.present.subject import Subject
from tui.textual_private import screen_text
from tui.widgets.table_model import fit_columns

OF_WEB = {"owner_kind": "ReplicaSet", "owner_name": "web-7d4b9"}


def show_other_nodes(services: ConsoleServices, *nodes: NodeFacts) -> None:
    assert isinstance(services.cluster, ShownCluster)
    services.cluster.picture = a_snapshot(nodes, revision=2)


async def test_a_node_shows_what_is_asked_of_it_and_what_it_costs() -> None:
    services = console_services(a_snapshot([a_node()], [a_pod(gpu=1), a_pod("worker-1", gpu=1)]))
    line = next(line for line in (await text_of(NodesPane(services))).splitlines() if "node-1" in line)

    for part in ("g5.12xlarge", "2/110", "2/48", "2/4", "5.672", "2.84!", "● Ready"):
        assert part in line


def test_eighty_columns_have_room_for_time_and_money_of_a_run() -> None:
    shown = fit_columns(columns_of(console_services()), 77)

    assert [one.column.title for one in shown] == ["RUN", "STATE", "STAGE", "TOOK", "SPENT", "$/H", "AGE"]
    assert all(one.width >= one.column.width for one in shown)


def test_who_carries_a_run_out_hides_neither_its_age_nor_its_money_on_eighty_columns() -> None:
    shown = fit_columns(with_who(columns_of(console_services())), 77)

    assert [one.column.title for one in shown] == ["RUN", "STATE", "STAGE", "WHO", "SPENT", "$/H", "AGE"]


def test_the_state_of_a_silent_machine_has_its_time_in_a_narrow_column() -> None:
    remote = next(run for run in fixed_runs.remote_runs() if run.id.startswith("efa") and run.id.endswith("pzta"))
    row = RunRow(None, remote, is_silent=True)

    assert cell_text(state_cell(row)) == "silent since 10:42"
    assert cell_text(state_cell(row, 13)) == "silent 10:42"


@pytest.mark.parametrize(("width", "cell"), [(0, "≥ $1,612.40"), (11, "≥ $1,612.40"), (9, "≥ $1,612")])
def test_a_narrow_column_leaves_out_the_cents(width: int, cell: str, tmp_path: Path) -> None:
    run = next(run for run in fixed_runs.summaries(tmp_path) if run.spending is not None)
    assert run.spending is not None
    row = RunRow(replace(run, spending=replace(run.spending, usd=Decimal("1612.40"))))

    assert spent_cell(row, width) == cell


async def test_an_unknown_price_is_a_question_mark() -> None:
    line = next(
        line
        for line in (
            await text_of(NodesPane(console_services(a_snapshot([a_node(instance_type="x9.mystery")]))))
        ).splitlines()
        if "node-1" in line
    )

    assert " ? " in line
    assert "0.000" not in line


async def test_going_into_a_node_opens_its_pods() -> None:
    app = PaneApp(NodesPane(console_services(a_snapshot([a_node()]))))

    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.focus_content()
        await settle(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.entered, "the node was entered")

    assert app.entered == ["open pods of=node-1"]
    assert app.pane.subject() == Subject("Node", "node-1")


async def test_the_cursor_stays_on_its_node_when_others_come() -> None:
    services = console_services(a_snapshot([a_node("node-b", gpu=0), a_node("node-c", gpu=0)]))
    app = PaneApp(NodesPane(services))

    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.focus_content()
        await settle(pilot)
        await pilot.press("down")
        show_other_nodes(services, a_node("node-a", gpu=0), a_node("node-b", gpu=0), a_node("node-c", gpu=0))
        app.pane.refresh_data()
        await settle(pilot)

        assert app.pane.subject() == Subject("Node", "node-c")


async def test_pods_can_be_those_of_one_node() -> None:
    services = console_services(
        a_snapshot([a_node("node-1"), a_node("node-2")], [a_pod("first"), a_pod("second", node="node-2")])
    )
    text = await text_of(PodsPane(services), points_at="node-2")

    assert "second" in text
    assert "first" not in text
    assert "pods of node-2" in text


async def test_pods_can_be_those_of_a_stage_of_the_run() -> None:
    run = a_run(a_stage("train"))
    pods = [a_pod("mine", run=run.id, stage="train"), a_pod("other")]
    text = await text_of(PodsPane(console_services(a_snapshot([a_node()], pods), run)), points_at="train")

    assert "mine" in text
    assert "other" not in text


async def test_a_pod_that_waits_says_why() -> None:
    pod = a_pod(phase="Pending", reason="ImagePullBackOff")
    assert "✗ ImagePullBackOff" in await text_of(PodsPane(console_services(a_snapshot([a_node()], [pod]))))


async def test_the_newest_event_comes_first_and_warnings_have_a_sign() -> None:
    text = await text_of(
        EventsPane(console_services(a_snapshot(events=[an_event(), an_event("FailedMount", type_="Warning")])))
    )

    assert "▲ FailedMount" in text
    assert "Warning" in text
    assert "11:59:00" in text


async def test_costs_are_summed_by_what_is_bought() -> None:
    nodes = [a_node("a"), a_node("b"), a_node("c", "x9.mystery")]
    text = await text_of(CostPane(console_services(a_snapshot(nodes))))

    assert "≥ $11.34/h" in text
    assert "≥ $8,281.12/month" in text
    assert "unknown" in text


async def test_costs_say_how_nodes_are_bought() -> None:
    nodes = [a_node("a"), a_node("b", capacity_type="spot"), a_node("c", capacity_type="spot")]
    text = await text_of(CostPane(console_services(a_snapshot(nodes))), size=(80, 22))

    assert "3 nodes: 2 spot, 1 on-demand" in text
    assert "1 node: 1 unknown" in await text_of(CostPane(console_services(a_snapshot([a_node(capacity_type="")]))))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"is_schedulable": False}, "◐ Cordoned"),
        ({"taints": ("karpenter.sh/disrupted:NoSchedule",)}, "◐ Disrupted"),
        ({"is_ready": False}, "✗ NotReady"),
    ],
)
async def test_the_state_of_a_node_is_whole_on_eighty_columns(changes: dict[str, Any], shown: str) -> None:
    node = replace(a_node("ip-10-1-132-118.us-west-2.compute.internal", "trn1.32xlarge"), **changes)
    text = await text_of(NodesPane(console_services(a_snapshot([node]))), size=(80, 22))

    assert f"{shown} " in text
    assert "PODS" in text


async def test_a_pane_before_the_first_picture_does_not_claim_emptiness_is_a_fact() -> None:
    text = await text_of(NodesPane(console_services()))

    assert "No node yet." in text
    assert "live" not in text


async def test_why_there_is_nothing_is_said_in_full_where_the_rows_would_be() -> None:
    sentence = "https://10.0.0.1 (context prod) cannot be reached: timed out. Check the network, VPN and the address."

    class Unreachable(ShownCluster):
        def health(self, resource: str) -> FeedHealth | None:
            return FeedHealth(FeedState.WAITING, sentence)

    services = console_services()
    services.cluster = Unreachable(
        services.settings.target, readonly=False, clock=services.clock, changed=services.ticker.request_paint
    )
    app = PaneApp(PodsPane(services))

    async with app.run_test(size=(60, 12)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "cannot be reached: timed " in screen_text(app), "the whole sentence")
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "VPN and the address. ─╯" in screen_text(app), "its end at the border")


async def test_a_filter_that_matches_nothing_says_so() -> None:
    app = PaneApp(NodesPane(console_services(a_snapshot([a_node()]))))

    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.filter("h100")
        await wait_for(pilot, lambda: "Nothing here matches 'h100'." in screen_text(app), "the sentence")


async def test_pods_are_narrowed_to_a_namespace_but_those_of_a_workload_are_all_there() -> None:
    services = console_services(
        a_snapshot(
            [a_node()],
            [a_pod("here", namespace="work"), a_pod("there", namespace="other"), replace(a_pod("web-1"), **OF_WEB)],
        )
    )
    services.narrow("work")
    text = await text_of(PodsPane(services))
    assert "pods in work" in text
    assert "here" in text
    assert "there" not in text
    text = await text_of(PodsPane(services), points_at="Deployment/default/web")
    assert "pods of Deployment default/web" in text
    assert "web-1" in text
    assert "here" not in text


@pytest.mark.parametrize(
    ("kind", "name", "owner", "is_owned"),
    [
        ("Deployment", "web", ("ReplicaSet", "web-7d4b9"), True),
        ("Deployment", "web", ("ReplicaSet", "web-api-7d4b9"), False),
        ("ReplicaSet", "web-7d4b9", ("ReplicaSet", "web-7d4b9"), True),
        ("CronJob", "nightly", ("Job", "nightly-29000000"), True),
        ("PyTorchJob", "train", ("PyTorchJob", "train"), True),
        ("StatefulSet", "web", ("DaemonSet", "web"), False),
    ],
)
def test_pods_belong_to_workloads(kind: str, name: str, owner: tuple[str, str], is_owned: bool) -> None:
    pod = replace(a_pod(), owner_kind=owner[0], owner_name=owner[1])
    assert PodOwner(kind, "default", name).owns(pod) is is_owned
    assert not PodOwner(kind, "other", name).owns(pod)


async def test_events_are_narrowed_to_a_namespace() -> None:
    services = console_services(a_snapshot(events=[an_event(), replace(an_event("Killed"), namespace="other")]))
    services.narrow("other")
    text = await text_of(EventsPane(services))
    assert "events in other" in text
    assert "Killed" in text
    assert "Scheduled" not in text


async def test_long_names_of_nodes_are_whole_before_columns_at_the_end_are_shown() -> None:
    name = "ip-192-168-128-222.us-west-2.compute.internal"
    services = console_services(a_snapshot([replace(a_node(), name=name)]))
    app = PaneApp(NodesPane(services))

    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "ip-192-168-128-222 " in screen_text(app), "the whole name")
        assert "BOUGHT" not in screen_text(app)
        assert "MEMORY" in screen_text(app)
