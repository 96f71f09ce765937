"""One container's log, followed for as long as the container exists: every line once, in order.

The API's stream ends for many reasons. Each time the log is requested again from the second of the last line, and the
lines that were taken before are dropped. A marker replaces lines that the server has lost.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.base.backoff import Backoff, backoff_seconds
from actions.base.clock import Clock, SystemClock, format_rfc3339, parse_rfc3339
from actions.base.errors import ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.line_cutter import LineCutter
from actions.base.names import segment
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession, RequestClass
from actions.cluster.http.errors import ApiMissingError, ApiRefusedError, SilenceError, requested_wait_seconds
from actions.cluster.http.transport import ByteStream
from actions.cluster.logs.batch import LogBatch, batches_of, read_lines
from actions.cluster.logs.lines import KUBELET_LOG, NANOSECONDS, START, LogCursor, LogLine

REST_SECONDS = 0.1
PLENTY_BYTES = 1 << 15


class ReadCoalescer:
    """The waits after small pieces that follow each other closely, as each costs as much as some fifty lines.

    A line after a silence is not delayed, nor is a log that sends faster than it is read.

    Args:
        clock: For waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._went_on_at = -math.inf

    async def wait(self, size_bytes: int) -> None:
        """Wait until the next piece may be read.

        Args:
            size_bytes: Size of the piece that has just been taken.
        """
        if size_bytes < PLENTY_BYTES and self._clock.monotonic() - self._went_on_at < REST_SECONDS:
            await self._clock.sleep(REST_SECONDS)
        self._went_on_at = self._clock.monotonic()


class ContainerEnd(msgspec.Struct, frozen=True):
    """The final end of a container. `exit_code` is `None` if the pod is gone and it is not known."""

    exit_code: int | None
    reason: str


class ContainerLifecycle(msgspec.Struct, frozen=True):
    """The state of a container at one moment, from its pod. `end` is set if it will not run again."""

    has_started: bool
    restarts: int
    started_at_ns: int
    last_exit: ContainerEnd | None
    end: ContainerEnd | None


def container_lifecycle(pod: Mapping[str, Any], container: str) -> ContainerLifecycle:
    """Read the state of the container of that name from a pod's document."""
    status = pod.get("status") or {}
    entries = [
        entry
        for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for entry in status.get(field) or ()
        if entry.get("name") == container
    ]
    entry: Mapping[str, Any] = entries[0] if entries else {}
    state = entry.get("state") or {}
    ended, last = _end_of(state.get("terminated")), _end_of((entry.get("lastState") or {}).get("terminated"))
    end = None
    if status.get("phase") in ("Succeeded", "Failed") and "running" not in state:
        end = ended or last or ContainerEnd(None, one_line(str(status.get("reason") or status.get("phase"))))
    elif ended is not None and _stays_ended(pod, ended):
        end = ended
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    started_at_ns = int(parse_rfc3339(began).timestamp()) * NANOSECONDS if began else 0
    restarts = int(entry.get("restartCount") or 0)
    has_started = restarts > 0 or "running" in state or "terminated" in state
    return ContainerLifecycle(has_started, restarts, started_at_ns, last_exit=last or ended, end=end)


def _stays_ended(pod: Mapping[str, Any], ended: ContainerEnd) -> bool:
    policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
    return policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)


def _end_of(terminated: Mapping[str, Any] | None) -> ContainerEnd | None:
    if not terminated:
        return None
    code = terminated.get("exitCode")
    return ContainerEnd(int(code) if code is not None else None, one_line(str(terminated.get("reason") or "")))


__all__ = ["ContainerEnd", "ContainerLog", "LogCursor", "LogFollower", "LogLine", "LogObserver", "follow", "read_log"]

OnLines = Callable[[LogBatch], Awaitable[None] | None]

