"""The network of the nodes: a bridge that stands for the subnet, and a namespace with one link to it for each node."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GATEWAY = "10.200.0.254"
"""The control plane's address; everything that is not a node is here."""
_BRIDGE = "subnet"


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a node, from which its address follows and those of its pods."""

    number: int

    @property
    def address(self) -> str:
        """Its own."""
        return f"10.200.0.{self.number}"

    @property
    def name(self) -> str:
        """As EC2 names it by its address."""
        return f"ip-{self.address.replace('.', '-')}.us-west-2.compute.internal"

    @property
    def pods(self) -> str:
        """The range of its pods."""
        return f"10.201.{self.number}.0/24"


def make_subnet() -> None:
    """Make the bridge, in a network namespace that has nothing yet."""
    _forward()
    ip("link", "set", "lo", "up")
    ip("link", "add", _BRIDGE, "type", "bridge")
    ip("addr", "add", f"{GATEWAY}/24", "dev", _BRIDGE)
    ip("link", "set", _BRIDGE, "up")


def connect(place: Place, process: int, others: Sequence[Place]) -> None:
    """Give the network namespace of a process the node's link, and everyone the ways to its pods.

    Args:
        place: The node's.
        process: The id of any process in it.
        others: The nodes whose pods it shall reach.
    """
    link = f"node-{place.number}"
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(process))
    ip("link", "set", link, "master", _BRIDGE, "up")
    ip("route", "add", place.pods, "via", place.address)
    in_node = ("nsenter", "--target", str(process), "--net", "--mount", "--")
    ip("link", "set", "lo", "up", within=in_node)
    ip("addr", "add", f"{place.address}/24", "dev", "eth0", within=in_node)
    ip("link", "set", "eth0", "up", within=in_node)
    ip("route", "add", "default", "via", GATEWAY, within=in_node)
    for other in others:
        if other != place:
            ip("route", "add", other.pods, "via", other.address, within=in_node)


def cut_off(place: Place, *, is_cut: bool) -> None:
    """Take a node from the network, or give it back."""
    ip("link", "set", f"node-{place.number}", "down" if is_cut else "up")


def ip(*arguments: str, within: Sequence[str] = ()) -> None:
    """Run `ip`.

    Raises:
        subprocess.CalledProcessError: It has said why on stderr.
    """
    subprocess.run([*within, "ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def _forward() -> None:
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
