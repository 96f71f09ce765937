"""The reflector: it lists one resource of the cluster, then watches it until cancelled, whatever the server does.

The semantics are client-go's (`tools/cache/reflector.go`), with two differences. Lists are consistent reads in pages
(no resource version), so that a cache behind a load balancer can never return older objects. And a stream that has
been silent for longer than the server's bookmarks allow counts as dead, because HTTP/1.1 has no pings.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from actions.base.backoff import Backoff
from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, ConfigError, ConsoleError, MissingError, UnreachableError
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession
from actions.cluster.bounds import OversizeError, PageCount
from actions.cluster.http.errors import ApiError, SilenceError
from actions.cluster.kinds import other_paths
from actions.cluster.watch.decoder import InitialList, RequestedForm, ResponseDecoder, cooperative_chunks
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.json_format import Raw, WatchEvent
from actions.cluster.watch.liveness import ServerLiveness
from actions.cluster.watch.served import MISSING_SECONDS, ServedGroups

if TYPE_CHECKING:
    from actions.cluster.http.transport import ByteStream

T = TypeVar("T")
ItemT = TypeVar("ItemT", contravariant=True)  # noqa: PLC0105 - named for what it is

__all__ = ["Raw", "Reflector", "Sink"]

_SHORT_WATCH_SECONDS = 1.0
_STALE_SECONDS = 30.0
_FIRST_EVENT_SECONDS = 20.0
_CUTS_BEFORE_LIST = 2
_FORBIDDEN_SECONDS = 600.0
"""The longest pause after a missing right: it is an answer, and seldom becomes another one."""
_EXPIRY_SECONDS = 60.0


class Sink(Protocol[ItemT]):
    """The receiver of a reflector's objects. Called on the session's loop only."""

    async def replace(self, items: Sequence[ItemT]) -> None:
        """Take a complete list: all other objects are gone. May yield to the loop; nothing else is called meanwhile."""
        ...

    def upsert(self, item: ItemT) -> None:
        """Take one object as it is now: new, changed, or the same again."""
        ...

    def remove(self, item: ItemT) -> None:
        """Remove one object, given in its last state."""
        ...

    def health(self, health: SourceHealth) -> None:
        """Take the source's new health."""
        ...


