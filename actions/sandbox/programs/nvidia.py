"""`nvidia-smi` in a container, and the NVIDIA device models of EC2 instance types.

The layout is that of the driver that the node's device model comes with.

Source:
    Captured tables of `nvidia-smi` for A10G (g5, driver 535), A100 (driver 550) and H100 (driver 570); `nvidia-smi
    --help-query-gpu` of 535 for names and units of fields; AWS's list of accelerated instance types for the models and
    counts; NVIDIA's data sheets for power limits and clocks; of links `docs/facts/nvidia-smi.md#nvlink` and `nvlink_*`
    and `console_even` of two H100, in `tests/fixtures/h100x2`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from zlib import crc32

import msgspec
from msgspec.structs import replace

from actions.fleet.instance_types import SAGEMAKER, InstanceTable
from actions.sandbox.programs.program import ContainerView, GpuLoad, Load, Program, ProgramStep


class GpuModel(msgspec.Struct, frozen=True):
    """A GPU model, as its driver reports it."""

    name: str
    total_mib: int
    limit_watts: int
    idle_watts: float
    busy_watts: float
    """In training, at full load."""
    busy_celsius: int
    clock_mhz: int
    """The multiprocessors' highest."""
    dense_tflops: float
    """Peak of matrix products in bfloat16, without sparsity."""
    buses: tuple[str, ...]
    """PCI addresses of a node's devices, in order, without the domain."""
    driver: str = "570.133.20"
    cuda: str = "12.8"
    fan: str = "N/A"
    mig: str = "Disabled"
    middle_column: int = 24
    """Width of the middle column of the table: 22 up to driver 535."""
    nvlinks: int = 0
    """Links of each device to the switches that join all of them; 0 for devices that only PCIe joins."""

    def celsius(self, utilisation_percent: int) -> int:
        """Return the temperature at a load."""
        return 23 + round(utilisation_percent / 100 * (self.busy_celsius - 23))

    def power_watts(self, utilisation_percent: int) -> float:
        """Return the power draw at a load."""
        return self.idle_watts + utilisation_percent / 100 * (self.busy_watts - self.idle_watts)


A10G = GpuModel(
    name="NVIDIA A10G",
    total_mib=23028,
    limit_watts=300,
    idle_watts=9.2,
    busy_watts=117.2,
    busy_celsius=34,
    clock_mhz=1710,
    dense_tflops=70.0,
    buses=("00:1B.0", "00:1C.0", "00:1D.0", "00:1E.0", "00:16.0", "00:17.0", "00:18.0", "00:19.0"),
    driver="535.230.02",
    cuda="12.2",
    fan="0%",
    mig="N/A",
    middle_column=22,
)
_P4_BUSES = ("10:1C.0", "10:1D.0", "20:1C.0", "20:1D.0", "90:1C.0", "90:1D.0", "A0:1C.0", "A0:1D.0")
_P5_BUSES = ("53:00.0", "64:00.0", "75:00.0", "86:00.0", "97:00.0", "A8:00.0", "B9:00.0", "CA:00.0")
_A100_40 = GpuModel("NVIDIA A100-SXM4-40GB", 40960, 400, 52.0, 371.0, 58, 1410, 312.0, _P4_BUSES, nvlinks=12)
_A100_80 = GpuModel("NVIDIA A100-SXM4-80GB", 81920, 400, 61.0, 382.0, 61, 1410, 312.0, _P4_BUSES, nvlinks=12)
_H100 = GpuModel("NVIDIA H100 80GB HBM3", 81559, 700, 69.0, 641.0, 57, 1980, 989.0, _P5_BUSES, nvlinks=18)
_H200 = GpuModel("NVIDIA H200", 143771, 700, 76.0, 652.0, 56, 1980, 989.0, _P5_BUSES, nvlinks=18)
_BY_FAMILY = {"g5": A10G, "p4d": _A100_40, "p4de": _A100_80, "p5": _H100, "p5e": _H200, "p5en": _H200}
_LIMIT_WATTS = {"T4": 70, "L4": 72, "L40S": 350, "B200": 1000}
_BUSY_SHARE = 0.9


