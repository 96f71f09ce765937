"""Device plugins: a node's accelerators and EFA interfaces, offered while the plugin's pod on it is ready."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actions.fleet.instance_types import InstanceTable, InstanceType
from actions.fleet.node_amounts import devices_of
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import EFA, GPU, NEURON, NEURON_CORE, NODES, PODS, Document, labels_of
from actions.sandbox.controllers.aws.machines import has_efa
from actions.sandbox.controllers.core.pods import is_pod_ready

_EFA_CHART = "aws-efa-k8s-device-plugin"


class DevicePlugin(msgspec.Struct, frozen=True):
    """A device plugin: the labels of its pods, and the resources that it advertises."""

    is_plugin: Callable[[dict[str, str]], bool]
    """Tests a pod's labels: true for a pod of this plugin."""
    resources: tuple[str, ...]


PLUGINS = (
    DevicePlugin(
        lambda labels: (
            labels.get("app.kubernetes.io/name") == "nvidia-device-plugin"
            or labels.get("name") == "nvidia-device-plugin-ds"
        ),
        (GPU,),
    ),
    DevicePlugin(lambda labels: labels.get("name") == "neuron-device-plugin-ds", (NEURON, NEURON_CORE)),
    DevicePlugin(lambda labels: labels.get("name", "").endswith(_EFA_CHART), (EFA,)),
)
"""Those of the charts, and of the static manifests, that the systems install."""


def offers_devices(node: Document, kind: InstanceType) -> bool:
    """Return whether pods can request all devices of a node of this type."""
    offered = (node.get("status") or {}).get("allocatable") or {}
    return devices_of(kind, has_efa=has_efa(node)).items() <= offered.items()


class DevicePluginController(Controller):
    """Puts a node's devices into its allocatable once a plugin's pod on it is ready, and takes them out after it."""

    def __init__(self, client: ApiClient, caches: Caches, types: InstanceTable) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._types = types
        caches[PODS].listen(self._on_pod)
        caches[NODES].listen(lambda node: self.wake(node["metadata"]["name"]))

    def _on_pod(self, pod: Document) -> None:
        if pod["spec"].get("nodeName") and any(plugin.is_plugin(labels_of(pod)) for plugin in PLUGINS):
            self.wake(pod["spec"]["nodeName"])

    async def reconcile(self, key: str) -> float | None:
        """Write a node's devices into its status."""
        node = self._caches[NODES].get(key)
        kind = self._types.find(labels_of(node).get(INSTANCE_TYPE, "")) if node is not None else None
        if node is None or kind is None:
            return None
        known = (node.get("status") or {}).get("allocatable") or {}
        advertised = self._advertised(key, node, kind)
        offered = {name: amount for name, amount in advertised.items() if amount != "0" or name in known}
        if any(known.get(name) != amount for name, amount in offered.items()):
            capacity = {name: amount for name, amount in offered.items() if amount != "0"}
            await self._client.patch_status(NODES, node, {"capacity": capacity, "allocatable": offered})
        return None

    def _advertised(self, name: str, node: Document, kind: InstanceType) -> dict[str, str]:
        """Return each device resource of the node, with the amount that its plugin advertises; "0" while none does."""
        ready = [
            labels_of(pod)
            for pod in self._caches[PODS].objects.values()
            if pod["spec"].get("nodeName") == name and is_pod_ready(pod)
        ]
        devices = devices_of(kind, has_efa=has_efa(node))
        advertised = {}
        for plugin in PLUGINS:
            is_there = any(plugin.is_plugin(labels) for labels in ready)
            advertised.update({one: devices[one] if is_there else "0" for one in plugin.resources if one in devices})
        return advertised
