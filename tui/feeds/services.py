"""The services of one console session: all data feeds, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import Clock, as_of_words
from actions.base.errors import MissingError, UnreachableError
from actions.base.executors import in_thread
from actions.fleet.cost import CostModel, FleetCost
from actions.fleet.facts import UNCOUNTED
from tui.feeds.alarms import AlarmFeed
from tui.feeds.blueprints import BlueprintFeed
from tui.feeds.cluster import ClusterFeed, CredentialsFeed, FleetCosts, leaves_out_claims
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


CLUSTER = "cluster"
IDENTITY = "identity"
CREDENTIALS = "credentials"
RUNS = "runs"
CATALOGUE = "blueprints"
WATCH = "watch"
TAKEN = "runs taken over"
KEPT = ("nodes", "pods")
"""The resources of a kept snapshot."""
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
        self.cluster = ClusterFeed(
            settings.target,
            readonly=settings.readonly,
            clock=clock,
            changed=ticker.request_paint,
            completed=lambda: _count_fleet(self),
            region=settings.region,
            keeps_snapshots=settings.keeps_snapshots,
        )
        self.credentials = CredentialsFeed(region=settings.region, clock=clock, changed=self._has_news)
        self.fleet = FleetCosts(CostModel.load(region=settings.region))
        self.blueprints = BlueprintFeed(settings.blueprint_folders, ticker.request_paint)
        self.remote = self.runs.others = RemoteRunFeed(
            self.cluster, clock=clock, changed=self._others_changed, request_in=ticker.request_paint_in
        )
        self.alarms = AlarmFeed(settings.alarms, self.runs, clock, is_quiet=settings.is_silent)
        self.curves = CurveFeed(ticker.request_paint)
        self.paid = PaidFeed(
            self.runs,
            self.cluster,
            self.fleet,
            self.fleet_cost,
            clock,
            is_simulated=settings.demo is not None,
        )
        self.home = HomeFeed(clock, ticker.request_paint, ticker.request_paint_in)
        self.objects = ObjectsFeed(self.cluster, clock=clock, changed=ticker.request_paint)
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
        self.supervisor.keep(RUNS, lambda: self.runs.run(self._runs_listed))
        if self.settings.has_operator:  # a script has its own expectations, and no one to alarm
            if not self.settings.readonly:
                live = partial(self.supervisor.mark_live, TAKEN)
                own = partial(self.remote.follow_own, lambda: self.runs.summaries, self.runs.refresh_list, live)
                self.supervisor.keep(TAKEN, own)
            if store := self.settings.store:
                live = partial(self.supervisor.mark_live, STORE_RUNS)
                self.supervisor.keep(STORE_RUNS, partial(self.remote.follow_store, store, _ids_in(self.runs), live))

    def connect(self) -> None:
        """Connect to the feed's target, leaving the cluster that was on screen."""
        self.supervisor.drop(IDENTITY)
        self.supervisor.drop(CREDENTIALS)
        self.supervisor.drop(OBJECTS)
        self.supervisor.drop(REMOTE)
        self.remote.forget()
        self.objects.forget_kinds()
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
        if self.objects.known_kinds is None:
            self.supervisor.keep(KINDS, self._read_kinds)

    async def _read_kinds(self) -> None:
        await self.objects.kinds()

    def unwatch(self) -> None:
        """Show the run in the panes again."""
        self.watched = None
        self.supervisor.drop(WATCH)
        self.ticker.request_paint()

    def health(self, resource: str) -> FeedHealth:
        """Return the health of the source of one of the cluster's resources."""
        health = self.cluster.health(resource) or self.supervisor.health(CLUSTER)
        is_kept = resource in KEPT and health.state is not FeedState.LIVE
        if resource == "nodes" and health.state is FeedState.LIVE and leaves_out_claims(self.cluster.snapshot()):
            uncounted = UNCOUNTED[0].lower() + UNCOUNTED[1:]
            return replace(health, detail=f"{health.detail}; {uncounted}" if health.detail else uncounted)
        return replace(health, as_of=self.as_of_words()) if is_kept else health

    def as_of_words(self) -> str:
        """Return the time of the kept snapshot while it is shown, or a part of it: `as of 14:02 UTC`; else empty."""
        as_of = self.cluster.as_of
        return as_of_words(as_of, now=self.clock.now().timestamp()) if as_of else ""

    def label_of(self, health: FeedHealth) -> str:
        """Return the health of a source in words; if they contain an age, schedule a paint for when it changes."""
        now = self.clock.monotonic()
        changes_in = health.changes_in(now)
        if changes_in is not None:
            self.ticker.request_paint_in(changes_in)
        return health.label(now)

    def fleet_cost(self) -> FleetCost | None:
        """Return the cost of all nodes; `None` before the first complete snapshot, which may be a kept one."""
        snapshot = self.cluster.snapshot()
        is_known = snapshot is not None and (snapshot.is_complete or snapshot.as_of)
        return self.fleet.total(snapshot) if snapshot is not None and is_known else None

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

    def _has_news(self) -> None:
        """Paint, and find new alarms, after a change of runs or credentials."""
        self.ticker.request_paint()
        self.alarms.look()

    def _runs_listed(self) -> None:
        self.supervisor.mark_live(RUNS)
        self.alarms.look()
        self._others_changed()  # they may have come first

    async def _read_catalogue(self) -> None:
        await self._give_way()
        try:
            await self.blueprints.run()
        finally:
            self._catalogue_read.set()

    async def _give_way(self) -> None:
        """Wait until what the operator has come for is on screen, so that less urgent work leaves it the processor."""
        try:
            async with asyncio.timeout(_HEAD_START_SECONDS):
                await self.cluster.settle(at_most_seconds=_HEAD_START_SECONDS)
                if self.supervisor.health(REMOTE).state in (FeedState.STARTING, FeedState.LIVE):
                    await self.remote.listed.wait()
                if self._followed is not None:
                    await self._followed.begun.wait()
        except TimeoutError:
            pass

    def _connected(self) -> None:
        self.supervisor.mark_live(CLUSTER)
        self.supervisor.keep(IDENTITY, self._load_identity)
        # before the nodes: on an empty machine it names the run that the operator waits for, in one small answer
        self.supervisor.keep(REMOTE, lambda: self.remote.run(lambda: self.supervisor.mark_live(REMOTE)))
        if self.objects.scope is not None:
            self.show_objects(self.objects.scope)

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

    async def _load_identity(self) -> None:
        """Fetch the cluster's identity; on EKS, or with a profile, start to fetch the AWS identity."""
        await self._give_way()
        await self.cluster.identify()
        identity = self.cluster.identity
        await self._catalogue_read.wait()  # importing the AWS library beside it, both held the loop up
        if self.settings.profile or (identity and identity.account):
            self.supervisor.keep(
                CREDENTIALS, lambda: self.credentials.run(lambda: self.supervisor.mark_live(CREDENTIALS))
            )


