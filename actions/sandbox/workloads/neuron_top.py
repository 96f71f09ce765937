"""`neuron-top` in a container: one screen after the other, until `q`.

Without a terminal it draws one screen and ends: what the real one does there is not known.

Source: AWS Neuron SDK guide, neuron-top; screens of a trn1.32xlarge, typed off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actions.sandbox.workloads.neuron_cores import (
    CORES_OF_A_DEVICE,
    PROCESS_ID,
    Core,
    cores_of,
    instance_of,
    load_of,
)
from actions.sandbox.workloads.program import Container, Load, Program, Step

_VERSION = "2.20.213.0"
_WIDTH = 160
_BAR = 56
_CLEAR = "\x1b[H\x1b[2J"
_PERIOD_SECONDS = 1.0
_FOOT = (
    "q: quit            arrows: move tree selection    enter: expand/collapse tree    "
    "x: expand/collapse entire tree    a/d: previous/next tab    f: FLOPS on/off    1-9: select tab"
)


def run_neuron_top(
    container: Container, load: Callable[[], Load], now: Callable[[], float], *, has_terminal: bool
) -> Program:
    """`neuron-top`; see the module.

    Args:
        container: Whose devices.
        load: How busy they are at the moment of asking.
        now: Seconds since the epoch.
        has_terminal: Whether it draws on a terminal, again and again.
    """
    if not container.neurons:
        yield Step(text="neuron-top: No neuron device found\n", is_error=True)
        return 1
    while has_terminal:
        yield Step(text=_CLEAR + screen(container, load(), now()))
        yield Step(_PERIOD_SECONDS)
    yield Step(text=screen(container, load(), now()))
    return 0


def screen(container: Container, load: Load, moment: float) -> str:
    """One screen."""
    cores, known, where = cores_of(container, load, moment), load_of(load), instance_of(container)
    average = sum(core.utilisation_percent for core in cores) / len(cores)
    is_busy = bool(known.utilisation_percent)
    used = sum(core.memory_bytes for core in cores)
    lines = [
        f"neuron-top {_VERSION} running on {where.id} ({where.type})".center(_WIDTH),
        "",
        f"NeuronCore v2 Utilization (Avg: {average:.2f}%)",
        " " * 6 + "".join(f"NC{part}".center(_BAR + 9) for part in range(CORES_OF_A_DEVICE)),
        *_grid(cores),
        "",
        "vCPU Utilization",
        "System vCPU Usage  " + _pair(*((12.41, 1.93) if is_busy else (0.61, 0.22))),
        "Runtime vCPU Usage " + _pair(*((9.32, 1.41) if is_busy else (0.0, 0.0))),
        "",
        "Memory Usage Summary",
        _memory("Host", 618_000_000 if known.command else 0, "DMA Buffers: 8.0MB"),
        _memory("Device", used, "Model Scratchpad: 0.0B"),
        "",
        "Memory Usage Details",
        f"{'Model ID':>104}{'Device Memory':>26}{'Host Memory':>24}",
        *_tree(cores),
        "",
        f"{'Neuron Apps':<36} >[1]:all<" + (f"{f'[2]:{PROCESS_ID}':>34}" if known.command else ""),
        _FOOT,
    ]
    return "\n".join(lines) + "\n"


def _grid(cores: Sequence[Core]) -> list[str]:
    rows: dict[int, list[str]] = {}
    for core in cores:
        bars = "|" * max(0, round(_BAR * core.utilisation_percent / 100))
        rows.setdefault(core.device, []).append(f"{bars}[{core.utilisation_percent:.2f}%]".ljust(_BAR + 9))
    return [f"{f'ND{device}':<6}{' '.join(cells)}".rstrip() for device, cells in rows.items()]


def _pair(user: float, system: float) -> str:
    bars = "|" * round(_BAR * (user + system) / 100)
    return f"{bars}[{user:5.2f}%, {system:.2f}%]"


def _memory(place: str, used: int, last: str) -> str:
    return (
        f"{f'{place} Used Memory':<24}{f'Total: {size(used)}':<26}{f'Tensors: {size(used * 7 // 10)}':<26}"
        f"{f'Constants: {size(used * 6 // 100)}':<26}{last}"
    )


def _tree(cores: Sequence[Core]) -> list[str]:
    lines = []
    for device in dict.fromkeys(core.device for core in cores):
        used = sum(core.memory_bytes for core in cores if core.device == device)
        lines.append(f"{f'[+] ND {device}':<117}{size(used):<26}{size(0)}")
    return lines


def size(count: int) -> str:
    """Bytes as the tool shows them: `888.4MB`, `20.2GB`, `0.0B`."""
    amount, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.1f}{units[0]}"
