"""The reflector of one resource of a whole cluster, or of single namespaces where no more is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NoReturn, TypeVar

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.wording import listed
from actions.cluster.auth.permissions import NamespaceAccess, can_watch
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError
from actions.cluster.kinds import KubeKind
from actions.cluster.state.store import FactTable, HasNamespace
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.reflector import Reflector, Sink

FactT = TypeVar("FactT", bound=HasNamespace)

_LOOK_AGAIN_SECONDS = 60.0
_NAMED = 3


class ScopedReflector(Generic[FactT]):
    """Keeps a table equal to a resource, as far as the user's rights allow.

    The whole cluster is tried first. If that is forbidden, every namespace that may be watched is followed by itself;
    once a minute these are determined again, and the whole cluster is tried again.

    Args:
        session: The session.
        kind: The resource's kind.
        table: Receives the objects.
        reflector: Makes the reflector of one path and sink, which ends when it is forbidden, or else keeps trying.
        namespace_access: The namespaces that may be watched.
        clock: For waits.
    """

    def __init__(
        self,
        session: KubeSession,
        kind: KubeKind,
        *,
        table: FactTable[FactT],
        reflector: Callable[[str, Sink[FactT], bool], Reflector[FactT]],
        namespace_access: NamespaceAccess,
        clock: Clock,
    ) -> None:
        self._session = session
        self._kind = kind
        self._table = table
        self._reflector = reflector
        self._namespace_access = namespace_access
        self._clock = clock
        self._parts: dict[str, _NamespacePart[FactT]] = {}

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        while True:
            try:
                await self._reflector(self._kind.list_path(), self._table, True).run()
            except ApiAccessError as error:
                if not await self._may_see_all():
                    await self._follow_namespaces(error)
                    continue
                self._table.health(SourceHealth(Health.FORBIDDEN, error.message, self._clock.monotonic()))
                await self._clock.sleep(_LOOK_AGAIN_SECONDS)

    async def _follow_namespaces(self, refusal: ApiAccessError) -> None:
        """Follow the namespaces that may be watched, until the whole cluster may be."""
        tasks: dict[str, asyncio.Task[NoReturn]] = {}
        try:
            while True:
                try:
                    await self._adjust(tasks, refusal)
                except ConsoleError as error:
                    self._table.health(SourceHealth(Health.RECONNECTING, error.message, self._clock.monotonic()))
                await self._clock.sleep(_LOOK_AGAIN_SECONDS)
                if await self._may_see_all():
                    return
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            self._parts.clear()

    async def _adjust(self, tasks: dict[str, asyncio.Task[NoReturn]], refusal: ApiAccessError) -> None:
        names = await self._namespace_access.namespaces(self._kind.group, self._kind.plural)
        for name in set(tasks) - set(names):
            tasks.pop(name).cancel()
            del self._parts[name]
        self._table.keep_within(names)
        for name in names:
            if name not in tasks:
                self._parts[name] = part = _NamespacePart(name, self._table, self._report)
                tasks[name] = asyncio.create_task(self._reflector(self._kind.list_path(name), part, False).run())
        if not names:
            self._table.health(SourceHealth(Health.FORBIDDEN, refusal.message, self._clock.monotonic()))
        self._report()

    async def _may_see_all(self) -> bool:
        try:
            return await can_watch(self._session, self._kind.group, self._kind.plural) is True
        except ConsoleError:
            return False

    def _report(self) -> None:
        """Report the health of the worst namespace as that of all, with the part of the cluster in its detail."""
        healths = {name: part.reported for name, part in self._parts.items() if part.reported is not None}
        if healths:
            self._table.health(_combined(healths))
        self._table.is_complete = bool(self._parts) and all(part.is_complete for part in self._parts.values())


class _NamespacePart(Generic[FactT]):
    """The sink of one namespace: a part of the table."""

    def __init__(self, namespace: str, table: FactTable[FactT], changed: Callable[[], None]) -> None:
        self.reported: SourceHealth | None = None
        self.is_complete = False
        self._namespace = namespace
        self._table = table
        self._changed = changed

    async def replace(self, items: Sequence[FactT]) -> None:
        await self._table.replace_within(self._namespace, items)
        self.is_complete = True
        self._changed()

    def upsert(self, item: FactT) -> None:
        self._table.upsert(item)

    def remove(self, item: FactT) -> None:
        self._table.remove(item)

    def health(self, health: SourceHealth) -> None:
        self.reported = health
        self._changed()


def _combined(healths: Mapping[str, SourceHealth]) -> SourceHealth:
    name, worst = next(
        ((name, health) for name, health in healths.items() if health.state is not Health.LIVE), ("", None)
    )
    skipped = sum(health.skipped for health in healths.values())
    if worst is not None:
        return SourceHealth(worst.state, f"{name}: {worst.detail}" if worst.detail else name, worst.since, skipped)
    names = sorted(healths)
    since = max(health.since for health in healths.values())
    return SourceHealth(Health.LIVE, f"only {listed(names, _NAMED)}", since, skipped)
