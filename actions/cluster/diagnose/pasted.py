"""The evidence in a text that was copied: descriptions, tables of kubectl and logs, mixed, indented, cut, quoted.

What kubectl printed becomes the documents that it was printed from, and takes the way of its JSON; every other line
may be a program's output. Source: kubectl's `pkg/describe` and printers; `docs/facts/kubectl-text.md`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from actions.base.clock import stamp_seconds
from actions.base.wording import counted, seconds_in
from actions.cluster.diagnose.described import (
    DescribedPart,
    described_kind,
    described_parts,
    document_of,
    events_of,
    moment_at,
)
from actions.cluster.kinds import find_word

_QUOTED = re.compile(r"^\s{0,3}(?:> ?)+(?!>)")
_FENCE = re.compile(r"^\s{0,12}(?:```|~~~)\s*[\w-]{0,20}\s*$")
_COMMAND = re.compile(
    r"^\s*(?:[^\n]{0,100}[$#%>❯➜]\s{0,2}|\+ )?(?:sudo |watch )?"
    r"(?:(?:kubectl|oc)\s+|k (?=(?:get|describe|logs|events)\b))(?P<rest>\S.{0,400})$"
)
_PROMPT = re.compile(
    r"^\s*(?:[\w.-]+@[\w.-]+[: ]?[~/\w.-]{0,80}[$#](?: |$)|[\w.-]+@[\w.-]+ [~/]\S{0,80} %(?: |$)"
    r"|\[[^\]\n]{1,80}\][$#](?: |$)|\$ )"
)
_DESCRIBED = re.compile(r"\bdescribe\s+(?P<kind>[\w.]+)(?:/|\s+)(?P<name>[\w.-]+)")
_LOGGED = re.compile(r"\blogs?\s+(?:-\S+\s+)*(?:pods?/)?(?P<name>[a-z0-9][\w.-]*)")
_NAMESPACE = re.compile(r"(?:-n|--namespace)[ =](?P<name>[\w-]+)")
_ANCHOR = re.compile(
    r"^(?P<indent>\s*)(?:Events|Containers|Init Containers|Conditions|Allocatable|Capacity|Pods Statuses|API Version"
    r"|Node-Selectors|Tolerations|QoS Class|Last State|Restart Count|State):(?=\s|$)"
)
_NAME = re.compile(r"^(?P<indent>\s*)Name:\s+\S+\s*$")
_AFTER_NAME = re.compile(r"^\s*(?:Namespace|Labels|Roles?|Priority|Annotations|Selector|StorageClass|API Version):")
_KEYED = re.compile(r"^\s*[^\s:][^:\n]{0,80}:(?:\s|$)")

_AGE = r"(?:<\w+>|(?:\d+[smhdy]){1,3})"
_OBJECT = r"(?P<kind>[A-Za-z][\w.]*)/(?P<name>[\w.:-]+)"
_EVENT_ROW = re.compile(
    rf"^\s*(?:(?P<namespace>[a-z0-9-]+)\s+)?(?P<age>{_AGE})(?: \(x(?P<count>\d+) over {_AGE}\))?\s+"
    rf"(?P<type>Normal|Warning)\s+(?P<reason>[A-Z]\w*)\s+{_OBJECT}\s+(?P<message>\S.*)$"
)
_WIDE = re.compile(
    rf"^(?:spec\.\S+\s+)?[\w./-]+(?:, \S+)?\s{{2,}}(?=\S)(?P<message>.*\S)\s{{2,}}{_AGE}\s+(?P<count>\d+)\s+\S+\s*$"
)
"""The rest of a row behind its object, as `-o wide` prints it."""
_POD_ROW = re.compile(
    r"^\s*(?:(?P<namespace>[a-z0-9-]+)\s+)?(?P<name>[a-z0-9][a-z0-9.-]*)\s+(?P<ready>\d{1,3})/(?P<all>\d{1,3})\s+"
    rf"(?P<status>[A-Z][\w:/-]*)\s+(?P<restarts>\d+)(?: \({_AGE} ago\))?\s+(?P<age>{_AGE})"
    r"(?:\s+(?P<ip>[\d.:a-f]+|<none>)\s+(?P<node>\S+)\s.*)?\s*$"
)
_NODE_ROW = re.compile(
    rf"^\s*(?P<name>[\w.-]+)\s+(?P<status>(?:Not)?Ready)(?:,SchedulingDisabled)?\s+\S+\s+{_AGE}\s+v\d+\.\d+"
)
_HEADING = re.compile(
    r"^\s*(?:(?:NAMESPACE\s+)?(?:NAME|LAST SEEN)\s+[A-Z][A-Z -]+|Type\s+Reason\s+Age\s+From\s+Message\s*"
    r"|-+(?:\s+-+)+\s*)$"
)
_ASSIGNED = re.compile(r"Successfully assigned (?P<namespace>[\w-]+)/(?P<name>[\w.-]+) to \S+")
_GROUP = re.compile(r"PodGroup (?P<namespace>[\w-]+):(?P<name>[\w.-]+) ")
_MOST_CHARACTERS = 4 << 20
UNNAMED = "unnamed"
"""The name of what a text shows without its name."""


class Pasted(msgspec.Struct):
    """The objects, events and other lines of a text."""

    documents: list[dict[str, Any]] = []
    """Objects and events, as the API has them, as far as they are known."""
    logs: dict[str, list[str]] = {}
    """Every other line, by the pod whose log a command asks for; mostly by an empty name."""
    ages: list[tuple[dict[str, Any], float | None]] = []
    """Each event with its age in seconds."""

    @property
    def summary(self) -> str:
        """Name what it is, as in `1 Pod, 4 events and 12 lines that may be a program's output`."""
        kinds = [str(one["kind"]) for one in self.documents]
        named = [counted(kinds.count(kind), kind if kind != "Event" else "event") for kind in dict.fromkeys(kinds)]
        lines = sum(1 for found in self.logs.values() for line in found if line.strip())
        parts = [*named, *([f"{counted(lines, 'line')} that may be a program's output"] if lines else [])]
        return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


class _Context(msgspec.Struct):
    """The object that the last command names."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    log_of: str = ""


