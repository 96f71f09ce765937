"""The clusters that a console follows, each complete by itself: its snapshots, costs, totals and problems.

It is computed when a visible pane asks for it and the cluster has changed, in a thread if it takes more than a moment.
None waits for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import Clock, as_of_words
from actions.base.errors import JournalError, MissingError
from actions.base.executors import in_thread
from actions.cluster.auth.kubeconfig import whole_context
from actions.fleet.cost import CostModel, FleetCost
from actions.fleet.facts import UNCOUNTED, UNUSED, NodeFacts, NodeUsage, PodFacts
from actions.fleet.totals import FleetTotals, TotalsSum
from actions.fleet.verdict import PodTrouble, has_restarted, trouble_of, verdict_of
from actions.run.paid import SeenNodes
from tui.feeds.cluster import ClusterFeed, FleetCosts, leaves_out_claims
from tui.feeds.objects import ClusterKinds
from tui.feeds.supervisor import FeedHealth, FeedState, Supervisor
from tui.feeds.ticker import Ticker
from tui.settings.settings import ConsoleSettings

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.diagnose.overview import Problem
    from actions.cluster.state.snapshot import ClusterSnapshot

PROBLEMS_EVERY_SECONDS = 4.0
"""The shortest time between two searches for problems."""
RESTARTED_SECONDS = 300.0
"""A pod whose container was restarted within this time is a problem, though it runs: it may crash again and again."""
KEPT = ("nodes", "pods")
"""The resources of a kept snapshot."""


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


class ProblemFeed:
    """The totals of one cluster, and its problems. Used on the loop only.

    Args:
        clock: Time.
        changed: Called when others have been found.
        request_in: Asks for a paint in this many seconds.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None], request_in: Callable[[float], None]) -> None:
        self.trouble = FleetTrouble()
        self.found: tuple[Problem, ...] | None = None
        """The most urgent first; `None` before they have been looked for in this cluster."""
        self._clock = clock
        self._changed = changed
        self._request_in = request_in
        self._searching: asyncio.Task[None] | None = None
        self._searched_at = float("-inf")
        self._sought: object = None
        """The state of everything that the last search depended on."""
        self._cluster: object = None

    def follow(self, snapshot: ClusterSnapshot | None, failing: tuple[tuple[Path, str], ...] = ()) -> None:
        """Take over the newest snapshot, and look for problems if there may be others and the last look is not fresh.

        Args:
            snapshot: `None` before the first one.
            failing: Folders of the runs whose pods are in trouble, with the stage: their logs have the cause.
        """
        if snapshot is None or not snapshot.is_complete:
            self.found = None
            if snapshot is not None and snapshot.as_of:  # a kept one has totals; problems are those of a live one
                self.trouble.follow(snapshot)
                self._sought = None
            return
        if snapshot.history is not self._cluster:
            self._cluster, self.found, self._searched_at = snapshot.history, None, float("-inf")
        self.trouble.follow(snapshot)
        sought = self.trouble.revision, failing, len(self._restarted(snapshot))
        if sought == self._sought or (self._searching is not None and not self._searching.done()):
            return
        now = self._clock.monotonic()
        wait = self._searched_at + PROBLEMS_EVERY_SECONDS - now
        if wait > 0:
            self._request_in(wait)
            return
        self._searched_at, self._sought = now, sought
        self._searching = asyncio.create_task(self._search(snapshot, failing), name="problems")

    def close(self) -> None:
        """End a search that is under way."""
        if self._searching is not None:
            self._searching.cancel()

    def _restarted(self, snapshot: ClusterSnapshot) -> list[PodFacts]:
        now = self._clock.now().timestamp()
        found = self.trouble.restarted(snapshot, now)
        if found:
            self._request_in(min(pod.started_at for pod in found) + RESTARTED_SECONDS - now)
        return found

    async def _search(self, snapshot: ClusterSnapshot, failing: tuple[tuple[Path, str], ...]) -> None:
        pods = [*self.trouble.pods.values(), *self._restarted(snapshot)]
        nodes = list(self.trouble.nodes.values())
        now = self._clock.now().timestamp()
        found = await in_thread("problems", _problems_in, snapshot, pods, nodes, now, failing) if pods or nodes else ()
        if found != self.found:
            self.found = found
            self._changed()


