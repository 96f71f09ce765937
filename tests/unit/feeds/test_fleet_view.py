"""Costs that follow the picture by its changes equal costs of the whole picture."""

from __future__ import annotations

import random

from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.fleet.facts import NodeFacts, NodeUsage, Resources
from tests.support.builders import a_node
from tui.feeds.cluster import FleetCosts

MODEL = CostModel.load(region="us-west-2")


def _picture(
    nodes: dict[str, NodeFacts], usage: dict[str, NodeUsage], log: ChangeLog, *, revision: int
) -> ClusterSnapshot:
    return ClusterSnapshot(revision=revision, nodes=dict(nodes), usage=dict(usage), history=log)


def test_following_changes_ends_where_looking_at_all_does() -> None:
    dice, log = random.Random(3), ChangeLog()
    nodes: dict[str, NodeFacts] = {}
    usage: dict[str, NodeUsage] = {}
    view = FleetCosts(MODEL)
    for revision in range(1, 200):
        for _ in range(dice.randint(0, 3)):
            name = f"n{dice.randint(0, 15)}"
            log.node(name)
            match dice.randint(0, 2):
                case 0:
                    nodes.pop(name, None)
                case 1:
                    kind = dice.choice(["g5.12xlarge", "m5.xlarge", "x9.mystery"])
                    nodes[name] = a_node(name, instance_type=kind)
                case _:
                    usage[name] = NodeUsage(Resources(gpu=dice.randint(0, 4)), 1)
        log.close(revision - 1, revision)
        if dice.random() < 0.7:
            picture = _picture(nodes, usage, log, revision=revision)
            assert view.total(picture) == MODEL.fleet_cost(nodes.values(), usage)
            assert view.costs(picture).keys() == nodes.keys()


def test_another_cluster_begins_anew() -> None:
    view = FleetCosts(MODEL)
    view.total(_picture({"a": a_node("a")}, {}, ChangeLog(), revision=1))
    other = _picture({"b": a_node("b")}, {}, ChangeLog(), revision=1)
    assert view.costs(other).keys() == {"b"}
    assert view.total(other).nodes == 1
