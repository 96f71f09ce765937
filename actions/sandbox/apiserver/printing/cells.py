"""The cells of built-in types, as `kubectl get` prints them.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`, k8s.io/apimachinery `duration.HumanDuration`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from actions.base.clock import parse_rfc3339
from actions.sandbox.apiserver.storage.codec import Object, dig

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000
_STEPS = (
    # below this many seconds: larger unit, its letter, smaller unit, its letter
    (_MINUTE * 2, 1, "s", 0, ""),
    (_MINUTE * 10, _MINUTE, "m", 1, "s"),
    (_HOUR * 3, _MINUTE, "m", 0, ""),
    (_HOUR * 8, _HOUR, "h", _MINUTE, "m"),
    (_DAY * 2, _HOUR, "h", 0, ""),
    (_DAY * 8, _DAY, "d", _HOUR, "h"),
    (_YEAR * 2, _DAY, "d", 0, ""),
    (_YEAR * 8, _YEAR, "y", _DAY, "d"),
)


def human_duration(elapsed_seconds: float) -> str:
    """Return a duration in at most two units: `59s`, `3m20s`, `5h`, `2d3h`."""
    seconds = int(elapsed_seconds)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    for limit, large, large_letter, small, small_letter in _STEPS:
        if seconds < limit:
            head = f"{seconds // large}{large_letter}"
            rest = seconds % large // small if small else 0
            return f"{head}{rest}{small_letter}" if rest else head
    return f"{seconds // _YEAR}y"


def age_of(timestamp: object, now: datetime) -> str:
    """The age of an RFC 3339 timestamp; `<unknown>` if there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        return human_duration((now - parse_rfc3339(timestamp)).total_seconds())
    except ValueError:
        return "<invalid>"


Cell: TypeAlias = Callable[[Object, datetime], Any]
"""Computes one cell from an object and the wall time."""


def at(*path: str, default: Any = "<none>") -> Cell:
    def cell(body: Object, _: datetime) -> Any:
        value = dig(body, *path)
        return default if value in (None, "") else value

    return cell


def own_name(body: Object, _: datetime) -> str:
    return str(body["metadata"]["name"])


def age(body: Object, now: datetime) -> str:
    return age_of(body["metadata"].get("creationTimestamp"), now)


def _statuses(body: Object) -> list[Object]:
    return dig(body, "status", "containerStatuses") or []


def pod_ready(body: Object, _: datetime) -> str:
    ready = sum(bool(one.get("ready")) for one in _statuses(body))
    return f"{ready}/{len(dig(body, 'spec', 'containers') or ())}"


def pod_restarts(body: Object, _: datetime) -> str:
    return str(sum(int(one.get("restartCount", 0)) for one in _statuses(body)))