class FollowedCluster:
    """One cluster that is followed, with everything that is computed of it. Used on the loop only.

    Args:
        feed: Its session and snapshots.
        model: Prices.
        problems: Its totals and problems.
        supervisor: Runs the feed.
        clock: Time.
    """

    def __init__(
        self, feed: ClusterFeed, model: CostModel, problems: ProblemFeed, supervisor: Supervisor, clock: Clock
    ) -> None:
        self.feed = feed
        self.kinds = ClusterKinds(feed)
        self.costs = FleetCosts(model)
        self.problems = problems
        self._supervisor = supervisor
        self._clock = clock

    @property
    def key(self) -> str:
        """The context that was chosen; empty for that of the kubeconfig."""
        return self.feed.target.context

    @property
    def work(self) -> str:
        """The name under which the supervisor runs the feed."""
        return f"cluster {self.feed.target.kubeconfig or ''} {self.key}"

    @property
    def identity_work(self) -> str:
        """The name under which it fetches the cluster's identity."""
        return f"identity of {self.work}"

    @property
    def connection(self) -> FeedHealth:
        """The health of the feed itself."""
        return self._supervisor.health(self.work)

    def follow(self, failing: tuple[tuple[Path, str], ...] = ()) -> None:
        """Bring totals and problems up to date."""
        self.problems.follow(self.feed.snapshot(), failing)

    def shown(self) -> ClusterSnapshot | None:
        """Return the snapshot whose nodes are shown and summed up: a complete one, or a kept one; else `None`."""
        snapshot = self.feed.snapshot()
        return snapshot if snapshot is not None and (snapshot.is_complete or snapshot.as_of) else None

    def cost(self) -> FleetCost | None:
        """Return the cost of all nodes; `None` before they are known."""
        snapshot = self.shown()
        return None if snapshot is None else self.costs.total(snapshot)

    def seen(self) -> SeenNodes | None:
        """Return the nodes with their costs; `None` before they are known."""
        snapshot = self.shown()
        if snapshot is None:
            return None
        claimed = {claim.uid: claim.node for claim in snapshot.claims.values() if claim.node}
        place, costs = self.feed.place, self.costs
        return SeenNodes(
            place.cluster, place.region, snapshot.nodes, costs.costs(snapshot), claimed, costs.total(snapshot)
        )

    def health(self, resource: str) -> FeedHealth:
        """Return the health of the source of one resource."""
        health = self.feed.health(resource) or self.connection
        is_kept = resource in KEPT and health.state is not FeedState.LIVE
        if resource == "nodes" and health.state is FeedState.LIVE and leaves_out_claims(self.feed.snapshot()):
            uncounted = UNCOUNTED[0].lower() + UNCOUNTED[1:]
            return replace(health, detail=f"{health.detail}; {uncounted}" if health.detail else uncounted)
        return replace(health, as_of=self.as_of_words()) if is_kept else health

    def as_of_words(self) -> str:
        """Return the time of the kept snapshot while it is shown, or a part of it: `as of 14:02 UTC`; else empty."""
        as_of = self.feed.as_of
        return as_of_words(as_of, now=self._clock.now().timestamp()) if as_of else ""

    def is_same_as(self, other: FollowedCluster) -> bool:
        """Return whether both are certainly one cluster, which two contexts lead to."""
        one, two = self.feed, other.feed
        if not (one.server and two.server):
            return False
        from actions.cluster.auth.session import leads_to_same_cluster

        return leads_to_same_cluster(one.server, one.identity, two.server, two.identity)


