"""The feeds of the home pane: contexts, costs of blueprints; what is paid by the hour.

Each is computed when a visible pane asks for it and its source has changed, in a thread if it takes more than a moment;
nothing ticks while nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import NamedExecutor
from actions.run.paid import Paid, PaidThing, RunPaid, paid_by, paid_of
from actions.run.state.view import NoticeKind
from tui.feeds.followed import FollowedCluster, each_once
from tui.feeds.runs import RunFeed

if TYPE_CHECKING:
    from actions.blueprint.launch_plan import CostSummary
    from actions.blueprint.model import Blueprint
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.fleet.instance_types import InstanceTable
    from actions.fleet.prices import PriceBook
    from actions.run.journal.reader import RunSummary
    from actions.run.state.view import RunView


class PaidFeed:
    """The list of what is paid for by the hour; computed again only when one of its sources has changed.

    Args:
        runs: The runs of this machine and of others.
        clusters: The clusters that are followed; the list changes.
        is_simulated: The session shows simulated money.
    """

    def __init__(self, runs: RunFeed, clusters: Sequence[FollowedCluster], *, is_simulated: bool) -> None:
        self._runs = runs
        self._clusters = clusters
        self._is_simulated = is_simulated
        self._sources: object = None
        self._of: RunView | None = None
        self._now = Paid()
        self._view: tuple[RunView, RunPaid] | None = None

    def now(self) -> Paid:
        """Return the list as it is."""
        others, clusters = self._runs.others, each_once(self._clusters)
        sources = (
            *((cluster.shown(), cluster.feed.place) for cluster in clusters),
            self._runs.revision,
            others.revision if others is not None else 0,
        )
        if sources != self._sources or self._runs.view is not self._of:
            self._sources, self._of = sources, self._runs.view
            self._now = self._computed(clusters)
        return self._now

    def _computed(self, clusters: Sequence[FollowedCluster]) -> Paid:
        elsewhere = self._runs.listed_elsewhere()
        gone = {run.id for run in elsewhere}
        seen = [found for cluster in clusters if (found := cluster.seen()) is not None]
        return paid_of(
            [paid for paid in self._of_runs() if paid.run not in gone],
            seen,
            self._elsewhere([(place.cluster, place.region) for place in (one.feed.place for one in clusters)]),
            is_simulated=self._is_simulated,
            is_whole=not self._runs.unread and (not seen or len(seen) == len(clusters)),
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

    def _elsewhere(self, places: Sequence[tuple[str, str]]) -> list[PaidThing]:
        found = self._runs.listed_elsewhere()
        if not found:
            return []
        from actions.run.store.remote import paid_elsewhere

        shown = [run for run in found if run.about.is_cost_simulated == self._is_simulated]
        return [thing for run in shown if (thing := paid_elsewhere(run, places)) is not None]


class HomeFeed:
    """Everything that the home pane shows beside snapshots, runs and catalogue. Used on the loop only.

    Args:
        clock: Time.
        changed: Called when something has been computed.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self.contexts: tuple[tuple[str, str], ...] | None = None
        """Names of the kubeconfig's contexts with their clusters; `None` before it is read."""
        self.contexts_error = ""
        self.costs: Mapping[str, CostSummary] = {}
        """By blueprint."""
        self.revision = 0
        """Number of changes of everything above."""
        self._clock = clock
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._disk = NamedExecutor("home")
        self._read_for: ClusterTarget | None = None
        self.failing: tuple[tuple[Path, str], ...] = ()
        """Folders of the runs whose pods are in trouble, with the stage: their logs have the cause."""
        self._planned: object = None

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
        """Take over which runs have pods in trouble."""
        troubled = (run for run in summaries if any(notice.kind is NoticeKind.PODS for notice in run.notices))
        self.failing = tuple((run.folder, run.stage) for run in troubled)

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

    async def _read_contexts(self, target: ClusterTarget) -> None:
        self.contexts, self.contexts_error = await self._disk.call(_contexts_in, target)
        self._tell()

    async def _plan(self, wanted: list[tuple[Blueprint, str]]) -> None:
        prices, instances = await self._disk.call(_tables)
        for blueprint, preset in wanted:
            cost = await self._disk.call(_cost_of, blueprint, preset, prices, instances, day=self._clock.now().date())
            self.costs = {**self.costs, blueprint.id: cost}
            self._tell()


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
