"""Bad nights by name: sets of faults that come together."""

from __future__ import annotations

from actions.sandbox.faults.fault import Fault, FaultKind

_READS = ("get", "list", "watch")

SCENARIOS: dict[str, tuple[Fault, ...]] = {
    "amnesia": (
        Fault(FaultKind.EXPIRED, name="amnesia", verbs=("watch",), count=8),
        Fault(FaultKind.EXPIRED, name="amnesia-open", verbs=("watch",), count=8, in_stream=True),
    ),
    "flaky-network": (
        Fault(FaultKind.CUT, name="flaky-open", verbs=("watch", "log"), after_bytes=0, seconds=1),
        Fault(FaultKind.CUT, name="flaky-bodies", verbs=("list", "watch", "log"), after_bytes=700, count=20),
    ),
    "half-open": (Fault(FaultKind.SILENCE, name="half-open", verbs=("watch", "log"), after_bytes=0),),
    "login-expired": (Fault(FaultKind.UNAUTHORIZED, name="login-expired"),),
    "no-logs-for-you": (
        Fault(FaultKind.FORBIDDEN, name="no-logs", verbs=("log",)),
        Fault(FaultKind.FORBIDDEN, name="no-exec", verbs=("exec", "portforward")),
    ),
    "overloaded": (
        Fault(FaultKind.THROTTLED, name="overloaded", verbs=_READS, retry_after_seconds=2, count=12),
        Fault(FaultKind.SLOW, name="overloaded-slow", delay_seconds=2.0, seconds=60),
    ),
    "proxy-restart": (
        Fault(FaultKind.CUT, name="proxy-open", after_bytes=0, seconds=1),
        Fault(FaultKind.BAD_GATEWAY, name="proxy-restart", seconds=15),
    ),
    "wrong-clock": (Fault(FaultKind.SKEW, name="wrong-clock", offset_seconds=420.0),),
}
"""Scenario → its faults."""
