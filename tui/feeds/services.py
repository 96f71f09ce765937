"""The services of one console session: all data feeds, started and stopped together."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import MissingError, UnreachableError
from actions.base.executors import in_thread
from actions.fleet.cost import CostModel, FleetCost
from tui.feeds.cluster import ClusterFeed, CredentialsFeed, FleetCosts
from tui.feeds.runs import BlueprintFeed, RunFeed
from tui.feeds.supervisor import FeedHealth, Supervisor
from tui.feeds.ticker import Ticker
from tui.settings.settings import ConsoleSettings

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.job_pods import JobRef
    from tui.feeds.job import JobFeed


CLUSTER = "cluster"
IDENTITY = "identity"
CREDENTIALS = "credentials"
RUNS = "runs"
CATALOGUE = "blueprints"
WATCH = "watch"
_HEAD_START_SECONDS = 10.0
"""For the cluster, before the catalogue is read and AWS is asked: who opens the console wants to see nodes first."""

_CLOSING_SECONDS = 0.7
"""For connections to close."""


class ConsoleServices:
    """Feeds with their supervisor: made by the app, read by panes, closed by the app. Used on the loop only.

    Args:
        settings: What the console was started with.
        clock: Time.
        ticker: Told about every change.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock, ticker: Ticker) -> None:
        self.settings = settings
        self.clock = clock
        self.ticker = ticker
        self.supervisor = Supervisor(clock, ticker.request_paint)
        self.cluster = ClusterFeed(
            settings.target,
            readonly=settings.readonly,
            clock=clock,
            changed=ticker.request_paint,
            completed=ticker.paint_now,
            profile=settings.profile,
            region=settings.region,
        )
        self.credentials = CredentialsFeed(
            profile=settings.profile, region=settings.region, clock=clock, changed=ticker.request_paint
        )
        self.fleet = FleetCosts(CostModel.load(region=settings.region))
        self.blueprints = BlueprintFeed(settings.blueprint_folders, ticker.request_paint)
        self.runs = RunFeed(clock, ticker.request_paint, open_run=settings.open_run)
        self.watched: JobFeed | None = None
        """The job that log, accelerators and curves are of; `None` while they go along with the run."""

    async def require_target(self) -> None:
        """Refuse a kubeconfig, context or exec plugin that cannot be used. Having none is fine: a run may make one.

        Raises:
            ConfigError: Which, and why.
        """
        await self.require_usable(self.settings.target)

    async def require_usable(self, target: ClusterTarget) -> None:
        """Refuse another cluster than the one that the console began with, as `require_target` does.

        Raises:
            ConfigError: What of it cannot be used, and why.
        """

        def look() -> None:
            from actions.cloud.eks import request_of
            from actions.cluster.auth.exec_plugins import require_usable

            require_usable(target, replaces=request_of)

        await in_thread("kubeconfig", look)

    def start(self) -> None:
        """Begin to follow the cluster and the runs."""
        self.connect()
        self.supervisor.keep(CATALOGUE, self._read_catalogue)
        self.supervisor.keep(RUNS, lambda: self.runs.run(lambda: self.supervisor.mark_live(RUNS)))

    def connect(self) -> None:
        """Connect to the feed's target, leaving the cluster that was on screen."""
        self.supervisor.drop(IDENTITY)
        self.supervisor.drop(CREDENTIALS)
        self.supervisor.keep(CLUSTER, lambda: self.cluster.run(self._connected))

    async def watch(self, job: JobRef) -> None:
        """Have the panes show a job of the cluster instead of the run.

        Raises:
            ConsoleError: There is no such job, or it cannot be looked at.
        """
        from tui.feeds.job import JobFeed

        feed = JobFeed(job, self.cluster, clock=self.clock, changed=self.ticker.request_paint)
        await feed.require()
        self.watched = feed
        self.supervisor.keep(WATCH, lambda: feed.run(lambda: self.supervisor.mark_live(WATCH)))
        self.ticker.request_paint()

    def unwatch(self) -> None:
        """Let the panes go along with the run again."""
        self.watched = None
        self.supervisor.drop(WATCH)
        self.ticker.request_paint()

    def health(self, resource: str) -> FeedHealth:
        """How the source of one of the cluster's resources is doing."""
        return self.cluster.health(resource) or self.supervisor.health(CLUSTER)

    def label_of(self, health: FeedHealth) -> str:
        """How a source is doing, in words for the screen; where they hold an age, they are painted anew as it grows."""
        now = self.clock.monotonic()
        changes_in = health.changes_in(now)
        if changes_in is not None:
            self.ticker.request_paint_in(changes_in)
        return health.label(now)

    def fleet_cost(self) -> FleetCost | None:
        """What all nodes cost; `None` before the first complete picture."""
        snapshot = self.cluster.snapshot()
        return None if snapshot is None or not snapshot.is_complete else self.fleet.total(snapshot)

    async def aclose(self) -> None:
        """End everything, and wait for what ends soon: a server that does not answer must not hold up the end."""
        self.ticker.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self.supervisor.aclose()
        self.runs.close()
        self.blueprints.close()

    async def _read_catalogue(self) -> None:
        await self.cluster.settle(at_most_seconds=_HEAD_START_SECONDS)
        await self.blueprints.run()

    def _connected(self) -> None:
        self.supervisor.mark_live(CLUSTER)
        self.supervisor.keep(IDENTITY, self._load_identity)

    async def _load_identity(self) -> None:
        """Learn who the cluster is; on EKS, or with a profile, also who we are."""
        await self.cluster.settle(at_most_seconds=_HEAD_START_SECONDS)
        await self.cluster.identify()
        identity = self.cluster.identity
        if self.settings.profile or (identity and identity.account):
            self.supervisor.keep(
                CREDENTIALS, lambda: self.credentials.run(lambda: self.supervisor.mark_live(CREDENTIALS))
            )


async def explain_stage(services: ConsoleServices, stage: str) -> list[Finding]:
    """What is the matter with a stage, causes first; without a cluster, from what the run has kept on disk.

    Raises:
        MissingError: No run is on screen, or it has no such stage.
    """
    from actions.run import diagnosis  # heavy: it knows every rule

    view, folder = services.runs.view, services.runs.folder
    if view is None or folder is None:
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
    return await diagnosis.explain_stage(_session_of(services), view, folder, stage, clock=services.clock)


def _session_of(services: ConsoleServices) -> KubeSession | None:
    try:
        return services.cluster.session
    except UnreachableError:
        return None
