"""GPUs of all workers as rows of a table, the slowest rank named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actions.telemetry.smi_reading import Gpu
from tui.live.accelerator_feed import WorkerReading
from tui.present.cells import Cells, CellValue, Span, Tone
from tui.present.meters import meter
from tui.present.names import short_names

_ABSENT = Span("-", Tone.MUTED)
_IDLE_PERCENT = 5
_LAGS_BY_PERCENT = 20
_HOT_CELSIUS = 85


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of one worker, or a worker that gave no answer.

    Args:
        pod: `namespace/name` of the worker.
        worker: Its name, shortened to what tells it apart.
        gpu: `None` if there was no answer.
        error: Why there was none.
    """

    pod: str
    worker: str
    gpu: Gpu | None
    error: str = ""

    @property
    def key(self) -> str:
        """Identity of the row."""
        return f"{self.pod}#{self.gpu.index:03}" if self.gpu else self.pod


def gpu_rows(readings: Iterable[WorkerReading]) -> list[GpuRow]:
    """One row for each GPU, and one for each worker without an answer."""
    workers = list(readings)
    names = short_names([worker.pod.name for worker in workers])
    rows: list[GpuRow] = []
    for worker in workers:
        pod, short = worker.pod.key, names[worker.pod.name]
        if worker.reading.gpus:
            rows += [GpuRow(pod, short, gpu) for gpu in worker.reading.gpus]
        else:
            rows.append(GpuRow(pod, short, None, worker.reading.error or "No GPU."))
    return rows


def search_text(row: GpuRow) -> str:
    """What a filter looks at."""
    return f"{row.pod} {row.gpu.name if row.gpu else row.error}"


def name_cell(row: GpuRow) -> CellValue:
    """Model of the GPU, or why there is no answer."""
    return row.gpu.name if row.gpu else Span(row.error, Tone.WARN)


def index_cell(row: GpuRow) -> CellValue:
    """Its number in the worker."""
    return str(row.gpu.index) if row.gpu else _ABSENT


def load_cell(row: GpuRow) -> CellValue:
    """Share of time in which a kernel ran."""
    load = row.gpu.util_pct if row.gpu else None
    if load is None:
        return _ABSENT
    text = Span(f" {load:>3}%", Tone.WARN if load < _IDLE_PERCENT else Tone.PLAIN)
    return (*meter(load, 100, cells=8), text)


def memory_cell(row: GpuRow) -> CellValue:
    """Memory used of all, in GiB."""
    gpu = row.gpu
    if gpu is None or gpu.mem_used_mib is None or not gpu.mem_total_mib:
        return _ABSENT
    text = f" {gpu.mem_used_mib / 1024:.1f}/{gpu.mem_total_mib / 1024:.0f}Gi"
    return (*meter(gpu.mem_used_mib, gpu.mem_total_mib), Span(text))


def power_cell(row: GpuRow) -> CellValue:
    """Watts of the cap."""
    gpu = row.gpu
    if gpu is None or gpu.power_w is None:
        return _ABSENT
    return f"{gpu.power_w:.0f}/{gpu.power_cap_w:.0f}W" if gpu.power_cap_w else f"{gpu.power_w:.0f}W"


def temperature_cell(row: GpuRow) -> CellValue:
    """Degrees Celsius."""
    degrees = row.gpu.temp_c if row.gpu else None
    if degrees is None:
        return _ABSENT
    return Span(f"{degrees}°C!", Tone.BAD) if degrees >= _HOT_CELSIUS else f"{degrees}°C"


def load_key(row: GpuRow) -> int:
    """For sorting: workers without an answer first, because somebody has to look."""
    return -1 if row.gpu is None or row.gpu.util_pct is None else row.gpu.util_pct


def summary(rows: Sequence[GpuRow]) -> list[Cells]:
    """Two lines: mean load and memory of all, and who lags behind."""
    gpus = [row for row in rows if row.gpu is not None]
    loads = [row.gpu.util_pct for row in gpus if row.gpu is not None and row.gpu.util_pct is not None]
    if not rows:
        return []
    if not loads:
        return [(Span("No worker has answered yet.", Tone.MUTED),)]
    mean = sum(loads) / len(loads)
    silent = len(rows) - len(gpus)
    head: list[Span] = [Span(f"{len(gpus)} GPUs, {mean:.0f}% busy on average", Tone.STRONG)]
    if silent:
        head.append(Span(f"   ✗ {silent} workers gave no answer", Tone.BAD))
    return [tuple(head), _laggard(gpus, mean)]


def _laggard(gpus: Sequence[GpuRow], mean: float) -> Cells:
    slowest = min(gpus, key=load_key)
    load = load_key(slowest)
    where = f"{slowest.worker} GPU {slowest.gpu.index if slowest.gpu else '?'}"
    if mean - load >= _LAGS_BY_PERCENT:
        return (Span(f"▲ slowest: {where} at {load}%, {mean - load:.0f} points below the mean", Tone.WARN),)
    return (Span(f"slowest: {where} at {load}%; no rank lags behind", Tone.MUTED),)