_SILENCE_SECONDS = 15.0
_LONGEST_SILENCE_SECONDS = 90.0
_ANSWER_SECONDS = 10.0
_SLICE_LINES = 512
_GAP_LOOKS = 3
_MOST_LAST_READS = 5
_MOST_SHORT_READS = 12
"""Attempts to read a log of which the last lines are known to be missing."""
_MOST_REFUSALS = 6
"""Refusals after which the log of an ended container is given up: a kubelet may just be restarting."""
_MOST_COMPARED = 64
_GAP_LOOK_SECONDS = 0.4
_NO_LOG = b"unable to retrieve container logs for "
"""The beginning of a kubelet's only line, with status 200 and no timestamp, once the runtime has removed the container.

Source: docs/facts/real-node.md#logs
"""


class ContainerLog(msgspec.Struct, frozen=True):
    """One container of one pod. With a `uid`, a later pod of the same name is another source."""

    namespace: str
    pod: str
    container: str
    uid: str = ""

    @property
    def path(self) -> str:
        """Return the pod's path."""
        return f"/api/v1/namespaces/{segment(self.namespace)}/pods/{segment(self.pod)}"


class LogObserver:
    """The reports of a follower besides the lines. Does nothing; override what is wanted."""

    def reading(self) -> None:
        """Take the news that the log can be read: a stream is open, or there is none to open yet."""

    def failing(self, error: ConsoleError) -> None:
        """Take the error of an attempt that will be repeated."""

    def lost(self, why: str) -> None:
        """Take the news that lines are lost; a marker in the log reports it, too."""