@cache
def model_of(instance_type: str) -> GpuModel:
    """The devices of an instance type.

    Those that were not captured have name and memory of the table of instances, limits of NVIDIA's data sheets, and the
    rest of an A10G, or in P families of an H100. A type that is not in the table has A10G.
    """
    name = instance_type.removeprefix(SAGEMAKER)
    family = name.partition(".")[0]
    kind = InstanceTable.load().find(name)
    if family in _BY_FAMILY or kind is None or not kind.gpus:
        return _BY_FAMILY.get(family, A10G)
    base = _H100 if family.startswith("p") else A10G
    limit = _LIMIT_WATTS.get(kind.accelerator_model, base.limit_watts)
    return replace(
        base,
        name=f"NVIDIA {kind.accelerator_model}",
        total_mib=round((kind.accelerator_memory_gib or 0) * 1024) or base.total_mib,
        limit_watts=limit,
        busy_watts=limit * _BUSY_SHARE,
        nvlinks=base.nvlinks if family.startswith("p") else 0,
    )


_FIRST, _THIRD = 41, 22
"""Widths of the outer columns, the same in both layouts."""


class NvidiaDevice(msgspec.Struct, frozen=True):
    """An accelerator at one moment, as a container sees it."""

    index: int
    """In the container: it sees its own devices only, counted from 0."""
    node_index: int
    utilisation_percent: int
    memory_mib: int
    temperature: int
    power_watts: float
    model: GpuModel = A10G

    @property
    def uuid(self) -> str:
        """As `nvidia-smi -L` shows it: the same for the same device of a node."""
        generator = random.Random(self.node_index)
        digits = "".join(generator.choice("0123456789abcdef") for _ in range(32))
        return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    @property
    def clock_mhz(self) -> int:
        """The clock of its multiprocessors: a little below the top under load."""
        return self.model.clock_mhz - 15 if self.utilisation_percent else 210

    @property
    def held_down(self) -> str:
        """The mask of the reasons for its clock: idleness, or none."""
        return f"0x{0 if self.utilisation_percent else 1:016x}"

    @property
    def bus_id(self) -> str:
        """The address on its node's bus."""
        known = self.model.buses
        return f"00000000:{known[self.node_index % len(known)]}"


def read(container: ContainerView, load: Load, moment: float) -> list[NvidiaDevice]:
    """Return the state of the container's devices at `moment` (seconds since the epoch) under `load`."""
    load = load if isinstance(load, GpuLoad) else GpuLoad()
    model, readings = model_of(container.instance_type), []
    for index, node_index in enumerate(container.gpus):
        jitter = random.Random(int(moment) * 31 + node_index + crc32(container.pod.encode()))
        busy = load.utilisation_percent
        shown = min(100, max(0, busy + jitter.randint(-3, 3))) if busy else 0
        readings.append(
            NvidiaDevice(
                index=index,
                node_index=node_index,
                utilisation_percent=shown,
                memory_mib=load.memory_mib,
                temperature=model.celsius(shown) + jitter.randint(0, 1),
                power_watts=round(model.power_watts(shown) + jitter.random() * 3, 2),
                model=model,
            )
        )
    return readings


def run_nvidia_smi(
    container: ContainerView, load: Callable[[], Load], now: Callable[[], float], argv: Sequence[str]
) -> Program:
    """Run `nvidia-smi` with its arguments.

    Args:
        container: The one with the devices.
        load: Returns their present load.
        now: Seconds since the epoch.
        argv: The arguments after the program's name.
    """
    if not container.gpus:
        yield ProgramStep(0.0, "No devices were found\n")
        return 6
    text, code = _report(argv, read(container, load(), now()), now())
    yield ProgramStep(0.0, text)
    return code


def _report(options: Sequence[str], readings: list[NvidiaDevice], moment: float) -> tuple[str, int]:
    query = next((option.partition("=")[2] for option in options if option.startswith("--query-gpu=")), None)
    if query is not None:
        form = next((option.partition("=")[2] for option in options if option.startswith("--format=")), "")
        return _csv(query.split(","), form.split(","), readings, moment)
    if any(option.startswith("--query-compute-apps=") for option in options):
        return "", 0
    if "-L" in options or "--list-gpus" in options:
        return "".join(f"GPU {one.index}: {one.model.name} (UUID: {one.uuid})\n" for one in readings), 0
    if options:
        return f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n{options[0]}\n", 1
    return table(readings, moment), 0


