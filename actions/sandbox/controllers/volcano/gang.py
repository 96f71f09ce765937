"""An attempt to place a gang, and the status of PodGroups and Queues that follows from it.

Source: the real Volcano 1.8.2 and 1.15.1 with the actions and plugins of its release; names of phases and counters are
those of its API.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from actions.cluster.state.pod_requests import parse_quantity
from actions.fleet.placement import PODS_RESOURCE, Amounts, NodeSpace, promised_share, requests_of, selects, tolerates
from actions.sandbox.clientkit.conditions import with_condition
from actions.sandbox.clientkit.kinds import Document, is_deleting, uid_of
from actions.sandbox.controllers.core.pods import phase_of
from actions.sandbox.controllers.core.scheduler import needs_node
from actions.sandbox.model.quantities import sum_quantities

_FIRST_RESOURCES = ("cpu", "memory")
_PENDING = "Pending"
_ALLOCATED = frozenset({"Bound", "Running", "Succeeded"})
"""The states in which a task counts as ready."""


def task_status(pod: Document) -> str:
    """Return Volcano's name for the state of a pod."""
    phase = phase_of(pod)
    if phase in ("Succeeded", "Failed"):
        return phase
    if is_deleting(pod):
        return "Releasing"
    if not pod["spec"].get("nodeName"):
        return _PENDING
    return "Running" if phase == "Running" else "Bound"


class Gang(msgspec.Struct):
    """A PodGroup with the pods that it has, oldest first, and what an attempt to place them has come to."""

    group: Document
    pods: list[Document]
    placed: dict[str, str] = msgspec.field(default_factory=dict)
    """uid of a pod → the node it would go to."""
    refused: dict[str, str] = msgspec.field(default_factory=dict)
    """uid of a pod → why no node takes it."""

    @property
    def least(self) -> int:
        """The number of pods that must be ready together."""
        return int(self.group["spec"].get("minMember") or 0)

    @property
    def pending(self) -> list[Document]:
        """The pods that wait for a node."""
        return [pod for pod in self.pods if needs_node(pod) and task_status(pod) == _PENDING]

    @property
    def statuses(self) -> Counter[str]:
        """The number of pods by state, before the attempt."""
        return Counter(map(task_status, self.pods))

    @property
    def allocated(self) -> int:
        """The number of pods that have a node, or have succeeded."""
        return sum(count for status, count in self.statuses.items() if status in _ALLOCATED)

    @property
    def is_ready(self) -> bool:
        """True if enough pods have a node, with those that the attempt has placed."""
        return self.allocated + len(self.placed) >= self.least

    def place(self, spaces: Iterable[NodeSpace], problem_of: Callable[[Document], str]) -> None:
        """Try to give every waiting pod a node; give up at the first that fits nowhere.

        Args:
            spaces: All nodes; what is placed is counted on them, also if it is not enough in the end.
            problem_of: Why a pod cannot go to any node, whatever is free; empty if it can.
        """
        nodes = list(spaces)
        for pod in self.pending:
            reasons = [reason_against(pod, node) for node in nodes]
            problem = problem_of(pod)
            fitting = [node for node, reason in zip(nodes, reasons, strict=True) if not reason]
            if problem or not fitting:
                self.refused[uid_of(pod)] = problem or _node_reasons(reasons)
                return
            chosen = min(fitting, key=lambda node: (promised_share(node), node.name))
            chosen.promise(requests_of(pod))
            self.placed[uid_of(pod)] = chosen.name

    def shortage_message(self) -> str:
        """Return the message of its condition while it is not ready; the number of missing pods comes first."""
        return f"{self.least - self.allocated - len(self.placed)}{self._of_all()}"

    def waiting_message(self) -> str:
        """Return the message of its event while it is not ready; the number of waiting pods comes first."""
        return f"{len(self.pending) - len(self.placed)}{self._of_all()}"

    def _of_all(self) -> str:
        return f"/{len(self.pods)} tasks in gang unschedulable: {self.not_ready_message()}"

    def not_ready_message(self) -> str:
        """Return the message of a pod without one of its own: the numbers of pods by state after the attempt."""
        waiting = len(self.pending) - len(self.placed)
        tried = {_PENDING: waiting, "Allocated": len(self.placed), "minAvailable": self.least}
        states = {**self.statuses, **tried}
        text = ", ".join(sorted(f"{count} {name}" for name, count in states.items() if count))
        reason = next(
            (f". Origin reason is {_name_of(self.pods, uid)}: {why}" for uid, why in self.refused.items()), ""
        )
        pending = f"; {_PENDING}: {waiting} Unschedulable" if waiting else ""
        return f"pod group is not ready, {text}{pending}{reason}"


