"""The fabric between nodes: the bandwidth of EFA and of TCP sockets, and `fi_info -p efa`, which lists EFA adapters.

Source: the captured all-reduce tables of 2 × g5.8xlarge and 2 × p5.48xlarge; sockets at three quarters of EFA's
bandwidth and three times its latency, as measured on g4dn; libfabric 1.22 `util/info.c`; captured lists of g5 and p5
nodes.
"""

from __future__ import annotations

import math
import posixpath

import msgspec

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

LatencyTable = tuple[tuple[int, float], ...]
"""(Message size in bytes, time in µs), by size."""

_G5: LatencyTable = (
    (8, 67.1), (1 << 10, 72.3), (4 << 10, 80.0), (16 << 10, 95.5), (64 << 10, 112.6), (128 << 10, 142.0),
    (256 << 10, 281.7), (512 << 10, 382.5), (1 << 20, 475.7), (2 << 20, 779.3), (4 << 20, 1369.3), (8 << 20, 3039.0),
    (16 << 20, 6375.0), (32 << 20, 12_124.0), (64 << 20, 23_665.0), (128 << 20, 47_018.0), (1 << 30, 372_377.0),
    (4 << 30, 1_491_861.0),
)  # fmt: skip
_P5: LatencyTable = (
    (8, 78.0), (4 << 10, 83.2), (64 << 10, 101.1), (512 << 10, 108.8), (1 << 20, 119.1), (4 << 20, 163.2),
    (16 << 20, 282.3), (64 << 20, 597.4), (128 << 20, 872.0), (256 << 20, 1501.2), (1 << 30, 4556.5),
    (4 << 30, 17_320.0), (16 << 30, 66_988.0),
)  # fmt: skip
_CURVES = {"g": (_G5, 2, 1), "p": (_P5, 16, 32)}
"""Beginning of the instance type → a curve, its ranks, and the EFA interfaces of each node."""
_SOCKETS = (3.0, 1.33)
"""The factors by which it takes longer without EFA: for the smallest message, for the largest."""
_SMALL, _LARGE = 8, 1 << 30


class Fabric(msgspec.Struct, frozen=True):
    """The network and links between the ranks of one group."""

    curve: LatencyTable
    curve_ranks: int
    interfaces: int
    """EFA interfaces of each node that are used; 0 for sockets."""
    slowdown: float
    ranks: int
    reads_remotely: bool

    def time_us(self, size: int) -> float:
        """Return the time of one all-reduce of a message."""
        time = _interpolated(self.curve, size)
        if not self.interfaces:
            share = min(1.0, math.log(max(size, _SMALL) / _SMALL) / math.log(_LARGE / _SMALL))
            return time * (_SOCKETS[0] + share * (_SOCKETS[1] - _SOCKETS[0]))
        return (
            time
            * (1.0 + share_of_bandwidth(size) * (self.slowdown - 1.0))
            * _bus_factor(self.ranks)
            / _bus_factor(self.curve_ranks)
        )

    def bus_bandwidth(self, size: int, time_us: float) -> float:
        """GB/s over the links; 0 for one rank alone."""
        return size / time_us / 1e3 * _bus_factor(self.ranks) if self.ranks > 1 else 0.0


def share_of_bandwidth(size: int) -> float:
    """Return the share of bandwidth, not latency, in a message's time: 0 for the smallest, 1 from 16 MiB on."""
    return min(1.0, math.log2(max(size, 8) / 8) / 21)


def fabric_of(container: ContainerView, *, ranks: int) -> Fabric:
    """Return the fabric of a group, from one rank's container."""
    family = container.instance_type[:1] if container.instance_type[:1] in _CURVES else "g"
    curve, curve_ranks, wanted = _CURVES[family]
    uses_efa = container.environment.get("FI_PROVIDER", "efa") == "efa"
    interfaces = container.efa_interfaces if uses_efa else 0
    kind = InstanceTable.load().find(container.instance_type)
    return Fabric(
        curve=curve,
        curve_ranks=curve_ranks,
        interfaces=interfaces,
        slowdown=max(1.0, wanted / interfaces) if interfaces else 1.0,
        ranks=ranks,
        reads_remotely=kind is not None and kind.efa_reads_remotely,
    )


def _bus_factor(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks if ranks > 1 else 1.0


def _interpolated(curve: LatencyTable, size: int) -> float:
    """Interpolate along straight lines between the points, sizes and times both on logarithmic axes."""
    before = [point for point in curve if point[0] <= size]
    after = [point for point in curve if point[0] > size]
    if not before:
        return curve[0][1]
    if not after:
        return curve[-1][1] * size / curve[-1][0]
    (low, slow), (high, fast) = before[-1], after[0]
    share = math.log(size / low) / math.log(high / low)
    return math.exp(math.log(slow) + share * (math.log(fast) - math.log(slow)))


_NO_DATA = 61
_BUS_OF_FAMILY = {"g5": (0,), "p4d": (16, 32, 144, 160), "p4de": (16, 32, 144, 160)}
_P5_BUSES = tuple(range(79, 207, 4))
_SLOT = {"g5": 29, "p4d": 27, "p4de": 27}


def is_fi_info(container: ContainerView) -> bool:
    """Return whether a container's command is `fi_info`."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) == "fi_info"


def list_adapters(container: ContainerView) -> Program:
    """List the adapters; ends with 61 if there is none."""
    yield ProgramStep(0.5)
    if not container.efa_interfaces:
        yield ProgramStep(text=f"fi_getinfo: -{_NO_DATA} (No data available)\n", is_error=True)
        return _NO_DATA
    for domain in domains_of(container):
        yield ProgramStep(
            0.1,
            f"provider: efa\n    fabric: efa\n    domain: {domain}-rdm\n    version: 122.0\n    type: FI_EP_RDM\n"
            "    protocol: FI_PROTO_EFA\n",
        )
    return 0


def domains_of(container: ContainerView) -> list[str]:
    """The adapters' names: by the PCI bus and slot at which the instance type has them."""
    family = container.instance_type.partition(".")[0]
    buses = _BUS_OF_FAMILY.get(family, _P5_BUSES)
    slot = _SLOT.get(family, 0)
    return [f"rdmap{buses[index % len(buses)]}s{slot}" for index in range(container.efa_interfaces)]
