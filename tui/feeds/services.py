"""The services of one console session: all data feeds, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import MissingError, UnreachableError
from actions.base.executors import in_thread
from tui.feeds.alarms import AlarmFeed
from tui.feeds.blueprints import BlueprintFeed
from tui.feeds.cluster import ClusterFeed, CredentialsFeed
from tui.feeds.followed import FollowedCluster, FollowedClusters
from tui.feeds.home import HomeFeed, PaidFeed
from tui.feeds.objects import ObjectsFeed
from tui.feeds.output import CurveFeed
from tui.feeds.remote_runs import RemoteOnScreen, RemoteRunFeed
from tui.feeds.runs import RunFeed
from tui.feeds.supervisor import FeedHealth, FeedState, Supervisor
from tui.feeds.ticker import Ticker
from tui.settings.settings import ConsoleSettings

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.job_pods import JobRef
    from actions.run.journal.reader import RunSummary
    from actions.run.state.view import RunView
    from actions.run.store.remote import RemoteRun
    from tui.feeds.job import JobFeed
    from tui.feeds.objects import ObjectsScope


CREDENTIALS = "credentials"
RUNS = "runs"
CATALOGUE = "blueprints"
WATCH = "watch"
TAKEN = "runs taken over"
OBJECTS = "objects"
KINDS = "kinds"
REMOTE = "runs of other machines"
STORE_RUNS = "runs of the store"
REMOTE_PODS = "pods of a run of another machine"
REMOTE_STORE = "store of a run of another machine"
_HEAD_START_SECONDS = 10.0
"""Time for the cluster, and for a run of another machine that is on screen at the start, before the catalogue and the
AWS identity are read."""

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
        self.runs = RunFeed(clock, self._has_news, open_run=settings.open_run)
        self.followed = FollowedClusters(settings, clock, ticker, self.supervisor, self._connected)
        self.followed.completed = partial(_count_fleet, self)
        self.clusters = self.followed.all
        self.credentials = CredentialsFeed(region=settings.region, clock=clock, changed=self._has_news)
        self.blueprints = BlueprintFeed(settings.blueprint_folders, ticker.request_paint)
        self.remote = self.runs.others = RemoteRunFeed(
            lambda: self.cluster, clock=clock, changed=self._others_changed, request_in=ticker.request_paint_in
        )
        self.alarms = AlarmFeed(settings.alarms, self.runs, clock, is_quiet=settings.is_silent)
        self.curves = CurveFeed(ticker.request_paint)
        self.paid = PaidFeed(self.runs, self.clusters, is_simulated=settings.demo is not None)
        self.home = HomeFeed(clock, ticker.request_paint)
        self.objects = ObjectsFeed(lambda: self.cluster, clock=clock, changed=ticker.request_paint)
        self.runs.pods = partial(_pod_troubles, self)
        self._followed: RemoteOnScreen | None = None
        self.namespace = ""
        """The namespace that pods, events and objects are narrowed to; empty for all."""
        self.watched: JobFeed | None = None
        """The job shown by the log, accelerator and chart panes; `None` while they show the run."""
        self.picked_charts: dict[str, tuple[str, ...]] = {}
        """The names of the charts that the operator has picked, by what they are of: `RUN/STAGE`, a job."""
        self.drains: dict[str, int] = {}
        """The nodes that are being drained by this console, with the number of pods that are left."""
        self._catalogue_read = asyncio.Event()

    @property
    def cluster(self) -> ClusterFeed:
        """The session and snapshots of the cluster on screen."""
        return self.followed.on_screen.feed

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
        """Start to follow the clusters and the runs."""
        for cluster in self.clusters:
            self.followed.connect(cluster)
        self.supervisor.keep(CATALOGUE, self._read_catalogue)
        self.supervisor.keep(RUNS, lambda: self.runs.run(self._runs_listed))
        if self.settings.has_operator:  # a script has its own expectations, and no one to alarm
            if not self.settings.readonly:
                live = partial(self.supervisor.mark_live, TAKEN)
                own = partial(self.remote.follow_own, lambda: self.runs.summaries, self.runs.refresh_list, live)
                self.supervisor.keep(TAKEN, own)
            if store := self.settings.store:
                live = partial(self.supervisor.mark_live, STORE_RUNS)
                self.supervisor.keep(STORE_RUNS, partial(self.remote.follow_store, store, _ids_in(self.runs), live))

    def put_on_screen(self, cluster: FollowedCluster) -> None:
        """Show a cluster that is followed, before one of its panes is opened."""
        if cluster is not self.followed.on_screen:
            self.show(cluster.feed.target)

    def show(self, target: ClusterTarget) -> None:
        """Put a cluster on screen, which is followed from now on; the one that is there is connected to anew.

        The one that was on screen is followed on if the settings name it.
        """
        self.supervisor.drop(OBJECTS)
        self.supervisor.drop(REMOTE)
        self.remote.forget()
        self.unwatch()
        self.narrow("")
        if self.followed.show(target).connection.state is FeedState.LIVE:
            self._follow_on_screen()

    def _follow_on_screen(self) -> None:
        """Follow what is shown of the cluster on screen alone."""
        # before the nodes: on an empty machine it names the run that the operator waits for, in one small answer
        self.supervisor.keep(REMOTE, lambda: self.remote.run(lambda: self.supervisor.mark_live(REMOTE)))
        if self.objects.scope is not None:
            self.show_objects(self.objects.scope)

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

    def show_objects(self, scope: ObjectsScope) -> None:
        """Show objects of a kind in the objects pane."""
        self.objects.show(scope)
        self.follow_objects()

    def follow_objects(self) -> None:
        """Start to follow the objects of the objects pane, from their list on."""
        self.supervisor.keep(OBJECTS, lambda: self.objects.run(lambda: self.supervisor.mark_live(OBJECTS)))

    def narrow(self, namespace: str) -> None:
        """Narrow pods, events and objects to a namespace; empty for all."""
        self.namespace = namespace
        scope = self.objects.scope
        if scope is not None and scope.kind.is_namespaced:
            self.show_objects(replace(scope, namespace=namespace))
        self.ticker.request_paint()

    def read_kinds(self) -> None:
        """Read the kinds of the cluster for completion, unless they are known."""
        kinds = self.followed.on_screen.kinds

        async def read() -> None:
            await kinds.read()

        if kinds.known is None:
            self.supervisor.keep(KINDS, read)

    def unwatch(self) -> None:
        """Show the run in the panes again."""
        self.watched = None
        self.supervisor.drop(WATCH)
        self.ticker.request_paint()

    def health(self, resource: str) -> FeedHealth:
        """Return the health of the source of one resource of the cluster on screen."""
        return self.followed.on_screen.health(resource)

    def label_of(self, health: FeedHealth) -> str:
        """Return the health of a source in words; if they contain an age, schedule a paint for when it changes."""
        now = self.clock.monotonic()
        changes_in = health.changes_in(now)
        if changes_in is not None:
            self.ticker.request_paint_in(changes_in)
        return health.label(now)

    async def aclose(self) -> None:
        """End all feeds, and wait for those that end soon: a server that does not answer must not block the end."""
        self.ticker.stop()
        self.alarms.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self.supervisor.aclose()
        self.runs.close()
        self.blueprints.close()
        self.curves.close()
        self.home.close()
        self.followed.close()

    def _has_news(self) -> None:
        """Paint, and find new alarms, after a change of runs or credentials."""
        self.ticker.request_paint()
        self.alarms.look()

    def _runs_listed(self) -> None:
        self.supervisor.mark_live(RUNS)
        self.alarms.look()
        self._others_changed()  # they may have come first

    async def _read_catalogue(self) -> None:
        await self._give_way(self.cluster)
        try:
            await self.blueprints.run()
        finally:
            self._catalogue_read.set()

    async def _give_way(self, cluster: ClusterFeed) -> None:
        """Wait until what the operator has come for is on screen, so that less urgent work leaves it the processor."""
        try:
            async with asyncio.timeout(_HEAD_START_SECONDS):
                await cluster.settle(at_most_seconds=_HEAD_START_SECONDS)
                if self.supervisor.health(REMOTE).state in (FeedState.STARTING, FeedState.LIVE):
                    await self.remote.listed.wait()
                if self._followed is not None:
                    await self._followed.begun.wait()
        except TimeoutError:
            pass

    def _connected(self, cluster: FollowedCluster) -> None:
        self.supervisor.mark_live(cluster.work)
        self.supervisor.keep(cluster.identity_work, lambda: self._load_identity(cluster))
        if cluster is self.followed.on_screen:
            self._follow_on_screen()

    def _others_changed(self) -> None:
        """Show what has changed; with no run here, the run of another machine that was named, or is the user's own.

        A run on screen that was taken over is shown as its store has it.
        """
        runs = self.runs
        runs.take_others()
        if runs.view is not None:
            if runs.remote is None and any(run.id == runs.view.id for run in runs.listed_elsewhere()):
                self.open_run(runs.view.id)
            return
        if not runs.is_listed:
            return
        wanted = self.settings.open_run
        if wanted is None and self.settings.has_operator and not runs.summaries:
            wanted = self.remote.own_at_work()
        if wanted and self.remote.find(wanted) is not None:
            self.open_run(wanted)

    def open_run(self, run_id: str) -> None:
        """Show a run; one of another machine with the logs and curves that its pods or its store have.

        Raises:
            ConsoleError: There is none, or it cannot be read.
        """
        if self.runs.open(run_id):
            followed = self._followed = RemoteOnScreen(
                self.runs, self.cluster, self, self.clock, store=self.settings.store
            )
            self.supervisor.keep(REMOTE_PODS, followed.follow_pods)
            self.supervisor.keep(REMOTE_STORE, followed.follow_store)

    async def _load_identity(self, cluster: FollowedCluster) -> None:
        """Fetch a cluster's identity; on EKS, or with a profile, start to fetch the AWS identity."""
        await self._give_way(cluster.feed)
        await cluster.feed.identify()
        identity = cluster.feed.identity
        await self._catalogue_read.wait()  # importing the AWS library beside it, both held the loop up
        is_wanted = self.settings.profile or (identity and identity.account)
        if is_wanted and self.supervisor.health(CREDENTIALS).state is FeedState.ENDED:
            self.supervisor.keep(
                CREDENTIALS, lambda: self.credentials.run(lambda: self.supervisor.mark_live(CREDENTIALS))
            )