def table(readings: Sequence[NvidiaDevice], moment: float) -> str:
    """The table that `nvidia-smi` prints without arguments. Processes of other containers are not shown."""
    model = readings[0].model
    middle = model.middle_column
    rule = _rule("-", middle)
    full = f"+{'-' * (_FIRST + middle + _THIRD + 2)}+"
    driver = model.driver
    title = f" NVIDIA-SMI {driver}             Driver Version: {driver}"
    lines = [
        datetime.fromtimestamp(moment, UTC).strftime("%a %b %e %H:%M:%S %Y"),
        full,
        f"|{title}{' ' * (middle - 19)}CUDA Version: {model.cuda}     |",
        f"|{rule[1:]}",
        f"| GPU  Name                 Persistence-M | Bus-Id{'Disp.A':>{middle - 8}} | Volatile Uncorr. ECC |",
        f"| Fan  Temp   Perf          Pwr:Usage/Cap |{'Memory-Usage':>{middle - 1}} | GPU-Util  Compute M. |",
        f"|{'':{_FIRST}}|{'':{middle}}|{'MIG M.':>{_THIRD - 1}} |",
        f"|{_rule('=', middle)[1:-1]}|",
    ]
    for one in readings:
        lines += [*_rows(one), rule]
    inner = len(full) - 4
    lines += [
        " " * len(full),
        full,
        f"| {'Processes:':<{inner}} |",
        f"| {' GPU   GI   CI        PID   Type   Process name':<{inner - 11}} GPU Memory |",
        f"| {'       ID   ID':<{inner - 11}} Usage      |",
        f"|{'=' * (inner + 2)}|",
        full,
    ]
    return "\n".join(lines) + "\n"


def _rule(stroke: str, middle: int) -> str:
    return "+" + "+".join(stroke * width for width in (_FIRST, middle, _THIRD)) + "+"


def _rows(one: NvidiaDevice) -> tuple[str, str, str]:
    """The three lines of one device."""
    model, middle = one.model, one.model.middle_column
    extra = middle - 22  # the younger layout pads its limits by one digit more
    health = f" {model.fan:>3}  {one.temperature:3d}C    {'P0' if one.utilisation_percent else 'P8'}"
    power = f"{one.power_watts:.0f}W / {model.limit_watts:>{3 + extra // 2}}W "
    memory = f"{one.memory_mib}MiB / {model.total_mib:>{5 + extra // 2}}MiB"
    load = f"{one.utilisation_percent}%      Default"
    return (
        f"| {one.index:3d}  {model.name:<31}On  |{one.bus_id + ' Off':>{middle - 1}} |{'0':>{_THIRD - 1}} |",
        f"|{health}{power:>{_FIRST - len(health)}}|{memory:>{middle - 1}} |{load:>{_THIRD - 1}} |",
        f"|{'':{_FIRST}}|{'':{middle}}|{model.mig:>{_THIRD - 1}} |",
    )


