"""What follows from nodes: devices that a plugin tells of, pods whose node is gone."""

from __future__ import annotations

from actions.fleet.instances import InstanceTable
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import GPU, NODES, PODS, Document, key_of, labels_of, uid_of
from actions.sandbox.actors.podcontrol import is_pod_ready
from actions.sandbox.actors.provisioning import INSTANCE_TYPE
from actions.sandbox.actors.watching import Caches

_PLUGIN = {"app.kubernetes.io/name": "nvidia-device-plugin"}


class DevicePlugins(Controller):
    """Puts a node's GPUs into its allocatable once the device plugin's pod on it is ready."""

    def __init__(self, client: ApiClient, caches: Caches, types: InstanceTable) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._types = types
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        if labels_of(pod).items() >= _PLUGIN.items() and pod["spec"].get("nodeName"):
            self.wake(pod["spec"]["nodeName"])

    async def reconcile(self, key: str) -> float | None:
        """Tell of a node's devices."""
        node = self._caches[NODES].get(key)
        if node is None:
            return None
        plugins = self._caches[PODS].labelled(**_PLUGIN)
        kind = self._types.find(labels_of(node).get(INSTANCE_TYPE, ""))
        is_told = any(pod["spec"].get("nodeName") == key and is_pod_ready(pod) for pod in plugins)
        if kind is None or not kind.gpus or not is_told:
            return None
        amount = str(kind.gpus)
        if ((node.get("status") or {}).get("allocatable") or {}).get(GPU) != amount:
            change = {"capacity": {GPU: amount}, "allocatable": {GPU: amount}}
            await self._client.patch_status(NODES, node, change)
        return None


class PodCollector(Controller):
    """Deletes pods that are bound to a node which does not exist any more."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[NODES].listen(self._on_node)

    def _on_node(self, node: Document) -> None:
        self.wake(node["metadata"]["name"])

    async def reconcile(self, key: str) -> float | None:
        """Look after the pods of a node that may be gone."""
        if self._caches[NODES].get(key) is not None:
            return None
        for pod in list(self._caches[PODS].objects.values()):
            if pod["spec"].get("nodeName") == key:
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod), grace_seconds=0)
        return None
