"""The parser of the schedulers' messages about a pod that has no node.

Source: kube-scheduler's `FitError` (v1.5–1.34), Karpenter's provisioner (v0.3x–1.x), Volcano 1.8, cluster-autoscaler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from actions.cluster.diagnose.evidence import Evidence, Pod
from actions.fleet.facts import EventFacts

_FIT = re.compile(r"(\d{1,9})/(\d{1,9}) nodes are (?:un)?available: (.*)", re.DOTALL)
_PREEMPTION = re.compile(
    r"\.? (?:still not schedulable, )?preemption: |\. (?:no new claims to deallocate|still not schedulable)"
)
_REASON = re.compile(r"(?:^|, )(?:(\d{1,9}) )?(.+?)(?=, \d{1,9} |$)", re.DOTALL)
_PREDICATES = re.compile(r"No nodes are available that match all of the (?:following )?predicates:+ (.*)", re.DOTALL)
_PREDICATE = re.compile(r"([\w./ -]{1,120}?) \((\d{1,9})\)")
_SHORT = "Insufficient "
_TAINT = re.compile(r"(?:untolerated|had) taint(?:\(s\)| \{([^:}]+))")

LOST_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
NO_ROOM_REASONS = ("FailedScheduling", "Unschedulable", "NoCompatibleNodePools", "PodGroupPending")


class SchedulingRefusal(msgspec.Struct, frozen=True):
    """A scheduler's message that no node fits a pod. `reasons` counts nodes by reason; a node may have several."""

    message: str
    pod: str
    nodes: int = 0
    reasons: Mapping[str, int] = msgspec.field(default_factory=dict)

    def short_of(self) -> dict[str, int]:
        """Count nodes by the resource that they have too little of."""
        return {reason[len(_SHORT) :]: count for reason, count in self.reasons.items() if reason.startswith(_SHORT)}

    def has_free(self, is_meant: Callable[[str], bool]) -> bool:
        """Return whether a node has enough of the resources that are meant, and only too little of others.

        kube-scheduler names all resources that a node is short of, or one other objection to it.
        """
        meant = [count for name, count in self.short_of().items() if is_meant(name)]
        others = sum(count for reason, count in self.reasons.items() if not reason.startswith(_SHORT))
        return bool(meant) and "nodes are unavailable" not in self.message and self.nodes - others > max(meant)

    def taints(self) -> dict[str, int]:
        """Count nodes by the key of the taint that the pod does not tolerate, empty if the message does not name it."""
        found: dict[str, int] = {}
        for reason, count in self.reasons.items():
            if match := _TAINT.search(reason):
                key = (match[1] or "").strip()
                found[key] = found.get(key, 0) + count
        return found

    @property
    def is_misfit(self) -> bool:
        """Return whether nodes with enough resources do not fit for another reason.

        Volcano checks resources first (and writes *unavailable*), kube-scheduler selectors.
        """
        return "nodes are unavailable" in self.message and self.has("didn't match")

    def has(self, *words: str) -> bool:
        """Return whether any reason, or the message if it has none, contains any of the words."""
        return any(word in reason for reason in self.reasons or (self.message,) for word in words)


def refusal_of(message: str, pod: str) -> SchedulingRefusal:
    """Parse a message; one of another form has no reasons."""
    fit = _FIT.search(message)
    old = _PREDICATES.search(message) if fit is None else None
    if old:
        counts = {reason.strip(" ,"): int(count) for reason, count in _PREDICATE.findall(old[1].replace(", ", "\n"))}
        return SchedulingRefusal(message, pod, max(counts.values(), default=0), counts)
    if fit is None:
        return SchedulingRefusal(message, pod)
    told = _PREEMPTION.split(fit[3])[0].rstrip(". \n")
    reasons: dict[str, int] = {}
    for match in _REASON.finditer(told):
        reason = match[2].strip()
        reasons[reason] = reasons.get(reason, 0) + int(match[1] or 0)
    return SchedulingRefusal(message, pod, int(fit[2]), reasons)


def refusals(evidence: Evidence) -> Iterator[SchedulingRefusal]:
    """Yield the refusals of every pod that still has no node, each message once for each pod."""
    seen: set[tuple[str, str]] = set()
    for message, name in _messages(evidence):
        if message and (message, name) not in seen:
            seen.add((message, name))
            yield refusal_of(message, name)


def _messages(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for pod in evidence.pods:
        scheduled = pod.condition("PodScheduled")
        if scheduled is not None and scheduled.status == "False":
            yield scheduled.message, pod.name
    for event in scheduling_events(evidence):
        yield event.message, event.name


def scheduling_events(evidence: Evidence) -> Iterator[EventFacts]:
    """Yield a scheduler's events about pods that still have no node."""
    refused = (one for one in evidence.events if one.reason in NO_ROOM_REASONS and not one.is_of_placed_gang)
    return (event for event in refused if is_unscheduled(evidence, event))


RAISE_MAXIMUM = (
    "Raise the maximum of the node group (aws eks update-nodegroup-config --scaling-config), or free its nodes."
)


def full_groups(evidence: Evidence) -> list[EventFacts]:
    """Return cluster-autoscaler's events about node groups that it may not enlarge for a pod without a node."""
    return [
        event
        for event in evidence.events
        if event.reason == "NotTriggerScaleUp"
        and "max node group size reached" in event.message
        and is_unscheduled(evidence, event)
    ]


def is_unscheduled(evidence: Evidence, event: EventFacts) -> bool:
    """Return whether the event's object still has no node: of another object than a pod, any pod that is known."""
    pod = evidence.pod(event.namespace, event.name) if event.kind in ("", "Pod") else None
    return evidence.awaits_nodes if pod is None else _has_no_node(pod)


def _has_no_node(pod: Pod) -> bool:
    scheduled = pod.condition("PodScheduled")
    return pod.is_unscheduled and (scheduled is None or scheduled.status != "True")


def pod_names(refused: Iterable[SchedulingRefusal]) -> str:
    """Return the pods for a message: `train-0`, `train-0 and another pod`, or `train-0 and 7 more pods`."""
    known = list(dict.fromkeys(one.pod for one in refused if one.pod))
    if not known:
        return "the pod"
    more = len(known) - 1
    return known[0] if not more else f"{known[0]} and {'another pod' if more == 1 else f'{more} more pods'}"


def names_ask(refused: Iterable[SchedulingRefusal]) -> str:
    """Return the pods with a verb: `train-0 asks for`, `train-0 and 7 more pods ask for`."""
    known = list(refused)
    several = len({one.pod for one in known if one.pod}) > 1
    return f"{pod_names(known)} {'ask' if several else 'asks'} for"


def quotes_of(refused: Iterable[SchedulingRefusal]) -> list[str]:
    """Return the first three different messages."""
    return list(dict.fromkeys(one.message for one in refused))[:3]
