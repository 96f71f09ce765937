"""How much a RayCluster asks for: replicas of its groups, and sums of what their containers request.

Source: recordings of KubeRay 1.1.1 (`desired*` of the status, `minMember` and `minResources` of its PodGroup).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from actions.sandbox.actors.kinds import Document

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def groups_of(cluster: Document) -> list[Document]:
    """The worker groups of a RayCluster."""
    return list(cluster["spec"].get("workerGroupSpecs") or ())


def is_autoscaled(cluster: Document) -> bool:
    """Whether Ray's own autoscaler decides on the number of workers."""
    return bool(cluster["spec"].get("enableInTreeAutoscaling"))


def replicas_of(group: Document) -> int:
    """How many replicas a group is to have: within its bounds, whatever `replicas` says."""
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas", 2**31 - 1))
    wanted = group.get("replicas")
    return least if wanted is None else max(least, min(most, int(wanted)))


def pods_of(group: Document) -> int:
    """How many pods a group is to have."""
    return replicas_of(group) * int(group.get("numOfHosts") or 1)


def desired_pods(cluster: Document) -> int:
    """How many worker pods there are to be."""
    return sum(map(pods_of, groups_of(cluster)))


def least_replicas(cluster: Document) -> int:
    """The sum of the groups' lower bounds."""
    return sum(int(group.get("minReplicas") or 0) for group in groups_of(cluster))


def most_replicas(cluster: Document) -> int:
    """The sum of the groups' upper bounds."""
    return sum(int(group.get("maxReplicas") or 0) for group in groups_of(cluster))


def desired_resources(cluster: Document) -> dict[str, str]:
    """What head and workers request together, by name of the resource."""
    return _resources(cluster, [pods_of(group) for group in groups_of(cluster)])


def least_resources(cluster: Document) -> dict[str, str]:
    """What the head and the fewest workers request together."""
    return _resources(cluster, [int(group.get("minReplicas") or 0) for group in groups_of(cluster)])


def _resources(cluster: Document, counts: list[int]) -> dict[str, str]:
    amounts = _pod_requests(cluster["spec"]["headGroupSpec"]["template"])
    for group, count in zip(groups_of(cluster), counts, strict=True):
        amounts += _pod_requests(group["template"]) * count
    return total(amounts)


def _pod_requests(template: Document) -> list[Mapping[str, str]]:
    """Requests of each container, limits where nothing is requested; init containers do not count."""
    found: list[Mapping[str, str]] = []
    for container in template["spec"]["containers"]:
        resources = container.get("resources") or {}
        found.append({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return found


def total(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Sums of quantities by name, each in the canonical form that Kubernetes writes."""
    sums: dict[str, Decimal] = {}
    binary: dict[str, bool] = {}
    for one in amounts:
        for name, quantity in one.items():
            sums[name] = sums.get(name, Decimal(0)) + value_of(quantity)
            binary.setdefault(name, str(quantity)[-2:] in _BINARY)
    return {name: _written(amount, is_binary=binary[name]) for name, amount in sums.items()}


def value_of(quantity: object) -> Decimal:
    """The number behind a quantity.

    Raises:
        ArithmeticError: It is none.
    """
    text = str(quantity)
    if text[-2:] in _BINARY:
        return Decimal(text[:-2]) * _BINARY[text[-2:]]
    if text[-1:] in _DECIMAL:
        return Decimal(text[:-1]) * _DECIMAL[text[-1]]
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def _written(amount: Decimal, *, is_binary: bool) -> str:
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    whole = int(amount)
    units = _BINARY if is_binary else _DECIMAL
    unit = max((unit for unit, size in units.items() if whole and whole % size == 0), key=units.__getitem__, default="")
    return f"{whole // units[unit]}{unit}" if unit else str(whole)