class Reflector(Generic[T]):
    """Keeps a sink equal to one resource of the cluster.

    Args:
        session: The session.
        path: The resource's list path: `/api/v1/pods`. While it is missing there, other versions are tried.
        decode: Decodes one object from its JSON; may raise `ValueError`, `FormatError` or msgspec's errors for
            an object that cannot be read, which is then skipped and counted.
        decode_protobuf: Decodes one object from its protobuf, likewise. With it protobuf is requested, which is half
            the work for kinds that have it; an answer in JSON is still read by `decode`.
        identify: Returns the uid of a decoded object.
        sink: The receiver.
        label_selector: As kubectl's `-l`.
        field_selector: As kubectl's `--field-selector`.
        clock: For waits.
        backoff: The waits after failures.
        page_size: Objects per page of a list.
        idle_seconds: A watch silent for this long is dead. Bookmarks come about once a minute; the server's own
            freshness window is 75 s.
        watch_seconds: The time limit of a watch that is requested, up to twice as much.
        prefers_watch_list: Try a streamed list first.
        rest_seconds: Once the list is complete, the stream is not read for this long after each batch of events: all
            changes of that time are taken together, at the cost of one. The first change after a quiet time is not
            delayed.
        liveness: The server's liveness, updated by this resource's stream among others.
        served: Waited for while the resource is missing; without it the resource itself is requested now and then.
        ends_when_forbidden: Let a 403 end `run`, for a caller that has a narrower path.
        trim: Drops objects that the sink would not keep, by uid, from a list that is being read.
        resume_version: The version at which the sink has all objects already: they are watched from there, and listed
            only if the server does not know it any more.
        form: Another form than whole objects; `decode` reads it.
    """

    def __init__(
        self,
        session: KubeSession,
        path: str,
        *,
        decode: Callable[[Raw], T],
        identify: Callable[[T], str],
        sink: Sink[T],
        decode_protobuf: Callable[[Raw], T] | None = None,
        label_selector: str = "",
        field_selector: str = "",
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        page_size: int = 500,
        idle_seconds: float = 70.0,
        watch_seconds: float = 300.0,
        prefers_watch_list: bool = True,
        rest_seconds: float = 0.0,
        liveness: ServerLiveness | None = None,
        served: ServedGroups | None = None,
        ends_when_forbidden: bool = False,
        trim: Callable[[dict[str, T]], None] = lambda _: None,
        resume_version: str = "",
        form: RequestedForm | None = None,
    ) -> None:
        self._session = session
        self._paths = itertools.cycle((path, *other_paths(path)))
        self._path = next(self._paths)
        self._ends_when_forbidden = ends_when_forbidden
        self._identify = identify
        self._sink = sink
        self._trim = trim
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._clock = clock or SystemClock()
        self._decoder = ResponseDecoder(
            path, context=session.context, decode=decode, decode_protobuf=decode_protobuf, clock=self._clock, form=form
        )
        self._backoff = backoff or Backoff(  # client-go's, of tools/cache/reflector.go
            self._clock, first_seconds=0.8, longest_seconds=30.0, jitter=1.0, peace_seconds=120.0
        )
        self._refusals = Backoff(self._clock, first_seconds=0.8, longest_seconds=_FORBIDDEN_SECONDS, jitter=1.0)
        self._liveness = liveness or ServerLiveness(self._clock)
        self._served = served
        self._page_size = page_size
        self._idle_seconds = idle_seconds
        self._watch_seconds = watch_seconds
        self._rest_seconds = rest_seconds
        self._tries_watch_list = prefers_watch_list
        self._cuts = 0
        self._is_missing = False
        self._version = resume_version
        self._latest: Raw | None = None
        self._skipped = 0
        self._has_answered = False
        self._expired_at = float("-inf")
        self._current_at = self._clock.monotonic()
        self._health = SourceHealth(Health.SYNCING, "", self._current_at)

    async def run(self) -> NoReturn:
        """List and watch until cancelled. Failures are shown by the sink's health and do not end it.

        Raises:
            ApiAccessError: 403, if `ends_when_forbidden`.
        """
        self._sink.health(self._health)
        while True:
            try:
                if self._is_missing:
                    await self._wait_until_served()
                if self._version:
                    await self._watch()
                elif self._tries_watch_list and self._cuts < _CUTS_BEFORE_LIST:
                    await self._watch_list()
                else:
                    await self._list()
            except ConsoleError as error:
                trouble = error.with_traceback(None)  # its frames would keep the bytes for as long as the wait lasts
                trouble.__cause__ = trouble.__context__ = None
            else:
                continue
            was_live = self._health.state is Health.LIVE
            if was_live and (self._liveness.is_silent or not isinstance(trouble, SilenceError)):
                self._current_at = max(self._current_at, self._liveness.heard_at)  # until now the stream stood
            await self._recover(trouble)

    async def run_once(self) -> int:
        """Give the sink one list, streamed where the server does that: pages are read one after the other.

        Returns:
            The number of objects that cannot be read.

        Raises:
            ConsoleError: It cannot be listed.
        """
        try:
            await self._watch_list(is_followed=False)
        except ConsoleError as error:
            if isinstance(error, UnreachableError) and not (self._has_answered or isinstance(error, ApiError)):
                raise  # nobody is there for pages either
            await self._list()
        return self._skipped

    async def _wait_until_served(self) -> None:
        """Check that the resource is served by now, over a pooled connection: a stream would make a new one.

        Raises:
            MissingError: It is not.
        """
        await self._session.request(
            "GET", self._path, query=self._selectors | {"limit": "1"}, accept=self._decoder.accept, deadline_seconds=60
        )
        self._is_missing = False

    async def _list(self) -> None:
        """Read the list in pages and publish it whole."""
        listed = InitialList[T](self._path, self._decoder, self._identify, self._trim)
        pages = PageCount(self._path, size=self._page_size, clock=self._clock)
        query = {"limit": str(self._page_size)}
        while True:
            body = await self._session.request(
                "GET", self._path, query=self._selectors | query, accept=self._decoder.accept, deadline_seconds=60
            )
            page = self._decoder.page(body)
            async for few in cooperative_chunks(page.items, self._clock):
                listed.take([("ADDED", raw) for raw in few])
            if not page.following:
                break
            await pages.next_page(page.following, held=len(page.items), known=listed.known)
            query["continue"] = page.following
        listed.version = page.resource_version
        await self._publish(listed)

    async def _watch_list(self, *, is_followed: bool = True) -> None:
        """Read the list as a stream, publish it at its end mark, then go on with the same stream if it is followed."""
        query = self._watch_query() | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        initial = InitialList[T](self._path, self._decoder, self._identify, self._trim)
        try:
            async with (
                self._stream(query) as stream,
                asyncio.timeout(_FIRST_EVENT_SECONDS) as patience,
            ):
                loop = asyncio.get_running_loop()
                renewed_at = loop.time()
                async for events in self._events(aiter(stream)):
                    if self._version:
                        self._apply(events)
                        continue
                    if (now := loop.time()) - renewed_at > 1.0:
                        renewed_at = now
                        patience.reschedule(now + _FIRST_EVENT_SECONDS)
                    rest = initial.take(events)
                    if initial.version:
                        patience.reschedule(None)
                        await self._publish(initial)
                        if not is_followed:
                            return
                        self._apply(rest)
        except TimeoutError as error:
            self._tries_watch_list = False
            raise _WatchListIgnoredError(f"{self._path} does not mark the end of a streamed list.") from error
        if not self._version:
            raise UnreachableError(f"The stream of {self._path} ended before its list was complete.")

    async def _watch(self) -> None:
        """Follow changes from the last known version until the stream ends."""
        began_at = self._clock.monotonic()
        query = self._watch_query() | {"resourceVersion": self._resume_version()}
        count = 0
        async with self._stream(query) as stream:
            self._report_live()
            async for events in self._events(aiter(stream)):
                self._apply(events)
                count += len(events)
        if self._clock.monotonic() - began_at < _SHORT_WATCH_SECONDS:
            self._report_state(Health.RECONNECTING, "the server ends watches at once")
            if not count:
                self._version = ""
            await self._backoff.wait()

    @asynccontextmanager
    async def _stream(self, query: dict[str, str]) -> AsyncIterator[ByteStream]:
        accept = self._decoder.accept
        opening = self._session.stream(self._path, query=query, idle_seconds=self._idle_seconds, accept=accept)
        async with opening as stream:
            self._decoder.select_format(stream.content_type)
            self._has_answered = True
            yield stream

    async def _events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[WatchEvent]]:
        """Yield the events of a stream, a slice at a time, with rests between batches.

        Raises:
            ApiError: The server sent an error event.
            OversizeError: An event is larger than any can be.
        """
        async for frames in self._decoder.frames_of(chunks):
            self._mark_current()
            async for events in self._decoder.events_in(frames):
                yield events
            if self._version and self._rest_seconds:
                await self._clock.sleep(self._rest_seconds)

    def _apply(self, events: Sequence[WatchEvent]) -> None:
        for kind, raw in events:
            self._latest = raw
            if kind == "BOOKMARK":
                continue
            item = self._decoder.decoded(raw)
            if item is None:
                self._skipped += 1
                self._report_state(self._health.state, self._health.detail)
            elif kind == "DELETED":
                self._sink.remove(item)
            else:
                self._sink.upsert(item)

    def version(self) -> str:
        """Return the version that the sink is at; empty while it is incomplete, or if an object could not be read."""
        return "" if self._skipped else self._resume_version()

    def _resume_version(self) -> str:
        """Return the version of the last event; read only here, because most events are not the last one."""
        if self._latest is not None:
            self._version = self._decoder.version_of(self._latest) or self._version  # upserts may come twice
            self._latest = None
        return self._version

    def _watch_query(self) -> dict[str, str]:
        lasts = int(self._watch_seconds * (1.0 + random.random()))
        return self._selectors | {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(lasts)}

    async def _publish(self, initial: InitialList[T]) -> None:
        await self._sink.replace(list(initial.found.values()))
        initial.found.clear()
        self._version, self._latest = initial.version, None
        self._skipped, self._cuts = initial.skipped, 0
        self._report_live()

    async def _recover(self, error: ConsoleError) -> None:
        """Choose where to continue after a failure, report it, and wait."""
        status = error.status if isinstance(error, ApiError) else None
        wished = status.retry_after_seconds if status else None
        if isinstance(error, _WatchListIgnoredError) or (status and self._decoder.falls_back(status.code)):
            return
        is_forbidden = status is not None and status.code == 403
        if is_forbidden and self._ends_when_forbidden:
            self._version, self._latest = "", None
            raise error
        if isinstance(error, SilenceError) and self._version:
            self._report_state(Health.RECONNECTING, error.message)
            return
        if status and (status.is_expired or status.is_too_large):
            self._version = ""
            self._report_state(Health.RECONNECTING, "listing again")
            last, self._expired_at = self._expired_at, self._clock.monotonic()
            if self._expired_at - last > _EXPIRY_SECONDS:
                return
        elif isinstance(error, UnreachableError):
            is_too_long = isinstance(error, OversizeError)  # from the same version the same event would come again
            self._cuts += is_too_long or (not self._version and status is None)
            self._version = "" if is_too_long or (status and not status.code) else self._version
            self._report_state(_unreachable_health(error), error.message)
        elif isinstance(error, MissingError):
            self._version = ""
            await self._sink.replace(())
            self._is_missing, self._path = True, next(self._paths)
            await self._wait_while_missing(error.message)
            return
        elif isinstance(error, AccessError | ConfigError):
            self._report_state(Health.FORBIDDEN if is_forbidden else Health.UNAUTHORIZED, error.message)
        elif self._falls_back_to_list():
            return
        else:
            self._report_state(Health.RECONNECTING, error.message)
        await (self._refusals if is_forbidden else self._backoff).wait(wished)

    async def _wait_while_missing(self, message: str) -> None:
        if self._health.state is not Health.MISSING:  # another version is as missing: nothing has changed
            self._report_state(Health.MISSING, message)
        await (self._served.wait(self._path) if self._served else self._clock.sleep(MISSING_SECONDS))

    def _falls_back_to_list(self) -> bool:
        """List again after a refusal. Return whether it was a streamed list that was refused."""
        was_refused = self._tries_watch_list and not self._version
        self._version = ""
        self._tries_watch_list = self._tries_watch_list and not was_refused
        return was_refused

    def _mark_current(self) -> None:
        self._liveness.mark_alive()
        self._current_at = self._liveness.heard_at

    def _report_live(self) -> None:
        self._mark_current()
        self._refusals.reset()
        if self._health.state is not Health.LIVE or self._health.skipped != self._skipped:
            self._report(SourceHealth(Health.LIVE, "", self._current_at, self._skipped))

    def _report_state(self, state: Health, detail: str) -> None:
        if state is Health.LIVE:
            self._report(SourceHealth(state, detail, self._health.since, self._skipped))
            return
        if state is Health.RECONNECTING and self._clock.monotonic() - self._current_at > _STALE_SECONDS:
            state = Health.STALE
        self._report(SourceHealth(state, one_line(detail), self._current_at, self._skipped))

    def _report(self, health: SourceHealth) -> None:
        self._health = health
        self._sink.health(health)


class _WatchListIgnoredError(UnreachableError):
    """The server answered a streamed list as an ordinary watch."""


def _unreachable_health(error: UnreachableError) -> Health:
    is_throttled = isinstance(error, ApiError) and error.status.code == 429
    return Health.THROTTLED if is_throttled else Health.RECONNECTING
