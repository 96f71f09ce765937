"""The timelines of a capture, each of one thing: a watched resource, a log, a program's output.

Bytes are in a file of their own (`CaptureStore`); a timeline holds their places.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from enum import IntEnum

import msgspec

from actions.base.errors import UnreadableError
from actions.capture.entries import AnswerEnded

_BUFFER_BYTES = 1 << 20


class CaptureStore:
    """The bytes of a capture, unpacked, in a file without a name; filled once, then read from any thread."""

    def __init__(self) -> None:
        self.size = 0
        self._file = tempfile.TemporaryFile(prefix="eksml-replay-", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed with its owner

    def add(self, data: bytes | memoryview) -> int:
        """Append, and return the place.

        Raises:
            UnreadableError: There is no room.
        """
        place = self.size
        try:
            self._file.write(data)
        except OSError as error:
            raise UnreadableError(f"There is no room to unpack the capture: {error.strerror}.") from error
        self.size += len(data)
        return place

    def flush(self) -> None:
        """Make everything readable."""
        try:
            self._file.flush()
        except OSError as error:
            raise UnreadableError(f"There is no room to unpack the capture: {error.strerror}.") from error

    def read(self, place: int, size: int) -> bytes:
        """Return bytes of a place."""
        return os.pread(self._file.fileno(), size, place)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class Op(IntEnum):
    """One change of a watched resource."""

    RESET = 0
    """A list follows: the objects that are `LISTED` behind it are all there are."""
    LISTED = 1
    ADDED = 2
    MODIFIED = 3
    DELETED = 4


class SourceKey(msgspec.Struct, frozen=True):
    """A resource as it was asked for.

    Args:
        server: Address of the cluster.
        path: List path.
        selectors: Label and field selector.
        form: `json` or `table`.
    """

    server: str
    path: str
    selectors: tuple[tuple[str, str], ...]
    form: str


class SourceTimeline:
    """All that was received of one resource."""

    def __init__(self) -> None:
        self.ats = array("d")
        self.ops = bytearray()
        self.keys: list[str] = []
        self.places = array("Q")
        self.sizes = array("I")
        self.resets: list[int] = []
        """Positions of `Op.RESET`."""
        self.outcomes: list[tuple[float, AnswerEnded | None]] = []
        """Times at which the source began to answer (`None`) or failed, with the error."""
        self.columns: bytes = b""
        """Of a table, as JSON."""
        self.kind = ""
        self.api_version = ""

    def add(self, at: float, op: Op, key: str, place: int, size: int) -> None:
        """Append; times never go backwards."""
        if op is Op.RESET:
            self.resets.append(len(self.ops))
        self.ats.append(max(at, self.ats[-1]) if self.ats else at)
        self.ops.append(op)
        self.keys.append(key)
        self.places.append(place)
        self.sizes.append(size)

    def count_at(self, at: float) -> int:
        """Return how many of the entries had come by then."""
        return bisect_right(self.ats, at)

    def is_listed(self, at: float) -> bool:
        """Return whether a list was complete by then."""
        return bool(self.resets) and self.ats[self.resets[0]] <= at

    def objects_at(self, count: int) -> dict[str, int]:
        """Return the objects after the first `count` entries: positions by key."""
        reset = bisect_right(self.resets, count - 1) - 1
        found: dict[str, int] = {}
        keys, ops = self.keys, self.ops
        for position in range(self.resets[reset] if reset >= 0 else 0, count):
            op = ops[position]
            if op == Op.DELETED:
                found.pop(keys[position], None)
            elif op == Op.RESET:
                found.clear()
            else:
                found[keys[position]] = position
        return found

    def outcome_at(self, at: float) -> AnswerEnded | None:
        """Return the failure that had not been overcome by then."""
        place = bisect_right(self.outcomes, at, key=_moment) - 1
        return self.outcomes[place][1] if place >= 0 else None

    def failure_between(self, since: float, until: float) -> tuple[float, AnswerEnded] | None:
        """Return the first failure after `since` and not after `until`."""
        for place in range(bisect_right(self.outcomes, since, key=_moment), len(self.outcomes)):
            at, failure = self.outcomes[place]
            if at > until:
                return None
            if failure is not None:
                return at, failure
        return None

    def next_after(self, count: int, at: float) -> float:
        """Return when the next entry or outcome comes; infinity for never."""
        following = self.ats[count] if count < len(self.ats) else float("inf")
        place = bisect_right(self.outcomes, at, key=_moment)
        return min(following, self.outcomes[place][0]) if place < len(self.outcomes) else following


def _moment(entry: tuple[float, AnswerEnded | None]) -> float:
    return entry[0]


class Answer(msgspec.Struct, frozen=True):
    """One answer to a request that has a whole body."""

    at: float
    parts: tuple[tuple[int, int], ...]
    """Place and size in the store."""
    ended: AnswerEnded

    def body(self, store: CaptureStore) -> bytes:
        """Return the whole body."""
        return b"".join(store.read(place, size) for place, size in self.parts)


class AnswerTimeline:
    """All answers to the same request."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def at(self, at: float) -> Answer:
        """Return the newest answer of that time; before the first one, that."""
        place = bisect_right(self.answers, at, key=lambda answer: answer.at) - 1
        return self.answers[max(0, place)]


