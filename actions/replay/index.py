"""The index of a capture: one pass over its entries, after which every question about any of its moments is cheap.

Lists and watches of a resource become one timeline of changes, whatever streams they came in; logs are lines, each
once; whole answers are kept by request. Entries of a capture are foreign: a number that names nothing, or a body that
is not what it should be, is passed over.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from actions.base.decoding import json_decoder
from actions.base.errors import UnreadableError
from actions.capture.entries import (
    Answered,
    AnswerEnded,
    AnswerPart,
    AnyEntry,
    Asked,
    Began,
    Connected,
    IdentityAnswer,
    RunFile,
    RunLived,
    RunShown,
    RunWritten,
    Stopped,
    decoder,
    encoded,
)
from actions.capture.reader import CaptureReader
from actions.capture.runs import KEPT, RUN_NAME
from actions.cluster.watch.json_format import read_event
from actions.replay.timelines import (
    Answer,
    AnswerTimeline,
    CaptureStore,
    LogHistory,
    LogMerge,
    Op,
    ProgramRun,
    SourceKey,
    SourceTimeline,
)

_SELECTORS = ("labelSelector", "fieldSelector")
_LOG = re.compile(r"(?P<pod>/api/v1/namespaces/[^/]+/pods/[^/]+)/log")
_MOST_OPEN = 100_000
_BODY_BYTES = 256 << 20
_MOST_ENTRIES = 50_000_000


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, rename="camel"):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    kind: str = ""
    api_version: str = ""
    rows: list[msgspec.Raw] | None = None
    column_definitions: msgspec.Raw = msgspec.Raw()


class _RowObject(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Row(msgspec.Struct):
    object: _RowObject = msgspec.field(default_factory=_RowObject)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, rename="camel"):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None
    column_definitions: msgspec.Raw = msgspec.Raw()


_objects = json_decoder(_Object)
_rows = json_decoder(_Row)
_lists = json_decoder(_List)
_OPS = {"ADDED": Op.ADDED, "MODIFIED": Op.MODIFIED, "DELETED": Op.DELETED}
_INITIAL_END = "k8s.io/initial-events-end"


def answer_form(accept: str) -> str:
    """Return the form of objects that was asked for: `json`, `table` or `metadata`."""
    if "as=Table" in accept:
        return "table"
    if "as=PartialObjectMetadata" in accept:
        return "metadata"
    return "discovery" if "APIGroupDiscoveryList" in accept else "json"


def source_key(server: str, path: str, query: dict[str, str], accept: str) -> SourceKey:
    """Return the resource that a list or watch is about."""
    selectors = tuple((name, query[name]) for name in _SELECTORS if query.get(name))
    return SourceKey(server, path, selectors, answer_form(accept))


CallKey = tuple[str, str, str, tuple[tuple[str, str], ...], str, str]
LogKey = tuple[str, str, str, bool]
ProgramKey = tuple[str, str, tuple[tuple[str, str], ...]]


def call_key(
    server: str, method: str, path: str, query: Iterable[tuple[str, str]], *, accept: str, digest: str
) -> CallKey:
    """Return what makes two requests the same."""
    return server, method, path, tuple(sorted(query)), answer_form(accept), digest


def log_key(server: str, path: str, query: dict[str, str]) -> LogKey:
    """Return the key of the container whose log is requested."""
    return server, path, query.get("container", ""), query.get("previous") == "true"


class _Listed(msgspec.Struct):
    """A list that is being read in pages, or was: where its objects are."""

    items: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    columns: bytes = b""
    kind: str = ""
    api_version: str = ""
    following: str = ""


class _Open(msgspec.Struct):
    """A request whose answer is not complete."""

    asked: Asked
    server: str
    parts: list[bytes] = msgspec.field(default_factory=list)
    size: int = 0
    source: SourceKey | None = None
    initial: _Listed | None = None
    """Of a streamed list, until it is complete."""
    log: LogMerge | None = None
    program: ProgramRun | None = None


class RunHistory(msgspec.Struct):
    """Places of the entries about one run, in order."""

    ats: list[float] = msgspec.field(default_factory=list)
    places: list[tuple[int, int]] = msgspec.field(default_factory=list)


class CaptureIndex:
    """Everything in a capture, by what it is about. Filled by `read_index`."""

    def __init__(self, began: Began) -> None:
        self.began = began
        self.length = 0.0
        """Seconds from the first entry to the last."""
        self.is_cut = False
        self.stopped = ""
        """The reason that the capture ended early, if its end is there; else empty."""
        self.packed_bytes = 0
        self.requests = 0
        self.acts: list[tuple[float, str, str]] = []
        """Requests that changed something: time, method, path."""
        self.store = CaptureStore()
        self.clusters: list[Connected] = []
        self.sources: dict[SourceKey, SourceTimeline] = {}
        self.calls: dict[CallKey, AnswerTimeline] = {}
        self.logs: dict[LogKey, LogHistory] = {}
        self.programs: dict[ProgramKey, list[ProgramRun]] = {}
        self.identities: list[IdentityAnswer] = []
        self.runs: dict[str, RunHistory] = {}
        self.shown: list[RunShown] = []
        self.moments = array("d")
        """Times at which something came, for steps; sorted."""

    def cluster_at(self, at: float) -> Connected | None:
        """Return the cluster that was on screen; before the first one, that."""
        place = bisect_right(self.clusters, at, key=lambda one: one.at) - 1
        return self.clusters[max(0, place)] if self.clusters else None

    def identity_at(self, at: float) -> IdentityAnswer | None:
        """Return the newest answer about the AWS identity; before the first one, that."""
        place = bisect_right(self.identities, at, key=lambda one: one.at) - 1
        return self.identities[max(0, place)] if self.identities else None

    def run_at(self, at: float) -> str:
        """Return the run that was on screen; empty for none."""
        place = bisect_right(self.shown, at, key=lambda one: one.at) - 1
        return self.shown[place].run if place >= 0 else ""

    def run_entries(self, run: str, since: int, at: float) -> Iterator[AnyEntry]:
        """Return the entries about a run behind the first `since` ones, that had come by then."""
        history = self.runs[run]
        for place, size in history.places[since : bisect_right(history.ats, at)]:
            yield decoder.decode(self.store.read(place, size))

    def has_turned(self, since: float, until: float) -> bool:
        """Return whether a source failed or answered again between two moments."""
        return any(since < at <= until for one in self.sources.values() for at, _ in one.outcomes)

    def changes_between(self, since: float, until: float) -> int:
        """Return how many moments lie between two."""
        return bisect_right(self.moments, until) - bisect_right(self.moments, since)

    def step_from(self, at: float, steps: int) -> float:
        """Return the moment so many changes later, or earlier if negative."""
        if steps > 0:
            place = bisect_right(self.moments, at + 1e-6) + steps - 1
            return self.moments[place] if place < len(self.moments) else self.length
        place = bisect_right(self.moments, at - 1e-6) + steps
        return self.moments[place] if place >= 0 else 0.0

    def close(self) -> None:
        """Remove what was unpacked."""
        self.store.close()


def read_index(reader: CaptureReader) -> CaptureIndex:
    """Read a whole capture. Blocking; seconds for a long one.

    Raises:
        UnreadableError: It is not a capture, or damaged.
    """
    builder: _Builder | None = None
    try:
        for entry in reader.entries():
            if isinstance(entry, Began):
                builder = _Builder(CaptureIndex(entry))
            elif builder is not None:
                builder.take(entry)
        if builder is None:
            raise UnreadableError("it is empty.", file=str(reader.file), hint="Name a file that --capture wrote.")
    except BaseException:
        if builder is not None:
            builder.index.close()
        raise
    index = builder.finished()
    index.is_cut, index.packed_bytes = reader.is_cut, reader.packed_bytes
    return index


class _Builder:
    """Fills an index, entry by entry."""

    def __init__(self, index: CaptureIndex) -> None:
        self.index = index
        self._open: dict[int, _Open] = {}
        self._servers: dict[int, Connected] = {}
        self._lists: dict[SourceKey, tuple[str, _Listed]] = {}
        """The newest complete list of each source with its version, for the watch that follows."""
        self._pages: dict[tuple[SourceKey, str], _Listed] = {}
        """Incomplete ones, by source and the token of the next page."""
        self._noted = -1.0

    def take(self, entry: AnyEntry) -> None:
        """Add an entry."""
        index = self.index
        index.length = max(index.length, entry.at)
        match entry:
            case AnswerPart():
                self._part(entry)
            case Asked():
                self._asked(entry)
            case Answered():
                self._answered(entry)
            case AnswerEnded():
                self._ended(entry)
            case RunWritten() | RunLived() | RunFile():
                self._run(entry)
            case Connected():
                self._servers[entry.session] = entry
                index.clusters.append(entry)
            case IdentityAnswer():
                index.identities.append(entry)
            case RunShown() if not entry.run or RUN_NAME.fullmatch(entry.run):
                index.shown.append(entry)
            case Stopped():
                index.stopped = entry.why
            case _:
                pass

    def finished(self) -> CaptureIndex:
        """Return the index, complete."""
        self._lists.clear()
        self._pages.clear()
        self.index.moments = array("d", sorted(set(self.index.moments)))
        self.index.store.flush()
        return self.index

    def _note(self, at: float) -> None:
        """Note a moment for steps; what comes at once is one."""
        if at - self._noted > 0.001:
            self._noted = at
            self.index.moments.append(at)

    def _asked(self, asked: Asked) -> None:
        session = self._servers.get(asked.session)
        if session is None or len(self._open) >= _MOST_OPEN:
            return
        self.index.requests += 1
        if asked.form == "act":
            self.index.acts.append((asked.at, asked.method, asked.path))
            self._note(asked.at)
            return
        opened = _Open(asked, session.server)
        query = dict(asked.query)
        if asked.form == "stream":
            if _LOG.fullmatch(asked.path):
                key = log_key(session.server, asked.path, query)
                opened.log = self.index.logs.setdefault(key, LogHistory()).open()
            elif query.get("watch") == "true":
                self._begin_watch(opened, query)
        elif asked.form == "exec":
            opened.program = ProgramRun(asked.at)
            program = (session.server, asked.path, tuple(asked.query))
            self.index.programs.setdefault(program, []).append(opened.program)
        self._open[asked.id] = opened

    def _begin_watch(self, opened: _Open, query: dict[str, str]) -> None:
        asked = opened.asked
        opened.source = key = source_key(opened.server, asked.path, query, asked.accept)
        self.index.sources.setdefault(key, SourceTimeline())
        if query.get("sendInitialEvents") == "true":
            opened.initial = _Listed()
            return
        version, listed = self._lists.get(key, ("", None))
        if listed is not None and version == query.get("resourceVersion"):
            del self._lists[key]
            self._publish(key, asked.at, listed)

    def _answered(self, entry: Answered) -> None:
        opened = self._open.get(entry.id)
        if opened is None:
            return
        if opened.program is not None:
            opened.program.protocol = entry.content_type
        if opened.source is not None:
            self.index.sources[opened.source].outcomes.append((entry.at, None))

    def _part(self, part: AnswerPart) -> None:
        opened = self._open.get(part.id)
        if opened is None:
            return
        if opened.log is not None:
            opened.log.take(part.at, part.data, self.index.store)
            self._note(part.at)
        elif opened.program is not None:
            opened.program.messages.append((part.at, self.index.store.add(part.data), len(part.data)))
        else:
            opened.parts.append(part.data)
            opened.size += len(part.data)
            if opened.size > _BODY_BYTES:
                opened.parts.clear()
                opened.size = 0
            elif opened.source is not None:
                self._take_events(opened, opened.source, part.at)

    def _take_events(self, opened: _Open, key: SourceKey, at: float) -> None:
        data = b"".join(opened.parts)
        end = data.rfind(b"\n") + 1
        opened.parts, opened.size = ([data[end:]] if end < len(data) else []), len(data) - end
        for line in data[:end].split(b"\n"):
            if line.strip():
                self._event(opened, key, at, line)
        self._note(at)

    def _event(self, opened: _Open, key: SourceKey, at: float, line: bytes) -> None:
        try:
            word, raw = read_event(line)
            item = _objects.decode(raw)
            if word == "BOOKMARK":
                self._bookmark(opened, key, at, item)
                return
            op = _OPS.get(word)
            meta = item.metadata
            if item.kind == "Table":
                if not item.rows:
                    return
                raw = item.rows[0]
                meta = _rows.decode(raw).object.metadata
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if op is None or not meta.name:
            return
        name = f"{meta.namespace}/{meta.name}"
        timeline = self.index.sources[key]
        self._describe(timeline, item.kind, item.api_version, bytes(item.column_definitions))
        data = memoryview(raw)
        place = self.index.store.add(data)
        if opened.initial is not None:
            opened.initial.items.append((name, place, len(data)))
        elif len(timeline.ops) < _MOST_ENTRIES:
            timeline.add(at, op, name, place, len(data))

    def _bookmark(self, opened: _Open, key: SourceKey, at: float, item: _Object) -> None:
        if opened.initial is not None and (item.metadata.annotations or {}).get(_INITIAL_END) == "true":
            listed, opened.initial = opened.initial, None
            self._publish(key, at, listed)

    def _describe(self, timeline: SourceTimeline, kind: str, api_version: str, columns: bytes) -> None:
        timeline.kind, timeline.api_version = kind or timeline.kind, api_version or timeline.api_version
        if columns and columns != b"null":
            timeline.columns = columns

    def _publish(self, key: SourceKey, at: float, listed: _Listed) -> None:
        timeline = self.index.sources.setdefault(key, SourceTimeline())
        self._describe(timeline, listed.kind, listed.api_version, listed.columns)
        timeline.add(at, Op.RESET, "", 0, 0)
        for name, place, size in listed.items:
            timeline.add(at, Op.LISTED, name, place, size)
        self._note(at)

    def _ended(self, ended: AnswerEnded) -> None:
        opened = self._open.pop(ended.id, None)
        if opened is None:
            return
        asked, index = opened.asked, self.index
        if opened.program is not None:
            opened.program.ended = ended
        elif opened.log is not None:
            opened.log.finish(ended.at, index.store)
            key = log_key(opened.server, asked.path, dict(asked.query))
            if ended.error != "cut":
                index.logs[key].outcomes.append((ended.at, ended))
        elif opened.source is not None:
            if ended.error not in ("", "cut"):
                index.sources[opened.source].outcomes.append((ended.at, ended))
                self._note(ended.at)
        elif ended.error != "cut":
            self._answer(opened, ended)

    def _answer(self, opened: _Open, ended: AnswerEnded) -> None:
        asked, body = opened.asked, b"".join(opened.parts)
        key = call_key(opened.server, asked.method, asked.path, asked.query, accept=asked.accept, digest=asked.digest)
        query = dict(asked.query)
        if not ended.error and query.get("limit") and asked.method == "GET" and self._list(opened, query, body):
            self._note(ended.at)
        place = self.index.store.add(body)
        answers = self.index.calls.setdefault(key, AnswerTimeline()).answers
        answers.append(Answer(ended.at, ((place, len(body)),), ended))

    def _list(self, opened: _Open, query: dict[str, str], body: bytes) -> bool:
        """Keep a page of a list for the watch that may follow; return whether it is one."""
        asked = opened.asked
        key = source_key(opened.server, asked.path, query, asked.accept)
        if key.form not in ("json", "table"):
            return False
        try:
            page = _lists.decode(body)
            entries = [] if page.items is None else page.items
            if page.kind == "Table":
                entries = page.rows or []
            named = [(_name_in(raw, is_row=page.kind == "Table"), raw) for raw in entries]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        listed = self._pages.pop((key, query.get("continue", "")), None) if query.get("continue") else None
        listed = listed or _Listed()
        store = self.index.store
        listed.items += [(name, store.add(memoryview(raw)), len(bytes(raw))) for name, raw in named if name]
        listed.kind = page.kind.removesuffix("List") if page.kind != "Table" else page.kind
        listed.api_version = page.api_version
        listed.columns = bytes(page.column_definitions) or listed.columns
        if page.metadata.following:
            self._pages[key, page.metadata.following] = listed
        else:
            self._lists[key] = page.metadata.resource_version, listed
        return True

    def _run(self, entry: RunWritten | RunLived | RunFile) -> None:
        if not RUN_NAME.fullmatch(entry.run) or (isinstance(entry, RunFile) and not KEPT.fullmatch(entry.path)):
            return
        history = self.index.runs.setdefault(entry.run, RunHistory())
        data = encoded(entry)[4:]
        history.places.append((self.index.store.add(data), len(data)))
        history.ats.append(max(entry.at, history.ats[-1]) if history.ats else entry.at)
        self._note(entry.at)


def _name_in(raw: msgspec.Raw, *, is_row: bool) -> str:
    meta = _rows.decode(raw).object.metadata if is_row else _objects.decode(raw).metadata
    return f"{meta.namespace}/{meta.name}" if meta.name else ""
