"""The screen of neuron-top, as somebody copied it.

The program has no batch mode, so a live panel reads neuron-monitor. This is for screens in saved logs.

Source: AWS Neuron SDK guide, neuron-top; `docs/facts/neuron.md#neuron-top`.
"""

from __future__ import annotations

import re

import msgspec

from actions.telemetry.lines import strip_controls

_TITLE = re.compile(r"neuron-top\b.{0,80}\b(?:running on|\(\w{1,8}\.\w{1,16}\))|NeuronCore(?: v\d\w?)? Utilization")
_AVERAGE = re.compile(r"Utilization \(Avg:\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\)")
_DEVICE = re.compile(r"^\s{0,8}ND(\d{1,3})\s")
_PERCENT = re.compile(r"\[\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\]")
_VCPU = re.compile(
    r"(System|Runtime) vCPU Usage.{0,400}?\[\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%,\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\]"
)
_MEMORY = re.compile(r"^\s{0,8}(Host|Device) Used Memory\s{1,24}Total:\s{0,4}(\S{1,16})")
_PARTS = {
    name: re.compile(rf"{label}:\s{{0,4}}(\S{{1,16}})")
    for name, label in (
        ("tensors", "Tensors"),
        ("constants", "Constants"),
        ("model_code", "Model Code"),
        ("runtime", "Runtime Memory"),
        ("scratchpad", "Model Scratchpad"),
    )
}
_TAB = re.compile(r"\[\d{1,3}\]:([\w.-]{1,40})")


class NeuronScreen(msgspec.Struct, frozen=True, gc=False):
    """What is on the screen."""

    avg_utilization: float | None = None
    """Percent."""
    devices: dict[int, tuple[float, ...]] = {}
    """Percent of each core, by device."""
    vcpu: dict[str, tuple[float, float]] = {}
    """Percent in user and in system mode, for `system` and for `runtime`."""
    host_used: str = ""
    """As shown: `888.4MB`."""
    device_used: str = ""
    device_parts: dict[str, str] = {}
    """What the devices' memory is used for, as shown: `tensors`, `constants`, `model_code`, `runtime`, `scratchpad`."""
    tabs: tuple[str, ...] = ()
    """One for all processes, one for each."""


def is_top(text: str) -> bool:
    """Whether `text` holds such a screen."""
    return _TITLE.search(text) is not None or _AVERAGE.search(text) is not None


def read_neuron_top(text: str) -> NeuronScreen:
    """Read a screen; parts that are not there stay empty."""
    average: float | None = None
    devices: dict[int, tuple[float, ...]] = {}
    vcpu: dict[str, tuple[float, float]] = {}
    memory = {"Host": "", "Device": ""}
    parts: dict[str, str] = {}
    tabs: tuple[str, ...] = ()
    for line in map(strip_controls, text.splitlines()):
        if found := _AVERAGE.search(line):
            average = float(found[1])
        elif device := _DEVICE.match(line):
            devices[int(device[1])] = tuple(map(float, _PERCENT.findall(line)))
        elif usage := _VCPU.search(line):
            vcpu[usage[1].lower()] = (float(usage[2]), float(usage[3]))
        elif total := _MEMORY.match(line):
            memory[total[1]] = total[2]
            if total[1] == "Device":
                parts = {name: found[1] for name, pattern in _PARTS.items() if (found := pattern.search(line))}
        elif line.lstrip().startswith("Neuron Apps"):
            tabs = tuple(_TAB.findall(line))
    return NeuronScreen(average, devices, vcpu, memory["Host"], memory["Device"], parts, tabs)
