"""The followers of a container's log and of a file in a pod: each line once in the output; and their warnings.

After a cut, a crash or a change of pod, reading continues where the stored lines end: each line of a file is stored
with the offset of its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.line_cutter import CutPolicy, LineCutter
from actions.base.untrusted import clean_text
from actions.blueprint.references import UID
from actions.cluster.http.errors import ApiError, SilenceError
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerEnd, ContainerLog, LogFollower, LogObserver
from actions.cluster.logs.lines import LogLine
from actions.cluster.logs.pod_file import (
    CHOICE_SECONDS,
    IDLE_SECONDS,
    ContainerRef,
    FileState,
    find_file,
    follow_output,
    is_glob,
    read_pod_file,
)
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import ONCE, PollInterval
from actions.run.context.stage_context import StageContext
from actions.run.output.writer import OutputSource, OutputWriter

T = TypeVar("T")


class FollowerWarnings:
    """The warnings of one stage, by topic.

    Args:
        warn: Takes all of them in one line; empty when there are none.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._texts: dict[str, str] = {}

    def set(self, topic: str, text: str) -> None:
        """Set the warning of a topic; it replaces an earlier one."""
        if self._texts.get(topic) != text:
            self._texts[topic] = text
            self._publish()

    def clear(self, topic: str) -> None:
        """Clear the warning of a topic, if there is one."""
        if self._texts.pop(topic, None) is not None:
            self._publish()

    def _publish(self) -> None:
        texts = list(dict.fromkeys(self._texts.values()))
        more = f" And {len(texts) - 1} more of the kind." if len(texts) > 1 else ""
        self._warn(f"{texts[0]}{more}" if texts else "")


async def outcome_of(awaitable: Awaitable[T]) -> T | Exception:
    """Return the result, or the failure of any kind. Only a cancellation passes."""
    (found,) = await asyncio.gather(awaitable, return_exceptions=True)
    if isinstance(found, BaseException) and not isinstance(found, Exception):
        raise found
    return found


def sentence_of(error: Exception) -> str:
    """Return a failure as a sentence."""
    if isinstance(error, ConsoleError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.strerror or error}."
    return f"unexpected {type(error).__name__}: {error}."


FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Pause between two requests while a right is missing, which may be granted at any time."""
_PATIENCE_SECONDS: tuple[tuple[tuple[type[Exception], ...], float], ...] = (
    ((SilenceError,), 0.0),
    ((AccessError, OSError), 3.0),
    ((Exception,), 15.0),
)
"""Time before a failure becomes a warning: a silence has lasted by then, and connections break all the time."""
_GONE = "gone"
_STARTED = "Started"
"""The kubelet's event for a container that begins."""
_VANISHED = "its pod was gone before the log was read to its end"
_UNSEEN = "its pod was gone before it was seen to begin, and its events may not be read: if it began, its log is lost"
STOPPED = "the stage was stopped before the log was read to its end"
_FORBIDDEN = 403


def gap_key(source: OutputSource) -> str:
    """Return the key of the gap behind the last line that was read of a container."""
    return f"unread-{source.line.number}"


