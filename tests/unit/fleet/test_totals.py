"""The sums of a fleet."""

from __future__ import annotations

import random

from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, Resources
from actions.fleet.totals import FleetTotals, TotalsSum, totals_of
from tests.unit.fleet.builders import a_node, asking


def test_nodes_are_summed_whether_pods_are_on_them_or_not() -> None:
    nodes = [a_node("a", gpu=4, efa=1), a_node("b", neuron=16, is_ready=False)]
    found = totals_of(nodes, {"a": asking(gpu=3, cpu_milli=500, pods=7)})

    assert (found.nodes, found.ready, found.pods) == (2, 1, 7)
    assert found.requested == Resources(cpu_milli=500, gpu=3)
    assert found.allocatable == Resources(2 * 47810, 2 * 186 * (1 << 30), gpu=4, neuron=16, efa=1)


def test_no_nodes_sum_up_to_nothing() -> None:
    assert totals_of([], {}) == FleetTotals()


def test_a_running_sum_is_the_sum_of_what_is_left() -> None:
    dice, kept, running = random.Random(3), dict[str, tuple[NodeFacts, NodeUsage]](), TotalsSum()
    for _ in range(300):
        name = f"n{dice.randrange(9)}"
        if name in kept:
            running.drop(*kept.pop(name))
        if dice.random() < 0.7:
            node = a_node(name, gpu=dice.randrange(8), is_ready=dice.random() < 0.8)
            kept[name] = (node, asking(gpu=dice.randrange(3)) if dice.random() < 0.5 else UNUSED)
            running.add(*kept[name])
        usage = {key: use for key, (_, use) in kept.items()}
        assert running.total() == totals_of((node for node, _ in kept.values()), usage)