def _pod_troubles(services: ConsoleServices, run_id: str) -> Mapping[str, str]:
    """Return the verdict on the pods of a run, by stage, from what the cluster shows everyone; empty if unknown."""
    snapshot = services.cluster.snapshot()
    if snapshot is None or not snapshot.is_complete:
        return {}
    services.home.trouble.follow(snapshot)
    return services.home.trouble.of_run(run_id, snapshot, services.clock.now().timestamp())


def troubles_elsewhere(services: ConsoleServices) -> dict[str, str]:
    """Return the verdict on the pods of each run of another machine that has some in trouble, by its id."""
    found = {run.id: services.runs.pods(run.id) for run in services.runs.listed_elsewhere() if not run.is_over}
    return {run: next(iter(stages.values())) for run, stages in found.items() if stages}


async def _count_fleet(services: ConsoleServices) -> None:
    """Count the whole fleet, then paint: in steps, as a pass over all its pods takes the loop ten milliseconds."""
    snapshot = services.cluster.snapshot()
    if snapshot is not None:
        await asyncio.sleep(0)  # a snapshot of 50,000 pods has taken its time, too
        services.fleet.total(snapshot)
        await asyncio.sleep(0)
        if services.settings.has_operator:
            services.home.follow(snapshot)
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


def default_namespace(services: ConsoleServices) -> str:
    """Return the namespace of a name without one: the chosen one, else that of the context."""
    return services.namespace or services.cluster.namespace


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