class LogFollower:
    """The follower of one container's log. `cursor` is its position, also after an error, for another to continue.

    `is_read` is true if the last stream ended by itself: of a pod that is then gone, nothing is known to be missing.
    `has_started` is true once the container was seen to have begun. Without a position and a limit, the log begins with
    that of the container before the last restart.

    Args:
        session: The session.
        source: The container.
        on_lines: Receives the lines in batches; if it returns an awaitable, reading waits for it.
        since: The position to continue from.
        tail_lines: The number of old lines to begin with; all of them if `None`. Ignored with `since`.
        clock: For waits.
        silence_seconds: A stream silent for this long is opened again, once a request for the log's last line has an
            answer: streams from a node without a network, and of a program that prints nothing, are equally silent. It
            doubles with each silence, up to 90 s, until there is a line.
        observer: Receives everything besides the lines.
    """

    def __init__(
        self,
        session: KubeSession,
        source: ContainerLog,
        *,
        on_lines: OnLines,
        since: LogCursor | None = None,
        tail_lines: int | None = None,
        clock: Clock | None = None,
        silence_seconds: float = _SILENCE_SECONDS,
        observer: LogObserver | None = None,
    ) -> None:
        self.cursor = since or START
        self.is_read = False
        self.has_started = self.cursor.at_ns > 0
        self._observer = observer or LogObserver()
        self._refusals = 0
        self._session = session
        self._source = source
        self._on_lines = on_lines
        self._tail_lines = tail_lines
        self._clock = clock or SystemClock()
        self._backoff = Backoff(self._clock, first_seconds=0.2, longest_seconds=3.0, jitter=1.0, peace_seconds=20.0)
        self._silence_seconds = silence_seconds
        self._silences = 1
        """The number of this silence since the last line."""
        self._restarts: int | None = None
        self._has_place = self.cursor.seen > 0  # without a line there, it is a time to begin at

    async def run(self) -> ContainerEnd:
        """Follow until the container has ended for good, or its pod is gone.

        Raises:
            AccessError: No right to read logs or pods, or no credentials.
        """
        while True:
            try:
                lifecycle = await self._lifecycle()
                self.has_started = self.has_started or lifecycle.has_started
                await self._catch_up(lifecycle)
            except (MissingError, UnreachableError) as error:
                if isinstance(error, MissingError) and not _is_of_a_proxy(error):
                    return ContainerEnd(None, "gone")
                self._observer.failing(error)
                await self._backoff.wait(requested_wait_seconds(error))
                continue
            wish = 0.0
            try:
                if lifecycle.end is not None:
                    await self._read_to_end()
                    return lifecycle.end
                if lifecycle.has_started:
                    self.is_read = False
                    await self._read(follow=True)
                    self.is_read = True
                else:
                    self._observer.reading()
            except SilenceError:
                self._silences += 1
                await self._wait_for_answer()
                continue
            except (MissingError, ApiRefusedError) as error:
                self._refusals += 1
                if lifecycle.end is not None and self._refusals >= _MOST_REFUSALS:
                    await self._lose("the log is not available any more")
                    return lifecycle.end
                self._observer.failing(error)
            except UnreachableError as error:  # throttled or cut: the next look at the pod decides
                self._observer.failing(error)
                wish = requested_wait_seconds(error)
            await self._backoff.wait(wish)

    async def _wait_for_answer(self) -> None:
        """Ask for the log's last line until there is an answer of any kind, with marks where none comes in time."""
        query = {"container": self._source.container, "tailLines": "1"}
        is_marked = False
        while True:
            try:
                await self._session.request(
                    "GET", f"{self._source.path}/log", query=query, accept="*/*", deadline_seconds=_ANSWER_SECONDS
                )
            except (MissingError, RefusedError):
                return  # the next look at the pod decides
            except UnreachableError as error:
                if not is_marked:
                    await self._mark(f"whether more was printed is not known: {error.message.rstrip('.')}")
                is_marked, self._silences = True, 1
                self._observer.failing(SilenceError(error.message, hint=error.hint))
                await self._backoff.wait(requested_wait_seconds(error))
                continue
            if is_marked:
                await self._mark("the log can be read again")
            return

    async def _catch_up(self, lifecycle: ContainerLifecycle) -> None:
        """After a restart, read the rest of the previous container's log, then mark the restart."""
        before = self._restarts
        if before is None:
            is_behind = lifecycle.restarts > 0 and START.at_ns < self.cursor.at_ns < lifecycle.started_at_ns
            is_new = self.cursor.at_ns == START.at_ns and self._tail_lines is None
            before = 0 if is_new else lifecycle.restarts - is_behind
        if lifecycle.restarts > before:
            try:
                await self._read_to_end(previous=True)
            except (ApiRefusedError, MissingError):
                await self._lose("the log of the container before the restart is gone")
            times = lifecycle.restarts - before
            exited = (
                f" (exit {lifecycle.last_exit.exit_code}, {lifecycle.last_exit.reason})" if lifecycle.last_exit else ""
            )
            await self._mark(f"container restarted{exited}" + (f", {times} times" if times > 1 else ""))
            self._has_place = False
        self._restarts = lifecycle.restarts

    async def _read_to_end(self, *, previous: bool = False) -> None:
        """Read the log of an ended container again until there is nothing new.

        An answer that was cut short may end as cleanly as a complete one, and be the same twice.
        """
        known: tuple[LogCursor, bytes] | None = None
        for number in range(_MOST_SHORT_READS):
            resume, rest = await self._read(follow=False, previous=previous)
            is_whole = await self._is_whole(rest, previous=previous)
            is_same = (self.cursor, rest) == known
            if is_whole or (is_whole is None and (is_same or number + 1 >= _MOST_LAST_READS)):
                break
            if is_same:
                await self._backoff.wait(0.0)
            known = self.cursor, rest
        else:
            await self._lose("the server ends the log before its last lines: lines are missing")
            rest = b""  # a part of a line
        if rest:
            await self._take([rest], resume)

    async def _is_whole(self, rest: bytes, *, previous: bool) -> bool | None:
        """Return whether the log's last lines are those that were read last; `None` if that is not known.

        A server finds the last lines at once, but searches the whole log for lines after a time.
        """
        wanted = self.cursor.seen + 1  # an older one proves that none is missing before the newest
        if wanted > _MOST_COMPARED:
            return None
        query = {"tailLines": str(wanted + bool(rest))} | ({"previous": "true"} if previous else {})
        cutter, lines = LineCutter(KUBELET_LOG), list[bytes]()
        async with self._open(query) as stream:
            async for chunk in stream:
                lines += cutter.feed(chunk)
        written = [line.at_ns for batch in read_lines(lines, previous_ns=0) for line in batch if not line.is_marker]
        if any(at_ns > self.cursor.at_ns for at_ns in written):
            return False
        newest = [self.cursor.at_ns] * self.cursor.seen
        is_same = len(written) == wanted and written[0] < self.cursor.at_ns and written[1:] == newest
        return True if is_same and b"".join(cutter.finish()) == rest else None

    async def _read(self, *, follow: bool, previous: bool = False) -> tuple[_Resume, bytes]:
        """Read one stream to its end.

        Returns:
            The filter of new lines, and the bytes after the last newline: a line, or a part of one.
        """
        query = {"follow": "true"} if follow else {}
        if previous:
            query["previous"] = "true"
        if self.cursor.at_ns:
            query["sinceTime"] = _second_of(self.cursor.at_ns)
        elif self._tail_lines is not None:
            query["tailLines"] = str(self._tail_lines)
        cutter, resume = LineCutter(KUBELET_LOG), _Resume(self.cursor, has_place=self._has_place and not previous)
        coalescer = ReadCoalescer(self._clock)
        async with self._open(query) as stream:
            self._observer.reading()
            async for chunk in stream:
                await self._take(cutter.feed(chunk), resume)
                await coalescer.wait(len(chunk))
        rest = b"".join(cutter.finish())
        if rest.startswith(_NO_LOG):
            await self._take([rest], resume)
        self._refusals = 0
        return resume, rest

    def _open(self, query: Mapping[str, str]) -> AbstractAsyncContextManager[ByteStream]:
        asked = {"container": self._source.container, "timestamps": "true", **query}
        idle = backoff_seconds(
            self._silences, first_seconds=self._silence_seconds, longest_seconds=_LONGEST_SILENCE_SECONDS
        ) * (1.0 + random.random() / 2)
        return self._session.stream(
            f"{self._source.path}/log", query=asked, idle_seconds=idle, accept="*/*", request_class=RequestClass.LOGS
        )

    async def _take(self, lines: list[bytes], resume: _Resume) -> None:
        if lines and lines[-1].startswith(_NO_LOG):
            raise MissingError(f"The log of {self._source.container} has been removed.")
        for start in range(0, len(lines), _SLICE_LINES):
            for batch in resume.fresh(lines[start : start + _SLICE_LINES]):
                if resume.lost_its_place:
                    resume.lost_its_place = False
                    await self._explain_gap(batch.first_ns)
                await self._deliver(batch)
                self.cursor = batch.passed_by(self.cursor)
                self._has_place = True
                self._refusals = 0
                self._silences = 1
                self._backoff.reset()
            if start:
                await asyncio.sleep(0)

    async def _explain_gap(self, resumed_at_ns: int) -> None:
        """Find out why the last line taken is not in the log any more: a restart, or lines that the server dropped.

        The pod's status may lag behind the log, so it is read more than once.

        Raises:
            _RestartedError: It is the log of a later container.
        """
        for _ in range(_GAP_LOOKS):
            try:
                lifecycle = await self._lifecycle()
            except MissingError:
                break
            if self._restarts is not None and lifecycle.restarts > self._restarts:
                raise _RestartedError(f"{self._source.container} has been restarted.")
            await self._clock.sleep(_GAP_LOOK_SECONDS)
        missing = (resumed_at_ns - self.cursor.at_ns) / NANOSECONDS
        await self._lose(f"the server no longer has the log of {missing:.1f} s before this line: lines may be missing")

    async def _lose(self, text: str) -> None:
        await self._mark(text)
        self._observer.lost(text)

    async def _mark(self, text: str) -> None:
        for batch in batches_of([LogLine(self.cursor.at_ns, f"-- {text} --", is_marker=True)]):
            await self._deliver(batch)

    async def _deliver(self, batch: LogBatch) -> None:
        result = self._on_lines(batch)
        if inspect.isawaitable(result):
            await result

    async def _lifecycle(self) -> ContainerLifecycle:
        pod = await self._session.get(self._source.path)
        uid = (pod.get("metadata") or {}).get("uid", "")
        if self._source.uid and uid != self._source.uid:
            raise MissingError(f"The pod {self._source.namespace}/{self._source.pod} has been replaced.")
        return container_lifecycle(pod, self._source.container)


