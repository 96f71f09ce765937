"""One list of what is paid for by the hour, from facts: the journals of all runs, and the nodes that are seen. Pure.

Every figure of money an hour, on whatever screen, is of this list. Nodes of clusters that are followed count as they
are seen there, whoever has made them; what a run has made counts as its journal has it, without those nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from actions.base.wording import listed
from actions.fleet.cost import FleetCost, HourlyCost, NodeCost, sum_of_costs, total_of
from actions.fleet.facts import NodeFacts
from actions.run.spending import known_until, node_claims_of, times_known, times_possible, used_by
from actions.run.state.records import Action, HeldPrice
from actions.run.state.view import Goal, RunState, RunView, StageState, StageView

_NOTHING = Decimal(0)
_SHOWN = 20
"""The most names in a sentence."""
_HOLDING = (StageState.SUCCEEDED, StageState.RUNNING)
_BUCKET = "aws_s3_bucket."


class PaidThing(msgspec.Struct, frozen=True):
    """Something that is paid for by the hour."""

    title: str
    usd_per_hour: Decimal | None
    """`None` if no price is known."""
    run: str = ""
    """The id of the run that has made it."""
    stage: str = ""
    is_certain: bool = True
    """False if it may exist: then it is in no sum."""
    instance_type: str = ""
    """Of nodes."""
    nodes: int = 0
    is_kept: bool = False
    """Its run is torn down, and has left it for the data."""

    @property
    def state(self) -> str:
        """`data kept`, `may exist`; empty otherwise."""
        return "data kept" if self.is_kept else "" if self.is_certain else "may exist"


class RunPaid(msgspec.Struct, frozen=True):
    """The things that one run pays for by the hour, as its journal has it, and how its nodes are known."""

    run: str
    cluster: str
    region: str
    state: RunState
    things: tuple[PaidThing, ...] = ()
    is_by_use: bool = False
    """It pays for traffic, too, or for something else by use."""
    is_simulated: bool = False
    claims: frozenset[str] = frozenset()
    """Uids of NodeClaims that it has made."""
    pools: frozenset[str] = frozenset()
    """Names of node pools and node groups that it has made."""
    holders: tuple[str, ...] = ()
    """Titles of the stages that hold accelerators, at work or done."""
    uses: HourlyCost | None = None
    """The price of the parts of nodes that were there and that its pods take: in no sum."""
    since: float = 0.0
    """Its creation in seconds since the epoch: an older node of a pool of that name is another one's."""

    @property
    def hourly(self) -> HourlyCost:
        """The sum, by the journal alone."""
        return _sum(self.things, is_by_use=self.is_by_use)

    def without(self, stages: Collection[str]) -> HourlyCost:
        """Return the sum without what some stages, by id, have made."""
        return _sum((one for one in self.things if one.stage not in stages), is_by_use=self.is_by_use)

    @property
    def nodes_usd_per_hour(self) -> Decimal:
        """The part of it that nodes are."""
        return _sum(one for one in self.things if one.instance_type).usd

    @property
    def is_kept(self) -> bool:
        """True if the run is torn down, and what holds its data is paid on."""
        return self.state is RunState.TORN_DOWN and bool(self.things)


class SeenNodes(msgspec.Struct, frozen=True):
    """The nodes of one cluster that is followed."""

    cluster: str
    region: str
    nodes: Mapping[str, NodeFacts]
    costs: Mapping[str, NodeCost]
    """By the name of the node."""
    claimed: Mapping[str, str]
    """The node of each NodeClaim, by the claim's uid."""
    total: FleetCost