def read_paste(text: str, *, now: float) -> Pasted:
    """Read a text.

    Args:
        text: Of any origin.
        now: Seconds since the epoch, to which its ages refer if no time in it is known.
    """
    pasted = Pasted()
    for context, lines in _segments(text[-_MOST_CHARACTERS:]):
        _Reader(pasted, context).read(lines)
    pasted.documents += _pods_behind(pasted.documents)
    moments = [stamp for document in pasted.documents for stamp in _times_in(document)]
    base = max(moments) + min((age for _, age in pasted.ages if age is not None), default=0.0) if moments else now
    for event, age in pasted.ages:
        event["lastTimestamp"] = "" if age is None else moment_at(base - age)
    return pasted


def _segments(text: str) -> Iterator[tuple[_Context, list[str]]]:
    """Yield what stands between fences and prompts, without its common indentation, and what the prompt names."""
    context, lines = _Context(), list[str]()
    for raw in text.replace("\xa0", " ").splitlines():
        line = _QUOTED.sub("", raw.expandtabs()) if raw.lstrip().startswith(">") else raw.expandtabs()
        line = line if line.lstrip().startswith("```") else line.strip("`")
        command = _COMMAND.match(line)
        if command or _FENCE.match(line) or _PROMPT.match(line):
            yield context, textwrap.dedent("\n".join(lines)).split("\n")
            context, lines = _named_by(command["rest"]) if command else _Context(), []
        else:
            lines.append(line)
    yield context, textwrap.dedent("\n".join(lines)).split("\n")


def _named_by(command: str) -> _Context:
    described, logged, namespace = _DESCRIBED.search(command), _LOGGED.search(command), _NAMESPACE.search(command)
    context = _Context(namespace=namespace["name"] if namespace else "", log_of=logged["name"] if logged else "")
    if described:
        context.kind = _kind_named(described["kind"])
        context.name = described["name"]
    return context


