"""Room for the pods of a launch: on the nodes that are there, or on those that node pools may start. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from actions.fleet.accelerators import ACCELERATORS
from actions.fleet.instance_types import InstanceType
from actions.fleet.node_offers import UNFORESEEN, exceeds, instances_for, limit_amounts
from actions.fleet.placement import (
    Amounts,
    Document,
    NodeSpace,
    is_selected,
    most_of,
    reasons_against,
    requests_of,
    required_terms,
    unschedulable_message,
)
from actions.fleet.quantity import format_bytes, parse_quantity

_SHARED = ("cpu", "memory")
_TINY = 1e-9


class PodSet(msgspec.Struct, frozen=True):
    """Pods that are all alike, as an object asks for them."""

    name: str
    pod: Document
    """One of them: metadata and spec."""
    count: int = 1
    least: int = 1
    """So many have to run at once."""
    queue: str = ""
    """The LocalQueue of Kueue that admits them; empty for none."""
    admitted: int = 1
    """So many does it admit at once, or none."""
    job: str = ""
    """The object that asks for them, `Kind/name`."""


class Fit(msgspec.Struct, frozen=True):
    """The places that the pods of a launch get."""

    shares: Mapping[str, float]
    """The part of each node that they take, by its name: 1.0 if they take all of its accelerators."""
    started: Mapping[str, int]
    """Nodes that pools would start for them, by instance type."""
    placed: Mapping[str, int]
    """Pods that have a place, by group."""
    refused: Mapping[str, str]
    """The reason why the others have none, by group, in the words of the scheduler or of Karpenter."""


def fit_of(
    groups: Sequence[PodSet],
    spaces: Sequence[NodeSpace],
    pools: Sequence[Document] = (),
    types: Sequence[InstanceType] = (),
) -> Fit:
    """Place pods, group by group, on nodes by their names, then on nodes that pools would start.

    Volumes, spread and affinity between pods are not looked at.

    Args:
        groups: What is placed.
        spaces: Nodes, with what is taken already; they are not changed.
        pools: Karpenter's NodePools, with their status.
        types: Known instance types.
    """
    spaces = [NodeSpace(one.name, one.labels, one.taints, one.offered, dict(one.promised)) for one in spaces]
    more = _Pools(pools, types)
    shares: dict[str, float] = {}
    placed: dict[str, int] = {}
    refused: dict[str, str] = {}
    for group in groups:
        wanted, rest = requests_of(group.pod), group.count
        for space in spaces:
            here = min(rest, _room(wanted, space)) if rest and is_selected(group.pod, space) else 0
            if here:
                space.promise({name: amount * here for name, amount in wanted.items()})
                shares[space.name] = min(1.0, shares.get(space.name, 0.0) + here * share_of(wanted, space))
                rest -= here
        if rest:
            rest, limited = more.start(group.pod, rest)
            reasons = (reasons_against(group.pod, space) for space in spaces)
            refused |= {group.name: limited or unschedulable_message(reasons)} if rest else {}
        placed[group.name] = group.count - rest
    return Fit(shares, dict(more.started), placed, refused)


class _Pools:
    """NodePools, with what they would start."""

    def __init__(self, pools: Sequence[Document], types: Sequence[InstanceType]) -> None:
        self._pools = pools
        self._types = types
        self._used = {pool["metadata"]["name"]: _used(pool) for pool in pools}
        self.started: Counter[str] = Counter()

    def start(self, pod: Document, count: int) -> tuple[int, str]:
        """Start nodes for pods; return how many pods are left, and the pool whose limit is the reason, if one is."""
        limited = ""
        for offer, members in instances_for([_foreseen(pod, self._pools)] * count, [], self._pools, self._types):
            pool = offer.pool["metadata"]["name"]
            after = self._used[pool] + limit_amounts(offer.type)
            if exceeds(offer.pool["spec"].get("limits") or {}, after):
                limited = f'Failed to schedule pod, all available instance types exceed limits for nodepool: "{pool}"'
                continue
            self._used[pool] = after
            self.started[offer.type.name] += 1
            count -= len(members)
        return count, limited


def share_of(wanted: Amounts, space: NodeSpace) -> float:
    """Return the part of a node that a pod takes: of its accelerators if it asks for any, else of CPU or memory."""
    names = [name for name in ACCELERATORS if wanted.get(name)] or _SHARED
    return max((wanted.get(name, 0.0) / space.offered[name] for name in names if space.offered.get(name)), default=0.0)


def _room(wanted: Amounts, space: NodeSpace) -> int:
    return max(0, min(math.floor(space.free(name) / amount + 1e-9) for name, amount in wanted.items() if amount > 0))


def _used(pool: Document) -> Counter[str]:
    """Return what the instances of a pool count for in its limits."""
    amounts = (pool.get("status") or {}).get("resources") or {}
    return Counter({name: int(parse_quantity(str(amount))) for name, amount in amounts.items()})


def _foreseen(pod: Document, pools: Iterable[Document]) -> Document:
    """Return a pod without demands for labels that only a started node has: its zone, and what pools may choose."""
    chosen = {one["key"] for pool in pools for one in pool["spec"]["template"]["spec"].get("requirements") or ()}
    unforeseen = UNFORESEEN | {key for key in chosen if "instance-" not in key and not key.startswith("karpenter.sh/")}
    selector = pod["spec"].get("nodeSelector") or {}
    affinity = {name: part for name, part in (pod["spec"].get("affinity") or {}).items() if name != "nodeAffinity"}
    terms = [
        {"matchExpressions": [one for one in term if one["key"] not in unforeseen]} for term in required_terms(pod)
    ]
    if terms:
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        **pod["spec"],
        "nodeSelector": {key: value for key, value in selector.items() if key not in unforeseen},
        "affinity": affinity,
    }
    return {**pod, "spec": spec}


def quota_refusal(groups: Sequence[PodSet], quotas: Iterable[Document], *, is_empty: bool = False) -> str:
    """Return the ResourceQuota that the pods of groups exceed together, in a sentence; empty for none.

    Args:
        groups: Of one stage, with their pods as they are admitted.
        quotas: Of their namespaces, with their status.
        is_empty: Nothing else is in the namespace, and the fewest pods are made.
    """
    for quota in quotas:
        spec, status, scopes = quota["spec"], quota.get("status") or {}, _scopes_of(quota)
        home, asked = quota["metadata"]["namespace"], Counter[str]()
        for group in groups:
            if group.pod["metadata"]["namespace"] == home and all(_is_in(scope, group.pod) for scope in scopes):
                count = group.least if is_empty else group.count
                asked.update({name: amount * count for name, amount in _quota_amounts(group.pod).items()})
        for name, most in (spec.get("hard") or {}).items():
            used = "0" if is_empty else str((status.get("used") or {}).get(name, "0"))
            if asked[name] > max(0.0, parse_quantity(str(most)) - parse_quantity(used)) + _TINY:
                amount = format_bytes(int(asked[name])) if name.endswith("memory") else f"{asked[name]:g}"
                in_use = "" if is_empty else f" with {used} in use"
                kinds = ", ".join(str(scope["scopeName"]) for scope in scopes)
                title = f"{quota['metadata']['name']}{f' ({kinds})' if kinds else ''}"
                return f"The ResourceQuota {title} allows {name} {most}{in_use}: {amount} is asked for."
    return ""


def _quota_amounts(pod: Document) -> Amounts:
    """Return what a pod counts for, by the names of quotas."""
    amounts = requests_of(pod)
    found = {f"requests.{name}": amount for name, amount in amounts.items()} | amounts
    return found | {"count/pods": 1.0} | {f"limits.{name}": amount for name, amount in most_of(pod).items()}


def _scopes_of(quota: Document) -> list[Document]:
    """Return the scopes of a quota, as selectors; it counts the pods that all of them select."""
    scopes = [{"scopeName": name, "operator": "Exists"} for name in quota["spec"].get("scopes") or ()]
    return scopes + list((quota["spec"].get("scopeSelector") or {}).get("matchExpressions") or ())


def _is_in(scope: Document, pod: Document) -> bool:
    """Return whether a scope selects a pod.

    Source: Kubernetes' `podMatchesScopeFunc`, `pkg/quota/v1/evaluator/core/pods.go` (v1.34).
    """
    spec = pod["spec"]
    match scope["scopeName"], scope["operator"]:
        case ("Terminating" | "NotTerminating") as name, _:
            return (spec.get("activeDeadlineSeconds") is not None) is (name == "Terminating")
        case ("BestEffort" | "NotBestEffort") as name, _:
            return _is_best_effort(spec) is (name == "BestEffort")
        case "PriorityClass", ("Exists" | "DoesNotExist") as operator:
            return bool(spec.get("priorityClassName")) is (operator == "Exists")
        case "PriorityClass", operator:
            return (spec.get("priorityClassName") in (scope.get("values") or ())) is (operator == "In")
        case "CrossNamespacePodAffinity", _:
            terms = _affinity_terms(spec)
            return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
    return False


def _is_best_effort(spec: Document) -> bool:
    """Return whether a pod asks for neither CPU nor memory."""
    parts = [spec] if spec.get("resources") else [*spec["containers"], *(spec.get("initContainers") or ())]
    resources = [part.get("resources") or {} for part in parts]
    asked = [one.get(amounts) or {} for one in resources for amounts in ("requests", "limits")]
    return not any(parse_quantity(str(amounts.get(name, "0"))) > 0 for amounts in asked for name in _SHARED)


def _affinity_terms(spec: Document) -> Iterator[Document]:
    """Yield all terms of a pod's affinity to other pods."""
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        weighted = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        yield from (one["podAffinityTerm"] for one in weighted)