class Paid(msgspec.Struct, frozen=True):
    """Everything that is paid for by the hour, as far as it is known here."""

    things: tuple[PaidThing, ...] = ()
    """All but the nodes that are seen."""
    nodes: FleetCost | None = None
    """All nodes that are seen; `None` before they are."""
    of_runs: Mapping[str, FleetCost] = {}
    """The part of them that each run has made."""
    by_use: frozenset[str] = frozenset()
    """Runs that pay for something by use, too."""
    is_whole: bool = True
    """False while there are runs that were not read yet, or clusters whose nodes are not known."""

    @property
    def hourly(self) -> HourlyCost:
        """The sum; a lower bound also before the nodes are seen and all runs are read."""
        is_open = bool(self.by_use) or self.nodes is None or not self.is_whole
        return _sum(self.things, self.nodes, is_by_use=is_open)

    @property
    def kept(self) -> frozenset[str]:
        """Runs that are torn down and keep data."""
        return frozenset(one.run for one in self.things if one.is_kept)

    @property
    def kept_hourly(self) -> HourlyCost:
        """The part of it that these keep."""
        return _sum((one for one in self.things if one.is_kept), is_by_use=bool(self.kept & self.by_use))

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it adds up to: `nodes $11.73/h`, `other ≥ $1.35/h`, `data kept $1.17/h`; none of one alone."""
        other = _sum(
            (one for one in self.things if not one.is_kept),
            is_by_use=bool(self.by_use - self.kept) or not self.is_whole,
        )
        is_other = any(not one.is_kept for one in self.things)
        parts = [f"nodes {self.nodes.hourly.text}"] if self.nodes is not None and self.nodes.nodes else []
        parts += [f"other {other.text}"] if is_other else []
        parts += [f"data kept {self.kept_hourly.text}"] if self.kept else []
        return tuple(parts) if len(parts) > 1 or self.kept else ()

    def of(self, run: str) -> HourlyCost | None:
        """Return the part of it that is a run's; `None` if that is nothing."""
        things, nodes = [one for one in self.things if one.run == run], self.of_runs.get(run)
        return _sum(things, nodes, is_by_use=run in self.by_use) if things or (nodes and nodes.nodes) else None

    @property
    def nodes_of_nobody(self) -> FleetCost | None:
        """The nodes that are seen and that no run of this machine has made."""
        return None if self.nodes is None else _without(self.nodes, self.of_runs.values())


def _sum(things: Iterable[PaidThing], nodes: FleetCost | None = None, *, is_by_use: bool = False) -> HourlyCost:
    known = [nodes.usd_per_hour] if nodes is not None and nodes.unpriced < nodes.nodes else []
    is_open = is_by_use or bool(nodes and nodes.unpriced)
    is_any = bool(nodes and nodes.nodes)
    for one in things:
        is_any = True
        if one.is_certain and one.usd_per_hour is not None:
            known.append(one.usd_per_hour)
        else:
            is_open = True
    return HourlyCost(sum(known, _NOTHING), is_open, is_known=bool(known) or not is_any)


def _without(whole: FleetCost, parts: Iterable[FleetCost]) -> FleetCost:
    taken = sum_of_costs(parts)
    return FleetCost(**{name: getattr(whole, name) - getattr(taken, name) for name in whole.__struct_fields__})


def paid_by(view: RunView) -> RunPaid:
    """Return what a run pays for by the hour now, as its journal has it.

    A copy of a run whose records may not be all has nothing: the machine that carries it out knows.
    """
    found = RunPaid(view.id, view.cluster.name, view.cluster.region, view.state, is_simulated=view.is_cost_simulated)
    if known_until(view) is not None:
        return found
    things = [one for price in view.prices if not price.is_by_use and (one := _thing(view, price)) is not None]
    stages = [stage for stage in view.stages if _is_open(stage)]
    made = [item for stage in stages for item in view.owned_by(stage.id) if not item.existed]
    groups = {name for stage in stages if (name := (stage.outputs or {}).get("node_group_name"))}
    return replace(
        found,
        things=(*things, *(bucket for stage in stages for bucket in _buckets(view, stage))),
        is_by_use=any(price.is_by_use and _may_go_on(view, price) for price in view.prices),
        claims=frozenset(
            one.uid for stage in view.stages for one in node_claims_of(view, stage.id) if not one.is_deleted
        ),
        pools=frozenset({item.name for item in made if item.kind == "NodePool"} | groups),
        holders=tuple(stage.title for stage in view.stages if stage.holds_accelerators and stage.state in _HOLDING),
        uses=used_by(view, view.created_at)[1],
        since=view.created_at,
    )