class FollowedClusters:
    """The clusters that are followed, one of them on screen. Used on the loop only.

    Args:
        settings: Name those that are followed from the start, and as long as the console is open.
        clock: Time.
        ticker: Asked to paint after every change.
        supervisor: Runs the feeds.
        connected: Called when one is connected.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        clock: Clock,
        ticker: Ticker,
        supervisor: Supervisor,
        connected: Callable[[FollowedCluster], None],
    ) -> None:
        self.completed: Callable[[FollowedCluster], Awaitable[None]]
        """Called, and waited for, when a snapshot is complete for the first time, or a kept one is there."""
        self._settings = settings
        self._clock = clock
        self._ticker = ticker
        self._supervisor = supervisor
        self._connected = connected
        self._model = CostModel.load(region=settings.region)
        self.all = [self._made(target, is_first=True) for target in settings.targets]
        """In the order of the settings; one that they do not name comes last."""
        self.on_screen = self.all[0]
        """The one whose pods, objects and queues are shown, and that commands act on."""

    def connect(self, cluster: FollowedCluster) -> None:
        """Connect to a cluster, anew if it is connected."""
        self._supervisor.drop(cluster.identity_work)
        self._supervisor.keep(cluster.work, lambda: cluster.feed.run(lambda: self._connected(cluster)))

    def show(self, target: ClusterTarget) -> FollowedCluster:
        """Put a cluster on screen, connected to anew if it is there; return it."""
        left, found = self.on_screen, next((one for one in self.all if _is_of(one, target)), None)
        if found is None:
            found = self._made(target, is_first=False)
            self.all.append(found)
            self.connect(found)
        elif found is left:
            self.connect(found)
        self.on_screen = found
        is_named = bool(self._settings.contexts) and any(_is_of(left, one) for one in self._settings.targets)
        if left is not found and not is_named:
            self.all.remove(left)
            self._supervisor.drop(left.identity_work)
            self._supervisor.drop(left.work)
            left.problems.close()
        return found

    def named(self, context: str) -> FollowedCluster:
        """Return the cluster of a context, which may be named by its cluster as the screen shows it.

        Raises:
            MissingError: It is not followed, or no longer.
        """
        keys = [one.key for one in self.all]
        found = next((one for one in self.all if one.key == whole_context(context, keys)), None)
        if found is None:
            raise MissingError(
                f"No cluster of the context {context} is followed.", hint=f":context {context} shows it."
            )
        return found

    def close(self) -> None:
        """End all searches that are under way."""
        for cluster in self.all:
            cluster.problems.close()

    def _made(self, target: ClusterTarget, *, is_first: bool) -> FollowedCluster:
        settings, paint, paint_in = self._settings, self._ticker.request_paint, self._ticker.request_paint_in
        feed = ClusterFeed(
            target,
            readonly=settings.readonly,
            clock=self._clock,
            changed=paint,
            completed=lambda: self.completed(made),
            region=settings.region,
            keeps_snapshots=settings.keeps_snapshots,
            is_first=is_first,
        )
        made = FollowedCluster(
            feed, self._model, ProblemFeed(self._clock, paint, paint_in), self._supervisor, self._clock
        )
        return made


def _is_of(cluster: FollowedCluster, target: ClusterTarget) -> bool:
    return (cluster.feed.target.kubeconfig, cluster.key) == (target.kubeconfig, target.context)


def each_once(clusters: Iterable[FollowedCluster]) -> list[FollowedCluster]:
    """Return the clusters, each by one context, whose nodes count: the first by which it is known."""
    found: list[FollowedCluster] = []
    for cluster in sorted(clusters, key=lambda one: one.shown() is None):
        if not any(cluster.is_same_as(known) for known in found):
            found.append(cluster)
    return found


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
            cause = cause_in(OutputReader(folder, stage), troubled) if troubled else None
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
