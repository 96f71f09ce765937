"""Karpenter's controllers that decide which instances there are to be."""

from __future__ import annotations

from collections import Counter

from actions.fleet.instance_types import InstanceType
from actions.fleet.node_offers import INSTANCE_TYPE, NODE_POOL, Offer, exceeds, instances_for, limit_amounts
from actions.fleet.placement import NodeSpace, spaces_of
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, is_true, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    EFA,
    NODE_CLAIMS,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    PODS,
    Document,
    Kind,
    is_deleting,
    key_of,
    labels_of,
    owner_of,
    owner_reference,
    uid_of,
)
from actions.sandbox.controllers.core.pods import phase_of, suffix
from actions.sandbox.controllers.core.scheduler import needs_node
from actions.sandbox.model.options import SandboxOptions

SOURCE = "karpenter"
CLAIM_GUARD = "karpenter.sh/termination"
_CLASS_GUARD = "karpenter.k8s.aws/termination"
_ALL = "all"
_CLASS_CONDITIONS = ("AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded")


class PoolController(Controller):
    """Reports EC2NodeClasses and NodePools as ready, and the resources that a pool has started."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        for kind in (NODE_POOLS, NODE_CLASSES, NODE_CLAIMS):
            caches[kind].listen(self._on_change)

    def _on_change(self, _document: Document) -> None:
        self.wake(_ALL)

    async def reconcile(self, key: str) -> float | None:
        """Bring all of them up to date; there are few."""
        for node_class in list(self._caches[NODE_CLASSES].objects.values()):
            await self._class(node_class)
        for pool in list(self._caches[NODE_POOLS].objects.values()):
            if not is_deleting(pool):
                await self._pool(pool)
        return None

    async def _class(self, node_class: Document) -> None:
        name = node_class["metadata"]["name"]
        finalizers = node_class["metadata"].get("finalizers") or []
        if is_deleting(node_class):
            claims = self._caches[NODE_CLAIMS].objects.values()
            if _CLASS_GUARD in finalizers and not any(_class_of(claim) == name for claim in claims):
                kept = [one for one in finalizers if one != _CLASS_GUARD]
                await self._client.patch(NODE_CLASSES, name, {"metadata": {"finalizers": kept or None}})
            return
        if _CLASS_GUARD not in finalizers:
            await self._client.patch(NODE_CLASSES, name, {"metadata": {"finalizers": [*finalizers, _CLASS_GUARD]}})
        await self._set(NODE_CLASSES, node_class, [(one, True, one) for one in (*_CLASS_CONDITIONS, "Ready")])

    async def _pool(self, pool: Document) -> None:
        reference = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        node_class = self._caches[NODE_CLASSES].get(reference)
        has_class = node_class is not None and is_true(node_class, "Ready")
        reason = "NodeClassReady" if has_class else "NodeClassNotFound"
        wanted = [
            ("ValidationSucceeded", True, "ValidationSucceeded"),
            ("NodeClassReady", has_class, reason),
            ("Ready", has_class, "Ready" if has_class else reason),
        ]
        await self._set(NODE_POOLS, pool, wanted)
        claims = self._caches[NODE_CLAIMS].labelled(**{NODE_POOL: pool["metadata"]["name"]})
        resources = {"nodes": str(len(claims)), "cpu": str(sum(_cores(claim) for claim in claims))}
        if ((pool.get("status") or {}).get("resources") or {}) != resources:
            await self._client.patch_status(NODE_POOLS, pool, {"resources": resources})

    async def _set(self, kind: Kind, document: Document, wanted: list[tuple[str, bool, str]]) -> None:
        old = list((document.get("status") or {}).get("conditions") or ())
        conditions = old
        for name, status, reason in wanted:
            new = condition(name, status, reason, "", self._client.timestamp())
            conditions = with_condition(conditions, new)
        if conditions != old:
            await self._client.patch_status(kind, document, {"conditions": conditions})


class Provisioner(Controller):
    """Makes NodeClaims for pods that the scheduler could place nowhere."""

    def __init__(self, client: ApiClient, caches: Caches, types: list[InstanceType]) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._types = types
        self._offers: dict[str, NodeSpace] = {}
        """NodeClaim → the empty node that it is to become."""
        for kind in (PODS, NODE_POOLS, NODE_CLAIMS):
            caches[kind].listen(self._on_change)

    def _on_change(self, _document: Document) -> None:
        self.wake(_ALL)

    async def reconcile(self, key: str) -> float | None:
        """Find instances for all waiting pods, in one round."""
        pods = [pod for pod in self._caches[PODS].objects.values() if needs_node(pod) and _is_unschedulable(pod)]
        pods = [pod for pod in pods if (owner_of(pod) or {}).get("kind") != "DaemonSet"]
        if not pods:
            return None
        pools = [
            pool
            for pool in self._caches[NODE_POOLS].objects.values()
            if is_true(pool, "Ready") and not is_deleting(pool)
        ]
        pods.sort(key=key_of)
        used = {pool["metadata"]["name"]: self._used_of(pool) for pool in pools}
        for offer, members in instances_for(pods, self._spaces(), pools, self._types):
            pool = offer.pool["metadata"]["name"]
            after = used[pool] + limit_amounts(offer.type)
            if exceeds(offer.pool["spec"].get("limits") or {}, after):
                await self._refuse(members, pool)
                continue
            used[pool] = after
            await self._claim(offer, members)
        return None

    def _used_of(self, pool: Document) -> Counter[str]:
        """Return the capacity of a pool's instances, starting ones included."""
        kinds = {kind.name: kind for kind in self._types}
        used: Counter[str] = Counter()
        for claim in self._caches[NODE_CLAIMS].labelled(**{NODE_POOL: pool["metadata"]["name"]}):
            kind = kinds.get(labels_of(claim).get(INSTANCE_TYPE, ""))
            used += limit_amounts(kind) if kind is not None else Counter()
        return used

    async def _refuse(self, members: list[Document], pool: str) -> None:
        message = f'Failed to schedule pod, all available instance types exceed limits for nodepool: "{pool}"'
        for pod in members:
            await self._client.record_event(pod, PODS, "FailedScheduling", message, source=SOURCE, is_warning=True)

    def _spaces(self) -> list[NodeSpace]:
        """Return the nodes that exist, and those that claims are going to become."""
        spaces = spaces_of(list(self._caches[NODES].objects.values()), list(self._caches[PODS].objects.values()))
        coming = []
        for claim in self._caches[NODE_CLAIMS].objects.values():
            space = self._offers.get(key_of(claim))
            if space is not None and not is_true(claim, "Initialized") and not is_deleting(claim):
                coming.append(NodeSpace(space.name, space.labels, space.taints, dict(space.offered)))
                spaces = [one for one in spaces if one.name != (claim.get("status") or {}).get("nodeName")]
        return [*spaces, *coming]

    async def _claim(self, offer: Offer, members: list[Document]) -> None:
        pool = offer.pool["metadata"]["name"]
        template = offer.pool["spec"]["template"]
        efa = {EFA: str(offer.type.efa_interfaces)} if offer.has_efa else {}
        name = f"{pool}-{suffix()}"
        made = await self._client.create(
            NODE_CLAIMS,
            {
                "metadata": {
                    "name": name,
                    "labels": offer.labels,
                    "annotations": {"karpenter.sh/nodepool-hash-version": "v3"},
                    "finalizers": [CLAIM_GUARD],
                    "ownerReferences": [{k: v for k, v in owner_reference(offer.pool).items() if k != "controller"}],
                },
                "spec": {
                    "nodeClassRef": template["spec"]["nodeClassRef"],
                    "taints": template["spec"].get("taints"),
                    "expireAfter": template["spec"].get("expireAfter", "720h"),
                    "requirements": [
                        {"key": INSTANCE_TYPE, "operator": "In", "values": [offer.type.name]},
                        {"key": NODE_POOL, "operator": "In", "values": [pool]},
                    ],
                    "resources": {"requests": {"pods": str(len(members))} | efa},
                },
            },
        )
        if made is None:
            return
        self._offers[key_of(made)] = offer.space(name)
        self._caches[NODE_CLAIMS].upsert(made)
        for pod in members:
            message = f"Pod should schedule on: nodeclaim/{name}"
            await self._client.record_event(pod, PODS, "Nominated", message, source=SOURCE)