def _thing(view: RunView, price: HeldPrice) -> PaidThing | None:
    """Return what has a price, if it exists or may; `None` if it certainly does not."""
    share = sum((share for period, share in times_known(view, price) if period.end is None), _NOTHING)
    is_certain = bool(share)
    if not is_certain and not _may_go_on(view, price):
        return None
    usd = Decimal(price.usd_per_hour) * (share or 1) if price.usd_per_hour else None
    nodes = round(price.nodes * share) if is_certain else price.nodes
    title = price.title if nodes == price.nodes else f"{nodes} of {price.title}"
    is_kept = view.state is RunState.TORN_DOWN
    return PaidThing(title, usd, view.id, price.stage, is_certain, price.instance_type, nodes, is_kept)


def _may_go_on(view: RunView, price: HeldPrice) -> bool:
    """Return whether what has a price may exist: a node that was started for pods goes only some time after them."""
    is_possible = any(period.end is None for period in times_possible(view, price))
    is_claimed = (
        price.is_of_work and price.nodes and any(not one.is_deleted for one in node_claims_of(view, price.stage))
    )
    return is_possible or bool(is_claimed)


def _is_open(stage: StageView) -> bool:
    return bool(stage.held) and stage.held[-1].end is None


def _buckets(view: RunView, stage: StageView) -> Iterable[PaidThing]:
    """Yield the buckets that a stage has made, which are paid by their contents."""
    is_priced = any(price.resource == _BUCKET[:-1] and price.stage == stage.id for price in view.prices)
    for line in stage.plan.lines if stage.plan is not None and not is_priced else ():
        address = line.removeprefix("+ ")
        if address != line and f".{address}".rpartition(f".{_BUCKET}")[1]:
            is_kept = view.state is RunState.TORN_DOWN
            yield PaidThing(f"bucket {address}, by its contents", None, view.id, stage.id, is_kept=is_kept)


def paid_of(
    runs: Iterable[RunPaid],
    seen: Sequence[SeenNodes] = (),
    others: Iterable[PaidThing] = (),
    *,
    is_simulated: bool | None = None,
    is_whole: bool = True,
) -> Paid:
    """Return everything that is paid for by the hour.

    Args:
        runs: Those of this machine.
        seen: The nodes of each cluster that is followed and known, each cluster once.
        others: What runs of other machines pay for, without nodes that are seen.
        is_simulated: Of which runs: simulated money is in no sum with real one. `None` for all.
        is_whole: `runs` are all of them, and `seen` all clusters.
    """
    runs = [run for run in runs if is_simulated in (None, run.is_simulated)]
    of_none = [run for run in runs if not any(_is_in(run, place) for place in seen)]  # a context may rename a cluster
    owned = [(place, _nodes_of([*(run for run in runs if _is_in(run, place)), *of_none], place)) for place in seen]
    things: list[PaidThing] = []
    of_runs: dict[str, FleetCost] = {}
    for run in runs:
        own = [(place, names[run.run]) for place, names in owned if run.run in names]
        types = {place.nodes[name].instance_type for place, names in own for name in names}
        is_here = any(_is_in(run, place) for place in seen)
        things += [one for one in run.things if not one.instance_type or not (is_here or one.instance_type in types)]
        if own:
            of_runs[run.run] = total_of(place.costs[name] for place, names in own for name in names)
    return Paid(
        things=(*things, *others),
        nodes=sum_of_costs(place.total for place in seen) if seen else None,
        of_runs=of_runs,
        by_use=frozenset(run.run for run in runs if run.is_by_use),
        is_whole=is_whole,
    )


def _is_in(run: RunPaid, seen: SeenNodes) -> bool:
    return is_same_cluster((run.cluster, run.region), (seen.cluster, seen.region))


