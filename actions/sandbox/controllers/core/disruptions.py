"""PodDisruptionBudgets: how many of the pods that each selects may be evicted now.

Source: k8s.io/kubernetes `pkg/controller/disruption/disruption.go`, v1.34. `disruptedPods` is left out: an eviction
here deletes at once. Of controllers with a scale it knows ReplicaSets, and so Deployments.
"""

from __future__ import annotations

import math

import msgspec

from actions.fleet.placement import is_met
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    BUDGETS,
    PODS,
    REPLICA_SETS,
    Document,
    is_deleting,
    key_of,
    labels_of,
    owner_of,
)
from actions.sandbox.controllers.core.pods import is_pod_ready, phase_of


class DisruptionController(Controller):
    """Keeps the status of disruption budgets, by which evictions are allowed."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[BUDGETS].listen(lambda budget: self.wake(key_of(budget)))
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        namespace = pod["metadata"]["namespace"]
        for key in self._caches[BUDGETS].objects:
            if key.startswith(f"{namespace}/"):
                self.wake(key)

    async def reconcile(self, key: str) -> float | None:
        """Count the healthy pods of a budget, and report how many may go."""
        budget = self._caches[BUDGETS].get(key)
        if budget is None or is_deleting(budget):
            return None
        pods = [pod for pod in self._caches[PODS].objects.values() if selects_pod(budget, pod)]
        healthy = sum(is_pod_ready(pod) and not is_deleting(pod) for pod in pods)
        wanted = wanted_pods(budget["spec"], len(pods), self._scale(pods))
        if wanted is None:
            await self._refuse(budget, pods)
            return None
        allowed = max(0, healthy - wanted.healthy) if wanted.expected else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        conditions = list((budget.get("status") or {}).get("conditions") or ())
        new = condition("DisruptionAllowed", bool(allowed), reason, "", self._client.timestamp())
        status = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "currentHealthy": healthy,
            "desiredHealthy": wanted.healthy,
            "expectedPods": wanted.expected,
            "disruptionsAllowed": allowed,
            "conditions": with_condition(conditions, new),
        }
        before = budget.get("status") or {}
        if any(before.get(field) != value for field, value in status.items()):
            await self._client.patch_status(BUDGETS, budget, status)
        return None

    async def _refuse(self, budget: Document, pods: list[Document]) -> None:
        """Leave the status as it is, because the pods have a controller without a scale: none may be evicted."""
        message = f'Failed to calculate the number of expected pods: found no controllers for pod "{_name(pods[0])}"'
        reason = "CalculateExpectedPodCountFailed"
        await self._client.record_event(budget, BUDGETS, reason, message, source="controllermanager", is_warning=True)

    def _scale(self, pods: list[Document]) -> int | None:
        """Return the replicas of all controllers of these pods together; `None` if one of them has no scale."""
        owners = {}
        for pod in pods:
            if (owner := owner_of(pod)) is not None:
                key = f"{pod['metadata']['namespace']}/{owner['name']}" if owner["kind"] == REPLICA_SETS.kind else ""
                owners[owner["uid"]] = self._caches[REPLICA_SETS].get(key)
        if any(owner is None for owner in owners.values()):
            return None
        return sum(int(owner["spec"].get("replicas", 1)) for owner in owners.values() if owner is not None)


class WantedPods(msgspec.Struct, frozen=True):
    """The pods that a budget counts on: how many there should be, and how many of them healthy."""

    expected: int
    healthy: int


def wanted_pods(spec: Document, found: int, scale: int | None) -> WantedPods | None:
    """Return what a budget demands; `None` if that depends on a scale which is not known.

    Args:
        spec: The budget's.
        found: The number of its pods.
        scale: The replicas of their controllers together.
    """
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and (least is None or isinstance(least, int)):
        return WantedPods(found, least or 0)
    if scale is None:
        return None
    value = least if most is None else most
    share = value if isinstance(value, int) else math.ceil(int(str(value).removesuffix("%")) * scale / 100)
    return WantedPods(scale, share if most is None else max(0, scale - share))


def selects_pod(budget: Document, pod: Document) -> bool:
    """Return whether a pod that has not ended is one of the budget's; an empty selector selects all."""
    if pod["metadata"]["namespace"] != budget["metadata"]["namespace"] or phase_of(pod) in ("Succeeded", "Failed"):
        return False
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    labels = labels_of(pod)
    is_equal = (selector.get("matchLabels") or {}).items() <= labels.items()
    return is_equal and all(is_met(one, labels) for one in selector.get("matchExpressions") or ())


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])