def _pod_troubles(services: ConsoleServices, run_id: str) -> Mapping[str, str]:
    """Return the verdict on the pods of a run, by stage, from what a cluster shows everyone; empty if unknown."""
    found: dict[str, str] = {}
    for cluster in services.clusters:
        snapshot, trouble = cluster.feed.snapshot(), cluster.problems.trouble
        if snapshot is not None and snapshot.is_complete:
            trouble.follow(snapshot)
            found |= trouble.of_run(run_id, snapshot, services.clock.now().timestamp())
    return found


def troubles_elsewhere(services: ConsoleServices) -> dict[str, str]:
    """Return the verdict on the pods of each run of another machine that has some in trouble, by its id."""
    found = {run.id: services.runs.pods(run.id) for run in services.runs.listed_elsewhere() if not run.is_over}
    return {run: next(iter(stages.values())) for run, stages in found.items() if stages}


async def _count_fleet(services: ConsoleServices, cluster: FollowedCluster) -> None:
    """Count a whole cluster, then paint: in steps, as a pass over all its pods takes the loop ten milliseconds."""
    if cluster.feed.snapshot() is not None:
        await asyncio.sleep(0)  # a snapshot of 50,000 pods has taken its time, too
        cluster.cost()
        await asyncio.sleep(0)
        if services.settings.has_operator:
            cluster.follow(services.home.failing)
            await asyncio.sleep(0)
    services.ticker.paint_now()


