"""What a pod's status says of one of its containers at one moment: whether it runs, and how it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.untrusted import one_line
from actions.cluster.logstamps import NANOSECONDS


class ContainerEnd(msgspec.Struct, frozen=True):
    """How a container ended for good. `exit_code` is `None` when the pod is gone and nobody knows."""

    exit_code: int | None
    reason: str


class ContainerLook(msgspec.Struct, frozen=True):
    """What the API says of the container at one moment. `end` is set when it will not run again."""

    has_started: bool
    restarts: int
    started_at_ns: int
    last_exit: ContainerEnd | None
    end: ContainerEnd | None


def look_at(pod: Mapping[str, Any], container: str) -> ContainerLook:
    """What a pod, as the API gives it, says of a container of that name."""
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
    return ContainerLook(has_started, restarts, started_at_ns, last_exit=last or ended, end=end)


def _stays_ended(pod: Mapping[str, Any], ended: ContainerEnd) -> bool:
    policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
    return policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)


def _end_of(terminated: Mapping[str, Any] | None) -> ContainerEnd | None:
    if not terminated:
        return None
    code = terminated.get("exitCode")
    return ContainerEnd(int(code) if code is not None else None, one_line(str(terminated.get("reason") or "")))
