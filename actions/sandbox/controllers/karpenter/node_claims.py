"""The life of a NodeClaim: instance launched, node registered, ready, initialised; and back again, drained."""

from __future__ import annotations

import zlib

from actions.base.errors import MissingError
from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_amounts import allocatable_of, devices_of, total_amounts_of
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.fleet.placement import is_ready
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, condition_of, is_true, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import EFA, NODE_CLAIMS, NODES, PODS, Document, is_deleting, key_of, labels_of
from actions.sandbox.controllers.aws.machines import (
    DRAIN_POLL_SECONDS,
    Machine,
    drain_node,
    mark_ready,
    node_document,
    register_node,
)
from actions.sandbox.controllers.karpenter.pools import CLAIM_GUARD, SOURCE
from actions.sandbox.model.options import SandboxOptions

_DISRUPTED_TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
_STEPS = ("Launched", "Registered", "Initialized", "Ready")


class NodeClaimController(Controller):
    """Acts as EC2 and the new node's kubelet for each NodeClaim."""

    def __init__(self, client: ApiClient, caches: Caches, types: InstanceTable, options: SandboxOptions) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._types = types
        self._options = options
        self._since: dict[tuple[str, str], float] = {}
        """Claim and step → since when the step has been under way (monotonic)."""
        caches[NODE_CLAIMS].listen(lambda claim: self.wake(key_of(claim)))
        caches[NODES].listen(self._on_node)
        caches[PODS].listen(self._on_pod)

    def _on_node(self, node: Document) -> None:
        self._wake_for(node["metadata"]["name"])

    def _on_pod(self, pod: Document) -> None:
        if pod["spec"].get("nodeName"):
            self._wake_for(pod["spec"]["nodeName"])

    def _wake_for(self, node: str) -> None:
        for claim in self._caches[NODE_CLAIMS].objects.values():
            if (claim.get("status") or {}).get("nodeName") == node:
                self.wake(key_of(claim))

    async def reconcile(self, key: str) -> float | None:
        """Take the next step of the claim's life."""
        claim = self._caches[NODE_CLAIMS].get(key)
        if claim is None:
            self._since = {step: since for step, since in self._since.items() if step[0] != key}
            return None
        if is_deleting(claim):
            return await self._terminate(claim)
        if not is_true(claim, "Launched"):
            return await self._launch(claim)
        if not is_true(claim, "Registered"):
            return await self._register(claim)
        if not is_true(claim, "Initialized"):
            return await self._initialise(claim)
        return None

    async def _launch(self, claim: Document) -> float | None:
        machine = self._machine(claim)
        status = {
            "providerID": f"aws:///{machine.zone}/{machine.instance_id}",
            "imageID": "ami-0a1b2c3d4e5f60718",
            "capacity": total_amounts_of(machine.type, has_devices=True, has_efa=machine.has_efa),
            "allocatable": allocatable_of(machine.type, has_devices=True, has_efa=machine.has_efa),
        }
        await self._advance(claim, "Launched", status)
        labels = {"topology.kubernetes.io/zone": machine.zone, "topology.kubernetes.io/region": self._options.region}
        await self._client.patch(NODE_CLAIMS, key_of(claim), {"metadata": {"labels": labels}})
        return None

    async def _register(self, claim: Document) -> float | None:
        left = self._left(claim, "boot", self._options.node_boot_seconds)
        if left > 0:
            return left
        machine = self._machine(claim)
        document = node_document(machine, self._options.region)
        document["metadata"]["finalizers"] = [CLAIM_GUARD]
        document["metadata"]["ownerReferences"] = [_claim_reference(claim)]
        document["spec"]["taints"] = claim["spec"].get("taints")
        await register_node(self._client, machine, document)
        await self._advance(claim, "Registered", {"nodeName": machine.name})
        return None

    async def _initialise(self, claim: Document) -> float | None:
        """Make the node ready, wait for its devices, then call the claim initialised."""
        machine = self._machine(claim)
        node = self._caches[NODES].get(machine.name)
        if node is None:
            return None
        if not is_ready(node):
            left = self._left(claim, "ready", self._options.node_ready_seconds)
            if left > 0:
                return left
            await mark_ready(self._client, machine, node)
            return None
        allocatable = node["status"].get("allocatable") or {}
        devices = devices_of(machine.type, has_efa=machine.has_efa)
        if any(int(allocatable.get(name, 0)) < int(amount) for name, amount in devices.items()):
            return None
        labels = {"karpenter.sh/initialized": "true", "karpenter.sh/registered": "true"}
        await self._client.patch(NODES, machine.name, {"metadata": {"labels": labels}})
        await self._advance(claim, "Initialized", {})
        fresh = await self._client.read(NODE_CLAIMS, key_of(claim))
        if fresh is not None:
            await self._advance(fresh, "Ready", {})
        return None

    async def _terminate(self, claim: Document) -> float | None:
        """Drain the node, end the instance, remove node and claim."""
        name = (claim.get("status") or {}).get("nodeName", "")
        node = self._caches[NODES].get(name)
        if node is not None:
            if not any(taint["key"] == _DISRUPTED_TAINT["key"] for taint in node["spec"].get("taints") or ()):
                taints = [*(node["spec"].get("taints") or ()), _DISRUPTED_TAINT]
                await self._client.patch(NODES, name, {"spec": {"taints": taints}})
            if await drain_node(self._client, self._caches, name, source=SOURCE):
                return DRAIN_POLL_SECONDS
            await self._advance(claim, "InstanceTerminating", {})
            left = self._left(claim, "end", self._options.instance_end_seconds)
            if left > 0:
                return left
            await self._client.patch(NODES, name, {"metadata": {"finalizers": None}})
            await self._client.delete(NODES, name)
        kept = [one for one in claim["metadata"].get("finalizers") or () if one != CLAIM_GUARD]
        await self._client.patch(NODE_CLAIMS, key_of(claim), {"metadata": {"finalizers": kept or None}})
        return None

    async def _advance(self, claim: Document, step: str, status: Document) -> None:
        known = condition_of(claim, step)
        if known is not None and known["status"] == "True":
            return
        conditions = list((claim.get("status") or {}).get("conditions") or ())
        if step in _STEPS:
            for later in _STEPS[_STEPS.index(step) + 1 :]:
                waiting = condition(later, False, "AwaitingReconciliation", "", self._client.timestamp())
                conditions = with_condition(conditions, waiting | {"status": "Unknown"})
        conditions = with_condition(conditions, condition(step, True, step, "", self._client.timestamp()))
        updated = await self._client.patch_status(NODE_CLAIMS, claim, status | {"conditions": conditions})
        if updated is not None:
            self._caches[NODE_CLAIMS].upsert(updated)
        message = f"Status condition transitioned, Type: {step}, Status: Unknown -> True, Reason: {step}"
        await self._client.record_event(claim, NODE_CLAIMS, step, message, source=SOURCE)

    def _left(self, claim: Document, step: str, seconds: float) -> float:
        now = self._client.clock.monotonic()
        return self._since.setdefault((key_of(claim), step), now) + seconds - now

    def _machine(self, claim: Document) -> Machine:
        """The claim's instance: name, address and id follow from the claim's name."""
        number = zlib.crc32(key_of(claim).encode())
        third, fourth = number // 250 % 64, 4 + number % 250
        address = f"100.64.{third}.{fourth}"
        name = f"ip-100-64-{third}-{fourth}.{self._options.region}.compute.internal"
        wanted = labels_of(claim).get(INSTANCE_TYPE, "")
        kind = self._types.find(wanted)
        if kind is None:
            raise MissingError(f"NodeClaim {key_of(claim)} names the instance type '{wanted}', which is not known.")
        return Machine(
            name=name,
            instance_id=f"i-0{number:08x}{number ^ 0x5F3759DF:08x}",
            address=address,
            type=kind,
            zone=f"{self._options.region}a",
            labels={**labels_of(claim), "karpenter.sh/registered": "true"},
            has_efa=EFA in ((claim["spec"].get("resources") or {}).get("requests") or {}),
        )


def _claim_reference(claim: Document) -> Document:
    return {
        "apiVersion": claim["apiVersion"],
        "kind": claim["kind"],
        "name": claim["metadata"]["name"],
        "uid": claim["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
