"""The nodes pane: what a node is asked for and costs, its state, and where the cursor stays."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.facts import NodeFacts, PodFacts
from tests.support.builders import ShownCluster, a_node, a_pod, a_snapshot, console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import WIDE, PaneApp, text_of
from tui.feeds.services import ConsoleServices
from tui.panes.nodes import NodesPane, _as_many_as_fit
from tui.panes.pods import PodsPane
from tui.present.cells import Span
from tui.present.subject import Subject
from tui.textual_private import screen_text


def show_other_nodes(services: ConsoleServices, *nodes: NodeFacts) -> None:
    assert isinstance(services.cluster, ShownCluster)
    services.cluster.picture = a_snapshot(nodes, revision=2)


async def test_a_node_shows_what_is_asked_of_it_and_what_it_costs() -> None:
    services = console_services(a_snapshot([a_node()], [a_pod(gpu=1), a_pod("worker-1", gpu=1)]))
    line = next(line for line in (await text_of(NodesPane(services))).splitlines() if "node-1" in line)

    for part in ("g5.12xlarge", "2/110", "2/48", "2/4", "5.672", "2.84!", "● Ready"):
        assert part in line


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
    assert app.pane.subject() == Subject("Node", "node-1", uid="uid-node-1")


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

        assert app.pane.subject() == Subject("Node", "node-c", uid="uid-node-c")


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


async def test_a_filter_that_matches_nothing_says_so() -> None:
    app = PaneApp(NodesPane(console_services(a_snapshot([a_node()]))))

    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.filter("h100")
        await wait_for(pilot, lambda: "Nothing here matches 'h100'." in screen_text(app), "the sentence")


async def test_long_names_of_nodes_are_whole_before_columns_at_the_end_are_shown() -> None:
    name = "ip-192-168-128-222.us-west-2.compute.internal"
    services = console_services(a_snapshot([replace(a_node(), name=name)]))
    app = PaneApp(NodesPane(services))

    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "ip-192-168-128-222 " in screen_text(app), "the whole name")
        assert "BOUGHT" not in screen_text(app)
        assert "MEMORY" in screen_text(app)


class TwoPanes(App[None]):
    """Nodes and pods of one desk."""

    def __init__(self, picture: ClusterSnapshot) -> None:
        super().__init__()
        self.services = console_services(picture)
        self.nodes, self.pods = NodesPane(self.services), PodsPane(self.services)

    def compose(self) -> ComposeResult:
        yield self.nodes
        yield self.pods

    def show(self, picture: ClusterSnapshot) -> None:
        """Let both panes follow to the next picture."""
        assert isinstance(self.services.cluster, ShownCluster)
        self.services.cluster.picture = picture
        self.nodes.refresh_data()
        self.pods.refresh_data()


async def test_panes_that_follow_changes_end_where_the_last_picture_is() -> None:
    dice, log = random.Random(5), ChangeLog()
    nodes: dict[str, NodeFacts] = {"n0": a_node("n0")}
    pods: dict[str, PodFacts] = {}
    app = TwoPanes(replace(a_snapshot(nodes.values(), revision=0), history=log))
    async with app.run_test(size=(200, 40)):
        for revision in range(1, 60):
            for _ in range(dice.randint(0, 3)):
                name, gpu = f"n{dice.randint(0, 5)}", dice.randint(0, 4)
                pod = a_pod(f"p{dice.randint(0, 9)}", gpu=gpu)
                log.node(name)
                log.node(pod.node)
                log.pod(pod.key)
                if dice.random() < 0.3:
                    nodes.pop(name, None)
                    pods.pop(pod.key, None)
                else:
                    nodes[name], pods[pod.key] = a_node(name, gpu=gpu), pod
            log.close(revision - 1, revision)
            picture = replace(a_snapshot(nodes.values(), pods.values(), revision=revision), history=log)
            app.show(picture)
            assert set(app.nodes.table.shown_keys) == set(nodes)
            assert set(app.pods.table.shown_keys) == set(pods)
            for name, node in nodes.items():
                app.nodes.table.select(name)
                row = app.nodes.table.selected_row
                assert row is not None
                assert row.node == node
                assert row.usage == picture.usage.get(name, row.usage)


@pytest.mark.parametrize(("clusters", "shown", "end"), [(5, 6, "c4"), (7, 8, "c6"), (9, 8, "and 3 more clusters")])
def test_no_cluster_is_left_out_of_the_totals_without_a_word(clusters: int, shown: int, end: str) -> None:
    lines = _as_many_as_fit([(Span("all"),), *((Span(f"c{number}"),) for number in range(clusters))])
    assert len(lines) == shown
    assert lines[-1][0].text.startswith(end)
