"""Accelerators of all workers as rows of a table, with the rank that slows down the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from tui.feeds.accelerators import WorkerReading
from tui.present.cells import Cells, CellValue, Span, Tone, meter
from tui.present.text import short_names

if TYPE_CHECKING:
    from actions.telemetry.tools.devices import Device

_ABSENT = Span("-", Tone.MUTED)
_GIB = 1 << 30
_IDLE_PERCENT = 5
_LAGS_BY_PERCENT = 20
_HOT_CELSIUS = 85
_STARVED = 0.8
"""Share of the median power below which a busy device is waiting or throttled."""
_NUMBER = re.compile(r"(\d+)")


class DeviceRow(msgspec.Struct, frozen=True):
    """An accelerator of a worker, or a worker that did not answer.

    Args:
        pod: `namespace/name` of the worker.
        worker: Name, shortened to the part that differs between workers.
        device: Its reading; `None` without an answer.
        rank: Place among all accelerators of all workers; -1 without an answer.
        noun: Kind of device: `GPU`, `Neuron device`.
        error: Reason why there is no answer.
    """

    pod: str
    worker: str
    device: Device | None
    rank: int = -1
    noun: str = "GPU"
    error: str = ""

    @property
    def key(self) -> str:
        """The key of the row; sorts by rank."""
        return f"{_sortable(self.pod)}#{self.device.index:03}" if self.device else _sortable(self.pod)


def device_rows(readings: Iterable[WorkerReading]) -> list[DeviceRow]:
    """Return one row for each accelerator, and one for each worker without an answer."""
    workers = sorted(readings, key=lambda worker: _sortable(worker.pod.name))
    names = short_names([worker.pod.name for worker in workers])
    rows: list[DeviceRow] = []
    for worker in workers:
        pod, short, reading = worker.pod.key, names[worker.pod.name], worker.reading
        first = sum(row.device is not None for row in rows)
        rows += [
            DeviceRow(pod, short, device, first + place, reading.noun) for place, device in enumerate(reading.devices)
        ]
        if not reading.devices:
            rows.append(DeviceRow(pod, short, None, error=reading.error or "No accelerator."))
    return rows


def search_text(row: DeviceRow) -> str:
    """Return the text that a filter matches."""
    return f"{row.pod} {row.device.model if row.device else row.error}"


def name_cell(row: DeviceRow) -> CellValue:
    """The model of a GPU, the load of each core of a Neuron device, or the reason for no answer."""
    if row.device is None:
        return Span(row.error, Tone.WARN)
    cores = " ".join(f"{load:.0f}%" for load in row.device.core_pcts)
    return f"{row.device.model}, cores {cores}" if cores else row.device.model


def index_cell(row: DeviceRow) -> CellValue:
    """The device's number in its worker."""
    return row.device.label if row.device else _ABSENT


def load_cell(row: DeviceRow) -> CellValue:
    """The share of time in which the device worked."""
    load = row.device.load_pct if row.device else None
    if load is None:
        return _ABSENT
    text = Span(f" {load:>3.0f}%", Tone.WARN if load < _IDLE_PERCENT else Tone.PLAIN)
    return (*meter(load, 100, cells=8), text)


def memory_cell(row: DeviceRow) -> CellValue:
    """Used and total memory, in GiB."""
    device = row.device
    if device is None or device.mem_used_bytes is None or not device.mem_total_bytes:
        return _ABSENT
    text = f" {device.mem_used_bytes / _GIB:.1f}/{device.mem_total_bytes / _GIB:.0f}Gi"
    return (*meter(device.mem_used_bytes, device.mem_total_bytes), Span(text))


def power_cell(row: DeviceRow) -> CellValue:
    """Power drawn and power cap, in watts."""
    device = row.device
    if device is None or device.power_w is None:
        return _ABSENT
    return f"{device.power_w:.0f}/{device.power_cap_w:.0f}W" if device.power_cap_w else f"{device.power_w:.0f}W"


def temperature_cell(row: DeviceRow) -> CellValue:
    """Degrees Celsius."""
    degrees = row.device.temp_c if row.device else None
    if degrees is None:
        return _ABSENT
    return Span(f"{degrees}°C!", Tone.BAD) if degrees >= _HOT_CELSIUS else f"{degrees}°C"


def load_key(row: DeviceRow) -> float:
    """The sort key of the load: workers without an answer come first, as they need attention."""
    return -1 if row.device is None or row.device.load_pct is None else row.device.load_pct


def summary(rows: Sequence[DeviceRow]) -> list[Cells]:
    """Return two lines: the mean load, and the slowest device."""
    known = [row for row in rows if row.device is not None]
    loads = [row.device.load_pct for row in known if row.device is not None and row.device.load_pct is not None]
    if not rows:
        return []
    if not loads:
        return [(Span("Waiting for the first answer of a worker.", Tone.MUTED),)]
    mean = sum(loads) / len(loads)
    silent = len(rows) - len(known)
    head: list[Span] = [Span(f"{len(known)} {known[0].noun}s, {mean:.0f}% busy on average", Tone.STRONG)]
    if silent:
        head.append(Span(f"   ✗ {silent} worker{'s' * (silent > 1)} did not answer", Tone.BAD))
    return [tuple(head), _laggard(known, mean)]


def _laggard(rows: Sequence[DeviceRow], mean: float) -> Cells:
    """Name the device that slows down the others.

    A rank that waits for another one is as busy as all. So low power or a high temperature is better evidence than a
    load that is a little lower for a moment.
    """
    slowest = min(rows, key=load_key)
    load = load_key(slowest)
    suspect = _suspect([row for row in rows if load_key(row) > mean - _LAGS_BY_PERCENT])
    if suspect:
        return (Span(f"▲ {suspect}", Tone.WARN),)
    if mean - load >= _LAGS_BY_PERCENT:
        return (
            Span(f"▲ slowest: {_place(slowest)} at {load:.0f}%, {mean - load:.0f} points below the mean", Tone.WARN),
        )
    return (Span(f"slowest: {_place(slowest)} at {load:.0f}%, no lag", Tone.MUTED),)


def _suspect(busy: Sequence[DeviceRow]) -> str:
    """Describe the busy device that draws far less power than the others, or is hot; empty if there is none."""
    devices = [
        (row, row.device) for row in busy if row.device is not None and (row.device.load_pct or 0) >= _IDLE_PERCENT
    ]
    powers = [device.power_w for _, device in devices if device.power_w is not None]
    usual = median(powers) if len(powers) > 1 else 0.0
    for row, device in sorted(devices, key=lambda one: one[1].power_w or 0.0):
        signs = []
        if device.power_w is not None and device.power_w < _STARVED * usual:
            signs.append(f"draws {device.power_w:.0f} W (others: {usual:.0f} W)")
        if device.temp_c is not None and device.temp_c >= _HOT_CELSIUS:
            signs.append(f"is at {device.temp_c} °C")
        if signs:
            return f"{_place(row)} is as busy as the others, but {' and '.join(signs)}"
    return ""


def _place(row: DeviceRow) -> str:
    device = row.device
    label = device.label if device is not None else "?"
    if row.noun == "GPU":
        return f"rank {row.rank}, {row.worker} GPU {label}"
    return f"{row.worker} {label}"


def _sortable(name: str) -> str:
    """Pad the numbers of a name, so that `worker-2` sorts before `worker-10`."""
    return _NUMBER.sub(lambda match: match[1].zfill(8), name)
