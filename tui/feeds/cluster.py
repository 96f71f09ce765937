"""The feeds of a cluster: its session and snapshots, its cost; and the AWS identity."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, UnreachableError
from actions.base.executors import NamedExecutor
from actions.cluster.auth.kubeconfig import ContextParts, parse_context_name
from actions.fleet.cost import CostModel, CostSum, FleetCost, NodeCost
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage
from tui.feeds.kept_snapshot import KeptSnapshotFeed
from tui.feeds.supervisor import MAY_NOT, FeedHealth, FeedState
from tui.feeds.ticker import PAINT_INTERVAL_SECONDS
from tui.gc_tuning import collect_frozen, freeze_startup_objects

if TYPE_CHECKING:
    from actions.cloud.account import CallerIdentity
    from actions.cluster.auth.session import ClusterIdentity, ClusterTarget, KubeSession, TokenSource
    from actions.cluster.state.cluster_state import ClusterState
    from actions.cluster.state.snapshot import ClusterSnapshot
    from actions.cluster.watch.health import SourceHealth


CONNECT_SECONDS = 15.0
_LOADING_SECONDS = 0.02
"""Pause between two checks for the first complete snapshot."""
_REPAINTED_SECONDS = 2.0
"""After so long, also on a busy machine, nothing on screen is from the previous snapshot; what is, would be frozen."""
_COLLECTS_AFTER_SECONDS = 30.0
"""Reading a cluster leaves next to no garbage, and a collection just before it is complete walks through all that was
read: 18 to 54 ms of 50,000 pods."""
_REFUSED = re.compile(r'^Not allowed: .{0,400}cannot (?:list|watch) resource "([^"]{1,253})"')
"""The answer to a user without the right."""
_HEAVY = ("actions.cluster.auth.session", "actions.cluster.state.cluster_state")


class ClusterFeed:
    """The feed of one cluster.

    `run` is endless work for the supervisor. Used on the loop only; heavy libraries are imported in a thread, after
    the first frame.

    Args:
        target: The cluster.
        readonly: Refuse changing requests in the client.
        clock: Time.
        changed: Called for a new snapshot, or when the health of a source changes.
        completed: Called, and waited for, when the snapshot is complete for the first time, or a kept one is there.
        region: AWS region for EKS tokens, if the kubeconfig names none.
        keeps_snapshots: Show the last snapshot of the cluster until it has been read, and keep the newest one.
        is_first: It is followed from the start: there is no cluster before it whose memory is to be freed.
    """

    _closing: ClassVar[int] = 0
    """Sessions of all feeds that are being closed."""

    def __init__(
        self,
        target: ClusterTarget,
        *,
        readonly: bool,
        clock: Clock,
        changed: Callable[[], None],
        completed: Callable[[], Awaitable[None]] | None = None,
        region: str = "",
        keeps_snapshots: bool = False,
        is_first: bool = True,
    ) -> None:
        self.target = target
        self.identity: ClusterIdentity | None = None
        self._readonly = readonly
        self._region = region
        self._clock = clock
        self._changed = changed
        self._completed = completed
        self._session: KubeSession | None = None
        self._state: ClusterState | None = None
        self._keeps_snapshots = keeps_snapshots
        self._kept_snapshot: KeptSnapshotFeed | None = None
        self._settled = asyncio.Event()
        self._connected = asyncio.Event()
        self._collects: asyncio.TimerHandle | None = None
        """The begin of garbage collection, if the first cluster is not read by then."""
        self._is_first = is_first
        self.server = ""
        """The address of the API server; empty before it is connected for the first time."""

    @property
    def is_connected(self) -> bool:
        """True if there is a session."""
        return self._session is not None

    @property
    def session(self) -> KubeSession:
        """The session, for single requests of commands.

        Raises:
            UnreachableError: The cluster is not connected yet.
        """
        if self._session is None:
            raise UnreachableError("The cluster is not connected yet.", hint="Wait, or see the nodes pane.")
        return self._session

    @property
    def context_name(self) -> str:
        """The name of the kubeconfig's context; empty before it is read."""
        if self._session is None and self._kept_snapshot is not None and self._kept_snapshot.context:
            return self._kept_snapshot.context
        return self._session.context if self._session else self.target.context

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context; `default` before it is read."""
        return (self._session.namespace if self._session else "") or "default"

    def snapshot(self) -> ClusterSnapshot | None:
        """Return the newest snapshot, or the kept one while it is incomplete; `None` before the first."""
        newest = self._state.snapshot() if self._state else None
        kept = self._kept_snapshot.shown if self._kept_snapshot else None
        return newest if kept is None or (newest is not None and (newest.is_complete or newest.as_of)) else kept

    @property
    def place(self) -> ContextParts:
        """Name, region and account of the cluster, as far as they are known."""
        known, guessed = self.identity, parse_context_name(self.context_name)
        if known is None:
            return guessed
        return ContextParts(
            known.name or guessed.cluster, known.region or guessed.region, known.account or guessed.account
        )

    @property
    def as_of(self) -> float:
        """The time of the kept snapshot while it is shown, in seconds since the epoch; 0.0 for a live one."""
        snapshot = self.snapshot()
        return snapshot.as_of if snapshot else 0.0

    @property
    def awaits_kept(self) -> bool:
        """True until a kept snapshot has been looked for: what is less urgent leaves it the processor."""
        return self._keeps_snapshots and (self._kept_snapshot is None or not self._kept_snapshot.is_loaded)

    async def settle(self, *, at_most_seconds: float) -> None:
        """Wait until the snapshot is complete or fails, so that less urgent work leaves it the processor."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_seconds):
                await self._settled.wait()

    def health(self, resource: str) -> FeedHealth | None:
        """Return the health of the source of one resource (`nodes`, `pods`, `events`…); `None` without a session."""
        snapshot = self._state.snapshot() if self._session and self._state else None
        found = snapshot.health.get(resource) if snapshot else None
        return None if found is None else reading_of(found)

    async def run(self, live: Callable[[], None]) -> None:
        """Connect and follow the cluster until cancelled.

        Args:
            live: Called when the session is connected.

        Raises:
            ConsoleError: The kubeconfig cannot be used, or the server does not answer.
        """
        try:
            await self._follow(live)
        finally:
            self._settled.set()

    async def _follow(self, live: Callable[[], None]) -> None:
        is_first = self._is_first and self._state is None
        await self.show_kept()
        kept_snapshot = self._kept_snapshot
        await _import_in_thread()
        if is_first:
            self._collects = asyncio.get_running_loop().call_later(_COLLECTS_AFTER_SECONDS, freeze_startup_objects)
        from actions.cluster.state.cluster_state import ClusterState

        session = await self._connect()
        self._session, self.server = session, session.server
        self._connected.set()
        state: ClusterState | None = None
        try:
            kept = await kept_snapshot.confirm(session) if kept_snapshot else None
            self._state = state = ClusterState(session, clock=self._clock, kept=kept)
            await self._watch(state, session, kept_snapshot, live, is_first=is_first)
        finally:
            self._connected.clear()
            self._session = None
            self.identity = None
            ClusterFeed._closing += 1
            try:
                if kept_snapshot is not None and state is not None:  # another session may be there already
                    await kept_snapshot.write(state, session, may_ask=False)
                await session.aclose()
            finally:
                ClusterFeed._closing -= 1

    async def _connect(self) -> KubeSession:
        from actions.cluster.auth.session import KubeSession

        return await KubeSession.connect(
            self.target,
            readonly=self._readonly,
            clock=self._clock,
            token_factory=self._token_source,
        )

    async def _watch(
        self,
        state: ClusterState,
        session: KubeSession,
        kept_snapshot: KeptSnapshotFeed | None,
        live: Callable[[], None],
        *,
        is_first: bool,
    ) -> None:
        """Run the state, paint its changes and keep its snapshots, until cancelled."""
        telling = self._tell_changes(state, kept_snapshot, is_first=is_first)
        painter = asyncio.create_task(telling, name="feed painter")
        writer = asyncio.create_task(self._keep(kept_snapshot, state, session), name="kept snapshot")
        try:
            live()
            self._changed()
            await state.run()
        finally:
            painter.cancel()
            writer.cancel()

    async def show_kept(self) -> None:
        """Show what was kept of the target, if that is to be kept and has not been loaded yet."""
        if not self._keeps_snapshots or self._kept_snapshot is not None:
            return
        self._kept_snapshot = KeptSnapshotFeed(self.target, self._clock, self._changed)
        await self._kept_snapshot.load()
        if self._kept_snapshot.shown is not None:
            self._state = None
            await self._complete()

    async def _complete(self) -> None:
        if self._completed is not None:
            await self._completed()

    async def _keep(self, kept_snapshot: KeptSnapshotFeed | None, state: ClusterState, session: KubeSession) -> None:
        await self._settled.wait()
        if kept_snapshot is not None:
            await kept_snapshot.write_now_and_then(state, session)

    async def wait_connected(self) -> None:
        """Wait a little for the session, right after the start.

        Raises:
            UnreachableError: There is none in time.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._connected.wait()
        except TimeoutError:
            raise UnreachableError("The cluster is not connected.", hint="The nodes pane shows the reason.") from None

    async def identify(self) -> None:
        """Fetch the identity of the cluster.

        Raises:
            ConsoleError: The cluster does not answer.
        """
        self.identity = await self.session.identity()
        if self._kept_snapshot is not None:
            self._kept_snapshot.uid = self.identity.uid
        self._changed()

    def _token_source(self, exec_argv: Sequence[str]) -> TokenSource | None:
        """Return a source of EKS tokens in this process: a plugin would start a new Python every quarter of an hour."""
        from actions.cloud.eks import token_factory

        return token_factory(exec_argv, region=self._region, clock=self._clock)

    async def _tell_changes(
        self, state: ClusterState, kept_snapshot: KeptSnapshotFeed | None, *, is_first: bool
    ) -> None:
        """Report changes in batches; sleep while there are none. The first complete snapshot is reported at once."""
        while not state.snapshot().is_complete:
            self._changed()
            await state.wait_changed()
            await self._clock.sleep(_LOADING_SECONDS)
        await self._complete()
        self._settled.set()
        if kept_snapshot is not None:
            kept_snapshot.shown = None
        if not is_first:
            await asyncio.sleep(_REPAINTED_SECONDS)
            while ClusterFeed._closing:  # what one that is still being closed refers to would be frozen for good
                await self._clock.sleep(_REPAINTED_SECONDS)
            collect_frozen()
        if self._collects is not None:
            self._collects.cancel()
        freeze_startup_objects()
        while True:
            await state.wait_changed()
            self._changed()
            await self._clock.sleep(PAINT_INTERVAL_SECONDS)


async def _import_in_thread() -> None:
    thread = NamedExecutor("imports")
    try:
        for module in _HEAVY:
            await thread.call(importlib.import_module, module)
    finally:
        thread.close()


def reading_of(health: SourceHealth) -> FeedHealth:
    """Return the health of a reflector's source in the words of feeds."""
    match health.state.value:
        case "live":
            state = FeedState.LIVE
        case "syncing":
            state = FeedState.STARTING
        case "forbidden" | "unauthorized":
            state = FeedState.REFUSED
        case "missing":
            state = FeedState.ENDED
        case _:
            state = FeedState.WAITING
    refused = _REFUSED.search(health.detail)
    if state is FeedState.REFUSED and refused is not None:
        return FeedHealth(state, f"{MAY_NOT}list {refused[1]}", health.since)
    unread = f"{health.skipped} objects cannot be read" if health.skipped > 1 else "1 object cannot be read"
    return FeedHealth(state, health.detail or (unread if health.skipped else ""), health.since)


