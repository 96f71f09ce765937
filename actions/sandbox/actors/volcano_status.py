"""What Volcano writes into PodGroups and Queues.

Source: recordings of Volcano 1.8.2; the names of phases and counters are those of its API.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from actions.sandbox.actors.conditions import with_condition
from actions.sandbox.actors.kinds import Document
from actions.sandbox.actors.volcano_gang import Gang
from actions.sandbox.quantities import sum_quantities

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
_COUNTERS = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
_READY = "tasks in gang are ready to be scheduled"


def phase_of_group(group: Document) -> str:
    """A PodGroup's phase; one that nobody has looked at is Pending."""
    return str((group.get("status") or {}).get("phase") or PENDING)


def queue_of_group(group: Document) -> str:
    """The Queue in which a PodGroup stands."""
    return str(group["spec"].get("queue") or "default")


def group_status(gang: Gang, phase: str, now: str) -> Document:
    """The status of a PodGroup after a cycle: what changes from the one it has, `None` for what goes.

    Args:
        gang: After the attempt, its pods as they are now.
        phase: In which the attempt has left it: Pending or Inqueue, or an earlier one.
        now: As Kubernetes writes times.
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
    """Only the condition of this cycle's outcome changes: what another cycle left behind stays beside it."""
    if gang.is_ready:
        new = {"type": "Scheduled", "reason": _READY}
    else:
        new = {"type": "Unschedulable", "reason": "NotEnoughResources", "message": gang.shortage()}
    stamp = {"status": "True", "lastTransitionTime": now, "transitionID": str(uuid.uuid4())}
    return with_condition(conditions, new | stamp)


def counters(groups: Iterable[Document]) -> Document:
    """How many PodGroups are in which phase, for the status of their Queue; `None` for none."""
    phases = [phase_of_group(group) for group in groups]
    return {phase.lower(): phases.count(phase) or None for phase in _COUNTERS}


def allocated_of(pods: Iterable[Document]) -> Document:
    """What pods with a node have been given together, for the status of their Queue."""
    amounts: list[dict[str, str]] = [{"cpu": "0", "memory": "0Mi"}]
    count = 0
    for pod in pods:
        count += 1
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            amounts.append({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return sum_quantities(amounts) | ({"pods": str(count)} if count else {})
