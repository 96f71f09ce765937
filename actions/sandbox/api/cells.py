"""What stands in the cells of `kubectl get` for built-in types.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from actions.base.clock import parse_rfc3339
from actions.sandbox.api.codec import Object, dig
from actions.sandbox.api.humanage import age_of, human_duration

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
    """Why a container does not run, as `kubectl` puts it; empty if it does."""
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


def template_part(part: str) -> Cell:
    def cell(body: Object, _: datetime) -> str:
        containers = dig(body, "spec", "template", "spec", "containers") or ()
        return ",".join(str(one.get(part, "")) for one in containers)

    return cell


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
    """How long ago the time at that path was; `<none>` if there is none."""

    def cell(body: Object, now: datetime) -> str:
        at = dig(body, *path)
        return age_of(at, now) if at else "<none>"

    return cell


def ingress_hosts(body: Object, _: datetime) -> str:
    hosts = [str(rule.get("host") or "*") for rule in dig(body, "spec", "rules") or ()]
    return ",".join(hosts) or "*"


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