async def follow(
    session: KubeSession,
    source: ContainerLog,
    *,
    on_lines: OnLines,
    since: LogCursor | None = None,
    tail_lines: int | None = None,
    clock: Clock | None = None,
) -> ContainerEnd:
    """Follow one container to its end; see `LogFollower`."""
    follower = LogFollower(session, source, on_lines=on_lines, since=since, tail_lines=tail_lines, clock=clock)
    return await follower.run()


async def read_log(
    session: KubeSession,
    source: ContainerLog,
    *,
    tail_lines: int | None = None,
    since: LogCursor | None = None,
    previous: bool = False,
    limit_bytes: int = 32 << 20,
    deadline_seconds: float = 60.0,
) -> list[LogLine]:
    """Read the log as it is now.

    Args:
        session: The session.
        source: The container; its uid is not checked.
        tail_lines: The number of last lines; all of them if `None`.
        since: Only lines after this cursor.
        previous: The log of the container before the last restart.
        limit_bytes: The server stops after this many bytes.
        deadline_seconds: For the whole answer.

    Raises:
        MissingError: No such pod, or the log has been removed with its container.
        RefusedError: The container has not started, or there is no previous one.
    """
    query = {"container": source.container, "timestamps": "true", "limitBytes": str(limit_bytes)}
    if previous:
        query["previous"] = "true"
    if tail_lines is not None:
        query["tailLines"] = str(tail_lines)
    if since is not None and since.at_ns:
        query["sinceTime"] = _second_of(since.at_ns)
    body = await session.request(
        "GET", f"{source.path}/log", query=query, accept="*/*", deadline_seconds=deadline_seconds
    )
    if body.startswith(_NO_LOG):
        raise MissingError(f"The log of {source.container} has been removed.")
    cutter = LineCutter(KUBELET_LOG)
    batches = _Resume(since or START).fresh(cutter.feed(body) + cutter.finish())
    return [line for batch in batches for line in batch]


