"""The reader of `nvidia-smi -q`: names and values, one a line, indented below the names of their sections.

Sections and names differ by driver, and more come with each; of what is read here they are older than most. A driver
before 530 has `Power Readings` and `Clocks Throttle Reasons`.

Source: driver 580 captured in `tests/fixtures/corpus/nvidia_smi`, `q_*` and `h100_q_*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from actions.telemetry.tools.nvidia_smi_reading import (
    Gpu,
    MigDevice,
    SmiProcess,
    SmiReading,
    amount_of,
    count_of,
    is_failure,
    numbers_of,
    throttle_reasons_named,
    word_of,
)

_LINE = re.compile(r"^(?P<indent>\s{0,40})(?P<name>\S(?:.{0,100}?\S)?)\s{0,60}(?:\s: ?(?P<value>.{0,400}?))?\s{0,20}$")
_GPU = re.compile(r"^GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_POWER = ("gpu power readings", "power readings")
_DRAWS = ("power draw", "average power draw", "instantaneous power draw")
"""The mean of a second first, as the table and `power.draw` have it: two forms of one moment agree."""
_LIMITS = ("current power limit", "power limit")
_REASONS = ("clocks event reasons", "clocks throttle reasons")
_MARK = "NVSMI LOG"

Entry = tuple[tuple[str, ...], str]
"""The names of sections and value, in small letters, and the value."""


def is_listing(text: str) -> bool:
    """Return whether there is such a listing in `text`."""
    return _MARK in text and _ATTACHED.search(text) is not None


_ATTACHED = re.compile(r"^\s{0,8}Attached GPUs\s{1,60}:", re.MULTILINE)


def read_listing(text: str) -> SmiReading:
    """Read the listing; what stands before it does no harm."""
    general: list[Entry] = []
    cards: list[tuple[str, list[Entry]]] = []
    for path, value in _entries(text[text.find(_MARK) :]):
        card = _GPU.match(path[0].replace("gpu ", "GPU ", 1))
        if card is None:
            general.append((path, value))
        elif not cards or cards[-1][0] != card["bus"].upper():
            cards.append((card["bus"].upper(), []))
        if card is not None and len(path) > 1:
            cards[-1][1].append((path[1:], value))
    minor = [_value(entries, "minor number") for _, entries in cards]
    numbers = numbers_of(minor, count_of(_value(general, "attached gpus")))
    numbered = [(index, bus, entries) for index, (bus, entries) in zip(numbers, cards, strict=True)]
    gpus = tuple(_gpu_of(entries, index, bus) for index, bus, entries in numbered)
    return SmiReading(
        gpus=gpus,
        mig_devices=tuple(mig for index, _, entries in numbered for mig in _migs_of(entries, index)),
        processes=tuple(one for index, _, entries in numbered for one in _processes_of(entries, index)),
        driver_version=word_of(_value(general, "driver version")),
        cuda_version=word_of(_value(general, "cuda version")),
        error="" if gpus else "No devices were found",
        form="q",
    )


def _entries(text: str) -> Iterator[Entry]:
    """Yield every name with the sections around it; of a section's own line the value is empty."""
    around: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        indent = len(match["indent"])
        around = [(column, name) for column, name in around if column < indent]
        around.append((indent, match["name"].lower()))
        yield tuple(name for _, name in around), (match["value"] or "").strip()


def _value(entries: Sequence[Entry], *path: str) -> str | None:
    """Return the first value at a path; `None` if there is none."""
    return next((value for names, value in entries if names == path), None)


