"""The scheduler: its filters, and the loop that binds pods to nodes one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actions.cluster.state.pod_requests import parse_quantity
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import CLAIMS, NODES, PODS, Document, is_deleting, is_met, key_of, labels_of

Amounts = dict[str, float]
"""Resource → amount: CPU in cores, memory in bytes, devices in pieces."""

PODS_RESOURCE = "pods"
_BLOCKING = ("NoSchedule", "NoExecute")


class NodeSpace(msgspec.Struct):
    """A node's allocatable resources, and the part of them that pods have been promised."""

    name: str
    labels: Mapping[str, str]
    taints: list[Document]
    offered: Amounts
    promised: Amounts = msgspec.field(default_factory=dict)

    def free(self, resource: str) -> float:
        """Return the part of a resource that is not promised."""
        return self.offered.get(resource, 0.0) - self.promised.get(resource, 0.0)

    def promise(self, amounts: Amounts) -> None:
        """Count a pod's requests."""
        for resource, amount in amounts.items():
            self.promised[resource] = self.promised.get(resource, 0.0) + amount


def space_of(node: Document) -> NodeSpace:
    """An empty node, from its object."""
    taints = list(node["spec"].get("taints") or ())
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    offered = (node.get("status") or {}).get("allocatable") or {}
    return NodeSpace(
        name=node["metadata"]["name"],
        labels=labels_of(node),
        taints=taints,
        offered={resource: parse_quantity(str(amount)) for resource, amount in offered.items()},
    )


def requests_of(pod: Document) -> Amounts:
    """A pod's effective requests: the sum over containers, or the largest init container if that is more."""
    total: Amounts = {PODS_RESOURCE: 1.0}
    for container in pod["spec"]["containers"]:
        for resource, amount in _requests(container).items():
            total[resource] = total.get(resource, 0.0) + amount
    for container in pod["spec"].get("initContainers") or ():
        for resource, amount in _requests(container).items():
            total[resource] = max(total.get(resource, 0.0), amount)
    return total


def _requests(container: Document) -> Amounts:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {resource: parse_quantity(str(amount)) for resource, amount in amounts.items()}


def reasons_against(pod: Document, node: NodeSpace) -> list[str]:
    """Return why the pod cannot go to the node, in the scheduler's words; empty if it can."""
    if not selects(pod, node.labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    taint = next((taint for taint in node.taints if not tolerates(pod, taint)), None)
    if taint is not None:
        value = f"{taint['key']}: {taint.get('value', '')}"
        return [f"node(s) had untolerated taint {{{value}}}"]
    wanted = requests_of(pod)
    short = [resource for resource, amount in sorted(wanted.items()) if amount > node.free(resource) + 1e-9]
    return ["Too many pods" if resource == PODS_RESOURCE else f"Insufficient {resource}" for resource in short]


def selects(pod: Document, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels satisfies the pod's node selector and required node affinity."""
    if any(labels.get(name) != value for name, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(pod)
    return not terms or any(all(is_met(one, dict(labels)) for one in term) for term in terms)


def required_terms(pod: Document) -> list[list[Document]]:
    """The alternatives of the pod's required node affinity, each a list of requirements."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        [*(term.get("matchExpressions") or ()), *map(_by_host_name, term.get("matchFields") or ())]
        for term in required.get("nodeSelectorTerms") or ()
    ]


def _by_host_name(field_term: Document) -> Document:
    """A requirement on the node's name, as one on its host name label: on EKS they are the same."""
    return {**field_term, "key": "kubernetes.io/hostname"}


def tolerates(pod: Document, taint: Document) -> bool:
    """Return whether a taint does not keep the pod away."""
    if taint.get("effect") not in _BLOCKING:
        return True
    return any(_covers(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def _covers(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def unschedulable_message(reasons: Iterable[list[str]]) -> str:
    """Return the scheduler's sentence about all nodes, from each node's reasons."""
    all_reasons = list(reasons)
    counts: dict[str, int] = {}
    for reason in (one for node_reasons in all_reasons for one in node_reasons):
        counts[reason] = counts.get(reason, 0) + 1
    total = len(all_reasons)
    if not total:
        return "no nodes available to schedule pods"
    summary = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return (
        f"0/{total} nodes are available: {summary}. preemption: 0/{total} nodes are available: "
        f"{total} Preemption is not helpful for scheduling."
    )


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


def spaces_of(nodes: list[Document], pods: list[Document]) -> list[NodeSpace]:
    """All nodes that are ready, with the requests of the pods on them counted."""
    spaces = {node["metadata"]["name"]: space_of(node) for node in nodes if is_ready(node) and not is_deleting(node)}
    for pod in pods:
        space = spaces.get(pod["spec"].get("nodeName", ""))
        if space is not None and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            space.promise(requests_of(pod))
    return list(spaces.values())


def is_ready(node: Document) -> bool:
    """Return whether the node's Ready condition is True."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def promised_share(space: NodeSpace) -> float:
    """The largest share of a resource that has been promised."""
    shares = [space.promised.get(name, 0.0) / offered for name, offered in space.offered.items() if offered]
    return max(shares, default=0.0)


def _uid(pod: Document) -> str:
    return str(pod["metadata"]["uid"])
