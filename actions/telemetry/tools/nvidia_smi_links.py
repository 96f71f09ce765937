"""The reader of `nvidia-smi nvlink`: for each GPU the sum over its links of what is counted or reported of each.

`-s` tells a speed of each link, `-gt d` and `-gt r` the data it has moved, `-e` its errors: a line for each link and
value, below a line for each GPU. Other forms (`-c`, `-p`, `-R`) have no numbers to add up.

Source: driver 580 on two H100, `tests/fixtures/h100x2/nvlink_*.txt`; `docs/facts/nvidia-smi.md#nvlink`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from actions.telemetry.tools.nvidia_smi_reading import SmiReading, SmiRows

_GPU = re.compile(r"^GPU (?P<index>\d{1,3}): (?P<name>.{1,100}?)(?: \(UUID: GPU-[\w-]{1,60}\))?$")
_ANY_LINK = re.compile(r"^\s{1,16}Link \d{1,3}\b", re.MULTILINE)
_VALUE = re.compile(
    r"^\s{1,16}Link (?P<link>\d{1,3}): (?:(?P<name>[A-Z][A-Za-z -]{1,60}): )?"
    r"(?P<number>\d{1,20}(?:\.\d{1,9})?)(?: (?P<unit>[A-Za-z/]{1,8}))?$"
)
_SPEED = "Speed"
_UNREAD = "This form of nvidia-smi nvlink is not read; use -s, -gt d, -gt r or -e."


def is_links(text: str) -> bool:
    """Return whether there are lines about links below one about a GPU."""
    return text.lstrip().startswith("GPU ") and _ANY_LINK.search(text) is not None


def read_links(text: str) -> SmiReading:
    """Read the output: a row for each GPU, with the number of its links and a sum for each kind of value."""
    names: dict[str, str] = {}
    links: dict[str, set[str]] = {}
    sums: dict[str, dict[str, float]] = {}
    heads: dict[str, None] = {}
    gpu = ""
    for line in text.splitlines():
        if found := _GPU.match(line.rstrip()):
            gpu = found["index"]
            names[gpu], links[gpu], sums[gpu] = found["name"], set(), {}
        elif gpu and (value := _VALUE.match(line.rstrip())):
            name = value["name"] or _SPEED
            head = f"{name} [{value['unit']}]" if value["unit"] else name
            heads[head] = None
            links[gpu].add(value["link"])
            sums[gpu][head] = sums[gpu].get(head, 0) + float(value["number"])
    if not heads:
        return SmiReading(error=_UNREAD)
    cells = tuple((gpu, names[gpu], str(len(links[gpu])), *_sums_of(sums[gpu], heads)) for gpu in names)
    return SmiReading(form="nvlink", rows=SmiRows(("gpu", "name", "links", *heads), cells=cells))


def _sums_of(sums: Mapping[str, float], heads: Mapping[str, None]) -> list[str]:
    """Return the cells in the order of the heads; `-` for what a GPU has not."""
    return [f"{sums[head]:.10g}" if head in sums and sums[head] < 1e9 else _whole(sums.get(head)) for head in heads]


def _whole(number: float | None) -> str:
    return "-" if number is None else f"{number:.0f}"