_FIELDS: dict[str, tuple[str, str, Callable[[NvidiaDevice], str]]] = {
    "index": ("index", "", lambda one: str(one.index)),
    "name": ("name", "", lambda one: one.model.name),
    "uuid": ("uuid", "", lambda one: one.uuid),
    "gpu_uuid": ("uuid", "", lambda one: one.uuid),
    "pci.bus_id": ("pci.bus_id", "", lambda one: one.bus_id),
    "driver_version": ("driver_version", "", lambda one: one.model.driver),
    "pstate": ("pstate", "", lambda one: "P0" if one.utilisation_percent else "P8"),
    "fan.speed": ("fan.speed", "%", lambda one: "0"),
    "temperature.gpu": ("temperature.gpu", "", lambda one: str(one.temperature)),
    "power.draw": ("power.draw", "W", lambda one: f"{one.power_watts:.2f}"),
    "power.limit": ("power.limit", "W", lambda one: f"{one.model.limit_watts:.2f}"),
    "enforced.power.limit": ("enforced.power.limit", "W", lambda one: f"{one.model.limit_watts:.2f}"),
    "memory.used": ("memory.used", "MiB", lambda one: str(one.memory_mib)),
    "memory.free": ("memory.free", "MiB", lambda one: str(one.model.total_mib - 487 - one.memory_mib)),
    "memory.total": ("memory.total", "MiB", lambda one: str(one.model.total_mib)),
    "utilization.gpu": ("utilization.gpu", "%", lambda one: str(one.utilisation_percent)),
    "utilization.memory": ("utilization.memory", "%", lambda one: str(one.utilisation_percent // 3)),
    "clocks.sm": ("clocks.current.sm", "MHz", lambda one: str(one.clock_mhz)),
    "clocks.current.sm": ("clocks.current.sm", "MHz", lambda one: str(one.clock_mhz)),
    "clocks.max.sm": ("clocks.max.sm", "MHz", lambda one: str(one.model.clock_mhz)),
    "mig.mode.current": ("mig.mode.current", "", lambda one: "[N/A]" if one.model.mig == "N/A" else one.model.mig),
    "ecc.errors.uncorrected.volatile.total": ("ecc.errors.uncorrected.volatile.total", "", lambda one: "0"),
    "ecc.errors.corrected.volatile.total": ("ecc.errors.corrected.volatile.total", "", lambda one: "0"),
    "clocks_throttle_reasons.active": ("clocks_event_reasons.active", "", lambda one: one.held_down),
    "clocks_event_reasons.active": ("clocks_event_reasons.active", "", lambda one: one.held_down),
}
"""Field → name in the header, unit, value. `timestamp` and `count` belong to the whole table and are made apart."""


def _csv(fields: list[str], form: list[str], readings: list[NvidiaDevice], moment: float) -> tuple[str, int]:
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


def _cell(field: str, reading: NvidiaDevice, *, has_units: bool) -> str:
    _name, unit, value = _FIELDS[field]
    return f"{value(reading)} {unit}" if unit and has_units else value(reading)


_KIB_A_SECOND = 1_600_000
"""Of a link in one direction, under full load."""
_ERRORS = ("Replay", "Recovery", "CRC")
_USAGE = "Invalid combination of input arguments. Please run 'nvidia-smi nvlink -h' for help.\n"


def run_nvlink(container: ContainerView, busy_seconds: float, argv: Sequence[str]) -> Program:
    """Run `nvidia-smi nvlink` with its arguments: `-gt d` or `-e`. Of GPUs without links it prints nothing.

    The payload under full load is that of products of matrices and all-reduces.

    Args:
        container: The one with the devices.
        busy_seconds: For how long they have been busy.
        argv: The arguments after `nvlink`.
    """
    devices = [one for one in read(container, GpuLoad(), 0.0) if one.model.nvlinks]
    payload = round(busy_seconds * _KIB_A_SECOND) if len(devices) > 1 else 0
    match list(argv):
        case ["-gt", "d"]:
            lines = [line for one in devices for line in _counters(one, payload)]
        case ["-e"]:
            lines = [line for one in devices for line in _errors(one)]
        case _:
            yield ProgramStep(0.0, _USAGE)
            return 1
    yield ProgramStep(0.0, "".join(f"{line}\n" for line in lines))
    return 0


def _head(one: NvidiaDevice) -> str:
    return f"GPU {one.index}: {one.model.name} (UUID: {one.uuid})"


def _counters(one: NvidiaDevice, kib: int) -> Iterator[str]:
    yield _head(one)
    for link in range(one.model.nvlinks):
        for way in ("Tx", "Rx"):
            yield f"\t Link {link}: Data {way}: {kib} KiB"


def _errors(one: NvidiaDevice) -> Iterator[str]:
    yield _head(one)
    for link in range(one.model.nvlinks):
        yield from (f"\t Link {link}: {kind} Errors: 0" for kind in _ERRORS)
        yield ""
