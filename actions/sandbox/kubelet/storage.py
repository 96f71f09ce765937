"""The volumes behind the pods of a cluster, in memory: what one pod writes on a shared claim another one reads."""

from __future__ import annotations

from collections.abc import Mapping

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.kinds import CLAIMS, CONFIG_MAPS, Document
from actions.sandbox.kubelet.podspec import PodSpec
from actions.sandbox.workloads.files import Volume


class Storage:
    """Volumes by what holds them: a persistent volume's name, else the pod."""

    def __init__(self) -> None:
        self._persistent: dict[str, Volume] = {}

    async def volumes_of(self, pod: PodSpec, client: ApiClient) -> Mapping[str, Volume] | str:
        """The pod's volumes by name, or why they cannot be mounted yet."""
        found: dict[str, Volume] = {}
        for name, volume in pod.volumes.items():
            mounted = await self._mounted(pod, volume, client)
            if isinstance(mounted, str):
                return mounted
            found[name] = mounted
        return found

    async def _mounted(self, pod: PodSpec, volume: Document, client: ApiClient) -> Volume | str:
        if "persistentVolumeClaim" in volume:
            return await self._claimed(pod, volume["persistentVolumeClaim"]["claimName"], client)
        if "configMap" in volume and not volume["configMap"].get("optional"):
            return await _config(pod, volume["configMap"]["name"], client)
        return Volume()

    async def _claimed(self, pod: PodSpec, name: str, client: ApiClient) -> Volume | str:
        claim = await client.read(CLAIMS, f"{pod.namespace}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        bound_to = claim["spec"].get("volumeName", "")
        if not bound_to or (claim.get("status") or {}).get("phase") != "Bound":
            return f'unbound immediate PersistentVolumeClaim "{name}"'
        return self._persistent.setdefault(bound_to, Volume())

    def forget(self, name: str) -> None:
        """A persistent volume has been deleted, and what was on it with it."""
        self._persistent.pop(name, None)


async def _config(pod: PodSpec, name: str, client: ApiClient) -> Volume | str:
    config = await client.read(CONFIG_MAPS, f"{pod.namespace}/{name}")
    if config is None:
        return f'configmap "{name}" not found'
    volume = Volume()
    for key, value in (config.get("data") or {}).items():
        volume.put(f"/{key}", str(value).encode())
    return volume
