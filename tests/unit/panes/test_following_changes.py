"""Tables that take only what changed show the same as tables that take everything."""

from __future__ import annotations

import random

from msgspec.structs import replace
from textual.app import App, ComposeResult

from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.facts import NodeFacts, PodFacts
from tests.support.builders import ShownCluster, a_node, a_pod, a_snapshot, console_services
from tui.panes.nodes import NodesPane
from tui.panes.pods import PodsPane


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
