"""Volcano's scheduler and its controller of Queues, version 1.15.1: gangs in queues, all or nothing, a cycle a second.

Source: the real Volcano 1.8.2 and 1.15.1 with the actions and plugins of its release. It acts only while the Deployment
volcano-scheduler has a ready pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from actions.cluster.state.pod_requests import parse_quantity
from actions.fleet.placement import PODS_RESOURCE, Amounts, NodeSpace, spaces_of
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Document,
    is_deleting,
    key_of,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.core.pods import phase_of
from actions.sandbox.controllers.core.scheduler import assign, claim_problem, mark_unschedulable
from actions.sandbox.controllers.volcano.gang import (
    INQUEUE,
    PENDING,
    Gang,
    allocated_of,
    counters,
    group_status,
    least_resources,
    phase_of_group,
    queue_of_group,
)

SCHEDULER = "volcano-system/volcano-scheduler"
_CONTROLLERS = "volcano-system/volcano-controllers"
GROUP_NAME = "scheduling.k8s.io/group-name"
_SOURCE = "volcano"
_PERIOD_SECONDS = 1.0
_OVERCOMMIT = 1.2
"""Gangs are admitted up to so many times what the cluster has."""
_ALL = "all"
_DEFAULT_QUEUE = {"metadata": {"name": "default"}, "spec": {"weight": 1, "reclaimable": True, "guarantee": {}}}


class VolcanoScheduler(Controller):
    """Schedules all PodGroups together, at most once a period.

    Args:
        client: The API.
        caches: Those of PodGroups, Queues, pods, nodes, claims and Deployments.
        period_seconds: The pause between cycles.
    """

    def __init__(self, client: ApiClient, caches: Caches, *, period_seconds: float = _PERIOD_SECONDS) -> None:
        super().__init__()
        self._period_seconds = period_seconds
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, SCHEDULER)
        self._is_due = False
        self._grown: dict[str, tuple[int, float]] = {}
        """PodGroup's uid → how many pods it has, and since when (monotonic)."""
        self._reported: dict[str, tuple[str, str]] = {}
        """Pod's uid → reason and message that were last reported to it."""
        caches[QUEUES].listen(self._on_queue)
        caches[POD_GROUPS].listen(self._on_group)
        for kind in (PODS, NODES, CLAIMS):
            caches[kind].listen(lambda _changed: self._wake_soon())
        self._operator.on_change(self._wake_soon)
        self.wake(_ALL)

    def _on_queue(self, queue: Document) -> None:
        """Wake for a new Queue, which PodGroups may wait for: without another period's delay."""
        if (queue.get("status") or {}).get("state"):
            self._wake_soon()
        else:
            self.wake(_ALL)

    def _on_group(self, group: Document) -> None:
        self._grown.setdefault(uid_of(group), (0, self._client.clock.monotonic()))
        self._wake_soon()

    def _wake_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._wake_in(_ALL, self._period_seconds)

    async def reconcile(self, key: str) -> float | None:
        """Run one cycle: admit, place, report."""
        self._is_due = False
        if not self._operator.is_ready or not self._caches[QUEUES].is_synced.is_set():
            return None
        if self._caches[QUEUES].get("default") is None:
            await self._client.create(QUEUES, _DEFAULT_QUEUE)
        spaces = spaces_of(list(self._caches[NODES].objects.values()), list(self._caches[PODS].objects.values()))
        gangs = self._gangs()
        is_unsettled = False
        for gang in gangs:
            if self._is_growing(gang):
                is_unsettled = True
                continue
            await self._advance(gang, gangs, spaces)
            is_unsettled = is_unsettled or not gang.is_ready
        for queue in list(self._caches[QUEUES].objects.values()):
            await self._report_queue(queue, gangs)
        known = {uid_of(pod) for gang in gangs for pod in gang.pods}
        groups = {uid_of(group) for group in self._caches[POD_GROUPS].objects.values()}
        self._grown = {uid: grown for uid, grown in self._grown.items() if uid in groups}
        self._reported = {uid: reported for uid, reported in self._reported.items() if uid in known}
        return self._period_seconds if is_unsettled else None

    def _gangs(self) -> list[Gang]:
        """All PodGroups whose Queue exists, oldest first."""
        groups = [
            group
            for group in self._caches[POD_GROUPS].objects.values()
            if self._caches[QUEUES].get(queue_of_group(group)) is not None
        ]
        groups.sort(key=lambda group: (group["metadata"]["creationTimestamp"], key_of(group)))
        return [Gang(group, self._members(group)) for group in groups]

    def _members(self, group: Document) -> list[Document]:
        namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
        return [
            pod
            for pod in self._caches[PODS].objects.values()
            if pod["metadata"]["namespace"] == namespace
            and pod["spec"].get("schedulerName") == _SOURCE
            and (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) == name
        ]

    def _is_growing(self, gang: Gang) -> bool:
        """Return whether its pods are just being made and are not enough yet: a report about it would not last."""
        now, uid = self._client.clock.monotonic(), uid_of(gang.group)
        count, since = self._grown.get(uid, (0, now))
        if count != len(gang.pods):
            since = now
            self._grown[uid] = (len(gang.pods), since)
        return len(gang.pods) < gang.least and now - since < self._period_seconds / 2

    async def _advance(self, gang: Gang, gangs: list[Gang], spaces: list[NodeSpace]) -> None:
        phase = phase_of_group(gang.group)
        if phase == PENDING:
            refusal = self._refusal(gang, gangs, spaces)
            if refusal:
                await self._client.record_event(gang.group, POD_GROUPS, "Unschedulable", refusal, source=_SOURCE)
            else:
                phase = INQUEUE
        if phase != PENDING:
            await self._place(gang, spaces)
        if gang.is_ready or await self._is_up_to_date(gang.group):
            await self._report(gang, phase)

    async def _is_up_to_date(self, group: Document) -> bool:
        """Return whether the cache has the PodGroup's current spec: its change may come later than that of its pods."""
        current = await self._client.read(POD_GROUPS, key_of(group))
        if current is None or current["spec"] == group["spec"]:
            return current is not None
        self._caches[POD_GROUPS].upsert(current)
        return False

    def _refusal(self, gang: Gang, gangs: list[Gang], spaces: list[NodeSpace]) -> str:
        """Return why a gang is not even admitted; empty if it is."""
        wanted = least_resources(gang.group)
        if not wanted:
            return ""
        others = [one for one in gangs if one is not gang and phase_of_group(one.group) == INQUEUE]
        admitted = _sum(least_resources(one.group) for one in others)
        total, used = _sum(node.offered for node in spaces), _sum(node.promised for node in spaces)
        for name, amount in wanted.items():
            idle = total.get(name, 0.0) * _OVERCOMMIT - used.get(name, 0.0)
            if amount + admitted.get(name, 0.0) > idle + 1e-6:
                return f"resource in cluster is overused: overused {name}"
        queue = self._caches[QUEUES].get(queue_of_group(gang.group))
        limits = _limits(queue or {}, total)
        beside = [one for one in others if queue_of_group(one.group) == queue_of_group(gang.group)]
        taken = _sum([*(least_resources(one.group) for one in beside), self._given(gang, gangs)])
        if any(
            amount + taken.get(name, 0.0) > limits[name] + 1e-6 for name, amount in wanted.items() if name in limits
        ):
            return "queue resource quota insufficient"
        return ""

    def _given(self, gang: Gang, gangs: list[Gang]) -> Amounts:
        """Return the amounts that pods in the gang's Queue have been given."""
        queue = queue_of_group(gang.group)
        given = allocated_of(pod for one in gangs if queue_of_group(one.group) == queue for pod in _with_nodes(one))
        return {name: parse_quantity(str(amount)) for name, amount in given.items()}

    async def _place(self, gang: Gang, spaces: list[NodeSpace]) -> None:
        """Bind the gang's waiting pods if enough of it fits, else none of them."""
        before = [dict(node.promised) for node in spaces]
        gang.place(spaces, lambda pod: claim_problem(pod, self._caches))
        if not gang.is_ready:
            for node, promised in zip(spaces, before, strict=True):
                node.promised = promised
            return
        is_news = phase_of_group(gang.group) in (PENDING, INQUEUE)
        if gang.placed and is_news:
            await self._client.record_event(gang.group, POD_GROUPS, "Scheduled", "pod group is ready", source=_SOURCE)
        for pod in gang.pending:
            chosen = gang.placed.get(uid_of(pod))
            if chosen is not None:
                await assign(self._client, self._caches, pod, chosen, source=_SOURCE)
        gang.pods = self._members(gang.group)
        gang.placed = {}

    async def _report(self, gang: Gang, phase: str) -> None:
        """Write the PodGroup's status, and report to waiting pods and the PodGroup what is missing."""
        if not gang.is_ready:
            message = gang.waiting_message()
            await self._client.record_event(
                gang.group, POD_GROUPS, "Unschedulable", message, source=_SOURCE, is_warning=True
            )
            for pod in gang.pending:
                await self._turn_down(gang, pod)
        else:
            for pod in gang.pending:
                if uid_of(pod) in gang.refused:
                    await self._turn_down(gang, pod)
        change = group_status(gang, phase, self._client.timestamp())
        if change:
            changed = await self._client.patch(POD_GROUPS, key_of(gang.group), {"status": change})
            if changed is not None:
                self._caches[POD_GROUPS].upsert(changed)

    async def _turn_down(self, gang: Gang, pod: Document) -> None:
        uid = uid_of(pod)
        if uid in gang.placed:
            where = f"{gang.placed[uid]}, once minAvailable is satisfied"
            reported = ("Schedulable", f"Pod {key_of(pod)} can possibly be assigned to {where}")
        else:
            reported = ("Unschedulable", gang.refused.get(uid) or gang.not_ready_message())
        if self._reported.get(uid) != reported:
            self._reported[uid] = reported
            await mark_unschedulable(self._client, pod, *reported, source=_SOURCE)

    async def _report_queue(self, queue: Document, gangs: list[Gang]) -> None:
        """Write the amounts that the Queue's pods have been given; its state is left to the controllers."""
        old = queue.get("status") or {}
        name = queue["metadata"]["name"]
        if "allocated" not in old and name != "default":
            return
        mine = (gang for gang in gangs if queue_of_group(gang.group) == name)
        given = allocated_of(pod for gang in mine for pod in _with_nodes(gang))
        known = old.get("allocated") or {}
        if given != known:
            gone = dict.fromkeys(known.keys() - given.keys(), None)
            await self._client.patch_status(QUEUES, queue, {"allocated": given | gone, "reservation": {}})


