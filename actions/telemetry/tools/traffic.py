"""Counters of NVLink and EFA as a container can read them: bytes since the driver was loaded, and link errors.

`nvidia-smi nvlink` prints a line for each counter of each link, below a line for each GPU; of GPUs without NVLink it
prints nothing at all. EFA's driver keeps a file for each counter of each adapter of the node, which only a pod in the
network of its node has (`hostNetwork`): the kernel leaves the files out of every other network namespace. There it
answers by netlink, of which `rdma` of iproute2 asks, where an image has that.

Source: `docs/facts/nvidia-smi.md#nvlink`, `docs/facts/nodes.md#efa-counters`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from actions.telemetry.log_records import strip_controls

TRAFFIC_SCRIPT = (
    "nvidia-smi nvlink -gt d 2>/dev/null; "
    "nvidia-smi nvlink -e 2>/dev/null | grep -E '^GPU|: [1-9]'; "
    "grep -H . /sys/class/infiniband/*/ports/1/hw_counters/[rt]x_bytes 2>/dev/null "
    "|| rdma statistic show 2>/dev/null || true"
)
"""A shell's commands: counters, and link errors that are not 0."""

_GPU = re.compile(r"^GPU (\d{1,3}): ")
_ERRORS = re.compile(r"^\s{1,16}Link (\d{1,3}): ((?:[A-Z][A-Za-z-]{1,20} ){1,4})Errors: (\d{1,12})$")
_DATA = re.compile(r"^\s{1,16}Link \d{1,3}: Data [TR]x: (\d{1,18}) KiB$")
_EFA = re.compile(r"^/\S{1,200}/hw_counters/[rt]x_bytes:(\d{1,18})$|\b[rt]x_bytes (\d{1,18})\b")
"""A file and its content; a name and its value as `rdma statistic` prints them, on one line or on many.

`rdma` is also asked where some of the files cannot be read: then the files count, and not both.
"""
_KIB = 1 << 10
_LONGEST = 256 << 10


class LinkErrors(msgspec.Struct, frozen=True, gc=False):
    """The errors of one link of a GPU, by the tool's words: `replay`, `recovery`, `crc`."""

    link: int
    counts: dict[str, int]


class Traffic(msgspec.Struct, frozen=True):
    """The counters of one machine at one moment. Both directions are added up."""

    nvlink_bytes: dict[int, int] = msgspec.field(default_factory=dict)
    """By GPU, over all its links; without GPUs that have none."""
    link_errors: dict[int, tuple[LinkErrors, ...]] = msgspec.field(default_factory=dict)
    """By GPU, the links with errors."""
    efa_bytes: int | None = None
    """Over all adapters; `None` without any."""

    def errors_of(self, gpu: int) -> int | None:
        """Return the number of link errors of a GPU; `None` if it has no NVLink."""
        if gpu not in self.nvlink_bytes and gpu not in self.link_errors:
            return None
        return sum(sum(one.counts.values()) for one in self.link_errors.get(gpu, ()))


def read_traffic(text: str) -> Traffic:
    """Read the output of `TRAFFIC_SCRIPT`, or of `nvidia-smi nvlink -e`; other lines do no harm."""
    sent: dict[int, int] = {}
    errors: dict[int, dict[int, dict[str, int]]] = {}
    files: list[int] = []
    netlink: list[int] = []
    gpu: int | None = None
    for raw in text[:_LONGEST].splitlines():
        line = strip_controls(raw.expandtabs(8).rstrip())
        if head := _GPU.match(line):
            gpu = int(head[1])
        elif gpu is not None and (found := _ERRORS.match(line)):
            kind = found[2].strip().lower()
            errors.setdefault(gpu, {}).setdefault(int(found[1]), {})[kind] = int(found[3])
        elif gpu is not None and (data := _DATA.match(line)):
            sent[gpu] = sent.get(gpu, 0) + int(data[1]) * _KIB
        else:
            for efa in _EFA.finditer(line):
                (files if efa[1] else netlink).append(int(efa[1] or efa[2]))
    counted = files or netlink
    troubled = {number: _troubled(links) for number, links in errors.items()}
    return Traffic(sent, troubled, sum(counted) if counted else None)


def _troubled(links: Mapping[int, Mapping[str, int]]) -> tuple[LinkErrors, ...]:
    """Return the links with errors, without counters that are 0."""
    counted = ((link, {kind: count for kind, count in counts.items() if count}) for link, counts in links.items())
    return tuple(LinkErrors(link, counts) for link, counts in counted if counts)
