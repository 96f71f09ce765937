"""The instances that a NodePool would start for pods that fit nowhere: Karpenter's decision, without its effect.

Only what the blueprints use of it: requirements, labels, taints and weight of pools; the smallest type that fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from actions.fleet.instance_types import Accelerator, InstanceType
from actions.fleet.node_amounts import EFA, allocatable_of, total_amounts_of
from actions.fleet.placement import Document, NodeSpace, is_met, reasons_against, requests_of, required_terms
from actions.fleet.quantity import parse_quantity

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label of a node's instance type."""
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
_OLD_INSTANCE_TYPE = "beta.kubernetes.io/instance-type"
_AWS = "karpenter.k8s.aws/"
UNFORESEEN = frozenset(
    {
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.k8s.aws/zone-id",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/hostname",
    }
)
"""Labels of a node that are known only when it has started."""


class Offer(msgspec.Struct, frozen=True):
    """An instance that a pool could start."""

    pool: Document
    type: InstanceType
    labels: dict[str, str]
    """Labels of the node that it would become, as far as they are known before it starts."""
    has_efa: bool = False
    """With its EFA interfaces, which Karpenter attaches for pods that request them."""

    def space(self, name: str) -> NodeSpace:
        """The empty node it would become."""
        taints = list(self.pool["spec"]["template"]["spec"].get("taints") or ())
        offered = allocatable_of(self.type, has_devices=True, has_efa=self.has_efa)
        return NodeSpace(name, self.labels, taints, {key: parse_quantity(str(value)) for key, value in offered.items()})


def instances_for(
    pods: Sequence[Document], spaces: list[NodeSpace], pools: Iterable[Document], types: Sequence[InstanceType]
) -> list[tuple[Offer, list[Document]]]:
    """The instances to start so that all pods fit, with the pods meant for each.

    Args:
        pods: Those that wait.
        spaces: Nodes that are there or on their way; pods that fit are counted on them (they are changed).
        pools: NodePools that may start instances.
        types: Known instance types.
    """
    planned: list[tuple[Offer, list[Document], NodeSpace]] = []
    ordered = sorted(pools, key=lambda pool: (-int(pool["spec"].get("weight", 0)), pool["metadata"]["name"]))
    for pod in pods:
        known = next((space for space in spaces if not reasons_against(pod, space)), None)
        if known is not None:
            known.promise(requests_of(pod))
            for _offer, members, space in planned:
                if space is known:
                    members.append(pod)
            continue
        offer = next((found for pool in ordered if (found := _smallest(pod, pool, types)) is not None), None)
        if offer is None:
            continue
        space = offer.space(f"planned-{len(planned)}")
        space.promise(requests_of(pod))
        spaces.append(space)
        planned.append((offer, [pod], space))
    return [(offer, members) for offer, members, _space in planned]


def _smallest(pod: Document, pool: Document, types: Sequence[InstanceType]) -> Offer | None:
    for kind in sorted(types, key=lambda one: (one.accelerators, one.vcpu, one.memory_bytes)):
        offer = _offer(pod, pool, kind)
        if offer is not None and not reasons_against(pod, offer.space("offered")):
            return offer
    return None


def _offer(pod: Document, pool: Document, kind: InstanceType) -> Offer | None:
    template = pool["spec"]["template"]
    requirements = [*(template["spec"].get("requirements") or ())]
    labels = instance_labels(kind) | ((template.get("metadata") or {}).get("labels") or {})
    capacity = _capacity_type(pod, requirements)
    if capacity is None:
        return None
    labels |= {CAPACITY_TYPE: capacity, NODE_POOL: pool["metadata"]["name"], "kubernetes.io/arch": "amd64",
               "kubernetes.io/os": "linux"}  # fmt: skip
    ours = [one for one in requirements if one["key"] in labels]
    has_efa = EFA in requests_of(pod)
    return Offer(pool, kind, labels, has_efa) if all(is_met(one, labels) for one in ours) else None


def _capacity_type(pod: Document, requirements: list[Document]) -> str | None:
    """Spot if the pool and the pod allow it, else on demand, else reserved; `None` if none of them."""
    wanted = [one for one in requirements if one["key"] == CAPACITY_TYPE]
    selected = (pod["spec"].get("nodeSelector") or {}).get(CAPACITY_TYPE)
    for term in required_terms(pod)[:1]:
        wanted += [one for one in term if one["key"] == CAPACITY_TYPE]
    for candidate in ("spot", "on-demand", "reserved"):
        if selected in (None, candidate) and all(is_met(one, {CAPACITY_TYPE: candidate}) for one in wanted):
            if candidate == "spot" and not wanted and selected is None:
                continue  # a pool without the requirement means on demand
            return candidate
    return None


def instance_labels(kind: InstanceType) -> dict[str, str]:
    """The labels by which Karpenter describes an instance type."""
    family, _, size = kind.name.partition(".")
    letters = family[: next((i for i, letter in enumerate(family) if letter.isdigit()), len(family))]
    generation = "".join(letter for letter in family[len(letters) :] if letter.isdigit())
    labels = {
        INSTANCE_TYPE: kind.name,
        _OLD_INSTANCE_TYPE: kind.name,
        f"{_AWS}instance-family": family,
        f"{_AWS}instance-size": size,
        f"{_AWS}instance-category": letters,
        f"{_AWS}instance-generation": generation[:1],
        f"{_AWS}instance-cpu": str(kind.vcpu),
        f"{_AWS}instance-memory": str(kind.memory_bytes >> 20),
    }
    if kind.accelerator is Accelerator.GPU:
        labels |= {
            f"{_AWS}instance-gpu-count": str(kind.gpus),
            f"{_AWS}instance-gpu-manufacturer": "nvidia",
            f"{_AWS}instance-gpu-name": kind.accelerator_model.lower(),
        }
    return labels


def limit_amounts(kind: InstanceType) -> Counter[str]:
    """Return what an instance counts for in its pool's limits, in whole cores, bytes and pieces."""
    capacity = total_amounts_of(kind, has_devices=True)
    counted = ((name, int(parse_quantity(str(amount)))) for name, amount in capacity.items())
    return Counter({name: amount for name, amount in counted if amount}) + Counter(nodes=1)


def exceeds(limits: Document, used: Counter[str]) -> bool:
    """Return whether a pool would have more than its limits (`cpu`, `memory`, `nvidia.com/gpu`, `nodes`) allow."""
    return any(used[name] > parse_quantity(str(limit)) for name, limit in limits.items())