class ProgramRun(msgspec.Struct):
    """One program that ran in a container: its messages with their times."""

    at: float
    protocol: str = ""
    messages: list[tuple[float, int, int]] = msgspec.field(default_factory=list)
    ended: AnswerEnded | None = None


_STAMP_BYTES = 30


class LogTimeline:
    """The lines of one container's log, each once, as the console read them: times, places, sizes, stamps."""

    def __init__(self) -> None:
        self.ats = array("d")
        self.places = array("Q")
        self.sizes = array("I")
        self.stamps: list[bytes] = []
        self._newest = b""
        self._at_newest = 0
        """Lines of the newest stamp."""

    def count_at(self, at: float) -> int:
        """Return how many lines had come by then."""
        return bisect_right(self.ats, at)

    def since(self, stamp: bytes, count: int) -> int:
        """Return the position of the first line of that time or later, among the first `count`."""
        return bisect_left(self.stamps, stamp, hi=count)

    def behind(self, stamp: bytes) -> int:
        """Return the position of the first line later than that time."""
        return bisect_right(self.stamps, stamp)

    def add(self, at: float, line: bytes, store: CaptureStore) -> None:
        """Append a line."""
        stamp = line[:_STAMP_BYTES]
        if stamp != self._newest:
            self._newest, self._at_newest = stamp, 0
        self._at_newest += 1
        self.ats.append(max(at, self.ats[-1]) if self.ats else at)
        self.places.append(store.add(line))
        self.sizes.append(len(line))
        self.stamps.append(stamp)

    def is_new(self, stamp: bytes, number: int) -> bool:
        """Return whether the `number`-th line of that stamp in a stream has not been added before."""
        return number > self._at_newest if stamp == self._newest else stamp > self._newest


class LogHistory:
    """All that was read of one container's log.

    A stream that begins earlier than what was known is a new timeline: it has the older lines, and all others again.
    """

    def __init__(self) -> None:
        self.timelines: list[tuple[float, LogTimeline]] = []
        """With the times of their first lines."""
        self.outcomes: list[tuple[float, AnswerEnded]] = []
        """Times at which streams ended, with the error."""

    def timeline_at(self, at: float) -> LogTimeline | None:
        """Return the timeline that had begun by then; before the first one, that; `None` if no line was ever read."""
        place = bisect_right(self.timelines, at, key=_begin) - 1
        return self.timelines[max(0, place)][1] if self.timelines else None

    def ended_at(self, at: float) -> AnswerEnded | None:
        """Return how the newest stream of that time had ended."""
        place = bisect_right(self.outcomes, at, key=_end) - 1
        return self.outcomes[place][1] if place >= 0 else None

    def open(self) -> LogMerge:
        """Return what adds the lines of one more stream."""
        return LogMerge(self)


def _begin(entry: tuple[float, LogTimeline]) -> float:
    return entry[0]


def _end(entry: tuple[float, AnswerEnded]) -> float:
    return entry[0]


class LogMerge:
    """The lines of one stream: those that an earlier stream had are dropped."""

    def __init__(self, history: LogHistory) -> None:
        self._history = history
        self._timeline: LogTimeline | None = None
        self._stamp = b""
        self._number = 0
        self._begun = b""

    def take(self, at: float, data: bytes, store: CaptureStore) -> None:
        """Add the lines of a part."""
        lines = (self._begun + data).splitlines(keepends=True)
        self._begun = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        for line in lines:
            self._take(at, line, store)

    def finish(self, at: float, store: CaptureStore) -> None:
        """Add a last line that did not end."""
        if self._begun:
            self._take(at, self._begun, store)
            self._begun = b""

    def _take(self, at: float, line: bytes, store: CaptureStore) -> None:
        stamp = line[:_STAMP_BYTES]
        self._number = self._number + 1 if stamp == self._stamp else 1
        self._stamp = stamp
        if self._timeline is None:
            self._timeline = self._timeline_for(at, stamp)
        if self._timeline.is_new(stamp, self._number):
            self._timeline.add(at, line, store)

    def _timeline_for(self, at: float, stamp: bytes) -> LogTimeline:
        known = self._history.timelines
        if not known or stamp < known[-1][1].stamps[0]:
            known.append((at, LogTimeline()))
        return known[-1][1]
