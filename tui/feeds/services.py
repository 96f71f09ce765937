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
"""Time for the cluster, before the catalogue and the AWS identity are read: the nodes come first."""

_CLOSING_SECONDS = 0.7
"""Time for connections to close."""


class ConsoleServices:
    """Feeds with their supervisor: made by the app, read by panes, closed by the app. Used on the loop only.

    Args:
        settings: What the console was started with.
        clock: Time.
        ticker: Asked to paint after every change.
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
            region=settings.region,
        )
        self.credentials = CredentialsFeed(region=settings.region, clock=clock, changed=ticker.request_paint)
        self.fleet = FleetCosts(CostModel.load(region=settings.region))
        self.blueprints = BlueprintFeed(settings.blueprint_folders, ticker.request_paint)
        self.runs = RunFeed(clock, ticker.request_paint, open_run=settings.open_run)
        self.watched: JobFeed | None = None
        """The job shown by the log, accelerator and chart panes; `None` while they show the run."""

    async def require_target(self) -> None:
        """Refuse a kubeconfig, context or exec plugin that cannot be used. Having none is fine: a run may make one.

        Raises:
            ConfigError: One cannot be used; the message names it and the reason.
        """
        await self.require_usable(self.settings.target)

    async def require_usable(self, target: ClusterTarget) -> None:
        """Refuse a cluster to switch to, as `require_target` does for the first one.

        Raises:
            ConfigError: It cannot be used; the message names the reason.
        """

        def look() -> None:
            from actions.cloud.eks import request_of
            from actions.cluster.auth.exec_plugins import require_usable

            require_usable(target, replaces=request_of)

        await in_thread("kubeconfig", look)

    def start(self) -> None:
        """Start to follow the cluster and the runs."""
        self.connect()
        self.supervisor.keep(CATALOGUE, self._read_catalogue)
        self.supervisor.keep(RUNS, lambda: self.runs.run(lambda: self.supervisor.mark_live(RUNS)))

    def connect(self) -> None:
        """Connect to the feed's target, leaving the cluster that was on screen."""
        self.supervisor.drop(IDENTITY)
        self.supervisor.drop(CREDENTIALS)
        self.supervisor.keep(CLUSTER, lambda: self.cluster.run(self._connected))

    async def watch(self, job: JobRef) -> None:
        """Show a job of the cluster in the panes instead of the run.

        Raises:
            ConsoleError: There is no such job, or it cannot be read.
        """
        from tui.feeds.job import JobFeed

        feed = JobFeed(job, self.cluster, clock=self.clock, changed=self.ticker.request_paint)
        await feed.require()
        self.watched = feed
        self.supervisor.keep(WATCH, lambda: feed.run(lambda: self.supervisor.mark_live(WATCH)))
        self.ticker.request_paint()

    def unwatch(self) -> None:
        """Show the run in the panes again."""
        self.watched = None
        self.supervisor.drop(WATCH)
        self.ticker.request_paint()

    def health(self, resource: str) -> FeedHealth:
        """Return the health of the source of one of the cluster's resources."""
        return self.cluster.health(resource) or self.supervisor.health(CLUSTER)

    def label_of(self, health: FeedHealth) -> str:
        """Return the health of a source in words; if they contain an age, schedule a paint for when it changes."""
        now = self.clock.monotonic()
        changes_in = health.changes_in(now)
        if changes_in is not None:
            self.ticker.request_paint_in(changes_in)
        return health.label(now)

    def fleet_cost(self) -> FleetCost | None:
        """Return the cost of all nodes; `None` before the first complete snapshot."""
        snapshot = self.cluster.snapshot()
        return None if snapshot is None or not snapshot.is_complete else self.fleet.total(snapshot)

    async def aclose(self) -> None:
        """End all feeds, and wait for those that end soon: a server that does not answer must not block the end."""
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
        """Fetch the cluster's identity; on EKS, or with a profile, start to fetch the AWS identity."""
        await self.cluster.settle(at_most_seconds=_HEAD_START_SECONDS)
        await self.cluster.identify()
        identity = self.cluster.identity
        if self.settings.profile or (identity and identity.account):
            self.supervisor.keep(
                CREDENTIALS, lambda: self.credentials.run(lambda: self.supervisor.mark_live(CREDENTIALS))
            )


async def explain_stage(services: ConsoleServices, stage: str) -> list[Finding]:
    """Diagnose a stage, causes first; without a cluster, from what the run has kept on disk.

    Raises:
        MissingError: No run is on screen, or it has no such stage.
    """
    from actions.run import diagnosis  # heavy: imports all rules

    view, folder = services.runs.view, services.runs.folder
    if view is None or folder is None:
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
    return await diagnosis.explain_stage(_session_of(services), view, folder, stage, clock=services.clock)


def _session_of(services: ConsoleServices) -> KubeSession | None:
    try:
        return services.cluster.session
    except UnreachableError:
        return None