def kueue_refusal(groups: Sequence[PodSet], local: Mapping[str, Document], clusters: Mapping[str, Document]) -> str:
    """Return why Kueue can never admit an object, in its words; empty if it may, or that is not known.

    Args:
        groups: All pods of the object, with a queue.
        local: LocalQueues of its namespace by name.
        clusters: ClusterQueues by name; empty if they may not be read.

    Source: messages of Kueue's flavor assigner and queue manager (v0.17).
    """
    queue = local.get(groups[0].queue)
    if queue is None:
        return f"LocalQueue {groups[0].queue} doesn't exist"
    cluster = clusters.get(str(queue["spec"].get("clusterQueue")))
    if cluster is None:
        return ""
    quotas = _quotas_of(cluster)
    before = defaultdict[str, float](float)
    for group in groups:
        for name, amount in requests_of(group.pod).items():
            why = f"couldn't assign flavors to pod set {group.name}: "
            asked, found = amount * group.admitted, quotas.get(name)
            if found is None:  # Kueue may be told to leave out others
                if name in ACCELERATORS and asked:
                    return f"{why}resource {name} unavailable in ClusterQueue"
                continue
            most, flavor = max(found)
            for others, limit in ((0.0, most), (before[name], sum(quota for quota, _ in found))):
                if others + asked > limit + _TINY:
                    pods = f"previously considered podsets requests ({others:g}) + current podset " if others else ""
                    return (
                        f"{why}insufficient quota for {name} in flavor {flavor}, {pods}request > maximum capacity"
                        f" ({asked:g} > {limit:g})"
                    )
            before[name] += asked
    return ""


