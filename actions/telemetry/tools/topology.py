"""The reader of `nvidia-smi topo -m` and `-p2p`: how each pair of GPUs and network cards of a machine is connected.

Cells are separated by tabs, the header is underlined by escapes; a copy of the terminal has blanks instead. Behind the
devices stand columns of affinities, whose names hold blanks.

Source: driver 580 captured in `tests/fixtures/corpus/nvidia_smi/h100_topo.txt`; the legend that it prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from actions.telemetry.log_records import strip_controls

_DEVICE = re.compile(r"^(?:GPU|NIC|mlx|cxgb|bnxt|efa|rdma|ib|hfi)[\w.:-]{0,40}$", re.IGNORECASE)
_LINK = re.compile(r"^(?:[A-Z][A-Z0-9]{0,7}|N/A)$")
"""A connection (`SOC` was the word for `SYS` once), or the answer of `topo -p2p`: whether a pair may reach each other's
memory."""
_LINK_WORD = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|N/A|[CG]NS|TNS|NS|DR|OK|U")
"""Every word that there is for a connection."""
_NAMED = re.compile(r"^\s{2,}(NIC\d{1,3}): (\S{1,64})$")
_MEANING = re.compile(r"^\s{2,}([A-Z][A-Z0-9]{0,7}#?)\s{1,8}= (.{1,200}?)\s{0,20}$")
_BLANKS = {"CPU Affinity": "cpu_affinity", "NUMA Affinity": "numa_affinity", "GPU NUMA ID": "gpu_numa_id"}
_TITLES = "|".join(_BLANKS)
_WORDS = re.compile(rf"(?:{_TITLES})|\S+")
_LONGEST = 64 << 10
_NEAREST = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""The words for connections over PCIe, the shortest first."""

TOPOLOGY_COMMAND = ("sh", "-c", "nvidia-smi topo -m || exit; nvidia-smi nvlink -e 2>/dev/null || true")
"""The matrix, and the error counters of NVLinks."""


class TopologyDevice(msgspec.Struct, frozen=True):
    """One row of the matrix."""

    name: str
    """`GPU0`, `NIC1`."""
    links: dict[str, str]
    """The connection to each other device, in the tool's words: `NV18`, `PIX`, `SYS`."""
    cpu_affinity: str = ""
    """Cores, such as `0-15,32-47`; empty if unknown."""
    numa_affinity: str = ""
    gpu_numa_id: str = ""
    adapter: str = ""
    """Of a network card, its name on this machine: `mlx5_0`, `rdmap16s27`."""

    @property
    def is_gpu(self) -> bool:
        """True of a GPU, false of a network card."""
        return self.name.startswith("GPU")


class Topology(msgspec.Struct, frozen=True):
    """The matrix of one machine."""

    devices: tuple[TopologyDevice, ...] = ()
    legend: dict[str, str] = msgspec.field(default_factory=dict)
    """The meaning of each word, as printed."""
    error: str = ""
    """The tool's own words where it gave no matrix."""
    warnings: tuple[str, ...] = ()
    """Sentences about rows that are not as their header: what cannot be placed is left out."""


def read_topology(text: str) -> Topology:
    """Read the matrix; what stands before and behind it does no harm."""
    header: list[str] | None = None
    devices: list[TopologyDevice] = []
    legend: dict[str, str] = {}
    adapters: dict[str, str] = {}
    warnings: list[str] = []
    for raw in text[:_LONGEST].splitlines():
        line = strip_controls(raw.rstrip(" \r\n"))
        cells = _cells_of(line)
        if header is None and _is_header(cells, line):
            header = cells
        elif header is not None and len(cells) > 1 and cells[0] in header and cells[0] not in _BLANKS:
            placed = _placed(cells, [column for column in header if column and column not in _BLANKS])
            if placed != cells:
                warnings.append(
                    f"The row of {cells[0]} has cells that are glued or missing: {' '.join(cells[1:])}"[:300]
                )
            devices.append(_device_of(placed, header, is_tabbed="\t" in line))
        elif meaning := _MEANING.match(line):
            legend[meaning[1]] = meaning[2]
        elif named := _NAMED.match(line):
            adapters[named[1]] = named[2]
    if not devices:
        return Topology(error=" ".join(strip_controls(text).split())[:400] or "nvidia-smi printed nothing.")
    known = tuple(
        msgspec.structs.replace(device, adapter=adapters[device.name]) if device.name in adapters else device
        for device in devices
    )
    return Topology(known, legend, warnings=tuple(warnings))


