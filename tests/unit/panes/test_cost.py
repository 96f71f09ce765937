"""The cost pane: sums by what is bought, and how."""

from __future__ import annotations

from tests.support.builders import a_node, a_snapshot, console_services
from tests.unit.panes.alone import text_of
from tui.panes.cost import CostPane


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
