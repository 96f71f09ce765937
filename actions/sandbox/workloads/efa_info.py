"""`fi_info -p efa`: the EFA adapters that a process can see.

Source: libfabric 1.22 `util/info.c`; captured lists of g5 and p5 nodes.
"""

from __future__ import annotations

import posixpath

from actions.sandbox.workloads.program import Container, Program, Step

_NO_DATA = 61
_BUS_OF_FAMILY = {"g5": (0,), "p4d": (16, 32, 144, 160), "p4de": (16, 32, 144, 160)}
_P5_BUSES = tuple(range(79, 207, 4))
_SLOT = {"g5": 29, "p4d": 27, "p4de": 27}


def is_fi_info(container: Container) -> bool:
    """Whether a container's command is `fi_info`."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) == "fi_info"


def list_adapters(container: Container) -> Program:
    """List the adapters; ends with 61 if there is none."""
    yield Step(0.5)
    if not container.efa_interfaces:
        yield Step(text=f"fi_getinfo: -{_NO_DATA} (No data available)\n", is_error=True)
        return _NO_DATA
    for domain in domains_of(container):
        yield Step(
            0.1,
            f"provider: efa\n    fabric: efa\n    domain: {domain}-rdm\n    version: 122.0\n    type: FI_EP_RDM\n"
            "    protocol: FI_PROTO_EFA\n",
        )
    return 0


def domains_of(container: Container) -> list[str]:
    """The adapters' names: by the PCI bus and slot at which the instance type has them."""
    family = container.instance_type.partition(".")[0]
    buses = _BUS_OF_FAMILY.get(family, _P5_BUSES)
    slot = _SLOT.get(family, 0)
    return [f"rdmap{buses[index % len(buses)]}s{slot}" for index in range(container.efa_interfaces)]
