"""The transport of a session with a capture: it answers as the cluster did at the moment that is shown.

A resource that was watched is answered at every moment: lists, single objects and watches are made of what was received
of it. Anything else is answered as it was then, or first later. What would change something is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qsl

from actions.base.errors import MissingError, RefusedError, UnreachableError
from actions.base.executors import in_thread
from actions.capture.entries import Connected, error_in
from actions.cluster.auth.session import REVIEWS
from actions.cluster.http.errors import ApiMissingError, ApiRefusedError, ApiStatus
from actions.replay.clock import ReplayClock
from actions.replay.index import CaptureIndex, answer_form, call_key, log_key, source_key
from actions.replay.selection import matches
from actions.replay.timelines import LogHistory, Op, ProgramRun, SourceKey, SourceTimeline

if TYPE_CHECKING:
    import aiohttp

    from actions.cluster.http.transport import ByteStream

REPLAY = "This is a replay"
_PROBE = "/livez"
_LOG = re.compile(r"/log\Z")
_NAMESPACED = re.compile(r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)")
_OBJECT = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<plural>[^/]+)/(?P<name>[^/]+)"
)
_BATCH = 512
"""Events that are handed over at once."""
_LINES_BATCH = 4096
_END_MARK = "k8s.io/initial-events-end"
_LONG_SECONDS = 3600.0
_WORDS = {Op.ADDED: b"ADDED", Op.MODIFIED: b"MODIFIED", Op.DELETED: b"DELETED"}


def refused(deed: str) -> RefusedError:
    """Return the refusal of whatever would act."""
    return RefusedError(f"{REPLAY}: {deed} was not carried out.", hint="Open the cluster itself, without --replay.")


class _Found(NamedTuple):
    """A watched resource that has the answer, and the part of it that is requested."""

    key: SourceKey
    timeline: SourceTimeline
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def has(self, name: str, raw: bytes) -> bool:
        """Return whether an object is in the part."""
        if self.namespace and not name.startswith(f"{self.namespace}/"):
            return False
        return not (self.labels or self.fields) or matches(raw, self.labels, self.fields)


class ReplayTransport:
    """Answers of one cluster of a capture. Used on the clock's loop.

    Args:
        index: The capture.
        clock: The moment that is shown.
        cluster: The cluster.
    """

    def __init__(self, index: CaptureIndex, clock: ReplayClock, cluster: Connected) -> None:
        self._index = index
        self._clock = clock
        self._cluster = cluster
        self._is_closed = False
        self._reached: dict[SourceKey, int] = {}
        """Number of entries of each source that watches have handed over."""
        self._watched: Counter[SourceKey] = Counter()
        """Watches that are open."""

    @property
    def answered_at(self) -> float | None:
        """Return nothing: a capture is not asked for the present time."""
        return None

    async def close(self) -> None:
        """End every stream at its next entry."""
        self._is_closed = True

    @property
    def is_caught_up(self) -> bool:
        """True if all that had come by the moment was handed over by the watches that are open."""
        at, sources = self._clock.at, self._index.sources
        return all(self._reached.get(key, 0) >= sources[key].count_at(at) for key in +self._watched)

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_seconds: float
    ) -> bytes:
        """See `Transport.call`."""
        del deadline_seconds
        path, _, text = url.partition("?")
        query = dict(parse_qsl(text))
        if path == _PROBE:
            return b"ok"
        if method not in {"GET", "HEAD"} and path != REVIEWS:
            raise refused(f"{method} {path}")
        accept = headers.get("Accept", "")
        if method == "GET" and _LOG.search(path):
            return self._log_body(path, query)
        made = await in_thread("replay", self._made, path, query, accept) if method == "GET" else None
        return made if made is not None else self._kept(method, path, text, accept, body)

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[ByteStream]:
        """See `Transport.stream`."""
        del idle_seconds
        path, _, text = url.partition("?")
        query = dict(parse_qsl(text))
        if _LOG.search(path):
            yield cast("ByteStream", _Stream(self._log_lines(path, query), ""))
            return
        found = self._find(source_key(self._cluster.server, path, query, headers.get("Accept", "")))
        if found is None:
            raise self._unknown(f"GET {path}")
        await self._first_answer(found, f"watch {path}")
        begin = self._begin_of(found, query)
        yield cast("ByteStream", _Stream(self._events(found, begin), "application/json"))

    @asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """See `Transport.websocket`."""
        del headers, protocols
        path, _, text = url.partition("?")
        runs = self._index.programs.get((self._cluster.server, path, tuple(parse_qsl(text))), [])
        known = [run for run in runs if run.at <= self._clock.at and run.protocol and run.messages]
        if not known:
            if not path.endswith("/exec") or ("tty", "true") in parse_qsl(text):
                raise refused(path.rpartition("/")[2])
            raise self._unknown(f"exec {path}")
        yield cast("aiohttp.ClientWebSocketResponse", _Socket(known[-1], self._index))

    def _unknown(self, asked: str) -> MissingError:
        return MissingError(f"{asked} is not in the capture.", hint="Only what the console showed was captured.")

    def _kept(self, method: str, path: str, text: str, accept: str, body: bytes | None) -> bytes:
        """Return the answer as it was at the moment, or first later."""
        digest = hashlib.sha256(body).hexdigest()[:16] if body else ""
        key = call_key(self._cluster.server, method, path, parse_qsl(text), accept=accept, digest=digest)
        answers = self._index.calls.get(key)
        if answers is None:
            raise self._unknown(f"{method} {path}")
        answer = answers.at(self._clock.at)
        error = error_in(answer.ended, asked=f"{method} {path}", context=self._cluster.context)
        if error is not None:
            raise error
        return answer.body(self._index.store)

    def _made(self, path: str, query: dict[str, str], accept: str) -> bytes | None:
        """Return a list or an object made of what was received of its resource; `None` if nothing was."""
        if answer_form(accept) not in ("json", "table"):
            return None
        found = self._find(source_key(self._cluster.server, path, query, accept))
        if found is not None:
            self._refuse_if_failed(found, f"GET {path}")
            return self._list(found)
        parts = _OBJECT.fullmatch(path)
        if parts is None:
            return None
        root, namespace, name = parts["root"], parts["namespace"] or "", parts["name"]
        key = SourceKey(self._cluster.server, f"{root}/{parts['plural']}", (), "json")
        timeline = self._index.sources.get(key)
        if timeline is None or not timeline.is_listed(self._clock.at):
            return None
        place = timeline.objects_at(timeline.count_at(self._clock.at)).get(f"{namespace}/{name}")
        if place is None:
            status = ApiStatus(404, "NotFound", f'{parts["plural"]} "{name}" not found')
            raise ApiMissingError(f"{status.message} (GET {path}).", status=status)
        return _whole(self._index.store.read(timeline.places[place], timeline.sizes[place]), timeline)

    def _find(self, key: SourceKey) -> _Found | None:
        """Return the watched resource that holds the object of `key`, in its own form or in JSON."""
        forms = dict.fromkeys((key.form, "json"))
        for form in forms:
            wanted = SourceKey(key.server, key.path, key.selectors, form)
            if (timeline := self._index.sources.get(wanted)) is not None:
                return _Found(wanted, timeline)
        within = _NAMESPACED.fullmatch(key.path)
        if within is not None:
            for form in forms:
                wanted = SourceKey(key.server, f"{within['root']}/{within['plural']}", key.selectors, form)
                if (timeline := self._index.sources.get(wanted)) is not None:
                    return _Found(wanted, timeline, within["namespace"])
        if key.selectors:
            whole = self._find(SourceKey(key.server, key.path, (), "json"))
            asked = dict(key.selectors)
            labels, fields = asked.get("labelSelector", ""), asked.get("fieldSelector", "")
            return whole and whole._replace(labels=labels, fields=fields)
        return None

    def _refuse_if_failed(self, found: _Found, asked: str) -> None:
        """Raise what the resource's source had failed with.

        Raises:
            ConsoleError: It had failed, or not yet answered.
        """
        at = self._clock.at
        failure = found.timeline.outcome_at(at)
        error = error_in(failure, asked=asked, context=self._cluster.context) if failure is not None else None
        if error is not None:
            raise error
        if not found.timeline.is_listed(at):
            raise UnreachableError(f"{asked} was not answered before this moment.")

    async def _first_answer(self, found: _Found, asked: str) -> None:
        """Wait until the resource's first list is complete, as it was waited for then.

        Raises:
            ConsoleError: The source had failed.
        """
        clock, timeline = self._clock, found.timeline
        while not self._is_closed and timeline.outcome_at(clock.at) is None and not timeline.is_listed(clock.at):
            at = clock.at
            await clock.reach(min(timeline.next_after(timeline.count_at(at), at), at + _LONG_SECONDS))
        self._refuse_if_failed(found, asked)

    def _objects(self, found: _Found, count: int) -> Iterator[bytes]:
        timeline, store = found.timeline, self._index.store
        for name, place in found.timeline.objects_at(count).items():
            raw = store.read(timeline.places[place], timeline.sizes[place])
            if found.has(name, raw):
                yield raw

    def _list(self, found: _Found) -> bytes:
        timeline = found.timeline
        count = timeline.count_at(self._clock.at)
        items = list(self._objects(found, count))
        meta = b'"metadata":{"resourceVersion":"%s"}' % _version(count)
        if found.key.form == "table":
            columns = timeline.columns or b"[]"
            return b'{"kind":"Table",%s,"columnDefinitions":%s,"rows":[%s]}' % (meta, columns, b",".join(items))
        kind, version = timeline.kind.encode(), timeline.api_version.encode()
        return b'{"kind":"%sList","apiVersion":"%s",%s,"items":[%s]}' % (kind, version, meta, b",".join(items))

    def _begin_of(self, found: _Found, query: dict[str, str]) -> int:
        """Return the entry that a watch begins with; -1 for one that lists first.

        Raises:
            ApiRefusedError: Its version names no entry.
        """
        if query.get("sendInitialEvents") == "true":
            return -1
        asked = query.get("resourceVersion", "")
        count = _count_in(asked)
        if count is None:
            count = self._reached.get(found.key)
        if count is None or count > len(found.timeline.ops):
            raise ApiRefusedError("The version is not in the capture.", status=ApiStatus(410, "Expired", "Expired"))
        return count

    async def _events(self, found: _Found, begin: int) -> AsyncIterator[bytes]:
        """Yield the events of a watch as they came, and raise what ended it."""
        self._watched[found.key] += 1
        try:
            async for events in self._entries(found, begin):
                yield events
        finally:
            self._watched[found.key] -= 1

    async def _entries(self, found: _Found, begin: int) -> AsyncIterator[bytes]:
        timeline, clock = found.timeline, self._clock
        shown_at = clock.at
        count = timeline.count_at(shown_at) if begin < 0 else begin
        if begin < 0:
            objects = self._objects(found, count)
            while few := list(islice(objects, _BATCH)):
                yield b"".join(_event(b"ADDED", raw, found) for raw in few)
            yield _end_mark(count, timeline)
        while True:
            self._reached[found.key] = count
            if self._is_closed:
                raise UnreachableError("The session with the capture is closed.")
            at = clock.at
            due = timeline.count_at(at)
            failed = timeline.failure_between(shown_at, at)
            if failed is not None:
                due = min(due, max(count, timeline.count_at(failed[0])))
            while count < due:
                until = min(due, count + _BATCH)
                events = self._between(found, count, until)
                count = until
                if events:
                    yield events
            shown_at = at
            self._reached[found.key] = count
            if failed is not None:
                error = error_in(failed[1], asked="watch", context=self._cluster.context)
                raise error or UnreachableError("The stream ended.")
            following = timeline.next_after(count, at)
            await clock.reach(min(following, at + _LONG_SECONDS))

    def _between(self, found: _Found, begin: int, end: int) -> bytes:
        timeline, store = found.timeline, self._index.store
        events: list[bytes] = []
        for place in range(begin, end):
            op, name = Op(timeline.ops[place]), timeline.keys[place]
            if op is Op.RESET:
                before = timeline.objects_at(place)
                after = timeline.objects_at(_end_of_list(timeline, place))
                for gone in before.keys() - after.keys():
                    at = before[gone]
                    raw = store.read(timeline.places[at], timeline.sizes[at])
                    if found.has(gone, raw):
                        events.append(_event(b"DELETED", raw, found))
                continue
            raw = store.read(timeline.places[place], timeline.sizes[place])
            word = _WORDS.get(op, b"MODIFIED")
            if not found.has(name, raw):
                if not found.labels and not found.fields:
                    continue
                word = b"DELETED"  # it may have had the labels before
            events.append(_event(word, raw, found))
        return b"".join(events)

    def _history(self, path: str, query: dict[str, str]) -> LogHistory:
        history = self._index.logs.get(log_key(self._cluster.server, path, query))
        if history is None:
            raise self._unknown(f"the log of {path.split('/')[-2]}")
        return history

    def _log_body(self, path: str, query: dict[str, str]) -> bytes:
        """Return a log as it was at the moment; of one that was only read whole, the answer of then."""
        try:
            history = self._history(path, query)
        except MissingError:
            return self._nearest_log(path, query)
        timeline = history.timeline_at(self._clock.at)
        if timeline is None:
            return b""
        count = timeline.count_at(self._clock.at)
        begin = self._first_line(history, query, count)
        return b"".join(self._line(history, place) for place in range(begin, count))

    def _nearest_log(self, path: str, query: dict[str, str]) -> bytes:
        """Return the answer to a request for the same container's log, whatever part of it was asked for."""
        for key, answers in self._index.calls.items():
            same = key[:3] == (self._cluster.server, "GET", path)
            if same and log_key("", path, dict(key[3]))[2:] == log_key("", path, query)[2:]:
                answer = answers.at(self._clock.at)
                error = error_in(answer.ended, asked=f"GET {path}", context=self._cluster.context)
                if error is not None:
                    raise error
                return answer.body(self._index.store)
        raise self._unknown(f"GET {path}")

    def _first_line(self, history: LogHistory, query: dict[str, str], count: int) -> int:
        timeline = history.timeline_at(self._clock.at)
        if timeline is None:
            return 0
        if since := query.get("sinceTime"):
            return timeline.since(since.removesuffix("Z").encode(), count)
        tail = query.get("tailLines", "")
        return max(0, count - int(tail)) if tail.isdecimal() else 0

    def _line(self, history: LogHistory, place: int) -> bytes:
        timeline = history.timeline_at(self._clock.at)
        return b"" if timeline is None else self._index.store.read(timeline.places[place], timeline.sizes[place])

    async def _log_lines(self, path: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a log as they came."""
        history, clock, store = self._history(path, query), self._clock, self._index.store
        timeline = history.timeline_at(clock.at)
        if timeline is None:
            return
        count = self._first_line(history, query, timeline.count_at(clock.at))
        follows = query.get("follow") == "true"
        while True:
            if self._is_closed:
                raise UnreachableError("The session with the capture is closed.")
            newer = history.timeline_at(clock.at) or timeline
            if newer is not timeline:
                stamp = timeline.stamps[count - 1] if count else b""
                timeline, count = newer, newer.behind(stamp)
            due = timeline.count_at(clock.at)
            while count < due:
                until = min(due, count + _LINES_BATCH)
                yield b"".join(store.read(timeline.places[at], timeline.sizes[at]) for at in range(count, until))
                count = until
            ended = history.ended_at(clock.at)
            if not follows or (ended is not None and count == len(timeline.ats)):
                return
            following = timeline.ats[count] if count < len(timeline.ats) else clock.at + _LONG_SECONDS
            later = [at for at, _ in history.outcomes if at > clock.at]
            await clock.reach(min([following, *later[:1]]))


class _Stream:
    """A stream of a replay."""

    def __init__(self, chunks: AsyncIterator[bytes], content_type: str) -> None:
        self.content_type = content_type
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks


class _Socket:
    """The websocket of a program that has run: its messages, at once."""

    def __init__(self, run: ProgramRun, index: CaptureIndex) -> None:
        self.protocol = run.protocol
        self._messages = iter(run.messages)
        self._index = index

    async def receive(self) -> Any:
        """Return the next message."""
        import aiohttp

        found = next(self._messages, None)
        if found is None:
            return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)
        _, place, size = found
        return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, self._index.store.read(place, size), None)

    async def send_bytes(self, data: bytes) -> None:
        """Drop what is sent."""


def _version(count: int) -> bytes:
    return b"replay-%d" % count


def _count_in(version: str) -> int | None:
    number = version.removeprefix("replay-")
    return int(number) if number != version and number.isdecimal() and len(number) < 12 else None


def _event(word: bytes, raw: bytes, found: _Found) -> bytes:
    if found.key.form == "table":
        columns = found.timeline.columns or b"[]"
        raw = b'{"kind":"Table","metadata":{},"columnDefinitions":%s,"rows":[%s]}' % (columns, raw)
    return b'{"type":"%s","object":%s}\n' % (word, raw)


def _end_mark(count: int, timeline: SourceTimeline) -> bytes:
    return (
        b'{"type":"BOOKMARK","object":{"kind":"%s","metadata":{"resourceVersion":"%s","annotations":{"%s":"true"}}}}\n'
        % (
            timeline.kind.encode(),
            _version(count),
            _END_MARK.encode(),
        )
    )


def _end_of_list(timeline: SourceTimeline, place: int) -> int:
    """Return the position behind the list that begins at `place`."""
    end = place + 1
    while end < len(timeline.ops) and timeline.ops[end] == Op.LISTED:
        end += 1
    return end


def _whole(raw: bytes, timeline: SourceTimeline) -> bytes:
    """Return an object with its kind, which the items of a list lack."""
    if b'"apiVersion"' in raw[:200] or not timeline.kind:
        return raw
    head = b'{"kind":"%s","apiVersion":"%s",' % (timeline.kind.encode(), timeline.api_version.encode())
    return head + raw[1:]