def leaves_out_claims(snapshot: ClusterSnapshot | None) -> bool:
    """Return whether the cluster has claims of devices that are in no sum of the snapshot."""
    return snapshot is not None and snapshot.leaves_out_claims


class FleetCosts:
    """Costs of each node and of all, computed again only for nodes whose facts changed.

    Args:
        model: Prices.
    """

    def __init__(self, model: CostModel) -> None:
        self._model = model
        self._shown: ClusterSnapshot | None = None
        self._known: dict[str, tuple[NodeFacts, NodeUsage]] = {}
        self._costs: dict[str, NodeCost] = {}
        self._sum = CostSum()

    def costs(self, snapshot: ClusterSnapshot) -> Mapping[str, NodeCost]:
        """Return the cost of every node, by name. The mapping changes with the snapshot: do not keep it."""
        self._follow(snapshot)
        return self._costs

    def total(self, snapshot: ClusterSnapshot) -> FleetCost:
        """Return the cost of all nodes."""
        self._follow(snapshot)
        return self._sum.total()

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        if snapshot is self._shown:
            return
        changes = snapshot.changes_since(self._shown)
        self._shown = snapshot
        names: Iterable[str] = changes.nodes if changes else self._known.keys() | snapshot.nodes.keys()
        for name in names:
            self._look(name, snapshot.nodes.get(name), snapshot.usage.get(name, UNUSED))

    def _look(self, name: str, node: NodeFacts | None, usage: NodeUsage) -> None:
        before = self._known.get(name)
        if before is not None and before[0] is node and before[1] is usage:
            return
        if before is not None:
            del self._known[name]
            self._sum.drop(self._costs.pop(name))
        if node is not None:
            self._known[name] = (node, usage)
            self._costs[name] = cost = self._model.node_cost(node, usage)
            self._sum.add(cost)


