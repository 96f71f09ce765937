"""`nvidia-smi` on a g5 node: driver 535, A10G.

Source:
    Captured table of the BioNeMo guide (driver 535.230.02, CUDA 12.2); `nvidia-smi --help-query-gpu` of the same
    driver for names and units of fields.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from actions.sandbox.workloads.program import Container, GpuLoad, Load, Program, Step

_DRIVER = "535.230.02"
_CUDA = "12.2"
_NAME = "NVIDIA A10G"
_TOTAL_MIB = 23028
_LIMIT_WATTS = 300
_TWO_COLUMN_RULE = "+-----------------------------------------+----------------------+----------------------+"
_FULL_RULE = "+---------------------------------------------------------------------------------------+"


@dataclass(frozen=True, slots=True)
class Reading:
    """One accelerator at one moment, as a container sees it."""

    index: int
    """In the container: it sees its own devices only, counted from 0."""
    node_index: int
    utilisation_percent: int
    memory_mib: int
    temperature: int
    power_watts: float

    @property
    def uuid(self) -> str:
        """As `nvidia-smi -L` shows it: the same for the same device of a node."""
        generator = random.Random(self.node_index)
        digits = "".join(generator.choice("0123456789abcdef") for _ in range(32))
        return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    @property
    def bus_id(self) -> str:
        """A g5.12xlarge has its four devices at 1B to 1E."""
        return f"00000000:00:{0x1B + self.node_index:02X}.0"


def read(container: Container, load: Load, moment: float) -> list[Reading]:
    """What the container's devices report at `moment` (seconds since the epoch) under `load`."""
    load = load if isinstance(load, GpuLoad) else GpuLoad()
    readings = []
    for index, node_index in enumerate(container.gpus):
        jitter = random.Random(int(moment) * 31 + node_index)
        busy = load.utilisation_percent
        shown = min(100, max(0, busy + jitter.randint(-3, 3))) if busy else 0
        readings.append(
            Reading(
                index=index,
                node_index=node_index,
                utilisation_percent=shown,
                memory_mib=load.memory_mib,
                temperature=23 + shown // 9 + jitter.randint(0, 1),
                power_watts=round(9.2 + shown * 1.08 + jitter.random() * 3, 2),
            )
        )
    return readings


def run(container: Container, load: Callable[[], Load], now: Callable[[], float], argv: Sequence[str]) -> Program:
    """`nvidia-smi` with its arguments; `-l N` repeats until somebody ends it.

    Args:
        container: Whose devices.
        load: How busy they are at the moment of asking.
        now: Seconds since the epoch.
        argv: The arguments after the program's name.
    """
    if not container.gpus:
        yield Step(0.0, "No devices were found\n")
        return 6
    options = list(argv)
    period = _take_period(options)
    while True:
        text, code = _report(options, read(container, load(), now()), now())
        yield Step(0.0, text)
        if period is None or code:
            return code
        yield Step(period)


def _report(options: list[str], readings: list[Reading], moment: float) -> tuple[str, int]:
    query = next((option.partition("=")[2] for option in options if option.startswith("--query-gpu=")), None)
    if query is not None:
        form = next((option.partition("=")[2] for option in options if option.startswith("--format=")), "")
        return _csv(query.split(","), form.split(","), readings, moment)
    if any(option.startswith("--query-compute-apps=") for option in options):
        return "", 0
    if "-L" in options or "--list-gpus" in options:
        return "".join(f"GPU {one.index}: {_NAME} (UUID: {one.uuid})\n" for one in readings), 0
    if options:
        return f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n{options[0]}\n", 1
    return table(readings, moment), 0


def table(readings: Sequence[Reading], moment: float) -> str:
    """The table that `nvidia-smi` prints without arguments. Processes of other containers are not shown."""
    date = datetime.fromtimestamp(moment, UTC).strftime("%a %b %e %H:%M:%S %Y")
    lines = [
        date,
        _FULL_RULE,
        f"| NVIDIA-SMI {_DRIVER}             Driver Version: {_DRIVER}   CUDA Version: {_CUDA}     |",
        "|-----------------------------------------+----------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                      |               MIG M. |",
        "|=========================================+======================+======================|",
    ]
    for one in readings:
        state = "P0" if one.utilisation_percent else "P8"
        memory = f"{one.memory_mib}MiB / {_TOTAL_MIB}MiB"
        lines += [
            f"| {one.index:3d}  {_NAME:<25}      On  | {one.bus_id} Off |                    0 |"[: len(_FULL_RULE)],
            f"|  0%  {one.temperature:3d}C    {state}            {one.power_watts:4.0f}W / {_LIMIT_WATTS}W "
            f"| {memory:>20} | {one.utilisation_percent:6d}%      Default |",
            "|                                         |                      |                  N/A |",
            _TWO_COLUMN_RULE,
        ]
    lines += [
        " " * len(_FULL_RULE),
        _FULL_RULE,
        f"| {'Processes:':<85} |",
        f"| {' GPU   GI   CI        PID   Type   Process name                            GPU Memory':<85} |",
        f"| {'       ID   ID                                                             Usage':<85} |",
        f"|{'=' * 87}|",
        _FULL_RULE,
    ]
    return "\n".join(lines) + "\n"


