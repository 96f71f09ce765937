"""What the nodes of a cluster have that containers share: kinds, devices, pulled images, addresses, ports."""

from __future__ import annotations

from actions.base.clock import Clock
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.kinds import NODES, labels_of
from actions.sandbox.kubelet.meetings import Meetings
from actions.sandbox.kubelet.process import Surroundings
from actions.sandbox.kubelet.shells import Shells
from actions.sandbox.kubelet.storage import Storage
from actions.sandbox.workloads.network import Network


class Machines:
    """The state of all nodes. One instance a kubelet."""

    def __init__(self) -> None:
        self.meetings = Meetings()
        self.network = Network()
        self.shells = Shells()
        self.storage = Storage()
        self._images: set[tuple[str, str]] = set()
        self._devices: dict[str, dict[int, str]] = {}
        self._types: dict[str, str] = {}
        self._addresses = 0

    def surroundings(self, speed: float, clock: Clock) -> Surroundings:
        """What the programs of the cluster share, at a speed."""
        return Surroundings(speed, clock, self.meetings, self.shells)

    async def meet(self, node: str, client: ApiClient) -> None:
        """Learn what kind of machine a node is, if that is not known yet."""
        if node not in self._types and (found := await client.read(NODES, node)) is not None:
            self._types[node] = labels_of(found).get("node.kubernetes.io/instance-type", "")

    def instance_type(self, node: str) -> str:
        """The instance type of a node that was met; empty if nobody knows."""
        return self._types.get(node, "")

    def has_image(self, node: str, image: str) -> bool:
        """Whether an image has been pulled to a node."""
        return (node, image) in self._images

    def keep_image(self, node: str, image: str) -> None:
        """An image has been pulled to a node."""
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

    def address(self) -> str:
        """A pod address that nobody has had yet."""
        self._addresses += 1
        return f"10.0.{32 + self._addresses // 250 % 200}.{1 + self._addresses % 250}"
