"""The feed of the objects pane: one kind of the cluster as the server prints it, listed and then watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, MissingError
from tui.feeds.cluster import ClusterFeed, reading_of
from tui.feeds.supervisor import FeedHealth, FeedState

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
    from actions.cluster.watch.health import SourceHealth
    from actions.cluster.watch.table_format import ObjectRow, TableColumn, TableFormat

_UNSEEN_SECONDS = 60.0
"""A table whose changes were not taken for this long is no longer watched, until it is shown again."""
_AGAIN_SECONDS = 10.0
"""Between two lists of a kind that the server cannot watch."""


class ObjectsScope(msgspec.Struct, frozen=True):
    """The objects that the pane shows.

    Args:
        kind: Their kind.
        namespace: Empty for all.
        labels: Label selector, as kubectl's `-l`.
        fields: Field selector, as kubectl's `--field-selector`.
        label_names: Labels that are columns.
    """

    kind: ServedKind
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    label_names: tuple[str, ...] = ()

    @property
    def is_across(self) -> bool:
        """True if the objects are of several namespaces."""
        return self.kind.is_namespaced and not self.namespace

    def title(self) -> str:
        """The title of the pane: `jobs.batch in training -l app=x`."""
        where = f" in {self.namespace}" if self.namespace and self.kind.is_namespaced else ""
        labels = f"  -l {self.labels}" if self.labels else ""
        fields = f"  -F {self.fields}" if self.fields else ""
        return f"{self.kind.qualified}{where}{labels}{fields}"


class ClusterKinds:
    """The kinds that one cluster serves, read once a session. Used on the loop only.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: ClusterFeed) -> None:
        self._cluster = cluster
        self._catalogue: tuple[KubeSession, KindCatalogue] | None = None
        self._loading = asyncio.Lock()

    @property
    def known(self) -> KindCatalogue | None:
        """The kinds, if they were read already."""
        return self._catalogue[1] if self._catalogue else None

    def knows(self, word: str) -> bool:
        """Return whether the cluster is known to serve a kind of that name."""
        return self._catalogue is not None and self._catalogue[1].has(word)

    async def read(self) -> KindCatalogue:
        """Return the kinds, once there is a session.

        Raises:
            ConsoleError: The cluster does not answer.
        """
        from actions.cluster.objects.catalogue import load_catalogue

        await self._cluster.wait_connected()
        session = self._cluster.session
        async with self._loading:
            if self._catalogue is None or self._catalogue[0] is not session:
                self._catalogue = (session, await load_catalogue(session))
            return self._catalogue[1]

    async def find(self, word: str) -> ServedKind:
        """Return the kind that a word means; the kinds are read again for one that is not among them.

        Raises:
            MissingError: The cluster serves none; the hint names the nearest ones.
        """
        known, catalogue = self.known, await self.read()
        try:
            return catalogue.find(word)
        except MissingError:
            if known is not catalogue:
                raise
        self._catalogue = None  # a definition may have been installed since
        return (await self.read()).find(word)