class PodFollower(LogObserver):
    """The follower of one container, which reconnects after every failure, behind the last kept line.

    Args:
        context: The stage.
        writer: Its output.
        warnings: Gets failures that last.
        place: The container.
        source: The container in the output.
        has_started: True if it had begun to run when it was found.
    """

    def __init__(
        self,
        context: StageContext,
        writer: OutputWriter,
        warnings: FollowerWarnings,
        place: ContainerLog,
        source: OutputSource,
        *,
        has_started: bool,
    ) -> None:
        self._context = context
        self._writer = writer
        self._warnings = warnings
        self._place = place
        self._source = source
        self._topic = f"log {place.pod}/{place.container}"
        self._key = gap_key(source)
        self._interval = self._new_interval()
        self._error: Exception | None = None
        self._refused: OSError | None = None
        """The answer of the disk, until it takes a line again: by that lines are lost, whatever fails later."""
        self._failing_since = 0.0
        self._losses = 0
        self._has_started = has_started

    @property
    def is_failing(self) -> bool:
        """True if the log cannot be read, or kept, at present."""
        return self._error is not None

    @property
    def is_forbidden(self) -> bool:
        """True if a missing right is the reason."""
        return isinstance(self._error, ApiError) and self._error.status.code == _FORBIDDEN

    async def follow(self) -> None:
        """Follow to the container's end."""
        while not self._source.is_ended:
            try:
                connection = await self._context.connect(ONCE)
                follower = LogFollower(
                    connection.session,
                    self._place,
                    on_lines=self._keep,
                    since=self._source.cursor,
                    clock=self._context.clock,
                    observer=self,
                )
                end = await follower.run()
                self._has_started = self._has_started or follower.has_started
                gap = "" if end.reason != _GONE or follower.is_read else await self._gap_of_gone(connection)
                self._end(end, gap)
            except ConsoleError as error:
                self.failing(error)
                await self._interval.pause_after(error)
            except OSError as error:
                self.fail(error)
                await self._interval.pause_after()

    def give_up(self, *, has_more: bool) -> None:
        """Record the gap at the end of the stage.

        Args:
            has_more: True if lines may be missing although the log can be read and kept.
        """
        if self._error is not None:
            self._say(self._error)
            self._lose(self._error)
        elif has_more:
            self._writer.open_gap(self._source, self._key, STOPPED)

    def reading(self) -> None:
        """See `LogObserver`. A failure of the disk is not over yet."""
        if self._refused is None:
            self._heal()
        else:
            self._error = self._refused

    def failing(self, error: ConsoleError) -> None:
        """See `LogObserver`."""
        self.fail(error)

    def lost(self, why: str) -> None:
        """See `LogObserver`."""
        self._losses += 1
        self._writer.open_gap(self._source, f"lost-{self._source.line.number}-{self._losses}", why, mark="")

    def _keep(self, batch: LogBatch) -> None:
        self._writer.write(self._source, batch)
        self._heal()

    async def _gap_of_gone(self, connection: ClusterConnection) -> str:
        """Return the gap that a pod leaves that is gone; empty if its container never began, by its events."""
        if self._has_started:
            return _VANISHED
        selector = f"involvedObject.kind=Pod,involvedObject.name={self._place.pod}"
        try:
            events = await connection.list_objects(
                "v1", "Event", namespace=self._place.namespace, field_selector=selector
            )
        except AccessError:
            return _UNSEEN
        began = any(
            event.get("reason") == _STARTED and (event.get("involvedObject") or {}).get("uid") == self._place.uid
            for event in events
        )
        return _VANISHED if began else ""

    def _end(self, end: ContainerEnd, gap: str) -> None:
        if self._error is not None and end.reason == _GONE:
            self._lose(self._error)
        elif gap:
            self._writer.open_gap(self._source, self._key, gap)
        else:
            self._heal()
        self._writer.write_end(self._source, end.exit_code, end.reason)
        self._warnings.clear(self._topic)

    def fail(self, error: Exception) -> None:
        """Note a failure, which becomes a warning once it has lasted for a while."""
        now = self._context.clock.monotonic()
        if self._error is None:
            self._failing_since = now
        self._error = error
        self._refused = error if isinstance(error, OSError) else self._refused
        if now - self._failing_since >= next(time for kinds, time in _PATIENCE_SECONDS if isinstance(error, kinds)):
            self._say(error)

    def _say(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._warnings.set(self._topic, f"Logs cannot be kept: {sentence_of(error)}")
        else:  # the gap's marker shows the place; of lines that the disk refuses, none is lost yet
            self._warnings.set(self._topic, f"Logs cannot be read: {sentence_of(error)}")
            if not isinstance(error, SilenceError):  # the follower has marked it, and no line is lost
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        error = self._refused or error
        verb, reason = "kept" if isinstance(error, OSError) else "read", sentence_of(error).rstrip(".")
        mark = f"the log cannot be {verb}: {reason}"
        self._writer.open_gap(self._source, self._key, f"it could not be {verb}: {reason}", mark=mark)

    def _heal(self) -> None:
        if self._error is not None:
            self._error, self._refused, self._interval = None, None, self._new_interval()
            self._warnings.clear(self._topic)
        # also one that an earlier runner has left open
        self._writer.close_gap(self._key, "the log goes on from where it stopped", self._source)

    def _new_interval(self) -> PollInterval:
        return PollInterval(
            self._context.clock, first_seconds=FIRST_PAUSE_SECONDS, longest_seconds=LONGEST_PAUSE_SECONDS
        )


_TOPIC = "file"
_GAP = "unread-file"
_GROWING_FILE = CutPolicy(overflow="cut", keeps_ends=True)
"""Nothing is dropped, and newlines are kept: the lengths of the lines add up to places in the file."""

Pod = Mapping[str, Any]


class FileFollower:
    """The follower of a log file, or of a program's output, in a pod of the stage.

    Args:
        context: The stage.
        writer: Its output.
        path: Of the file, from the blueprint, or empty. One with `{uid}` is not known before `belong_to`.
        argv: Prints the log from its beginning; empty if it is a file.
    """

    def __init__(self, context: StageContext, writer: OutputWriter, *, path: str, argv: tuple[str, ...]) -> None:
        self._context = context
        self._writer = writer
        self._pattern = path
        self._path = ""
        self._argv = argv
        self._source: OutputSource | None = None
        self._cutter: LineCutter | None = None
        self._end = 0
        """The offset after the last line that was cut."""
        self._is_last = False
        self._error: Exception | None = None
        self.is_read = False
        """True if the output holds the whole log, up to its end when the stage had ended."""
        self.has_pod = False
        """True if the last search found a pod to read in."""

    @property
    def is_failing(self) -> bool:
        """True if the log cannot be read, or kept, at present."""
        return self._error is not None

    def belong_to(self, pod: Pod | None) -> None:
        """Set the pod that the file is named after; without one the last stays, as it may go before its log is read."""
        if pod is not None:
            self._path = self._context.text(self._pattern).replace(UID, str(pod["metadata"]["uid"]))

    def end_soon(self) -> None:
        """Read the rest once, and end, as the stage has ended."""
        self._is_last = True

    async def follow_in(
        self, connection: ClusterConnection, pod: Pod | None, container: str, warnings: FollowerWarnings
    ) -> None:
        """Read in a pod, if there is one, and set or clear the warning. The caller repeats the call.

        Raises:
            ConsoleError, OSError: The log cannot be read, or kept, now.
        """
        self.has_pod = pod is not None
        if pod is None:
            return
        try:
            await self._follow(connection, pod, container or pod["spec"]["containers"][0]["name"])
        except (RefusedError, MissingError):  # no such file yet, or the container has not begun, or has ended
            return
        except (ConsoleError, OSError) as error:
            self._error = error
            verb = "kept" if isinstance(error, OSError) else "read"
            if not isinstance(error, UnreachableError):  # connections break all the time, and reading continues
                warnings.set(_TOPIC, f"Logs cannot be {verb}: {sentence_of(error)}")
            raise
        finally:
            if self._error is None:
                warnings.clear(_TOPIC)

    async def _follow(self, connection: ClusterConnection, pod: Pod, container: str) -> None:
        """Read in one pod until the connection breaks, the file is silent, or another file replaces it."""
        if not self._path and UID not in self._pattern:
            self._path = self._context.text(self._pattern)
        place = ContainerRef(pod["metadata"]["namespace"], pod["metadata"]["name"], container)
        if self._argv:
            await self._follow_program(connection, place, str(pod["metadata"]["uid"]))
            self.is_read = self._is_last
            return
        state = await find_file(connection.session, place, self._path) if self._path else None
        self._error = None  # the pod has answered
        if state is None:
            self.is_read = self._is_last
            return
        await self._follow_file(connection, place, pod, state)

    async def _follow_file(
        self, connection: ClusterConnection, place: ContainerRef, pod: Pod, state: FileState
    ) -> None:
        source = self._taken_up(place, state.path, f"{state.path}#{state.inode}{_owner_of(pod, place, state.path)}")
        if state.size_bytes < source.offset:
            self._writer.write_file_lines(source, [(self._marker("the file was cut short: reading it anew"), 0)])
        if state.size_bytes == source.offset and self._is_last:
            self.is_read = True
            return
        idle = CHOICE_SECONDS if is_glob(self._path) or UID in self._pattern else IDLE_SECONDS
        chunks = read_pod_file(connection.session, place, state.path, offset=source.offset, idle_seconds=idle)
        await self._store(chunks, source.offset, size_bytes=state.size_bytes)

    async def _follow_program(self, connection: ClusterConnection, place: ContainerRef, pod_uid: str) -> None:
        source = self._taken_up(place, self._argv[0], f"{' '.join(self._argv)}#{pod_uid}")
        chunks = _behind(follow_output(connection.session, place, self._argv), source.offset)
        await self._store(chunks, source.offset, size_bytes=None)

    async def _store(self, chunks: AsyncIterator[bytes], offset: int, *, size_bytes: int | None) -> None:
        """Keep lines as they come; at the stage's end, stop where the file ended when its size was read."""
        self._cutter, self._end = LineCutter(_GROWING_FILE), offset
        async for chunk in chunks:
            offset += len(chunk)
            self._keep(self._cutter.feed(chunk))
            self._error = None
            self._writer.close_gap(_GAP)
            if self._is_last and size_bytes is not None and offset >= size_bytes:
                self.is_read = True
                return

    def finish(self) -> None:
        """Keep the last line even without a newline, as the file is no longer written.

        Raises:
            OSError: The disk is full.
        """
        if self._error is not None:
            verb = "kept" if isinstance(self._error, OSError) else "read"
            why = f"{self._pattern or self._argv[0]} could not be {verb} to its end: {sentence_of(self._error)}"
            self._writer.open_gap(self._source, _GAP, why.rstrip("."))
        if self._cutter is not None:
            self._keep(self._cutter.finish())
        if self._source is not None and not self._source.is_ended:
            self._writer.write_end(self._source, None, "Ended")

    def _keep(self, lines: list[bytes]) -> None:
        if not lines or self._source is None:
            return
        now = int(self._context.clock.now().timestamp() * 1e9)
        placed: list[tuple[LogLine, int]] = []
        for line in lines:
            self._end += len(line)
            placed.append((LogLine(now, clean_text(line.removesuffix(b"\n").decode("utf-8", "replace"))), self._end))
        self._writer.write_file_lines(self._source, placed)

    def _taken_up(self, place: ContainerRef, shown: str, uid: str) -> OutputSource:
        self._source = self._writer.source(place.namespace, place.pod, shown, uid)
        return self._source

    def _marker(self, text: str) -> LogLine:
        now = int(self._context.clock.now().timestamp() * 1e9)
        return LogLine(now, f"-- {text} --", is_marker=True)


def newest_running(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the pod to read in: the newest that runs."""
    return newest(
        [
            pod
            for pod in pods
            if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
    )


def newest(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest of some pods."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


async def _behind(chunks: AsyncIterator[bytes], offset: int) -> AsyncIterator[bytes]:
    """Yield the chunks behind the first `offset` bytes."""
    async for chunk in chunks:
        skipped = min(offset, len(chunk))
        offset -= skipped
        if skipped < len(chunk):
            yield chunk[skipped:]


def _owner_of(pod: Pod, place: ContainerRef, path: str) -> str:
    """Return the pod's uid for a file of its own; empty for one on a claim, which is the same file in every pod."""
    claims = {entry["name"] for entry in pod["spec"].get("volumes") or () if (entry.get("persistentVolumeClaim") or {})}
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or ():
            is_under = path.startswith(str(mount["mountPath"]).rstrip("/") + "/")
            if container["name"] == place.container and mount["name"] in claims and is_under:
                return ""
    return f"@{pod['metadata']['uid']}"
