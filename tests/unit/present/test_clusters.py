"""Several clusters at once: figures that are known, as last seen and unknown, and sums that say what they lack."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from actions.cluster.auth.kubeconfig import ContextParts
from actions.fleet.cost import FleetCost
from actions.fleet.totals import FleetTotals
from tests.unit.present.test_home import shown, some_facts
from tui.present.cells import Span, Tone, text_of
from tui.present.home.clusters import ClusterFacts, cluster_count, cluster_figures, total_lines, totals_in

_WEST = ClusterFacts(
    key="a:west",
    name="west",
    place=ContextParts("west", "us-west-2", "111122223333"),
    state=Span("live", Tone.GOOD),
    is_live=True,
    is_on_screen=True,
    totals=FleetTotals(nodes=5_000, ready=4_998, pods=50_000),
    cost=FleetCost(5_000, 0, Decimal("1200.5"), 16, 6, Decimal("30"), 0),
    is_searched=True,
)
_EAST = replace(_WEST, key="b:east", name="east", place=ContextParts("east", "us-east-1", ""), is_on_screen=False)
_SILENT = replace(
    _EAST, state=Span("refused 3m: Unauthorized", Tone.BAD), is_live=False, totals=None, cost=None, is_searched=False
)


def test_the_figures_of_a_cluster_are_known_or_of_the_past_or_unknown_or_those_of_another_one() -> None:
    assert text_of(cluster_figures(_WEST)) == "5,000 nodes, 2 not ready · 10/16 acc · $1,200.50/h"
    assert text_of(cluster_figures(replace(_WEST, is_live=False))).endswith("$1,200.50/h as last seen")
    assert text_of(cluster_figures(_SILENT)) == "? nodes · ? $/h"
    assert text_of(cluster_figures(replace(_EAST, same_as="west"))) == "the same cluster as west"


def test_a_sum_counts_each_cluster_once_and_says_that_one_is_missing() -> None:
    twice = replace(_EAST, same_as="west")
    both = totals_in((_WEST, _EAST, twice))
    assert both is not None
    assert (both.nodes, both.pods, cluster_count((_WEST, _EAST, twice))) == (10_000, 100_000, 2)
    assert totals_in((_SILENT,)) is None
    first, *others = [text_of(line) for line in total_lines((_WEST, _SILENT))]
    assert first == "all 2 clusters  ≥ 5,000 nodes, 2 not ready · 10/16 acc · ≥ $1,200.50/h"
    assert others[1].endswith("? nodes · ? $/h · refused 3m: Unauthorized")
    assert text_of(total_lines((_SILENT, _SILENT))[0]).endswith("  ?")
    assert total_lines(()) == []


def test_home_has_a_line_for_each_cluster_and_one_for_all() -> None:
    (problem,) = some_facts().problems or ()
    there = replace(problem, cluster=_EAST.key)
    text = shown(some_facts(clusters=(_WEST, _EAST), problems=(there,)), 160, 45)
    for part in ("▶ west · live · 5,000 nodes", "  east · live · 5,000 nodes", "Fleet of 2 clusters", "enter shows it"):
        assert part in text
    assert "east: Job default/eval-mlm" in text
    assert "not in these sums" not in text


def test_home_says_which_cluster_it_does_not_know() -> None:
    text = shown(some_facts(clusters=(_WEST, _SILENT), totals=_WEST.totals, problems=()), 160, 45)
    assert "≥ 5,000 nodes, 2 not ready" in text
    assert "? east: not in these sums." in text
    assert "? east: not known" in text
    assert "✔ No problem" not in text
    seen = shown(some_facts(clusters=(_WEST, replace(_EAST, is_live=False))), 160, 45)
    assert "east: as last seen." in seen