class ObjectsFeed:
    """The rows of one kind at a time. `run` is work for the supervisor. Used on the loop only.

    Args:
        cluster: Returns the cluster on screen.
        clock: Time.
        changed: Called for new rows, and when the health of the source changes.
    """

    def __init__(self, cluster: Callable[[], ClusterFeed], *, clock: Clock, changed: Callable[[], None]) -> None:
        self.scope: ObjectsScope | None = None
        """`None` before a kind is chosen."""
        self.rows: Mapping[str, ObjectRow] = {}
        """By key."""
        self.columns: Sequence[TableColumn] = ()
        self.is_listed = False
        """The first list is complete."""
        self.is_suspended = False
        """The table was not looked at for long, and is not followed."""
        self.received_at: dict[str, float] = {}
        """Time at which the row of a key was printed, in seconds since the epoch: ages in it were true then."""
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._held: dict[str, ObjectRow] = {}
        self._health = FeedHealth(FeedState.STARTING)
        self._touched: set[str] = set()
        self._is_whole = True
        self._unseen_since: float | None = None
        self._running: asyncio.Task[NoReturn] | None = None

    def show(self, scope: ObjectsScope) -> None:
        """Show other objects; rows of the former ones are dropped."""
        self.scope = scope
        self._reset()

    def health(self) -> FeedHealth:
        """Return the health of the source."""
        return self._health

    def take_changes(self) -> tuple[bool, frozenset[str]]:
        """Return whether everything is new, and otherwise the keys that changed or are gone since the last call."""
        changes = self._is_whole, frozenset(self._touched)
        self._is_whole, self._unseen_since = False, None
        self._touched.clear()
        return changes

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the objects of the scope until cancelled, or until their changes were not taken for a minute.

        Args:
            live: Called when the session is there.

        Raises:
            ConsoleError: There is no session.
        """
        scope = self.scope
        if scope is None:
            return
        cluster = self._cluster()
        await cluster.wait_connected()
        session = cluster.session
        live()
        follow = self._watch if "watch" in scope.kind.verbs else self._list_again
        self._running = running = asyncio.create_task(follow(session, scope), name="objects")
        try:
            await running
        except asyncio.CancelledError:
            if not self.is_suspended or self._running is not running:
                raise
        finally:
            running.cancel()

    async def _watch(self, session: KubeSession, scope: ObjectsScope) -> NoReturn:
        from actions.cluster.watch.reflector import Reflector
        from actions.cluster.watch.table_format import TableFormat

        form = TableFormat(scope.label_names)
        reflector: Reflector[ObjectRow] = Reflector(
            session,
            scope.kind.resource.path(scope.namespace),
            decode=form.decode,
            identify=lambda row: row.uid,
            sink=_TableSink(self, form),
            label_selector=scope.labels,
            field_selector=scope.fields,
            clock=self._clock,
            prefers_watch_list=False,
            rest_seconds=0.1,
            form=form,
        )
        await reflector.run()

    async def _list_again(self, session: KubeSession, scope: ObjectsScope) -> NoReturn:
        """List again and again what the server cannot watch, such as metrics."""
        from actions.cluster.http.errors import ApiAccessError
        from actions.cluster.watch.table_format import ACCEPT, TableFormat

        path = scope.kind.resource.path(scope.namespace)
        selectors = {"labelSelector": scope.labels, "fieldSelector": scope.fields}
        query = {name: value for name, value in selectors.items() if value}
        while True:
            form = TableFormat(scope.label_names)
            try:
                page = form.read_page(await session.request("GET", path, query=query, accept=ACCEPT))
                self.take_all([form.decode(raw) for raw in page.items], form.columns)
                self.take_health(FeedHealth(FeedState.LIVE, f"listed every {_AGAIN_SECONDS:.0f} s"))
            except ApiAccessError as error:
                self.take_health(FeedHealth(FeedState.REFUSED, error.message, self._clock.monotonic()))
            except (ConsoleError, msgspec.DecodeError) as error:
                self.take_health(FeedHealth(FeedState.WAITING, str(error), self._clock.monotonic()))
            await self._clock.sleep(_AGAIN_SECONDS)

    def take_all(self, rows: Sequence[ObjectRow], columns: Sequence[TableColumn]) -> None:
        """Take a complete list."""
        now = self._clock.now().timestamp()
        self._held = {row.key: row for row in rows}
        self.received_at = dict.fromkeys(self._held, now)
        self.rows, self.columns, self.is_listed = self._held, columns, True
        self._is_whole = True
        self._note_change()

    def take(self, row: ObjectRow) -> None:
        """Take one object as it is now."""
        self._held[row.key] = row
        self.received_at[row.key] = self._clock.now().timestamp()
        self._touched.add(row.key)
        self._note_change()

    def drop(self, row: ObjectRow) -> None:
        """Remove one object."""
        self._held.pop(row.key, None)
        self.received_at.pop(row.key, None)
        self._touched.add(row.key)
        self._note_change()

    def take_health(self, health: FeedHealth) -> None:
        """Take the health of the source."""
        if (health.state, health.detail) != (self._health.state, self._health.detail):
            self._health = health
            self._changed()

    def _reset(self) -> None:
        self._held = {}
        self.rows, self.columns, self.is_listed, self.is_suspended = self._held, (), False, False
        self.received_at = {}
        self._health = FeedHealth(FeedState.STARTING)
        self._is_whole, self._unseen_since = True, None
        self._touched.clear()
        self._changed()

    def _note_change(self) -> None:
        now = self._clock.monotonic()
        if self._unseen_since is None:
            self._unseen_since = now
        elif now - self._unseen_since > _UNSEEN_SECONDS and self._running is not None:
            self.is_suspended = True
            self._running.cancel()
            return
        self._changed()

    def resume(self) -> bool:
        """Forget what a suspended table held; return whether it was suspended, and has to be run again."""
        was_suspended = self.is_suspended
        if was_suspended:
            self._reset()
        return was_suspended


class _TableSink:
    """The reflector's sink of a feed."""

    def __init__(self, feed: ObjectsFeed, form: TableFormat) -> None:
        self._feed = feed
        self._form = form

    async def replace(self, items: Sequence[ObjectRow]) -> None:
        self._feed.take_all(items, self._form.columns)

    def upsert(self, item: ObjectRow) -> None:
        self._feed.take(item)

    def remove(self, item: ObjectRow) -> None:
        self._feed.drop(item)

    def health(self, health: SourceHealth) -> None:
        self._feed.take_health(reading_of(health))
