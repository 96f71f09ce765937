"""The health of the pods of a job in one sentence: one function for all that show it, from the facts that each has.

A runner has the pods as the API gives them, and reads their logs; a console that looks at the run of another machine
has the facts of pods alone. What a place does not know is called unknown: no pod is fine because its log was not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.fleet.facts import PodFacts

RECENT_SECONDS = 600.0
"""A container that runs again for this long is out of trouble: its restarts are history."""
UNREAD = "cause unknown, log not read"
"""Ends the verdict of a place that reads no logs."""
_WAITING = ("BackOff", "Err", "Invalid", "CreateContainer", "RunContainer")


class PodTrouble(msgspec.Struct, frozen=True):
    """The trouble of one pod."""

    name: str
    restarts: int
    reasons: tuple[str, ...]
    """As kubectl names them: `CrashLoopBackOff`, `OOMKilled`, `exit code 1`."""

    def sentence(self) -> str:
        """`worker-7 restarted 7×, CrashLoopBackOff, OOMKilled`."""
        did = f"{self.name} restarted {self.restarts}×" if self.restarts else self.name
        return ", ".join((did, *self.reasons))


def waits_badly(pod: PodFacts) -> bool:
    """Return whether a container of a pod waits for something that does not come by itself."""
    return any(word in pod.reason for word in _WAITING)


def has_restarted(pod: PodFacts, now: float, *, within_seconds: float = RECENT_SECONDS) -> bool:
    """Return whether a container of a pod was started again a short time ago: it may crash again and again."""
    return bool(pod.restarts) and 0.0 <= now - pod.started_at < within_seconds


def trouble_of(pod: PodFacts, now: float, *, job: str = "") -> PodTrouble | None:
    """Return the trouble of a pod by its facts; `None` if they show none.

    Args:
        pod: One that has not ended.
        now: Seconds since the epoch.
        job: Name of its workload, which is left out of its own.
    """
    if pod.is_done or pod.reason == "Terminating":
        return None
    is_bad = waits_badly(pod) or pod.reason == "OOMKilled"
    if not is_bad and not has_restarted(pod, now):
        return None
    return PodTrouble(pod.name.removeprefix(f"{job}-"), pod.restarts, (pod.reason,) if is_bad else ())


def verdict_of(troubles: Iterable[PodTrouble], *, job: str = "", cause: str | None = "") -> str:
    """Return what is wrong with the pods of a job, its cause first; empty if nothing is.

    `A GPU of worker-7 is out of memory, 12 restarts: asked 17.94 GiB; CrashLoopBackOff (7 more pods like it)`; where no
    cause is found `worker-7 restarted 12×, CrashLoopBackOff (7 more pods like it)`. Up to its colon it is a short form.

    Args:
        troubles: Of all pods that have some.
        job: Name of the workload, which is left out of the names of its pods.
        cause: What the log of one of these pods gives as the reason; empty for none, `None` where no log is read.
    """
    found = list(troubles)
    if not found:
        return ""
    cause = None if cause is None else cause.replace(f"{job}-", "") if job else cause
    worst = _named(found, cause or "") or max(found, key=lambda one: one.restarts)
    more = f" ({counted(len(found) - 1, 'more pod')} like it)" if len(found) > 1 else ""
    if not cause:
        return one_line(f"{worst.sentence()}{more}{f': {UNREAD}' if cause is None else ''}")
    head, _, detail = cause.partition(": ")
    restarts = f", {counted(worst.restarts, 'restart')}" if worst.restarts else ""
    rest = "; ".join(filter(None, (detail.rstrip("."), ", ".join(worst.reasons))))
    return one_line(f"{head.rstrip('.')}{restarts}{f': {rest}' if rest else ''}{more}")


def _named(troubles: Sequence[PodTrouble], cause: str) -> PodTrouble | None:
    """Return the pod that a cause is about: the restarts beside it must be its own, not those of another one."""
    words = cause.replace(":", " ").replace(",", " ").split()
    return next((one for one in troubles if one.name in words), None)