def _ids_in(runs: RunFeed) -> Callable[[], Collection[str]]:
    return lambda: {run.id for run in runs.summaries}


async def explain_stage(services: ConsoleServices, stage: str) -> list[Finding]:
    """Diagnose a stage, causes first; without a cluster, from what the run has kept on disk.

    Raises:
        MissingError: No run is on screen, or it has no such stage.
    """
    from actions.run import diagnosis  # heavy: imports all rules

    view, folder = services.runs.view, services.runs.folder
    if services.runs.remote is not None and folder is None:
        return await _explain_remote(services, services.runs.remote, stage)
    if view is None or folder is None:
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
    return await diagnosis.explain_stage(_session_of(services), view, folder, stage, clock=services.clock)


def default_namespace(services: ConsoleServices, cluster: FollowedCluster) -> str:
    """Return the namespace of a name without one: the chosen one of the cluster on screen, else that of the context."""
    chosen = services.namespace if cluster is services.followed.on_screen else ""
    return chosen or cluster.feed.namespace


async def explain_run(services: ConsoleServices, run: RunSummary) -> tuple[RunView, list[Finding]]:
    """Diagnose the stage of a run of this machine that is under way or has failed; return the run, too."""
    from actions.run import diagnosis
    from actions.run.journal.reader import load_run

    view = await in_thread("why", load_run, run.folder)
    found = await diagnosis.explain_stage(_session_of(services), view, run.folder, run.stage, clock=services.clock)
    return view, found


async def _explain_remote(services: ConsoleServices, run: RemoteRun, stage: str) -> list[Finding]:
    """Diagnose the job of a stage of another machine's run, which is all that can be read of it here."""
    from actions.cluster.diagnose import collect
    from actions.cluster.diagnose.select import ObjectSelector
    from actions.run.store.remote import job_on_screen

    view = services.runs.view
    job = job_on_screen(view, stage) if view is not None else None
    if job is None:
        raise MissingError(
            f"The stage {stage} of run {run.id} has no job in the cluster.",
            hint=f"Ask {run.owner}, who has its journal.",
        )
    selector = ObjectSelector(job.kind, job.name, job.namespace)
    return await collect.explain(services.cluster.session, selector, clock=services.clock)


def _session_of(services: ConsoleServices) -> KubeSession | None:
    try:
        return services.cluster.session
    except UnreachableError:
        return None