class _Reader:
    """Reads the lines of one segment into `pasted`."""

    def __init__(self, pasted: Pasted, context: _Context) -> None:
        self._pasted = pasted
        self._context = context
        self._loose: list[str] = []
        """Lines that may be the rest of a description that is cut at its top."""

    def read(self, lines: list[str]) -> None:
        """Read all lines."""
        at = 0
        while at < len(lines):
            line = lines[at]
            if _EVENT_LINE.match(line):
                end = _end_of_rows(lines, at)
                self._take(DescribedPart("", parts=[DescribedPart("Events", rows=lines[at:end])]))
                at = end
            elif (base := _base_of_description(lines, at)) is not None:
                end = _end_of_description(lines, at, base)
                head = [] if _NAME.match(line) else self._loose
                self._loose = [] if head else self._loose
                self._flush()
                self._take(described_parts([*head, *lines[at:end]]))
                at = end
            else:
                self._line(line)
                at += 1
        self._flush()

    def _line(self, line: str) -> None:
        if _HEADING.match(line):
            return
        for pattern, add in ((_EVENT_ROW, self._event_row), (_POD_ROW, self._pod_row), (_NODE_ROW, self._node_row)):
            row = pattern.match(line)
            if row:
                add(row)
                return
        if not line.strip():
            self._flush()
        elif _KEYED.match(line) or line[0].isspace():
            self._loose.append(line)
            return
        else:
            self._flush()
        self._pasted.logs.setdefault(self._context.log_of, []).append(line)

    def _flush(self) -> None:
        if self._loose:
            self._pasted.logs.setdefault(self._context.log_of, []).extend(self._loose)
            self._loose = []

    def _take(self, about: DescribedPart) -> None:
        """Take a description, or what is left of it: the object, if more of it is there than its events, and those."""
        rows = list(events_of(about.part("Events").rows))
        kind = described_kind(about) or self._context.kind
        assigned = next((found for one in rows if (found := _ASSIGNED.search(one["message"]))), None)
        name = about.text("Name") or self._context.name or (assigned["name"] if assigned else "")
        namespace = about.text("Namespace") or self._context.namespace or (assigned["namespace"] if assigned else "")
        if kind and {part.name for part in about.parts} - {"Events", "Name", "Namespace"}:
            document = document_of(about, kind)
            document["metadata"] |= {"name": name or UNNAMED, "namespace": namespace}
            self._add(document)
            name = name or UNNAMED
        for one in rows:
            self._event(one, kind or _kind_for(one), namespace, name)

    def _add(self, document: dict[str, Any]) -> None:
        """Take an object; a description has more than a row of a table."""
        found = self._pasted.documents
        found[:] = [one for one in found if not _is_of(one, document["kind"], document["metadata"]["name"])]
        found.append(document)

    def _event(self, one: dict[str, Any], kind: str, namespace: str, name: str) -> None:
        event = {
            "kind": "Event",
            **{key: one[key] for key in ("type", "reason", "message", "count")},
            "involvedObject": {"kind": kind, "namespace": namespace, "name": name},
        }
        self._pasted.documents.append(event)
        self._pasted.ages.append((event, one["age"]))
        if kind in ("Job", "") and one["reason"] in _FAILURES:
            # a Job's controller writes the event with the condition, which no description of a Job shows
            failed = {"type": "Failed", "status": "True", "reason": one["reason"], "message": one["message"]}
            metadata = {"name": name, "namespace": namespace}
            self._add({"kind": "Job", "metadata": metadata, "status": {"conditions": [failed]}})
        group = _GROUP.match(one["message"]) if one["reason"].startswith("PodGroup") else None
        if group:
            condition = {"type": "Unschedulable", "status": "True", "message": one["message"]}
            metadata = {"name": group["name"], "namespace": group["namespace"]}
            self._add({"kind": "PodGroup", "metadata": metadata, "status": {"conditions": [condition]}})

    def _event_row(self, row: re.Match[str]) -> None:
        wide = _WIDE.match(row["message"])
        found = wide or row
        one = {"type": row["type"], "reason": row["reason"], "age": seconds_in(row["age"])}
        one |= {"message": found["message"].strip(), "count": int(found["count"] or 1)}
        self._event(one, _kind_named(row["kind"]), row["namespace"] or self._context.namespace, row["name"])

    def _pod_row(self, row: re.Match[str]) -> None:
        status, ready, everything = row["status"], int(row["ready"]), int(row["all"])
        if any(_is_of(one, "Pod", row["name"]) for one in self._pasted.documents):
            return
        phase = status if status in ("Pending", "Running", "Failed", "Succeeded") else _PHASES.get(status, "Pending")
        is_init, reason = status.startswith("Init:"), status.removeprefix("Init:")
        states = [
            {"name": f"container {at + 1}", "ready": at < ready, "state": {"running": {}}} for at in range(everything)
        ]
        for state in states[ready:]:
            state["state"] = {} if status in ("Pending", "Running") or is_init else _state_of(reason)
            state["restartCount"] = int(row["restarts"])
        init = [{"name": "init", "ready": False, "state": _state_of(reason)}] if is_init and "/" not in reason else []
        is_placed = phase != "Pending" or bool(init) or status.startswith(("Container", "Image", "Err", "Create"))
        node = "" if row["node"] == "<none>" else row["node"] or (UNNAMED if is_placed else "")
        document: dict[str, Any] = {
            "kind": "Pod",
            "metadata": {"name": row["name"], "namespace": row["namespace"] or self._context.namespace},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "containerStatuses": states, "initContainerStatuses": init},
        }
        if phase == "Failed" and status not in _ENDS:
            document["status"]["reason"] = status
        self._pasted.documents.append(document)

    def _node_row(self, row: re.Match[str]) -> None:
        condition = {"type": "Ready", "status": "True" if row["status"] == "Ready" else "False"}
        self._add({"kind": "Node", "metadata": {"name": row["name"]}, "status": {"conditions": [condition]}})


