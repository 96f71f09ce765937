"""The rule by which a scheduler places pods on nodes: what a node offers, what is taken, what keeps a pod away. Pure.

The doctor asks it before a launch, and the sandbox's schedulers place by it. Its sentences are kube-scheduler's: a
diagnosis reads them as it reads those of a cluster.

Source: kube-scheduler's filters TaintToleration, NodeAffinity and NodeResourcesFit; `FitError` (v1.32).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actions.fleet.quantity import parse_quantity

Document = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""
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
        labels=node["metadata"].get("labels") or {},
        taints=taints,
        offered={resource: parse_quantity(str(amount)) for resource, amount in offered.items()},
    )


def requests_of(pod: Document) -> Amounts:
    """A pod's effective requests: the sum over containers, or the largest init container if that is more."""
    return {PODS_RESOURCE: 1.0} | _sum(pod, "limits", "requests")


def most_of(pod: Document) -> Amounts:
    """A pod's effective limits, as its requests."""
    return _sum(pod, "limits")


def _sum(pod: Document, *parts: str) -> Amounts:
    """Sum up parts of the containers' resources, the later ones before the earlier ones."""
    total: Amounts = {}
    for container in pod["spec"]["containers"]:
        for resource, amount in _amounts(container, parts).items():
            total[resource] = total.get(resource, 0.0) + amount
    for container in pod["spec"].get("initContainers") or ():
        is_sidecar = container.get("restartPolicy") == "Always"
        for resource, amount in _amounts(container, parts).items():
            so_far = total.get(resource, 0.0)
            total[resource] = so_far + amount if is_sidecar else max(so_far, amount)
    return total


def _amounts(container: Document, parts: Sequence[str]) -> Amounts:
    resources = container.get("resources") or {}
    amounts = {name: amount for part in parts for name, amount in (resources.get(part) or {}).items()}
    return {resource: parse_quantity(str(amount)) for resource, amount in amounts.items() if amount is not None}


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


def is_selected(pod: Document, node: NodeSpace) -> bool:
    """Return whether a node is one that the pod selects and whose taints it tolerates."""
    return selects(pod, node.labels) and all(tolerates(pod, taint) for taint in node.taints)


def selects(pod: Document, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels satisfies the pod's node selector and required node affinity."""
    if any(labels.get(name) != value for name, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(pod)
    return not terms or any(all(is_met(one, labels) for one in term) for term in terms)


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


def spaces_of(nodes: Iterable[Document], pods: Iterable[Document]) -> list[NodeSpace]:
    """All nodes that are ready, with the requests of the pods on them counted."""
    spaces = {
        node["metadata"]["name"]: space_of(node)
        for node in nodes
        if is_ready(node) and not node["metadata"].get("deletionTimestamp")
    }
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


def is_met(term: Document, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy one requirement: In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    value, wanted = labels.get(term["key"]), term.get("values") or []
    match term["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator if value is not None and value.isdigit():
            return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])
    return False
