"""How an instance comes into the cluster as a node, and how pods leave it before it goes."""

from __future__ import annotations

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.kinds import NODES, PODS, Document, is_deleting, key_of, owner_of
from actions.sandbox.actors.machines import Machine, node_status
from actions.sandbox.actors.podcontrol import phase_of
from actions.sandbox.actors.watching import Caches

NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DRAIN_POLL_SECONDS = 0.3


async def register(client: ApiClient, machine: Machine, document: Document) -> None:
    """Make the Node as its kubelet does: tainted, not ready, without devices. Safe to call again."""
    document["spec"]["taints"] = [*(document["spec"].get("taints") or ()), NOT_READY_TAINT]
    node = await client.create(NODES, document) or await client.read(NODES, machine.name)
    if node is not None:
        await client.patch_status(NODES, node, node_status(machine, is_ready=False, now=client.timestamp()))


async def become_ready(client: ApiClient, machine: Machine, node: Document) -> None:
    """Report the node ready, and let pods on it."""
    status = node_status(machine, is_ready=True, now=client.timestamp())
    await client.patch_status(NODES, node, {"conditions": status["conditions"]})
    taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != NOT_READY_TAINT["key"]]
    await client.patch(NODES, machine.name, {"spec": {"taints": taints or None}})
    message = f"Node {machine.name} status is now: NodeReady"
    await client.record(node, NODES, "NodeReady", message, source="kubelet")


async def drain(client: ApiClient, caches: Caches, node: str, *, source: str) -> bool:
    """Ask all pods of a node but daemons to leave. Returns whether some are still there."""
    pods = [
        pod
        for pod in caches[PODS].objects.values()
        if pod["spec"].get("nodeName") == node
        and phase_of(pod) not in ("Succeeded", "Failed")
        and (owner_of(pod) or {}).get("kind") != "DaemonSet"
    ]
    for pod in pods:
        if not is_deleting(pod):
            await client.delete(PODS, key_of(pod))
            await client.record(pod, PODS, "Evicted", "Evicted pod", source=source)
    return bool(pods)