def _with_nodes(gang: Gang) -> list[Document]:
    return [pod for pod in gang.pods if pod["spec"].get("nodeName") and phase_of(pod) not in ("Succeeded", "Failed")]


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for one in amounts:
        for name, amount in one.items():
            if name != PODS_RESOURCE:
                found[name] = found.get(name, 0.0) + amount
    return found


def _limits(queue: Document, total: Amounts) -> Amounts:
    """Return the most that a Queue may have of each resource: its capability, and never more than there is."""
    capability = (queue.get("spec") or {}).get("capability") or {}
    limits = {name: parse_quantity(str(amount)) for name, amount in capability.items()}
    return {name: min(total.get(name, limit), limit) for name, limit in (total | limits).items()}


class VolcanoQueueController(Controller):
    """Reconciles Queues: their state and counters, while the Deployment volcano-controllers has a ready pod.

    Args:
        client: The API.
        caches: Of Queues, PodGroups and Deployments.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, _CONTROLLERS)
        caches[QUEUES].listen(lambda queue: self.wake(key_of(queue)))
        caches[POD_GROUPS].listen(self._on_group)
        self._operator.on_change(lambda: self.wake_each(caches[QUEUES]))

    def _on_group(self, group: Document) -> None:
        self.wake(str(group["spec"].get("queue") or ""))

    async def reconcile(self, key: str) -> float | None:
        """Bring the status up to date: a Queue is always open."""
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
