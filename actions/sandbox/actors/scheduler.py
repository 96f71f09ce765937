"""The scheduler: puts pods on nodes, one after the other, and says why it cannot."""

from __future__ import annotations

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import CLAIMS, NODES, PODS, Document, is_deleting, key_of
from actions.sandbox.actors.nodefit import (
    NodeSpace,
    reasons_against,
    requests_of,
    space_of,
    unschedulable_message,
)
from actions.sandbox.actors.watching import Caches

_SOURCE = "default-scheduler"
_ALL = "all"


class Scheduler(Controller):
    """Looks at all waiting pods whenever a pod, node or claim changes; oldest first, onto the emptiest node."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._told: dict[str, str] = {}
        """Pod's uid → what it was last told."""
        for kind in (PODS, NODES, CLAIMS):
            caches[kind].listen(self._on_change)

    def _on_change(self, _document: Document) -> None:
        self.wake(_ALL)

    async def reconcile(self, key: str) -> float | None:
        """Place what can be placed."""
        pods = list(self._caches[PODS].objects.values())
        waiting = [pod for pod in pods if is_waiting(pod)]
        self._told = {uid: told for uid, told in self._told.items() if uid in {_uid(pod) for pod in waiting}}
        spaces = spaces_of(list(self._caches[NODES].objects.values()), pods)
        for pod in sorted(waiting, key=lambda one: (one["metadata"]["creationTimestamp"], key_of(one))):
            problem = claim_problem(pod, self._caches)
            reasons = [] if problem else [(space, reasons_against(pod, space)) for space in spaces]
            fitting = [space for space, against in reasons if not against]
            if problem or not fitting:
                about_claim = f"0/{len(spaces)} nodes are available: {problem}"
                told = about_claim if problem else unschedulable_message(against for _space, against in reasons)
                await self._tell(pod, told)
                continue
            chosen = min(fitting, key=lambda space: (fullness(space), space.name))
            chosen.promise(requests_of(pod))
            await assign(self._client, self._caches, pod, chosen.name, source=_SOURCE)
        return None

    async def _tell(self, pod: Document, message: str) -> None:
        if self._told.get(_uid(pod)) == message:
            return
        self._told[_uid(pod)] = message
        await turn_down(self._client, pod, "Unschedulable", message, source=_SOURCE)


def claim_problem(pod: Document, caches: Caches) -> str:
    """Why a pod's claims keep it from every node, in the scheduler's words; empty if they do not."""
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
    """Bind a pod to a node, and say so; the cache knows it at once."""
    await client.bind(pod, node)
    bound = await client.read(PODS, key_of(pod))
    if bound is not None:
        caches[PODS].upsert(bound)
    await client.record(pod, PODS, "Scheduled", f"Successfully assigned {key_of(pod)} to {node}", source=source)


async def turn_down(client: ApiClient, pod: Document, reason: str, message: str, *, source: str) -> None:
    """Tell a pod why it has no node."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": client.timestamp(),
    }
    await client.patch_status(PODS, pod, {"conditions": [condition]})
    await client.record(pod, PODS, "FailedScheduling", message, source=source, is_warning=True)


def is_waiting(pod: Document) -> bool:
    """Whether a pod waits for a node from this scheduler."""
    return is_homeless(pod) and pod["spec"].get("schedulerName", _SOURCE) == _SOURCE


def is_homeless(pod: Document) -> bool:
    """Whether a pod has no node, and may be given one."""
    spec = pod["spec"]
    return not spec.get("nodeName") and not is_deleting(pod) and not spec.get("schedulingGates")


def spaces_of(nodes: list[Document], pods: list[Document]) -> list[NodeSpace]:
    """All nodes that are ready, with the requests of the pods on them counted."""
    spaces = {node["metadata"]["name"]: space_of(node) for node in nodes if is_ready(node) and not is_deleting(node)}
    for pod in pods:
        space = spaces.get(pod["spec"].get("nodeName", ""))
        if space is not None and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            space.promise(requests_of(pod))
    return list(spaces.values())


def is_ready(node: Document) -> bool:
    """Whether the node's Ready condition is True."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def fullness(space: NodeSpace) -> float:
    """The largest share of a resource that has been promised."""
    shares = [space.promised.get(name, 0.0) / offered for name, offered in space.offered.items() if offered]
    return max(shares, default=0.0)


def _uid(pod: Document) -> str:
    return str(pod["metadata"]["uid"])
