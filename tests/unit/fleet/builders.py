"""Nodes to price."""

from __future__ import annotations

from actions.fleet.facts import NodeFacts, NodeUsage, Resources

GIB = 1 << 30


def a_node(
    name: str = "node-1",
    instance_type: str = "g5.12xlarge",
    *,
    capacity_type: str = "on-demand",
    region: str = "us-west-2",
    gpu: int = 0,
    neuron: int = 0,
    efa: int = 0,
    is_ready: bool = True,
    taints: tuple[str, ...] = (),
    is_schedulable: bool = True,
) -> NodeFacts:
    """A node with 48 cores and 186 GiB."""
    offered = Resources(cpu_milli=47810, memory_bytes=186 * GIB, gpu=gpu, neuron=neuron, efa=efa)
    return NodeFacts(
        uid=f"uid-{name}",
        name=name,
        instance_type=instance_type,
        region=region,
        zone=f"{region}a" if region else "",
        capacity_type=capacity_type,
        pool="pool",
        allocatable=offered,
        pods_allocatable=737,
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        taints=taints,
        created_at=1_763_600_000.0,
        version="v1.32.1",
    )


def asking(*, gpu: int = 0, neuron: int = 0, cpu_milli: int = 0, pods: int = 1) -> NodeUsage:
    """Requests of the pods of one node."""
    return NodeUsage(Resources(cpu_milli=cpu_milli, gpu=gpu, neuron=neuron), pods)