REFRESH_SECONDS = 300.0
RETRY_SECONDS = 60.0


class CredentialsFeed:
    """The AWS identity, fetched from STS now and then: a role's credentials are renewed unnoticed, a login's expire.

    The credentials are the environment's, as a runner's are: `--profile` has been put there.

    Args:
        region: Region, if the profile names none.
        clock: Time.
        changed: Called when the answer changed.
    """

    def __init__(self, *, region: str, clock: Clock, changed: Callable[[], None]) -> None:
        self.caller: CallerIdentity | None = None
        """`None` before the first answer."""
        self.trouble = ""
        """The reason why there is no answer, in one sentence."""
        self._region = region
        self._clock = clock
        self._changed = changed

    @property
    def account(self) -> str:
        """The account: twelve digits, or empty."""
        return self.caller.account if self.caller else ""

    @property
    def expires_at(self) -> float | None:
        """The expiry in seconds since the epoch; `None` if unknown, or if the credentials do not expire."""
        moment = self.caller.expires_at if self.caller else None
        return moment.timestamp() if moment else None

    @property
    def needs_login(self) -> bool:
        """True if the credentials are known to end, and nothing renews them."""
        return self.caller is not None and self.caller.ends_at is not None

    async def run(self, live: Callable[[], None]) -> None:
        """Fetch the identity again and again, until cancelled. Having no credentials is an answer, not a failure."""
        from actions.cloud.account import fetch_identity
        from actions.cloud.aws_session import AwsSession

        session = AwsSession(region=self._region, threads=1)
        try:
            live()
            while True:
                try:
                    self.caller, self.trouble = await fetch_identity(session), ""
                except ConsoleError as error:
                    self.trouble = error.sentence()
                self._changed()
                await self._clock.sleep(RETRY_SECONDS if self.trouble else REFRESH_SECONDS)
        finally:
            session.close()
