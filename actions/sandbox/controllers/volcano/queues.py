"""Volcano's controllers, as far as they concern Queues: state and counters.

Source: the real Volcano 1.8.2 and 1.15.1. They act only while the Deployment volcano-controllers has a ready pod.
"""

from __future__ import annotations

from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import POD_GROUPS, QUEUES, Document, is_deleting, key_of
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.volcano.gang import counters

CONTROLLERS = "volcano-system/volcano-controllers"


class VolcanoQueueController(Controller):
    """Reconciles Queues.

    Args:
        client: The API.
        caches: Of Queues, PodGroups and Deployments.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, CONTROLLERS)
        caches[QUEUES].listen(lambda queue: self.wake(key_of(queue)))
        caches[POD_GROUPS].listen(self._on_group)
        self._operator.on_change(lambda: self.wake_each(caches[QUEUES]))

    def _on_group(self, group: Document) -> None:
        self.wake(str(group["spec"].get("queue") or ""))

    async def reconcile(self, key: str) -> float | None:
        """Bring the status up to date; nobody closes a Queue here."""
        queue = self._caches[QUEUES].get(key)
        if queue is None or is_deleting(queue) or not self._operator.is_ready:
            return None
        groups = [one for one in self._caches[POD_GROUPS].objects.values() if one["spec"].get("queue") == key]
        old = queue.get("status") or {}
        new = {"state": "Open", **counters(groups)}
        if "allocated" not in old:
            new |= {"allocated": {}, "reservation": {}}
        change = {name: value for name, value in new.items() if old.get(name) != value}
        if change:
            await self._client.patch_status(QUEUES, queue, change)
        return None
