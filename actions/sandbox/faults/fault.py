"""Faults as data: their kind, scope and duration, and named scenarios of faults that come together."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from actions.sandbox.apiserver.requests.request_info import RequestInfo


class FaultKind(StrEnum):
    """The kind of a fault."""

    EXPIRED = "expired"
    """410: the resource version or page token is too old."""
    THROTTLED = "throttled"
    """429 with Retry-After."""
    BROKEN = "broken"
    """500."""
    BAD_GATEWAY = "bad-gateway"
    """502 with a page of HTML, as a proxy writes it."""
    FORBIDDEN = "forbidden"
    """403."""
    UNAUTHORIZED = "unauthorized"
    """401."""
    CUT = "cut"
    """The connection breaks after `after_bytes`."""
    SILENCE = "silence"
    """After `after_bytes` nothing more is sent, and the connection stays open."""
    SLOW = "slow"
    """`delay_seconds` before the answer, and before each chunk of a stream."""
    SHORT_LOG = "short-log"
    """A log ends after `after_bytes`, as if that were all."""
    SKEW = "skew"
    """The cluster's clock is `offset_seconds` ahead, for all clients; the scope has no effect."""


REFUSALS = frozenset(
    {
        FaultKind.EXPIRED,
        FaultKind.THROTTLED,
        FaultKind.BROKEN,
        FaultKind.BAD_GATEWAY,
        FaultKind.FORBIDDEN,
        FaultKind.UNAUTHORIZED,
    }
)
"""Kinds that answer in the server's place."""

DISTORTIONS = frozenset({FaultKind.CUT, FaultKind.SILENCE, FaultKind.SLOW, FaultKind.SHORT_LOG})
"""Kinds that change the bytes of an answer."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A fault, as the panel takes it in JSON. Empty scopes hit everything below `/api` and `/apis`.

    `name` is its kind's if not given. `verbs` are Kubernetes' own: get, list, watch, create, update, patch, delete,
    deletecollection; and log, exec, and the names of other subresources. `path` is a glob. After `count` hits, or
    `seconds`, the fault is over; 0 means never. `in_stream` refuses in the middle of open watches, as an ERROR event,
    instead of at their beginning. The sandbox's own controllers are spared unless `hits_controllers`.
    """

    kind: FaultKind
    name: str = ""
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    namespace: str = ""
    path: str = ""
    count: int = 0
    seconds: float = 0.0
    in_stream: bool = False
    hits_controllers: bool = False
    retry_after_seconds: int = 1
    after_bytes: int = 64
    delay_seconds: float = 0.5
    offset_seconds: float = 0.0

    def matches(self, info: RequestInfo) -> bool:
        """Return whether a request is in its scope."""
        return (
            (self.hits_controllers or not info.is_controller)
            and (info.is_api if not self.path else fnmatchcase(info.path, self.path))
            and (not self.verbs or info.verb in self.verbs)
            and (not self.resources or info.resource in self.resources)
            and (not self.namespace or info.namespace == self.namespace)
            and (self.kind is not FaultKind.SHORT_LOG or info.verb == "log")
        )


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