def _name_of(pods: list[Document], uid: str) -> str:
    return next(str(pod["metadata"]["name"]) for pod in pods if uid_of(pod) == uid)


def reason_against(pod: Document, node: NodeSpace) -> str:
    """Return why a pod cannot go to a node: the first resource short, then selectors, then taints. Empty if it can."""
    wanted = requests_of(pod)
    for resource in (*_FIRST_RESOURCES, *sorted(wanted.keys() - {*_FIRST_RESOURCES, PODS_RESOURCE})):
        if wanted.get(resource, 0.0) > node.free(resource) + 1e-9:
            return f"Insufficient {resource}"
    if not selects(pod, node.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    if any(not tolerates(pod, taint) for taint in node.taints):
        return "node(s) had untolerated taint(s)"
    return "node(s) pod number exceeded" if node.free(PODS_RESOURCE) < 1 else ""


def _node_reasons(reasons: list[str]) -> str:
    counts = Counter(reasons)
    summary = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(reasons)} nodes are unavailable: {summary}."


def least_resources(group: Document) -> Amounts:
    """Return the least resources of a PodGroup."""
    return {name: parse_quantity(str(amount)) for name, amount in (group["spec"].get("minResources") or {}).items()}


PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
_COUNTERS = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
_READY = "tasks in gang are ready to be scheduled"


def phase_of_group(group: Document) -> str:
    """Return a PodGroup's phase; one without a status is Pending."""
    return str((group.get("status") or {}).get("phase") or PENDING)


def queue_of_group(group: Document) -> str:
    """Return the Queue of a PodGroup."""
    return str(group["spec"].get("queue") or "default")


def group_status(gang: Gang, phase: str, now: str) -> Document:
    """Return the changes to a PodGroup's status after a cycle, `None` for what is removed.

    Args:
        gang: After the attempt, its pods as they are now.
        phase: The one after the attempt: Pending or Inqueue, or an earlier one.
        now: RFC 3339.
    """
    old = gang.group.get("status") or {}
    counts = gang.statuses
    new: Document = {
        "phase": _phase(gang, phase),
        "conditions": _conditions(gang, list(old.get("conditions") or ()), now),
    }
    for counter in ("running", "succeeded", "failed"):
        new[counter] = counts[counter.capitalize()] or None
    return {name: value for name, value in new.items() if old.get(name) != value}


def _phase(gang: Gang, phase: str) -> str:
    counts, allocated = gang.statuses, gang.allocated
    if counts[RUNNING] and not gang.is_ready:
        return UNKNOWN
    if allocated >= gang.least:
        return COMPLETED if counts["Succeeded"] == allocated and allocated else RUNNING
    return INQUEUE if phase == INQUEUE else PENDING


def _conditions(gang: Gang, conditions: list[Document], now: str) -> list[Document]:
    """Return the conditions with only that of this cycle's outcome changed: those of earlier cycles stay beside it."""
    if gang.is_ready:
        new = {"type": "Scheduled", "reason": _READY}
    else:
        new = {"type": "Unschedulable", "reason": "NotEnoughResources", "message": gang.shortage_message()}
    stamp = {"status": "True", "lastTransitionTime": now, "transitionID": str(uuid.uuid4())}
    return with_condition(conditions, new | stamp)


def counters(groups: Iterable[Document]) -> Document:
    """Return the numbers of PodGroups by phase, for the status of their Queue; `None` for zero."""
    phases = [phase_of_group(group) for group in groups]
    return {phase.lower(): phases.count(phase) or None for phase in _COUNTERS}


def allocated_of(pods: Iterable[Document]) -> Document:
    """Return the requests of pods with a node together, for the status of their Queue."""
    amounts: list[dict[str, str]] = [{"cpu": "0", "memory": "0Mi"}]
    count = 0
    for pod in pods:
        count += 1
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            amounts.append({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return sum_quantities(amounts) | ({"pods": str(count)} if count else {})