def is_same_cluster(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether two clusters, each a name and a region, are one as far as that is known."""
    return bool(one[0]) and one[0] == other[0] and (one[1] == other[1] or not (one[1] and other[1]))


def _nodes_of(runs: Sequence[RunPaid], seen: SeenNodes) -> dict[str, list[str]]:
    """Return the names of the nodes that each run has made; those runs come first that are of this cluster.

    They are known by NodeClaims, node pools and node groups. Of other nodes of its cluster, such as those that came
    with it, a run has as many of a type as it pays for.
    """
    owners = {on: run.run for run in runs for uid in run.claims if (on := seen.claimed.get(uid))}
    pools: dict[str, list[RunPaid]] = {}
    for run in runs:  # those of this cluster first: a blueprint gives its pools the same names in each
        for pool in run.pools:
            pools.setdefault(pool, []).append(run)
    wanted = [one for run in runs if _is_in(run, seen) for one in run.things if one.instance_type and one.is_certain]
    found: dict[str, list[str]] = {}
    spare: dict[str, list[str]] = {one.instance_type: [] for one in wanted}
    for name, node in seen.nodes.items() if owners or pools or wanted else ():
        makers = (run.run for run in pools.get(node.pool, ()) if node.created_at >= run.since)
        owner = owners.get(name) or next(makers, "")
        if owner:
            found.setdefault(owner, []).append(name)
        elif node.instance_type in spare:
            spare[node.instance_type].append(name)
    own = Counter((run, seen.nodes[name].instance_type) for run, names in found.items() for name in names)
    for one in wanted:
        known = min(one.nodes, own[one.run, one.instance_type])
        own[one.run, one.instance_type] -= known
        rest, count = spare[one.instance_type], one.nodes - known
        found.setdefault(one.run, []).extend(rest[:count])
        del rest[:count]
    return {run: names for run, names in found.items() if names}


def price_of(view: RunView, stage: str) -> HourlyCost | None:
    """Return what a stage's part of a run costs; `None` if that is nothing."""
    things = [one for one in paid_by(view).things if one.stage == stage]
    return _sum(things) if things else None


def priced(view: RunView, stage: StageView) -> str:
    """Return the title of a stage with the price of what it has made, as far as that is known: `Network $0.05/h`."""
    price = price_of(view, stage.id)
    return stage.title if price is None else f"{stage.title} {price.text}"


_HOLD_NOTHING = ("capacity", "check")
"""Kinds of stages that make nothing."""


def kept_text(view: RunView) -> str:
    """Return the stages that a teardown has left on purpose, with the price of what each holds; empty without any."""
    skipped = [step for step in view.teardown if step.state is StageState.SKIPPED]
    kept = {step.id for step in skipped if step.kind not in _HOLD_NOTHING}
    return listed([priced(view, stage) for stage in view.stages if stage.id in kept], _SHOWN)


def kept_sentence(view: RunView) -> str:
    """Return the result of an audit that has found nothing but what is kept on purpose, its price first."""
    kept, paid = kept_text(view), paid_by(view)
    if not kept:
        return "Nothing is left."
    if not paid.things:
        return f"Nothing is left except what is kept on purpose: {kept}."
    return f"{paid.hourly.text} goes on for what is kept on purpose: {kept}. Nothing else is left."


def state_words(state: RunState, paid: RunPaid | None) -> str:
    """Return the state of a run in a list: of one that is torn down, whether data that costs is kept."""
    return f"{state.value}, data kept" if paid is not None and paid.is_kept else state.value


def unfinished_teardown(view: RunView) -> tuple[str, ...]:
    """Return the end of a teardown that stopped: what failed, what is left with its price, the next command.

    Empty for every other run, and for a teardown that still goes on with what does not need the failed step.
    """
    if view.goal is not Goal.TEARDOWN or view.state is not RunState.FAILED:
        return ()
    failed = [step for step in view.teardown if step.state is StageState.FAILED]
    waiting = [step for step in view.teardown if step.state is StageState.PENDING]
    if not failed:
        return ()
    waits = f" {listed([step.title for step in waiting], _SHOWN)} waited for it." if waiting else ""
    left = [priced(view, step) for step in (*failed, *waiting) if step.kind not in (Action.DRAIN, Action.AUDIT)]
    return (
        f"The teardown stopped: {listed([step.title for step in failed], _SHOWN)} failed.{waits}",
        *([f"Still there: {listed(left, _SHOWN)}."] if left else []),
        f"Fix the cause, then: eksml-tui runs resume {view.id}",
    )