class _RestartedError(UnreachableError):
    """The stream belongs to a later container than the one followed."""


class _Resume:
    """The filter of a stream, requested by the second, that drops the lines taken before.

    With `has_place`, the last line taken should be in this stream; `lost_its_place` is set if it was not.
    """

    def __init__(self, cursor: LogCursor, *, has_place: bool = False) -> None:
        self.lost_its_place = False
        self._cursor = cursor
        self._to_skip = cursor.seen
        self._latest_ns = cursor.at_ns
        self._is_past = cursor.at_ns == 0
        self._has_place = has_place

    def fresh(self, lines: list[bytes]) -> list[LogBatch]:
        """Return the lines that are new."""
        batches = read_lines(lines, previous_ns=self._latest_ns)
        if batches:
            self._latest_ns = batches[-1].at_ns(-1)
        if self._is_past:
            return batches
        return [fresh for batch in batches if (fresh := self._behind(batch)) is not None]

    def _behind(self, batch: LogBatch) -> LogBatch | None:
        """Return the part of a batch after the cursor; `None` if there is none."""
        if self._is_past or batch.is_marker:
            return batch
        known = 0
        while known < len(batch) and self._was_taken(batch.at_ns(known)):
            known += 1
        if known < len(batch):
            self._is_past = True
            self.lost_its_place = self._has_place and self._to_skip == self._cursor.seen
        return batch.without_first(known) if known else batch

    def _was_taken(self, at_ns: int) -> bool:
        """Return whether the next line, written at that time, was taken before."""
        if at_ns == self._cursor.at_ns and self._to_skip:
            self._to_skip -= 1
            return True
        return at_ns < self._cursor.at_ns


def _is_of_a_proxy(error: MissingError) -> bool:
    """Return whether a 404 is not the API server's own, which has a reason in its `Status`."""
    return isinstance(error, ApiMissingError) and not error.status.reason


def _second_of(at_ns: int) -> str:
    """Return a time for `sinceTime`, of which the API keeps whole seconds."""
    return format_rfc3339(datetime.fromtimestamp(at_ns // NANOSECONDS, UTC))