def kueue_pause(group: PodSet, local: Mapping[str, Document], clusters: Mapping[str, Document]) -> str:
    """Return why Kueue admits nothing of the queue of a group at present, in its words; empty if nothing shows that."""
    queue = local.get(group.queue) or {}
    name = str((queue.get("spec") or {}).get("clusterQueue") or "")
    for kind, of, found in (("LocalQueue", group.queue, queue), ("ClusterQueue", name, clusters.get(name) or {})):
        conditions = (found.get("status") or {}).get("conditions") or ()
        if any(one.get("type") == "Active" and one.get("status") == "False" for one in conditions):
            return f"{kind} {of} is inactive"
    return ""


def _quotas_of(cluster: Document) -> dict[str, list[tuple[float, str]]]:
    """Return the most that a ClusterQueue may ever have of each resource, by flavor."""
    has_cohort = bool(cluster["spec"].get("cohort") or cluster["spec"].get("cohortName"))
    found: dict[str, list[tuple[float, str]]] = {}
    for flavor in (one for part in cluster["spec"].get("resourceGroups") or () for one in part.get("flavors") or ()):
        for resource in flavor.get("resources") or ():
            quota = parse_quantity(str(resource.get("nominalQuota", "0")))
            if has_cohort:
                limit = resource.get("borrowingLimit")
                quota = math.inf if limit is None else quota + parse_quantity(str(limit))
            found.setdefault(resource["name"], []).append((quota, str(flavor.get("name"))))
    return found
