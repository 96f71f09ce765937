"""Volcano's controllers, as far as they concern Queues: state, counters, commands.

Source: recordings of Volcano 1.8.2. They act only while the Deployment volcano-controllers has a ready pod.
"""

from __future__ import annotations

from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import COMMANDS, POD_GROUPS, QUEUES, Document, is_deleting, key_of
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.volcano.gang import CLOSED, CLOSING, OPEN, counters

CONTROLLERS = "volcano-system/volcano-controllers"


class VolcanoQueueController(Controller):
    """Reconciles Queues.

    Args:
        client: The API.
        caches: Of Queues, PodGroups, Commands and Deployments.
        needs_operator: Whether it waits for the Deployment; off where Volcano itself is under test.
    """

    def __init__(self, client: ApiClient, caches: Caches, *, needs_operator: bool = True) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, CONTROLLERS, is_needed=needs_operator)
        caches[QUEUES].listen(lambda queue: self.wake(key_of(queue)))
        caches[POD_GROUPS].listen(self._on_group)
        caches[COMMANDS].listen(self._on_command)
        self._operator.on_change(lambda: self.wake_each(caches[QUEUES]))

    def _on_group(self, group: Document) -> None:
        self.wake(str(group["spec"].get("queue") or ""))

    def _on_command(self, command: Document) -> None:
        self.wake(_target(command))

    async def reconcile(self, key: str) -> float | None:
        """Carry out the commands, and bring the status up to date."""
        queue = self._caches[QUEUES].get(key)
        if queue is None or is_deleting(queue) or not self._operator.is_ready:
            return None
        groups = [one for one in self._caches[POD_GROUPS].objects.values() if one["spec"].get("queue") == key]
        old = queue.get("status") or {}
        state = await self._commanded(key, str(old.get("state") or OPEN), has_groups=bool(groups))
        if state == CLOSING and not groups:
            state = CLOSED
        new = {"state": state, **counters(groups)}
        if "allocated" not in old:
            new |= {"allocated": {}, "reservation": {}}
        change = {name: value for name, value in new.items() if old.get(name) != value}
        if change:
            await self._client.patch_status(QUEUES, queue, change)
        return None

    async def _commanded(self, key: str, state: str, *, has_groups: bool) -> str:
        """Return the state after all commands for the Queue, which are deleted."""
        commands = [one for one in self._caches[COMMANDS].objects.values() if _target(one) == key]
        for command in commands:
            if not await self._client.delete(COMMANDS, key_of(command)):
                continue
            match command.get("action"):
                case "CloseQueue" if state == OPEN:
                    await self._client.patch(QUEUES, key, {"spec": {"guarantee": {}}})
                    state = CLOSING if has_groups else CLOSED
                case "OpenQueue":
                    state = OPEN
        return state


def _target(command: Document) -> str:
    """The Queue that a command is for; empty if it is for something else."""
    target = command.get("target") or {}
    return str(target.get("name", "")) if target.get("kind") == "Queue" else ""