class EmptinessController(Controller):
    """Deletes the NodeClaim of a node that has had no pods but daemons for a while."""

    def __init__(self, client: ApiClient, caches: Caches, options: SandboxOptions) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._options = options
        self._empty_since: dict[str, float] = {}
        caches[NODE_CLAIMS].listen(lambda claim: self.wake(key_of(claim)))
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        node = pod["spec"].get("nodeName")
        for claim in self._caches[NODE_CLAIMS].objects.values() if node else ():
            if (claim.get("status") or {}).get("nodeName") == node:
                self.wake(key_of(claim))

    async def reconcile(self, key: str) -> float | None:
        """Note since when the claim's node is empty, and delete the claim after a while."""
        claim = self._caches[NODE_CLAIMS].get(key)
        if claim is None or is_deleting(claim) or not self._may_go(claim) or self._is_used(claim):
            self._empty_since.pop(key, None)
            return None
        now = self._client.clock.monotonic()
        left = self._empty_since.setdefault(key, now) + self._options.empty_node_seconds - now
        if left > 0:
            return left
        message = f"Disrupting NodeClaim: Empty/Delete {claim['status']['nodeName']}"
        await self._client.record_event(claim, NODE_CLAIMS, "DisruptionLaunching", message, source=SOURCE)
        await self._client.delete(NODE_CLAIMS, key, uid=uid_of(claim))
        return None

    def _may_go(self, claim: Document) -> bool:
        pool = self._caches[NODE_POOLS].get(labels_of(claim).get(NODE_POOL, ""))
        after = ((pool or {}).get("spec", {}).get("disruption") or {}).get("consolidateAfter")
        return is_true(claim, "Initialized") and after != "Never"

    def _is_used(self, claim: Document) -> bool:
        node = claim["status"]["nodeName"]
        return any(
            pod["spec"].get("nodeName") == node
            and phase_of(pod) not in ("Succeeded", "Failed")
            and (owner_of(pod) or {}).get("kind") != "DaemonSet"
            for pod in self._caches[PODS].objects.values()
        )


def _is_unschedulable(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def _class_of(claim: Document) -> str:
    return str(claim["spec"]["nodeClassRef"]["name"])


def _cores(claim: Document) -> int:
    return int(((claim.get("status") or {}).get("capacity") or {}).get("cpu", 0))