def _is_header(cells: list[str], line: str) -> bool:
    """Return whether a line names the columns; a copy may have lost the blanks before the first of them."""
    if not cells or not _DEVICE.match(cells[0]):
        return False
    return line[:1].isspace() or (len(cells) > 1 and (cells[1] in _BLANKS or _DEVICE.match(cells[1]) is not None))


def _cells_of(line: str) -> list[str]:
    """Return the cells of a line. In a copy of the terminal one blank may be all that stands between two of them."""
    if "\t" in line:
        return [cell.strip() for cell in line.strip(" ").lstrip().split("\t")]
    return _WORDS.findall(line)


def _device_of(cells: list[str], header: list[str], *, is_tabbed: bool) -> TopologyDevice:
    """Return a row. Its links come first; an empty cell of an affinity keeps its place where there are tabs."""
    name, rest = cells[0], cells[1:]
    columns = [column for column in header if column and column not in _BLANKS]
    titles = [column for column in header if column in _BLANKS]
    connected = {other: link for other, link in zip(columns, rest, strict=False) if other != name and _LINK.match(link)}
    behind = rest[len(columns) :]
    while is_tabbed and len(behind) > len(titles) and "" in behind:
        behind.pop(len(behind) - 1 - behind[::-1].index(""))  # two tabs stand behind the NUMA affinity
    known = dict(zip(titles, behind, strict=False))
    return TopologyDevice(name, connected, **{field: _known(known.get(title, "")) for title, field in _BLANKS.items()})


def _placed(cells: list[str], columns: list[str]) -> list[str]:
    """Return the cells of a row, those apart that a copy has glued; without all that then has no certain place."""
    own = columns.index(cells[0]) if cells[0] in columns else 0
    apart: list[str] = []
    taken = 1
    for cell in cells[1:]:
        if len(apart) >= len(columns):
            break
        words = _LINK_WORD.findall(cell)
        apart += words if len(words) > 1 and "".join(words) == cell else [cell]
        taken += 1
    if len(apart) == len(columns) and apart[own] == "X" and not any(cell[:1].isdigit() for cell in apart):
        return [cells[0], *apart, *cells[taken:]]
    return [cells[0], *(apart[: own + 1] if apart[own : own + 1] == ["X"] else ())]


def _known(cell: str) -> str:
    return "" if cell in ("N/A", "-") else cell


def gpus_by_link(device: TopologyDevice) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each kind of connection of a device with the GPUs behind it: NVLinks first, then PCIe by distance."""
    words = {link for name, link in device.links.items() if name.startswith("GPU")}
    for word in sorted(words, key=_distance):
        yield word, [name for name, link in device.links.items() if link == word and name.startswith("GPU")]


def nearest_cards(device: TopologyDevice, topology: Topology) -> tuple[str, Sequence[str]]:
    """Return the shortest connection of a GPU to any network card, and the names of the cards behind it."""
    cards = {one.name: one.adapter or one.name for one in topology.devices if not one.is_gpu}
    links = {name: link for name, link in device.links.items() if name in cards and link in _NEAREST}
    if not links:
        return "", []
    best = min(links.values(), key=_distance)
    return best, [cards[name] for name, link in links.items() if link == best]


def _distance(word: str) -> int:
    return _NEAREST.index(word) if word in _NEAREST else -1
