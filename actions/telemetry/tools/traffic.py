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

_SUM_OF_LINKS = (
    "/^GPU/ {gpu = $2} / Data [TR]x: / {sum[gpu] += $5} "
    'END {for (gpu in sum) printf "NVLink GPU %s %.0f KiB\\n", gpu, sum[gpu]}'
)
_SUM_OF_FILES = 'NF == 1 {sum += $1} END {if (NR) printf "EFA %.0f B\\n", sum; exit !NR}'
_SUM_OF_STATISTICS = (
    "{for (i = 1; i < NF; i++) if ($i ~ /^[rt]x_bytes$/) {sum += $(i + 1); n++}} "
    'END {if (n) printf "EFA %.0f B\\n", sum}'
)
"""Adds up names and values of `rdma statistic`, on one line or on many."""
TRAFFIC_SCRIPT = (
    f"nvidia-smi nvlink -gt d 2>/dev/null | awk '{_SUM_OF_LINKS}'; "
    "nvidia-smi nvlink -e 2>/dev/null | grep -E '^GPU|: [1-9]'; "
    f"cat /sys/class/infiniband/*/ports/1/hw_counters/[rt]x_bytes 2>/dev/null | awk '{_SUM_OF_FILES}' "
    f"|| rdma statistic show 2>/dev/null | awk '{_SUM_OF_STATISTICS}' || true"
)
"""A shell's commands: counters, added up there because a large machine has hundreds, and errors that are not 0."""

_GPU = re.compile(r"^GPU (\d{1,3}): ")
_ERRORS = re.compile(r"^\s{1,16}Link (\d{1,3}): ((?:[A-Z][A-Za-z-]{1,20} ){1,4})Errors: (\d{1,12})$")
_NVLINK = re.compile(r"^NVLink GPU (\d{1,3}): (\d{1,20}) KiB$")
_EFA = re.compile(r"^EFA (\d{1,20}) B$")
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
    adapters: int | None = None
    gpu: int | None = None
    for raw in text[:_LONGEST].splitlines():
        line = strip_controls(raw.expandtabs(8).rstrip())
        if head := _GPU.match(line):
            gpu = int(head[1])
        elif gpu is not None and (found := _ERRORS.match(line)):
            kind = found[2].strip().lower()
            errors.setdefault(gpu, {}).setdefault(int(found[1]), {})[kind] = int(found[3])
        elif data := _NVLINK.match(line):
            sent[int(data[1])] = int(data[2]) * _KIB
        elif efa := _EFA.match(line):
            adapters = int(efa[1])
    return Traffic(sent, {number: _troubled(links) for number, links in errors.items()}, adapters)


def _troubled(links: Mapping[int, Mapping[str, int]]) -> tuple[LinkErrors, ...]:
    """Return the links with errors, without counters that are 0."""
    counted = ((link, {kind: count for kind, count in counts.items() if count}) for link, counts in links.items())
    return tuple(LinkErrors(link, counts) for link, counts in counted if counts)