_FAILURES = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "PodFailurePolicy",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
)
_EVENT_LINE = re.compile(rf"^\s*(?:Normal|Warning)\s+[A-Z]\w*\s+{_AGE}\s")
_PHASES = {
    "Completed": "Succeeded",
    "Evicted": "Failed",
    "Error": "Failed",
    "OOMKilled": "Failed",
    "CrashLoopBackOff": "Running",
    "UnexpectedAdmissionError": "Failed",
    "OutOfcpu": "Failed",
    "Terminating": "Running",
}
_ENDS = {"Error": {}, "OOMKilled": {"exitCode": 137}, "Completed": {"exitCode": 0}}


_LOOPING = re.compile(r"Back-off restarting failed container(?: (?P<name>[\w.-]+) in pod)?")


def _is_of(document: dict[str, Any], kind: str, name: str) -> bool:
    return bool(document["kind"] == kind and document.get("metadata", {}).get("name") == name)


def _pods_behind(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pods that are not there themselves and whose state their events show.

    The kubelet writes of a back-off while the container waits, the scheduler of a failure while the pod has no node.
    """
    told: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in documents:
        about = one.get("involvedObject", {})
        if about.get("kind") == "Pod" and about["name"]:
            told.setdefault((about["namespace"], about["name"]), []).append(one)
    known = {one["metadata"]["name"] for one in documents if one["kind"] == "Pod"}
    for (namespace, name), events in told.items():
        looping = next((found for one in events if (found := _LOOPING.match(one["message"]))), None)
        reasons = {one["reason"] for one in events}
        if name in known or not (looping or ("FailedScheduling" in reasons and not reasons & _PLACED)):
            continue
        status: dict[str, Any] = {"phase": "Pending"}
        if looping:
            waiting = {"name": looping["name"] or "main", "state": _state_of("CrashLoopBackOff")}
            status = {"phase": "Running", "containerStatuses": [waiting]}
        metadata = {"name": name, "namespace": namespace}
        yield {
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"nodeName": UNNAMED if looping else ""},
            "status": status,
        }


_PLACED = {"Scheduled", "Pulling", "Pulled", "Created", "Started", "SuccessfulAttachVolume"}


def _state_of(reason: str) -> dict[str, Any]:
    """Return the state of a container whose pod shows `reason` in the table."""
    if reason in _ENDS:
        return {"terminated": {"reason": reason, **_ENDS[reason]}}
    return {"waiting": {"reason": reason}}


def _kind_named(word: str) -> str:
    """Return a kind by its name in a command or table, `pods` or `pod`; as it is written if it is not known."""
    name = word.partition(".")[0]
    row = find_word(name.lower()) or find_word(name.lower().removesuffix("s"))
    return row.kind if row is not None else name


def _kind_for(event: dict[str, Any]) -> str:
    """Return the kind that an event is about, by who reports it; empty if that is not certain."""
    source = event["source"].partition(",")[0]
    if source == "kubelet" and event["reason"].startswith(("Node", "Starting", "Invalid", "Rebooted", "SystemOOM")):
        return "Node"
    return "Pod" if source in ("kubelet", "default-scheduler", "karpenter", "volcano") else ""


def _base_of_description(lines: list[str], at: int) -> int | None:
    """Return the indentation of the description that a line begins, cut at its top or not; `None` if it begins none."""
    name = _NAME.match(lines[at])
    if name:
        follows = any(_AFTER_NAME.match(line) for line in lines[at + 1 : at + 4])
        return len(name["indent"]) if follows else None
    anchor = _ANCHOR.match(lines[at])
    if anchor is None:
        return None
    base = len(anchor["indent"])
    for line in lines[at + 1 :]:
        if not line.strip() or not (line[0].isspace() or _KEYED.match(line)):
            break
        base = min(base, len(line) - len(line.lstrip()))
    return base


def _end_of_description(lines: list[str], start: int, base: int) -> int:
    """Return the place behind the last line of a description."""
    end, has_events = start, False
    for at in range(start, len(lines)):
        line = lines[at]
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        # the message of an event may go on over lines, without indentation
        is_inside = indent > base or (at == end + 1 if has_events else indent == base and _KEYED.match(line))
        if not is_inside or (at > start and _NAME.match(line) and indent == base):
            break
        has_events = has_events or (indent == base and line.strip() == "Events:")
        end = at
    return end + 1


def _end_of_rows(lines: list[str], start: int) -> int:
    at = start + 1
    while at < len(lines) and (_EVENT_LINE.match(lines[at]) or lines[at].startswith(" " * 20)):
        at += 1
    return at


def _times_in(value: Any) -> Iterator[float]:
    """Yield the times in a document, seconds since the epoch."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _TIMES and isinstance(inner, str):
                yield from filter(None, [stamp_seconds(inner)])
            else:
                yield from _times_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _times_in(inner)


_TIMES = ("startedAt", "finishedAt", "lastTransitionTime", "creationTimestamp")
