"""The feeds of the home pane: the fleet's totals, problems, contexts, costs of blueprints; what is paid by the hour.

Each is computed when a visible pane asks for it and its source has changed, in a thread if it takes more than a moment;
nothing ticks while nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, JournalError
from actions.base.executors import NamedExecutor, in_thread
from actions.fleet.cost import FleetCost
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, PodFacts
from actions.fleet.totals import FleetTotals, TotalsSum
from actions.fleet.verdict import PodTrouble, has_restarted, trouble_of, verdict_of
from actions.run.paid import Paid, PaidThing, RunPaid, SeenNodes, paid_by, paid_of
from actions.run.state.view import NoticeKind
from tui.feeds.cluster import ClusterFeed, FleetCosts
from tui.feeds.runs import RunFeed

if TYPE_CHECKING:
    from actions.blueprint.launch_plan import CostSummary
    from actions.blueprint.model import Blueprint
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.diagnose.overview import Problem
    from actions.cluster.state.snapshot import ClusterSnapshot
    from actions.fleet.instance_types import InstanceTable
    from actions.fleet.prices import PriceBook
    from actions.run.journal.reader import RunSummary
    from actions.run.state.view import RunView

PROBLEMS_EVERY_SECONDS = 4.0
"""The shortest time between two searches for problems."""
RESTARTED_SECONDS = 300.0
"""A pod whose container was restarted within this time is a problem, though it runs: it may crash again and again."""


class FleetTrouble:
    """The fleet's totals, and the pods and nodes that are not healthy; only changes are read."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        """Pods that are not healthy, by key."""
        self.nodes: dict[str, NodeFacts] = {}
        """Nodes that are not ready, by name."""
        self.unscheduled = 0
        """Pods without a node."""
        self._sum = TotalsSum()
        self._known: dict[str, tuple[NodeFacts, NodeUsage]] = {}
        self._shown: ClusterSnapshot | None = None
        """The place in the history alone: a hidden pane must not keep a whole cluster that has changed since."""
        self._restarted = set[str]()
        """Keys of the pods with a container that was started again, but for those of which that is long ago."""
        self._of_runs: dict[str, set[str]] = {}
        """Keys of the pods of each run that were ever unhealthy or restarted."""
        self.revision = 0
        """Number of changes of what is known."""

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Take over a snapshot."""
        shown = self._shown
        is_same = shown is not None and shown.history is snapshot.history
        if is_same and shown is not None and shown.revision == snapshot.revision:
            return
        self.revision += 1
        changes = snapshot.changes_since(shown)
        self._shown = type(snapshot)(revision=snapshot.revision, history=snapshot.history)
        if changes or self._known:
            for name in changes.nodes if changes else self._known.keys() | snapshot.nodes.keys():
                self._look_at_node(name, snapshot.nodes.get(name), snapshot.usage.get(name, UNUSED))
        else:
            self._fill(snapshot)
        if is_same:
            for key in changes.pods if changes else self.pods.keys() | snapshot.pods.keys():
                self._look_at_pod(key, snapshot.pods.get(key))
        else:  # all at once, as there may be 50,000
            self.pods = {pod.key: pod for pod in snapshot.pods.values() if not pod.is_fine}
            self._restarted = {pod.key for pod in snapshot.pods.values() if pod.restarts}
            self._of_runs = {}
            for key in self._restarted | self.pods.keys():
                self._note_run(key, snapshot.pods[key])
        self.unscheduled = sum(pod.phase == "Pending" and not pod.node for pod in self.pods.values())

    def restarted(self, snapshot: ClusterSnapshot, now: float) -> list[PodFacts]:
        """Return the pods that are healthy and were not a moment ago, in seconds since the epoch: one was restarted."""
        old = [
            key
            for key in self._restarted
            if (pod := snapshot.pods.get(key)) and pod.started_at < now - RESTARTED_SECONDS
        ]
        self._restarted.difference_update(old)  # a look costs by what was restarted lately
        known = (snapshot.pods.get(key) for key in self._restarted if key not in self.pods)
        return [pod for pod in known if pod is not None and has_restarted(pod, now, within_seconds=RESTARTED_SECONDS)]

    def of_run(self, run: str, snapshot: ClusterSnapshot, now: float) -> dict[str, str]:
        """Return the verdict on the pods of a run, by stage, where some are in trouble: no log is read for it.

        Args:
            run: Its id.
            snapshot: The newest one, which has been followed.
            now: Seconds since the epoch.
        """
        found: dict[tuple[str, str], list[PodTrouble]] = {}
        for key in self._of_runs.get(run, ()):
            pod = snapshot.pods.get(key)
            if pod is not None and (trouble := trouble_of(pod, now, job=pod.owner_name)) is not None:
                found.setdefault((pod.stage, pod.owner_name), []).append(trouble)
        return {stage: verdict_of(troubles, job=job, cause=None) for (stage, job), troubles in found.items()}

    @property
    def totals(self) -> FleetTotals:
        """The sums over all nodes."""
        return self._sum.total()

    def _look_at_pod(self, key: str, pod: PodFacts | None) -> None:
        if pod is None or pod.is_fine:
            self.pods.pop(key, None)
        else:
            self.pods[key] = pod
        (self._restarted.add if pod is not None and pod.restarts else self._restarted.discard)(key)
        if pod is None:
            for keys in self._of_runs.values():
                keys.discard(key)
        elif pod.restarts or not pod.is_fine:
            self._note_run(key, pod)

    def _note_run(self, key: str, pod: PodFacts) -> None:
        if pod.run:
            self._of_runs.setdefault(pod.run, set()).add(key)

    def _fill(self, snapshot: ClusterSnapshot) -> None:
        usage = snapshot.usage
        self._known = {name: (node, usage.get(name, UNUSED)) for name, node in snapshot.nodes.items()}
        for node, used in self._known.values():
            self._sum.add(node, used)
        self.nodes = {name: node for name, node in snapshot.nodes.items() if not node.is_ready}

    def _look_at_node(self, name: str, node: NodeFacts | None, usage: NodeUsage) -> None:
        before = self._known.pop(name, None)
        if before is not None:
            self._sum.drop(*before)
            self.nodes.pop(name, None)
        if node is not None:
            self._known[name] = (node, usage)
            self._sum.add(node, usage)
            if not node.is_ready:
                self.nodes[name] = node


class PaidFeed:
    """The list of what is paid for by the hour; computed again only when one of its sources has changed.

    Args:
        runs: The runs of this machine and of others.
        cluster: The cluster on screen.
        fleet: The costs of its nodes.
        total: Returns the cost of all of them; `None` before they are known.
        clock: Time.
        is_simulated: The session shows simulated money.
    """

    def __init__(
        self,
        runs: RunFeed,
        cluster: ClusterFeed,
        fleet: FleetCosts,
        total: Callable[[], FleetCost | None],
        clock: Clock,
        *,
        is_simulated: bool,
    ) -> None:
        self.cluster = cluster
        self._runs = runs
        self._fleet = fleet
        self._total = total
        self._clock = clock
        self._is_simulated = is_simulated
        self._shown: ClusterSnapshot | None = None
        self._revisions: object = None
        self._of: RunView | None = None
        self._now = Paid()
        self._view: tuple[RunView, RunPaid] | None = None

    def now(self) -> Paid:
        """Return the list as it is."""
        others, snapshot, total = self._runs.others, self.cluster.snapshot(), self._total()
        seen = snapshot if total is not None else None
        revisions = (self._runs.revision, others.revision if others is not None else 0, self.cluster.place)
        if seen is not self._shown or revisions != self._revisions or self._runs.view is not self._of:
            self._shown, self._revisions, self._of = seen, revisions, self._runs.view
            self._now = self._computed(total)
        return self._now

    def _computed(self, total: FleetCost | None) -> Paid:
        on_screen, elsewhere = self.cluster.place, self._runs.listed_elsewhere()
        place = (on_screen.cluster, on_screen.region)
        gone = {run.id for run in elsewhere}
        return paid_of(
            [paid for paid in self._of_runs() if paid.run not in gone],
            self._seen(total, place),
            self._elsewhere(place),
            is_simulated=self._is_simulated,
            is_whole=not self._runs.unread,
        )

    def _of_runs(self) -> Iterator[RunPaid]:
        """Yield what each run pays for; the run on screen is newer than the list."""
        view = self._runs.view if self._runs.remote is None else None
        if view is not None and (self._view is None or self._view[0] is not view):
            self._view = view, paid_by(view)
        for run in self._runs.summaries:
            if (view is None or run.id != view.id) and run.paid is not None:
                yield run.paid
        if view is not None and self._view is not None:
            yield self._view[1]

    def _elsewhere(self, place: tuple[str, str]) -> list[PaidThing]:
        found = self._runs.listed_elsewhere()
        if not found:
            return []
        from actions.run.store.remote import paid_elsewhere

        shown = [run for run in found if run.about.is_cost_simulated == self._is_simulated]
        return [thing for run in shown if (thing := paid_elsewhere(run, place)) is not None]

    def _seen(self, total: FleetCost | None, place: tuple[str, str]) -> SeenNodes | None:
        snapshot = self.cluster.snapshot()
        if snapshot is None or total is None:
            return None
        claimed = {claim.uid: claim.node for claim in snapshot.claims.values() if claim.node}
        return SeenNodes(*place, snapshot.nodes, self._fleet.costs(snapshot), claimed, total)


class HomeFeed:
    """Everything that the home pane shows beside snapshots, runs and catalogue. Used on the loop only.

    Args:
        clock: Time.
        changed: Called when something has been computed.
        request_in: Asks for a paint in this many seconds.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None], request_in: Callable[[float], None]) -> None:
        self.trouble = FleetTrouble()
        self.problems: tuple[Problem, ...] | None = None
        """`None` before they have been looked for in this cluster."""
        self.contexts: tuple[tuple[str, str], ...] | None = None
        """Names of the kubeconfig's contexts with their clusters; `None` before it is read."""
        self.contexts_error = ""
        self.costs: Mapping[str, CostSummary] = {}
        """By blueprint."""
        self.revision = 0
        """Number of changes of everything above but the totals."""
        self._clock = clock
        self._changed = changed
        self._request_in = request_in
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._disk = NamedExecutor("home")
        self._read_for: ClusterTarget | None = None
        self._searched_at = float("-inf")
        self._sought: object = None
        """The state of everything that the last search for problems depended on."""
        self._failing: tuple[tuple[Path, str], ...] = ()
        """Folders of the runs whose pods are in trouble, with the stage."""
        self._cluster: object = None
        self._planned: object = None

    def follow(self, snapshot: ClusterSnapshot | None) -> None:
        """Take over the newest snapshot, and look for problems if there may be others and the last look is not fresh.

        Args:
            snapshot: `None` before the first one of a cluster.
        """
        if snapshot is None or not snapshot.is_complete:
            self.problems = None
            if snapshot is not None and snapshot.as_of:  # a kept one has totals; problems are those of a live one
                self.trouble.follow(snapshot)
                self._sought = None
            return
        if snapshot.history is not self._cluster:
            self._cluster, self.problems, self._searched_at = snapshot.history, None, float("-inf")
        self.trouble.follow(snapshot)
        sought = self.trouble.revision, self._failing, len(self._restarted(snapshot))
        if sought == self._sought or self._is_busy("problems"):
            return
        now = self._clock.monotonic()
        wait = self._searched_at + PROBLEMS_EVERY_SECONDS - now
        if wait > 0:
            self._request_in(wait)
            return
        self._searched_at, self._sought = now, sought
        self._start("problems", self._search(snapshot))

    def _restarted(self, snapshot: ClusterSnapshot) -> list[PodFacts]:
        now = self._clock.now().timestamp()
        found = self.trouble.restarted(snapshot, now)
        if found:
            self._request_in(min(pod.started_at for pod in found) + RESTARTED_SECONDS - now)
        return found

    def read_contexts(self, target: ClusterTarget, shown: ClusterTarget) -> None:
        """Read the kubeconfig, once for each cluster that is shown.

        Args:
            target: Names the kubeconfig that the console was started with.
            shown: The cluster on screen, which may have a kubeconfig of its own.
        """
        if shown is not self._read_for and not self._is_busy("contexts"):
            self._read_for = shown
            self._start("contexts", self._read_contexts(target))

    def plan(self, blueprints: tuple[Blueprint, ...], preset_of: Callable[[Iterable[str]], str]) -> None:
        """Compute the cost of each blueprint, once for each catalogue that is read.

        Args:
            blueprints: The catalogue.
            preset_of: Returns the preset that the launch form of a blueprint begins with, of those it has.
        """
        if blueprints and blueprints is not self._planned and not self._is_busy("costs"):
            self._planned = blueprints
            self._start("costs", self._plan([(one, preset_of(one.presets)) for one in blueprints]))

    def note_failing(self, summaries: Iterable[RunSummary]) -> None:
        """Take over which runs have pods in trouble: their logs have the cause."""
        troubled = (run for run in summaries if any(notice.kind is NoticeKind.PODS for notice in run.notices))
        self._failing = tuple((run.folder, run.stage) for run in troubled)

    def close(self) -> None:
        """End everything that is under way."""
        for task in self._tasks.values():
            task.cancel()
        self._disk.close()

    def _is_busy(self, name: str) -> bool:
        return name in self._tasks and not self._tasks[name].done()

    def _start(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks[name] = asyncio.create_task(work, name=f"home {name}")

    def _tell(self) -> None:
        self.revision += 1
        self._changed()

    async def _search(self, snapshot: ClusterSnapshot) -> None:
        pods = [*self.trouble.pods.values(), *self._restarted(snapshot)]
        nodes, failing = list(self.trouble.nodes.values()), self._failing
        now = self._clock.now().timestamp()
        found = await in_thread("problems", _problems_in, snapshot, pods, nodes, now, failing) if pods or nodes else ()
        if found != self.problems:
            self.problems = found
            self._tell()

    async def _read_contexts(self, target: ClusterTarget) -> None:
        self.contexts, self.contexts_error = await self._disk.call(_contexts_in, target)
        self._tell()

    async def _plan(self, wanted: list[tuple[Blueprint, str]]) -> None:
        prices, instances = await self._disk.call(_tables)
        for blueprint, preset in wanted:
            cost = await self._disk.call(_cost_of, blueprint, preset, prices, instances, day=self._clock.now().date())
            self.costs = {**self.costs, blueprint.id: cost}
            self._tell()


def _problems_in(
    snapshot: ClusterSnapshot,
    pods: list[PodFacts],
    nodes: list[NodeFacts],
    now: float,
    failing: tuple[tuple[Path, str], ...],
) -> tuple[Problem, ...]:
    from actions.cluster.diagnose.overview import problems_of  # heavy: imports all rules
    from actions.run.output.reader import OutputReader
    from actions.run.stages.readiness import cause_in

    causes: dict[tuple[str, str], Finding] = {}
    for folder, stage in failing:
        with suppress(JournalError):
            troubled = [pod.name for pod in pods if (pod.run, pod.stage) == (folder.name, stage)]
            cause = cause_in(OutputReader(folder, stage), troubled)
            causes |= {(folder.name, stage): cause} if cause is not None else {}

    return tuple(
        problems_of(
            nodes=snapshot.nodes,
            bad_nodes=nodes,
            pods=pods,
            events=snapshot.events,
            workloads=snapshot.workloads.values(),
            now=now,
            causes=causes,
        )
    )


def _contexts_in(target: ClusterTarget) -> tuple[tuple[tuple[str, str], ...], str]:
    from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of

    try:
        return tuple(contexts_of(ClusterTarget(target.kubeconfig))), ""
    except ConsoleError as error:
        return (), error.sentence()


def _tables() -> tuple[PriceBook, InstanceTable]:
    from actions.fleet.instance_types import InstanceTable
    from actions.fleet.prices import PriceBook

    return PriceBook.usual(), InstanceTable.load()


def _cost_of(
    blueprint: Blueprint, preset: str, prices: PriceBook, instances: InstanceTable, *, day: date
) -> CostSummary:
    from actions.blueprint.launch_plan import cost_summary

    return cost_summary(blueprint, preset, prices, instances, day=day)