_FIELDS: dict[str, tuple[str, str, Callable[[Reading], str]]] = {
    "index": ("index", "", lambda one: str(one.index)),
    "name": ("name", "", lambda one: _NAME),
    "uuid": ("uuid", "", lambda one: one.uuid),
    "gpu_uuid": ("uuid", "", lambda one: one.uuid),
    "pci.bus_id": ("pci.bus_id", "", lambda one: one.bus_id),
    "driver_version": ("driver_version", "", lambda one: _DRIVER),
    "pstate": ("pstate", "", lambda one: "P0" if one.utilisation_percent else "P8"),
    "fan.speed": ("fan.speed", "%", lambda one: "0"),
    "temperature.gpu": ("temperature.gpu", "", lambda one: str(one.temperature)),
    "power.draw": ("power.draw", "W", lambda one: f"{one.power_watts:.2f}"),
    "power.limit": ("power.limit", "W", lambda one: f"{_LIMIT_WATTS:.2f}"),
    "enforced.power.limit": ("enforced.power.limit", "W", lambda one: f"{_LIMIT_WATTS:.2f}"),
    "memory.used": ("memory.used", "MiB", lambda one: str(one.memory_mib)),
    "memory.free": ("memory.free", "MiB", lambda one: str(_TOTAL_MIB - 487 - one.memory_mib)),
    "memory.total": ("memory.total", "MiB", lambda one: str(_TOTAL_MIB)),
    "utilization.gpu": ("utilization.gpu", "%", lambda one: str(one.utilisation_percent)),
    "utilization.memory": ("utilization.memory", "%", lambda one: str(one.utilisation_percent // 3)),
    "clocks.sm": ("clocks.current.sm", "MHz", lambda one: "1695" if one.utilisation_percent else "210"),
    "clocks.current.sm": ("clocks.current.sm", "MHz", lambda one: "1695" if one.utilisation_percent else "210"),
    "clocks.max.sm": ("clocks.max.sm", "MHz", lambda one: "1710"),
    "mig.mode.current": ("mig.mode.current", "", lambda one: "[N/A]"),
    "ecc.errors.uncorrected.volatile.total": ("ecc.errors.uncorrected.volatile.total", "", lambda one: "0"),
}
"""Field → name in the header, unit, value. `timestamp` and `count` are of the whole table and made apart."""


def _csv(fields: list[str], form: list[str], readings: list[Reading], moment: float) -> tuple[str, int]:
    asked = [field.strip() for field in fields]
    unknown = next((field for field in asked if field not in _FIELDS and field not in ("timestamp", "count")), None)
    if unknown is not None:
        return f'Field "{unknown}" is not a valid field to query.\n\n', 2
    date = datetime.fromtimestamp(moment, UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
    whole = {"timestamp": date, "count": str(len(readings))}
    has_units = "nounits" not in form
    rows = []
    if "noheader" not in form:
        rows.append(", ".join(_header(field, has_units=has_units) for field in asked))
    rows += [
        ", ".join(whole.get(field) or _cell(field, one, has_units=has_units) for field in asked) for one in readings
    ]
    return "\n".join(rows) + "\n", 0


def _header(field: str, *, has_units: bool) -> str:
    if field in ("timestamp", "count"):
        return field
    name, unit, _value = _FIELDS[field]
    return f"{name} [{unit}]" if unit and has_units else name


def _cell(field: str, reading: Reading, *, has_units: bool) -> str:
    _name, unit, value = _FIELDS[field]
    return f"{value(reading)} {unit}" if unit and has_units else value(reading)


def _take_period(options: list[str]) -> float | None:
    """Take `-l N`, `-lms N`, `--loop=N` or `--loop-ms=N` out of the options; seconds, or `None` if it is not asked."""
    for position, option in enumerate(options):
        for name, long, unit in (("-l", "--loop", 1.0), ("-lms", "--loop-ms", 0.001)):
            if option == name and position + 1 < len(options) and options[position + 1].isdigit():
                value = options[position + 1]
                del options[position : position + 2]
                return int(value) * unit
            if option.startswith(long + "=") and option.partition("=")[2].isdigit():
                del options[position]
                return int(option.partition("=")[2]) * unit
    return None
