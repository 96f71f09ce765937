"""The options of a sandbox: its names, and the delays with which things happen in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class SandboxOptions(msgspec.Struct, frozen=True):
    """Delays in wall seconds; `speed` is the factor by which workloads print faster than in real time."""

    speed: float = 6.0
    seed: int = 1
    """The seed of losses, readings and names: the same seed prints the same curve."""
    cluster_name: str = "bionemo-on-eks"
    region: str = "us-west-2"
    account: str = "111122223333"
    nodes: Mapping[str, int] = MappingProxyType({})
    """Numbers of nodes by instance type, beside the core nodes, that are there from the beginning."""
    node_boot_seconds: float = 4.0
    """From the launch of an instance to its kubelet's registration."""
    node_ready_seconds: float = 1.0
    """From registration to Ready."""
    empty_node_seconds: float = 20.0
    """From a node of Karpenter becoming empty to its removal, and that of the logs of its ended pods: with less, a busy
    machine has not read them by then. Karpenter's own `consolidateAfter` is minutes."""
    instance_end_seconds: float = 1.5
    """From the drain of a node to the end of its instance."""
    instances_of_a_type: int = 16
    """The instances of one type that the zone has for node groups."""
    filesystem_seconds: float = 3.0
    """From a claim to the file system that the FSx driver makes for it."""
    image_pull_seconds: float = 1.0
    container_start_seconds: float = 0.3
    stop_seconds: float = 0.3
    """From SIGTERM to the end of a program."""
    restart_backoff_seconds: float = 1.0
    """Before the first restart of a container; doubled with each one, up to a minute."""