def _gpu_of(entries: Sequence[Entry], index: int, bus: str) -> Gpu:
    persistence = word_of(_value(entries, "persistence mode"))
    return Gpu(
        index=index,
        name=_value(entries, "product name") or "",
        uuid=_value(entries, "gpu uuid") or "",
        bus_id=bus,
        persistence={"Enabled": "On", "Disabled": "Off"}.get(persistence or "", ""),
        fan_pct=count_of(_value(entries, "fan speed")),
        temp_c=count_of(_value(entries, "temperature", "gpu current temp")),
        perf=word_of(_value(entries, "performance state")),
        power_w=_power(entries, _DRAWS),
        power_cap_w=_power(entries, _LIMITS),
        mem_used_mib=count_of(_value(entries, "fb memory usage", "used")),
        mem_total_mib=count_of(_value(entries, "fb memory usage", "total")),
        util_pct=count_of(_value(entries, "utilization", "gpu")),
        ecc_uncorrected=_ecc(entries, "uncorrectable", "double bit"),
        ecc_corrected=_ecc(entries, "correctable", "single bit"),
        mig_mode=word_of(_value(entries, "mig mode", "current")),
        compute_mode=_value(entries, "compute mode") or "",
        clock_mhz=count_of(_value(entries, "clocks", "sm")),
        clock_max_mhz=count_of(_value(entries, "max clocks", "sm")),
        throttle=throttle_reasons_named(_active(entries)),
        errors=tuple(sorted({path[-1] for path, value in entries if is_failure(value)})),
    )


def _power(entries: Sequence[Entry], names: Sequence[str]) -> float | None:
    found = (amount_of(_value(entries, block, name)) for block in _POWER for name in names)
    return next((amount for amount in found if amount is not None), None)


def _ecc(entries: Sequence[Entry], kind: str, older: str) -> int | None:
    """Return a volatile count: the sum over the kinds of memory, or the total of an older driver."""
    total = count_of(_value(entries, "ecc errors", "volatile", older, "total"))
    if total is not None:
        return total
    volatile = [(path[-1], value) for path, value in entries if path[:2] == ("ecc errors", "volatile")]
    counts = [count_of(value) for name, value in volatile if re.search(rf"\b{kind}\b", name)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _active(entries: Sequence[Entry]) -> frozenset[str]:
    return frozenset(path[-1].replace(" ", "_") for path, value in entries if path[0] in _REASONS and value == "Active")


def _groups(entries: Sequence[Entry], section: str, first: str) -> Iterator[list[Entry]]:
    """Yield the entries of each item of a section that repeats: a name that begins one, and all up to the next."""
    group: list[Entry] = []
    for path, value in entries:
        if section not in path[:-1]:
            continue
        inside = path[path.index(section) + 1 :]
        if inside == (first,):
            if group:
                yield group
            group = []
        group.append((inside, value))
    if group:
        yield group


def _migs_of(entries: Sequence[Entry], gpu: int) -> Iterator[MigDevice]:
    for group in _groups(entries, "mig device", "index"):
        yield MigDevice(
            gpu=gpu,
            device=count_of(_value(group, "index")) or 0,
            gi=count_of(_value(group, "gpu instance id")),
            ci=count_of(_value(group, "compute instance id")),
            mem_used_mib=count_of(_value(group, "fb memory usage", "used")),
            mem_total_mib=count_of(_value(group, "fb memory usage", "total")),
            sm=count_of(_value(group, "device attributes", "shared", "multiprocessor count")),
            ecc_uncorrected=count_of(
                next((text for path, text in group if "volatile" in path and "uncorrectable" in path[-1]), None)
            ),
        )


def _processes_of(entries: Sequence[Entry], gpu: int) -> Iterator[SmiProcess]:
    gi: int | None = None
    ci: int | None = None
    inside = [(path[1:], value) for path, value in entries if path[0] == "processes" and len(path) > 1]
    for number, (path, value) in enumerate(inside):
        if path == ("gpu instance id",):
            gi = count_of(value)
        elif path == ("compute instance id",):
            ci = count_of(value)
        elif path == ("process id",) and value.isdigit():
            own: list[Entry] = []
            for below, text in inside[number + 1 :]:
                if len(below) < 2:
                    break
                own.append((below[1:], text))
            yield SmiProcess(
                gpu=gpu,
                pid=int(value),
                type=_value(own, "type") or "",
                name=_value(own, "name") or "",
                mem_mib=count_of(_value(own, "used gpu memory")),
                gi=gi,
                ci=ci,
            )
