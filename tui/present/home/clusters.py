"""Several clusters that are followed at once: what is known of each in one line, and of all together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from actions.base.wording import counted
from actions.cluster.auth.kubeconfig import ContextParts
from actions.fleet.cost import FleetCost, sum_of_costs
from actions.fleet.quantity import bounded
from actions.fleet.totals import FleetTotals, sum_of_totals
from tui.present.cells import Cells, Span, Tone, fit, width_of

_DOT = Span(" · ", Tone.MUTED)


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One of several clusters at one moment.

    Args:
        key: Its context.
        name: As it is shown.
        place: Name, region and account, as far as they are known.
        state: In a few words, with its tone.
        is_live: The figures are of now; else as last seen.
        is_on_screen: Pods, objects and queues are its own.
        same_as: The name of another one that it certainly is, too: its nodes count there. Empty for none.
        totals: `None` if nothing is known of its nodes; so is `cost`.
        unscheduled: Pods without a node.
        is_searched: Its problems have been looked for.
    """

    key: str
    name: str
    place: ContextParts
    state: Span
    is_live: bool = False
    is_on_screen: bool = False
    same_as: str = ""
    totals: FleetTotals | None = None
    cost: FleetCost | None = None
    unscheduled: int = 0
    is_searched: bool = False


def totals_in(clusters: Sequence[ClusterFacts]) -> FleetTotals | None:
    """Return the sums of all clusters that are known, each once; `None` if none is."""
    known = [one.totals for one in clusters if one.totals is not None and not one.same_as]
    return sum_of_totals(known) if known else None


def cluster_count(clusters: Iterable[ClusterFacts]) -> int:
    """Return how many clusters they are, each counted once."""
    return sum(not one.same_as for one in clusters)


def uncounted(clusters: Iterable[ClusterFacts]) -> list[ClusterFacts]:
    """Return the clusters that are in no sum, because nothing is known of their nodes."""
    return [one for one in clusters if one.totals is None and not one.same_as]


def cluster_figures(facts: ClusterFacts) -> Cells:
    """Return nodes, accelerators and cost of a cluster; `?` for what is not known, dim what is not of now."""
    if facts.same_as:
        return (Span(f"the same cluster as {facts.same_as}", Tone.MUTED),)
    if facts.totals is None or facts.cost is None:
        return (Span("? nodes · ? $/h", Tone.WARN),)
    figures = _figures(facts.totals, facts.cost)
    return figures if facts.is_live else (Span(f"{''.join(one.text for one in figures)} as last seen", Tone.MUTED),)


def _figures(totals: FleetTotals, cost: FleetCost, *, is_part: bool = False) -> Cells:
    missing = totals.nodes - totals.ready
    nodes = f"{totals.nodes:,} node{'s' * (totals.nodes != 1)}"
    cells = [Span(bounded(nodes, is_lower_bound=is_part))]
    cells += [Span(f", {missing:,} not ready", Tone.BAD)] if missing else []
    if cost.accelerators:
        used = cost.accelerators - cost.idle_accelerators
        cells += [_DOT, Span(f"{used:,}/{cost.accelerators:,} acc", Tone.WARN if cost.idle_accelerators else Tone.GOOD)]
    hourly = replace(cost.hourly, is_lower_bound=is_part or cost.hourly.is_lower_bound)
    return (*cells, _DOT, Span(hourly.text))


def total_lines(clusters: Sequence[ClusterFacts]) -> list[Cells]:
    """Return the lines above a table of all nodes: all clusters together, then each; none for a single one."""
    if not clusters:
        return []
    titles = [f"all {counted(cluster_count(clusters), 'cluster')}", *(one.name for one in clusters)]
    room = min(32, max(map(width_of, titles)))
    totals, is_part = totals_in(clusters), bool(uncounted(clusters))
    cost = sum_of_costs(one.cost for one in clusters if one.cost is not None and not one.same_as)
    whole: Cells = (Span("?", Tone.WARN),) if totals is None else _figures(totals, cost, is_part=is_part)
    lines = [(*fit(Span(titles[0], Tone.STRONG), room), Span("  "), *whole)]
    for one in clusters:
        state = () if one.is_live else (_DOT, one.state)
        lines.append((*fit(Span(one.name), room), Span("  "), *cluster_figures(one), *state))
    return lines
