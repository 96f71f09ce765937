"""The scheduler: the loop that binds pods to nodes one after the other."""

from __future__ import annotations

from actions.fleet.placement import promised_share, reasons_against, requests_of, spaces_of, unschedulable_message
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import CLAIMS, NODES, PODS, Document, is_deleting, key_of

_SOURCE = "default-scheduler"
_ALL = "all"


class Scheduler(Controller):
    """Places all waiting pods whenever a pod, node or claim changes; oldest first, onto the emptiest node."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._messages: dict[str, str] = {}
        """Pod's uid → the message that was last reported to it."""
        for kind in (PODS, NODES, CLAIMS):
            caches[kind].listen(self._on_change)

    def _on_change(self, _document: Document) -> None:
        self.wake(_ALL)

    async def reconcile(self, key: str) -> float | None:
        """Place what can be placed."""
        pods = list(self._caches[PODS].objects.values())
        waiting = [pod for pod in pods if is_waiting(pod)]
        uids = {_uid(pod) for pod in waiting}
        self._messages = {uid: message for uid, message in self._messages.items() if uid in uids}
        spaces = spaces_of(list(self._caches[NODES].objects.values()), pods)
        for pod in sorted(waiting, key=lambda one: (one["metadata"]["creationTimestamp"], key_of(one))):
            problem = claim_problem(pod, self._caches)
            reasons = [] if problem else [(space, reasons_against(pod, space)) for space in spaces]
            fitting = [space for space, against in reasons if not against]
            if problem or not fitting:
                about_claim = f"0/{len(spaces)} nodes are available: {problem}"
                message = about_claim if problem else unschedulable_message(against for _space, against in reasons)
                await self._record_failure(pod, message)
                continue
            chosen = min(fitting, key=lambda space: (promised_share(space), space.name))
            chosen.promise(requests_of(pod))
            await assign(self._client, self._caches, pod, chosen.name, source=_SOURCE)
        return None

    async def _record_failure(self, pod: Document, message: str) -> None:
        if self._messages.get(_uid(pod)) == message:
            return
        self._messages[_uid(pod)] = message
        await mark_unschedulable(self._client, pod, "Unschedulable", message, source=_SOURCE)


def claim_problem(pod: Document, caches: Caches) -> str:
    """Return why a pod's claims keep it from every node, in the scheduler's words; empty if they do not."""
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        claim = caches[CLAIMS].get(f"{pod['metadata']['namespace']}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found. not found'
        if (claim.get("status") or {}).get("phase") != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims. not found"
    return ""


async def assign(client: ApiClient, caches: Caches, pod: Document, node: str, *, source: str) -> None:
    """Bind a pod to a node, and record the event; the cache has it at once."""
    await client.bind(pod, node)
    bound = await client.read(PODS, key_of(pod))
    if bound is not None:
        caches[PODS].upsert(bound)
    await client.record_event(pod, PODS, "Scheduled", f"Successfully assigned {key_of(pod)} to {node}", source=source)


async def mark_unschedulable(client: ApiClient, pod: Document, reason: str, message: str, *, source: str) -> None:
    """Write into a pod's condition why it has no node."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": client.timestamp(),
    }
    await client.patch_status(PODS, pod, {"conditions": [condition]})
    await client.record_event(pod, PODS, "FailedScheduling", message, source=source, is_warning=True)


def is_waiting(pod: Document) -> bool:
    """Return whether a pod waits for a node from this scheduler."""
    return needs_node(pod) and pod["spec"].get("schedulerName", _SOURCE) == _SOURCE


def needs_node(pod: Document) -> bool:
    """Return whether a pod has no node, and may be given one."""
    spec = pod["spec"]
    return not spec.get("nodeName") and not is_deleting(pod) and not spec.get("schedulingGates")


def _uid(pod: Document) -> str:
    return str(pod["metadata"]["uid"])
