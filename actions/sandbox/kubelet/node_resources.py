"""The resources that containers share on their nodes: instance types, devices, images, addresses, ports and volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actions.base.clock import Clock
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import CLAIMS, CONFIG_MAPS, NODES, Document, labels_of
from actions.sandbox.kubelet.pod_config import PodConfig
from actions.sandbox.kubelet.process import ProgramRuntime, SshServers
from actions.sandbox.kubelet.rendezvous import RendezvousTable
from actions.sandbox.programs.files import MemoryVolume
from actions.sandbox.programs.network import HttpNetwork
from actions.sandbox.programs.program import AcceleratorUsers, ContainerView, DeviceUse, Load


class VolumeStore:
    """Volumes by what holds them: a persistent volume's name, else the pod."""

    def __init__(self) -> None:
        self._persistent: dict[str, MemoryVolume] = {}

    async def volumes_of(self, pod: PodConfig, client: ApiClient) -> Mapping[str, MemoryVolume] | str:
        """The pod's volumes by name, or why they cannot be mounted yet."""
        found: dict[str, MemoryVolume] = {}
        for name, volume in pod.volumes.items():
            mounted = await self._mounted(pod, volume, client)
            if isinstance(mounted, str):
                return mounted
            found[name] = mounted
        return found

    async def _mounted(self, pod: PodConfig, volume: Document, client: ApiClient) -> MemoryVolume | str:
        if "persistentVolumeClaim" in volume:
            return await self._claimed(pod, volume["persistentVolumeClaim"]["claimName"], client)
        if "configMap" in volume and not volume["configMap"].get("optional"):
            return await _config(pod, volume["configMap"]["name"], client)
        return MemoryVolume()

    async def _claimed(self, pod: PodConfig, name: str, client: ApiClient) -> MemoryVolume | str:
        claim = await client.read(CLAIMS, f"{pod.namespace}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        bound_to = claim["spec"].get("volumeName", "")
        if not bound_to or (claim.get("status") or {}).get("phase") != "Bound":
            return f'unbound immediate PersistentVolumeClaim "{name}"'
        return self._persistent.setdefault(bound_to, MemoryVolume())

    def forget(self, name: str) -> None:
        """Forget a deleted persistent volume, and the files on it."""
        self._persistent.pop(name, None)


async def _config(pod: PodConfig, name: str, client: ApiClient) -> MemoryVolume | str:
    config = await client.read(CONFIG_MAPS, f"{pod.namespace}/{name}")
    if config is None:
        return f'configmap "{name}" not found'
    volume = MemoryVolume()
    for key, value in (config.get("data") or {}).items():
        volume.put(f"/{key}", str(value).encode())
    return volume


class NodeResources:
    """The state of all nodes. One instance a kubelet."""

    def __init__(self) -> None:
        self.rendezvous_table = RendezvousTable()
        self.network = HttpNetwork()
        self.ssh_servers = SshServers()
        self.storage = VolumeStore()
        self._images: set[tuple[str, str]] = set()
        self._devices: dict[str, dict[int, str]] = {}
        self._users: dict[str, dict[tuple[str, str], tuple[ContainerView, Callable[[], Load]]]] = {}
        """Node → owner and container → the container with its load."""
        self._types: dict[str, str] = {}
        self._addresses = 0

    def runtime(self, speed: float, clock: Clock) -> ProgramRuntime:
        """Return the part that the programs of the cluster share, at a speed."""
        return ProgramRuntime(speed, clock, self.rendezvous_table, self.ssh_servers)

    async def observe_node(self, node: str, client: ApiClient) -> None:
        """Note the instance type of a node, if that is not known yet."""
        if node not in self._types and (found := await client.read(NODES, node)) is not None:
            self._types[node] = labels_of(found).get("node.kubernetes.io/instance-type", "")

    def instance_type(self, node: str) -> str:
        """Return the instance type of a known node; empty for another."""
        return self._types.get(node, "")

    def forget_node(self, node: str) -> None:
        """Forget a deleted node: another one of its name is another machine, of any type, without images."""
        self._types.pop(node, None)
        self._devices.pop(node, None)
        self._users.pop(node, None)
        self._images = {(name, image) for name, image in self._images if name != node}

    def has_image(self, node: str, image: str) -> bool:
        """Return whether an image has been pulled to a node."""
        return (node, image) in self._images

    def keep_image(self, node: str, image: str) -> None:
        """Note that an image has been pulled to a node."""
        self._images.add((node, image))

    def take_devices(self, node: str, count: int, owner: str) -> tuple[int, ...]:
        """Give the lowest free accelerators of a node to a container."""
        taken = self._devices.setdefault(node, {})
        free = (index for index in range(len(taken) + count) if index not in taken)
        chosen = tuple(next(free) for _ in range(count))
        taken.update(dict.fromkeys(chosen, owner))
        return chosen

    def give_back(self, node: str, owner: str) -> None:
        """Free the accelerators of everything that belongs to `owner`."""
        taken = self._devices.get(node, {})
        self._devices[node] = {index: holder for index, holder in taken.items() if holder != owner}
        users = self._users.get(node, {})
        self._users[node] = {key: user for key, user in users.items() if key[0] != owner}

    def keep_user(self, node: str, owner: str, container: ContainerView, load: Callable[[], Load]) -> None:
        """Note a container that has accelerators, in the place of an earlier one, until `owner` gives them back."""
        self._users.setdefault(node, {})[owner, container.name] = (container, load)

    def accelerator_users(self, node: str, moment: float) -> AcceleratorUsers:
        """Return the containers of a node that have accelerators, with their load at `moment`."""
        users = self._users.get(node, {}).values()
        return AcceleratorUsers(moment, tuple(DeviceUse(container, load()) for container, load in users))

    def address(self) -> str:
        """Return a pod address that has not been given before."""
        self._addresses += 1
        return f"10.0.{32 + self._addresses // 250 % 200}.{1 + self._addresses % 250}"
