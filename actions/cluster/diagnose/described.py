"""Descriptions by `kubectl describe`, as the documents that they were printed from, as far as these can be seen.

Source: kubectl's `pkg/describe/describe.go`, the same shape from 1.18 to 1.34: names and values, those of a part below
it and indented, a table of events at the end. Kinds that it does not know are printed with every field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from actions.base.wording import seconds_in

_NAMED = re.compile(r"^(?P<indent>\s*)(?P<name>[^\s:][^\s:]*(?: [^\s:]+){0,8}):(?:\s+(?P<value>\S.*)?)?$")
_GAP = re.compile(r"\s{2,}")
_NONE = ("<none>", "<unset>", "<nil>", "")
_AGE = r"(?:<\w+>|(?:\d+[smhdy]){1,3})"
_EVENT = re.compile(
    rf"^\s*(?P<type>Normal|Warning)\s+(?P<reason>[A-Z]\w*)\s+(?P<age>{_AGE})"
    rf"(?: \(x(?P<count>\d+) over {_AGE}\))?\s+"
    r"(?:(?P<source>[\w./-]+(?:, \S+)?)\s\s+|(?P<near>[\w./-]+)\s)?(?P<message>.*)$"
)
_OLD_EVENT = re.compile(
    rf"^\s*{_AGE}\s+(?P<age>{_AGE})\s+(?P<count>\d+)\s+(?P<source>\S+(?:, \S+)?)\s+(?:spec\.\S+\s+)?"
    r"(?P<type>Normal|Warning)\s+(?P<reason>[A-Z]\w*)\s+(?P<message>.*)$"
)
"""Before kubectl 1.9."""
_FIELD = re.compile(r"^spec\.\w+\{[^}]*\}: ")
_DEEPEST = 64
"""Levels of a description; what is deeper is read as if it stood here."""


class DescribedPart(msgspec.Struct):
    """A name with its value, and what stands indented below it."""

    name: str
    value: str = ""
    parts: list[DescribedPart] = []
    rows: list[str] = []
    """Lines below it without a name: rows of a table, further values."""

    def part(self, *names: str) -> DescribedPart:
        """Return the first part at a path; an empty one if there is none."""
        found = self
        for name in names:
            found = next((one for one in found.parts if one.name == name), DescribedPart(""))
        return found

    def text(self, *names: str) -> str:
        """Return the value at a path, empty for `<none>`."""
        value = self.part(*names).value
        return "" if value in _NONE else value

    @property
    def values(self) -> list[str]:
        """Return its value and those in the lines below."""
        return [one.strip() for one in (self.value, *self.rows) if one.strip() not in _NONE]


def described_parts(lines: Iterable[str]) -> DescribedPart:
    """Read the parts of one description by their indentation."""
    root = DescribedPart("")
    around: list[tuple[int, DescribedPart]] = [(-1, root)]
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if around[-1][1].name == "Events" and not around[-1][1].value:
            around[-1][1].rows.append(line.rstrip())  # the message of an event may go on without indentation
            continue
        while len(around) > 1 and (around[-1][0] > indent or (around[-1][0] == indent and _NAMED.match(line))):
            around.pop()
        inside = around[-1][1]
        named = None if inside.rows and inside.name == "Conditions" else _NAMED.match(line)
        if named is None:
            inside.rows.append(line.strip())
            continue
        part = DescribedPart(named["name"], (named["value"] or "").rstrip())
        inside.parts.append(part)
        if len(around) < _DEEPEST:
            around.append((indent, part))
    return root


def document_of(about: DescribedPart, kind: str) -> dict[str, Any]:
    """Return the object that a description is of, without its events.

    Args:
        about: All of it.
        kind: Its kind.
    """
    metadata: dict[str, Any] = {
        "name": about.text("Name"),
        "namespace": about.text("Namespace"),
        "labels": dict(one.split("=", 1) for one in about.part("Labels").values if "=" in one),
        "creationTimestamp": _moment(about.text("CreationTimestamp")),
    }
    owner, _, name = about.text("Controlled By").partition("/")
    if name:
        metadata["ownerReferences"] = [{"kind": owner, "name": name}]
    make = next((make for own, _, make in _OWN_FORMS if own == kind), _claim if _is_claim(about) else None)
    if make is None or about.text("Kind"):
        fields = {
            _field(part.name): _plain(part) for part in about.parts if part.name in ("Spec", "Status", "Metadata")
        }
        if "status" not in fields and about.part("Conditions").parts:  # cut at the top
            fields["status"] = {"conditions": _plain(about.part("Conditions"))}
        printed = fields.pop("metadata", None)
        own = printed if isinstance(printed, dict) else {}
        return {"kind": kind, "metadata": {**own, **{k: v for k, v in metadata.items() if v}}, **fields}
    return {"kind": kind, "metadata": metadata, **make(about)}


def described_kind(about: DescribedPart) -> str:
    """Return the kind of the object that a description is of; empty if its parts do not show it."""
    names = {part.name for part in about.parts}
    if "Kind" in names:
        return about.text("Kind")
    for kind, marks, _ in _OWN_FORMS:
        if names & marks:
            return kind
    if _is_claim(about):
        return "PersistentVolumeClaim"
    types = {part.value for part in about.part("Conditions").parts if part.name == "Type"}
    return "NodeClaim" if types & {"Launched", "Registered"} else ""


def _pod(about: DescribedPart) -> dict[str, Any]:
    status, reason = about.text("Status"), about.text("Reason")
    groups = {key: list(_containers(about.part(name))) for key, name in _GROUPS.items()}
    if not any(groups.values()) and about.text("State"):
        groups["containerStatuses"] = [_container(about)]  # cut at the top, within a container
    if status.startswith("Terminating"):
        states = [one["state"] for one in groups["containerStatuses"]]
        status = "Running" if any("running" in state for state in states) else "Pending"
    volumes = [_volume(part) for part in about.part("Volumes").parts]
    containers = [*about.part("Containers").parts, *about.part("Init Containers").parts]
    return {
        "spec": {
            "nodeName": about.text("Node").partition("/")[0],
            "volumes": [one for one in volumes if one],
            "containers": [{"name": one.name, "resources": _resources(one)} for one in containers],
        },
        "status": {
            "phase": status,
            "reason": reason,
            "message": about.text("Message"),
            "nominatedNodeName": about.text("NominatedNodeName"),
            "conditions": [
                {"type": cells[0], "status": cells[1]}
                for cells in (row.split() for row in about.part("Conditions").rows)
                if len(cells) == 2 and cells[0] != "Type"
            ],
            **groups,
        },
    }


_GROUPS = {"containerStatuses": "Containers", "initContainerStatuses": "Init Containers"}


def _containers(about: DescribedPart) -> Iterator[dict[str, Any]]:
    return (_container(part) for part in about.parts if part.parts)


def _container(part: DescribedPart) -> dict[str, Any]:
    restarts = part.text("Restart Count")
    return {
        "name": part.name or "main",
        "image": part.text("Image"),
        "state": _state(part.part("State")),
        "lastState": _state(part.part("Last State")),
        "ready": part.text("Ready") == "True",
        "restartCount": int(restarts) if restarts.isdecimal() else 0,
    }


def _state(part: DescribedPart) -> dict[str, Any]:
    if not part.value:
        return {}
    code = part.text("Exit Code")
    details = {
        "reason": part.text("Reason"),
        "message": "\n".join(part.part("Message").values),
        "startedAt": _moment(part.text("Started")),
        "finishedAt": _moment(part.text("Finished")),
    }
    return {part.value.lower(): details | ({"exitCode": int(code)} if code.lstrip("-").isdecimal() else {})}


def _resources(container: DescribedPart) -> dict[str, Any]:
    return {
        key: {one.name: one.value for one in container.part(name).parts}
        for key, name in (("limits", "Limits"), ("requests", "Requests"))
    }


def _volume(part: DescribedPart) -> dict[str, Any]:
    if part.text("ClaimName"):
        return {"name": part.name, "persistentVolumeClaim": {"claimName": part.text("ClaimName")}}
    return {"name": part.name, "emptyDir": {"medium": part.text("Medium")}} if part.text("Medium") else {}


def _node(about: DescribedPart) -> dict[str, Any]:
    return {
        "spec": {
            "taints": [{"key": re.split(r"[=:]", one)[0]} for one in about.part("Taints").values],
            "unschedulable": about.text("Unschedulable") == "true",
        },
        "status": {
            "conditions": [
                {"type": cells[0], "status": cells[1], "lastTransitionTime": _moment(cells[3]), "reason": cells[4],
                 "message": " ".join(cells[5:])}
                for cells in (_GAP.split(row) for row in about.part("Conditions").rows)
                if len(cells) > 4 and cells[0] != "Type" and not cells[0].startswith("-")
            ],
            **{
                name.lower(): {one.name: one.value for one in about.part(name).parts}
                for name in ("Capacity", "Allocatable")
            },
        },
    }  # fmt: skip


def _job(about: DescribedPart) -> dict[str, Any]:
    """Return what is printed of a Job: without its conditions, of which a failure is in its events, too."""
    done = [{"type": "Complete", "status": "True"}] if about.text("Completed At") else []
    return {"spec": {"suspend": about.text("Suspend") == "true"}, "status": {"conditions": done}}


def _is_claim(about: DescribedPart) -> bool:
    return bool(about.part("StorageClass").name and about.part("Access Modes").name)


def _claim(about: DescribedPart) -> dict[str, Any]:
    return {
        "spec": {"storageClassName": about.text("StorageClass"), "volumeName": about.text("Volume")},
        "status": {"phase": about.text("Status")},
    }


_OWN_FORMS = (
    ("Node", {"Allocatable", "Non-terminated Pods", "System Info", "Roles"}, _node),
    ("Job", {"Pods Statuses", "Completions"}, _job),
    ("Pod", {"Containers", "Init Containers", "QoS Class", "Node", "Node-Selectors", "Last State", "State"}, _pod),
)
"""Kinds of which kubectl prints a choice, with sections that show them."""


def _plain(part: DescribedPart) -> Any:
    """Return the value of a part where kubectl prints every field: a name that comes again begins an item."""
    if not part.parts:
        return list(map(str.strip, part.rows)) if part.rows else part.value
    items: list[dict[str, Any]] = [{}]
    for inner in part.parts:
        if _field(inner.name) in items[-1]:
            items.append({})
        items[-1][_field(inner.name)] = _plain(inner)
    return items if len(items) > 1 or part.name in ("Conditions", "Values", "Owner References") else items[0]


def _field(name: str) -> str:
    """`lastTransitionTime` of `Last Transition Time`; names with other signs are printed as they are."""
    first, *others = name.split(" ")
    if not first.replace("-", "").isalpha():
        return name
    return "".join([first.lower() if first.isupper() else first[:1].lower() + first[1:], *others])


def events_of(rows: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield type, reason, age in seconds, count and message of the rows of a table of events."""
    last: dict[str, Any] | None = None
    for row in rows:
        found = _EVENT.match(row) or _OLD_EVENT.match(row)
        if found:
            if last:
                yield last
            message = _FIELD.sub("", found["message"].strip())
            near = found.groupdict().get("near")
            last = {
                "type": found["type"],
                "reason": found["reason"],
                "age": seconds_in(found["age"]),
                "count": int(found["count"] or 1),
                "source": found["source"] or near or "",
                "message": message,
            }
        elif last and row.strip() and not row.lstrip().startswith(("--", "Type ")):
            last["message"] += f"\n{row.strip()}"
    if last:
        yield last


def _moment(text: str) -> str:
    """Return a time as the API writes it, of `Sat, 28 Nov 2026 15:02:57 +0000` or of its own form."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC).isoformat() if "," in text else text
    except (ValueError, TypeError, OverflowError):
        return ""


def moment_at(seconds: float) -> str:
    """Return seconds since the epoch as the API writes a time; empty for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
