"""The output of nvidia-smi, in any form. `None` is what it does not know: `N/A`, `ERR!`, a lost GPU."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

import msgspec

from actions.base.numbers import in_bounds

_AMOUNT = re.compile(r"\+?\d{1,12}(?:\.\d{1,12})?")


class Gpu(msgspec.Struct, frozen=True, gc=False):
    """A GPU at one moment."""

    index: int
    name: str
    """May end in `...`: older tables cut it."""
    uuid: str = ""
    bus_id: str = ""
    persistence: str = ""
    """`On`, `Off`; the driver model on Windows."""
    fan_pct: int | None = None
    temp_c: int | None = None
    perf: str | None = None
    """`P0` (fastest) to `P12`."""
    power_w: float | None = None
    """May exceed the cap for a moment."""
    power_cap_w: float | None = None
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None
    util_pct: int | None = None
    """Share of the last sample period in which a kernel ran. 100 on a hung GPU too."""
    ecc_uncorrected: int | None = None
    """Volatile count; `None` with ECC off or with MIG."""
    ecc_raw: str = ""
    """The cell of that count in a table: a number, `Off`, `On` (with MIG), `N/A`, `ERR!`."""
    mig_mode: str | None = None
    """`Enabled`, `Disabled`, with a `*` while a change waits for a reset; `N/A` on a GPU that has no MIG."""
    compute_mode: str = ""
    clock_mhz: int | None = None
    """Of the multiprocessors."""
    clock_max_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    """The reasons why the clock is held down; see `throttle_reasons`."""
    ecc_corrected: int | None = None
    """Volatile count."""
    errors: tuple[str, ...] = ()
    """Cells with `ERR!`: `fan`, `temp`, `perf`, `power`, `cap`, `util`, `ecc`, `mig`; in other forms than the
    table, the names of their fields."""


class MigDevice(msgspec.Struct, frozen=True, gc=False):
    """A MIG device. Compute instances of one GPU instance share one memory figure: never add them."""

    gpu: int
    device: int
    gi: int | None = None
    ci: int | None = None
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None
    sm: int | None = None
    """Streaming multiprocessors."""
    ecc_uncorrected: int | None = None
    profile: str = ""
    """`1g.10gb`, if the listing has it."""
    uuid: str = ""


class SmiProcess(msgspec.Struct, frozen=True, gc=False):
    """A process on a GPU. In a container the list is often empty, or shows PIDs of the host."""

    gpu: int | None
    """Index of the GPU; `None` where a query named it otherwise, or not at all."""
    pid: int
    type: str = ""
    """`C` compute, `G` graphics, `C+G`, `M` MPS."""
    name: str = ""
    mem_mib: int | None = None
    gi: int | None = None
    ci: int | None = None


class SmiRows(msgspec.Struct, frozen=True, gc=False):
    """Rows as they were printed: of a query, of `dmon`, of `pmon`."""

    columns: tuple[str, ...]
    """As the header names them; empty where there was none."""
    units: tuple[str, ...] = ()
    """Units of the columns of `dmon` and `pmon`."""
    cells: tuple[tuple[str, ...], ...] = ()
    """`(n, columns)`, as printed."""
    is_wider: bool = False
    """True if they have figures for which a `Gpu` has no field."""


class SmiReading(msgspec.Struct, frozen=True, gc=False):
    """The output of one call of nvidia-smi."""

    gpus: tuple[Gpu, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()
    processes: tuple[SmiProcess, ...] = ()
    smi_version: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    warnings: tuple[str, ...] = ()
    """Lines beside a good answer."""
    error: str = ""
    """The tool's own words where it gave no answer. That is a reading too."""
    form: str = ""
    """`table`, `xml`, `q`, `L`, `mig` or `nvlink`; empty for other rows and errors."""
    rows: SmiRows | None = None
    """The rows of an answer that is a list of them, as they stand."""


_FAILURES = ("ERR!", "Unknown Error", "GPU is lost", "GPU requires reset")


def is_failure(text: str | None) -> bool:
    """Return whether a value stands for a GPU that did not answer: a query puts the same words in brackets."""
    return (text or "").strip(" []") in _FAILURES


def amount_of(text: str | None) -> float | None:
    """Return a cell's first number: `690W`, `35543MiB`, `100 %`, `598.25 W`; `None` for `N/A`, `ERR!`, `[…]`.

    Also `None` for a negative one, which nothing that a GPU reports can be.
    """
    match = _AMOUNT.match(text.strip()) if text else None
    return in_bounds(float(match[0])) if match else None


def count_of(text: str | None) -> int | None:
    """Like `amount_of`, for whole numbers."""
    amount = amount_of(text)
    return None if amount is None else round(amount)


def word_of(text: str | None) -> str | None:
    """Return the cell, or `None` if it stands for nothing: `N/A`, `ERR!`, `None`, `[…]`."""
    word = text.strip() if text else ""
    return None if not word or word in ("N/A", "ERR!", "None") or word.startswith("[") else word


def numbers_of(minor: Sequence[str | None], attached: int | None) -> list[int]:
    """Return the numbers of the GPUs of a listing: their places, or, where `-i` left some out, their minor numbers."""
    known = [count_of(one) for one in minor]
    if attached is None or len(minor) >= attached or None in known:
        return list(range(len(minor)))
    return [one for one in known if one is not None]


_THROTTLE = (
    (0x8, "hw_slowdown", "hardware slowdown"),
    (0x40, "hw_thermal_slowdown", "hot"),
    (0x80, "hw_power_brake_slowdown", "power brake"),
    (0x20, "sw_thermal_slowdown", "hot"),
    (0x4, "sw_power_cap", "power cap"),
    (0x10, "sync_boost", "sync boost"),
)
"""Bit of the mask, name of the element in XML, short words. Left out are idleness (1) and clocks that were chosen
(2, 0x100): nothing is wrong there. A power cap is usual under full load.

Source: NVML, `nvmlClocksThrottleReasons`; the elements in `tests/fixtures/corpus/nvidia_smi/xml_h200_load.xml`.
"""


def throttle_reasons(cell: str | None) -> tuple[str, ...]:
    """Return the reasons in a mask such as `0x0000000000000044`; none of `[N/A]` or text."""
    text = (cell or "").strip()
    try:
        mask = int(text, 16) if text.startswith("0x") else 0
    except ValueError:
        return ()
    return _without_the_general(tuple(words for bit, _, words in _THROTTLE if mask & bit))


def throttle_reasons_named(active: Container[str]) -> tuple[str, ...]:
    """Return the reasons of the elements that are active."""
    return _without_the_general(tuple(words for _, name, words in _THROTTLE if name in active))


def _without_the_general(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out a hardware slowdown whose kind is there, too, and repetitions."""
    kinds = tuple(dict.fromkeys(reasons))
    if "hardware slowdown" in kinds and {"hot", "power brake"} & set(kinds):
        return tuple(kind for kind in kinds if kind != "hardware slowdown")
    return kinds