def _waiting_reason(container: Object) -> str:
    """Return the reason why a container does not run, as `kubectl` puts it; empty if it runs."""
    state = container.get("state") or {}
    if reason := dig(state, "waiting", "reason"):
        return str(reason)
    ended = state.get("terminated")
    if ended:
        signal = ended.get("signal")
        return str(ended.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"))
    return ""


def _init_status(body: Object) -> str:
    statuses = dig(body, "status", "initContainerStatuses") or ()
    total = len(dig(body, "spec", "initContainers") or ())
    for place, container in enumerate(statuses):
        ended = dig(container, "state", "terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        reason = _waiting_reason(container)
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{place}/{total}"
    return ""


def pod_status(body: Object, _: datetime) -> str:
    status = body.get("status") or {}
    shown = str(status.get("reason") or status.get("phase") or "Unknown")
    is_initializing = status.get("phase") == "Pending" and bool(status.get("initContainerStatuses"))
    initial = _init_status(body) if is_initializing else ""
    if initial:
        shown = initial
    else:
        for container in reversed(_statuses(body)):
            shown = _waiting_reason(container) or shown
        if shown == "Completed" and any(dig(one, "state", "running") for one in _statuses(body)):
            shown = "Running"
    if body["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def node_status(body: Object, _: datetime) -> str:
    ready = next((one for one in dig(body, "status", "conditions") or () if one.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if dig(body, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(body: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = [key.removeprefix(prefix) for key in body["metadata"].get("labels") or () if key.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def node_address(kind: str) -> Cell:
    def cell(body: Object, _: datetime) -> str:
        addresses = dig(body, "status", "addresses") or ()
        return next((one["address"] for one in addresses if one.get("type") == kind), "<none>")

    return cell


def job_state(body: Object, _: datetime) -> str:
    found = {one.get("type") for one in dig(body, "status", "conditions") or () if one.get("status") == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended"),
                       ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet")):  # fmt: skip
        if kind in found:
            return word
    return "Terminating" if body["metadata"].get("deletionTimestamp") else "Running"


def job_completions(body: Object, _: datetime) -> str:
    done, wanted = dig(body, "status", "succeeded") or 0, dig(body, "spec", "completions")
    if wanted is None:
        parallel = dig(body, "spec", "parallelism") or 1
        return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    return f"{done}/{wanted}"


def job_duration(body: Object, now: datetime) -> str:
    started, ended = dig(body, "status", "startTime"), dig(body, "status", "completionTime")
    if not started:
        return ""
    end = parse_rfc3339(ended) if ended else now
    return human_duration((end - parse_rfc3339(started)).total_seconds())


def selector(body: Object, _: datetime) -> str:
    selector = dig(body, "spec", "selector") or {}
    labels = selector.get("matchLabels", selector)
    return ",".join(f"{key}={value}" for key, value in labels.items() if isinstance(value, str)) or "<none>"


def node_selector(body: Object, _: datetime) -> str:
    labels = dig(body, "spec", "template", "spec", "nodeSelector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def deployment_ready(body: Object, _: datetime) -> str:
    return f"{dig(body, 'status', 'readyReplicas') or 0}/{dig(body, 'spec', 'replicas') or 0}"


def service_ports(body: Object, _: datetime) -> str:
    ports = dig(body, "spec", "ports") or ()
    return ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in ports) or "<none>"


def access_modes(body: Object, _: datetime) -> str:
    words = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(words.get(mode, mode) for mode in dig(body, "spec", "accessModes") or ())


def since(*path: str) -> Cell:
    """Make a cell with the time since the moment at that path; `<none>` if there is none."""

    def cell(body: Object, now: datetime) -> str:
        at = dig(body, *path)
        return age_of(at, now) if at else "<none>"

    return cell


def class_name(body: Object, _: datetime) -> str:
    is_default = dig(body, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    return f"{body['metadata']['name']} (default)" if is_default else str(body["metadata"]["name"])


def claim_status(body: Object, _: datetime) -> str:
    is_leaving = body["metadata"].get("deletionTimestamp")
    return "Terminating" if is_leaving else str(dig(body, "status", "phase") or "Pending")


def claim_of(body: Object, _: datetime) -> str:
    claim = dig(body, "spec", "claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def size_of(*path: str) -> Cell:
    def cell(body: Object, _: datetime) -> int:
        return sum(len(dig(body, *path[:-1], part) or ()) for part in path[-1].split("|"))

    return cell


def event_seen(body: Object, now: datetime) -> str:
    return age_of(body.get("lastTimestamp") or body.get("eventTime") or body.get("firstTimestamp"), now)


def event_object(body: Object, _: datetime) -> str:
    involved = body.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def template_part_of(part: str, *path: str) -> Cell:
    """Make a cell with one field of the containers of the pod template at that path."""

    def cell(body: Object, _: datetime) -> str:
        containers = dig(body, *path, "spec", "containers") or ()
        return ",".join(str(one.get(part, "")) for one in containers)

    return cell


def event_source(body: Object, _: datetime) -> str:
    parts = (dig(body, "source", "component"), dig(body, "source", "host"))
    return ", ".join(str(part) for part in parts if part) or str(body.get("reportingComponent") or "")


def event_first_seen(body: Object, now: datetime) -> str:
    return age_of(body.get("firstTimestamp") or body.get("eventTime") or body.get("lastTimestamp"), now)


def role_of_binding(body: Object, _: datetime) -> str:
    return f"{dig(body, 'roleRef', 'kind') or ''}/{dig(body, 'roleRef', 'name') or ''}"


def subjects_of(kind: str) -> Cell:
    def cell(body: Object, _: datetime) -> str:
        found = [one for one in body.get("subjects") or () if one.get("kind") == kind]
        spaces = (f"{one['namespace']}/" if kind == "ServiceAccount" and one.get("namespace") else "" for one in found)
        return ", ".join(f"{space}{one.get('name', '')}" for space, one in zip(spaces, found, strict=True))

    return cell


def slice_addresses(body: Object, _: datetime) -> str:
    return (
        _first_of([str(one) for end in body.get("endpoints") or () for one in end.get("addresses") or ()]) or "<unset>"
    )


def slice_ports(body: Object, _: datetime) -> str:
    return _first_of([str(one.get("port", "*")) for one in body.get("ports") or ()]) or "<unset>"


def _first_of(found: list[str], most: int = 3) -> str:
    more = f" + {len(found) - most} more..." if len(found) > most else ""
    return ",".join(found[:most]) + more


def truth(*path: str, default: bool = False) -> Cell:
    """Make a cell with the boolean at that path."""

    def cell(body: Object, _: datetime) -> bool:
        value = dig(body, *path)
        return default if value is None else bool(value)

    return cell


def quota_of(*, is_limit: bool) -> Cell:
    def cell(body: Object, _: datetime) -> str:
        hard, used = dig(body, "status", "hard") or {}, dig(body, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith("limits.") is is_limit)
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell
