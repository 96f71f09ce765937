"""GPUs by a Prometheus among the rows of accelerators: their history, and rows of those that were not asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.base.clock import time_of_day
from actions.fleet.facts import PodFacts
from actions.telemetry.tools.device_history import DeviceHistory
from tui.feeds.accelerators import WorkerReading
from tui.present.cells import Cells, Span, Tone

if TYPE_CHECKING:
    from actions.telemetry.tools.dcgm import KeptGpu
    from tui.feeds.gpu_history import GpuHistoryFeed
    from tui.present.accelerators import DeviceRow

_FRESH_SECONDS = 180.0
"""Age up to which a value is one of now: three scrapes of a minute."""
_GIB = 1 << 30


def fleet_readings(gpus: Iterable[KeptGpu], now: float) -> list[WorkerReading]:
    """Return the GPUs of all nodes as they were a moment ago, by pod, and by node those that no pod has."""
    from actions.telemetry.tools.devices import DeviceReading

    found: dict[tuple[str, str], list[KeptGpu]] = {}
    for gpu in gpus:
        if now - gpu.at <= _FRESH_SECONDS:
            found.setdefault((gpu.pod, gpu.node), []).append(gpu)
    readings = []
    for (key, node), held in found.items():
        namespace, _, name = key.partition("/")
        pod = PodFacts(uid="", namespace=namespace if key else node, name=name, node=node)
        readings.append(WorkerReading(pod, DeviceReading(tuple(gpu.device for gpu in held)), 0.0, held[0].at))
    return readings


def with_gpus(readings: Sequence[WorkerReading], gpus: Sequence[KeptGpu], now: float) -> list[WorkerReading]:
    """Return the workers, those without an answer of their own with the devices that the Prometheus has of them."""
    known = {reading.pod.key: reading for reading in fleet_readings(gpus, now)} if gpus else {}
    found = []
    for worker in readings:
        other = known.get(worker.pod.key)
        is_silent = bool(worker.reading.error) and other is not None
        found.append(WorkerReading(worker.pod, other.reading, worker.at) if is_silent and other else worker)
    return found


def histories_of(readings: Iterable[WorkerReading], gpus: Iterable[KeptGpu]) -> Mapping[tuple[str, str], DeviceHistory]:
    """Return histories by the row's place and the device's label.

    A container counts its devices from 0, an exporter those of the node: both in the order of their PCI addresses.
    """
    held: dict[str, list[KeptGpu]] = {}
    for gpu in gpus:
        held.setdefault(gpu.pod or gpu.node, []).append(gpu)
    found = {}
    for worker in readings:
        place = worker.pod.key if worker.pod.name else worker.pod.node
        own = held.get(place, [])
        newest = [gpu for gpu in own if gpu.at >= max(one.at for one in own) - _FRESH_SECONDS]
        if len(newest) == len(worker.reading.devices):
            for device, gpu in zip(worker.reading.devices, newest, strict=True):
                found[worker.pod.key, device.label] = gpu.history
    return found


def totals_of(rows: Iterable[DeviceRow]) -> Cells:
    """Return power and memory of all devices, as far as they are measured."""
    devices = [row.device for row in rows if row.device is not None]
    watts = sum(device.power_w or 0.0 for device in devices)
    used, total = (sum(getattr(one, name) or 0 for one in devices) for name in ("mem_used_bytes", "mem_total_bytes"))
    words = f" · {watts / 1000:.1f} kW" if watts else ""
    words += f" · {used / _GIB:,.0f}/{total / _GIB:,.0f}Gi" if total else ""
    return (Span(words),) if words else ()


def words_of(feed: GpuHistoryFeed) -> Cells:
    """Return the last XID error; where the history comes from, or why it is not known."""
    spans: list[Span] = []
    broken = [(gpu.xid, gpu) for gpu in feed.gpus if gpu.xid is not None]
    if broken:
        (at, number), gpu = max(broken, key=lambda one: one[0])
        where = f"{gpu.pod.partition('/')[2] or gpu.node} GPU {gpu.device.label}"
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        spans.append(Span(f"   ✗ XID {number}{f' at {time_of_day(at)} UTC' if at else ''}: {where}{more}", Tone.BAD))
    if feed.source:
        spans.append(Span(f" · history by {feed.source}", Tone.MUTED))
    elif feed.reason:
        spans.append(Span(f" · no history: {feed.reason}", Tone.MUTED))
    return tuple(spans)
