"""Accelerators of all workers as rows of a table, now and over time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import time_of_day
from actions.base.wording import duration
from actions.run.state.view import UNUSED_SECONDS
from actions.telemetry.tools.device_history import DeviceHistory, Extent, Quantity
from tui.feeds.accelerators import PastReadings, WorkerReading
from tui.present.cells import Cells, CellValue, Span, Tone, fit, meter, width_of
from tui.present.text import short_names

if TYPE_CHECKING:
    from actions.telemetry.tools.devices import Device

_ABSENT = Span("-", Tone.MUTED)
_LEAST_LOAD = 8
_LOAD_TEXT = len(" 100%")
_LEAST_MEMORY, _MEMORY_TEXT = 5, len(" 100.3/22Gi")
_GIB = 1 << 30
_KB, _MB, _GB = 1e3, 1e6, 1e9
_HOT_CELSIUS = 85
_LAGS_BY_PERCENT = 20
_STARVED = 0.8
"""Share of the power or clock of others below which a busy device is waiting or throttled."""
_IDLE_PERCENT, _FULL_PERCENT = 5, 95
_WAITS_BELOW = 0.25
"""Share of its power cap below which a fully busy device only waits: an H100 that hung drew 17 %."""
_LASTS_SECONDS = 5.0
"""Duration from which the text has how long a device has lagged."""
_BEGINS_SECONDS = 30.0
"""Time at 0 % from which a job's devices are not just about to begin."""
_LEAST_TREND = 8
_LEVELS = "▁▂▃▄▅▆▇█"
_HARMLESS = frozenset({"power cap", "sync boost"})
"""Reasons for a lower clock that are usual under full load."""
_OFTEN = 0.05
"""Share of the time from which a reason for a lower clock explains the whole of it."""
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
        node: Name of the worker's node.
        trouble: Errors that the worker's runtimes counted.
        history: Its samples over time, if any.
        entries: Number of entries of the history so far: distinguishes two rows of one history.
        is_past: The reading is the mean of the whole history.
        kept: Its history by a Prometheus, which reaches further back.
    """

    pod: str
    worker: str
    device: Device | None
    rank: int = -1
    noun: str = "GPU"
    error: str = ""
    node: str = ""
    trouble: tuple[str, ...] = ()
    history: DeviceHistory | None = None
    entries: int = 0
    is_past: bool = False
    kept: DeviceHistory | None = None

    @property
    def key(self) -> str:
        """The key of the row; sorts by rank."""
        place = _sortable(self.pod or self.node)
        return f"{place}#{self.device.index:03}" if self.device else place

    @property
    def load(self) -> float | None:
        """The load in percent, or that of the last samples if it is greater: one alone may be 0 amid work."""
        now = self.device.load_pct if self.device is not None else None
        recent = self.history.recent(Quantity.LOAD) if self.history is not None and not self.is_past else None
        return now if now is None or recent is None else max(now, recent)


def device_rows(
    readings: Iterable[WorkerReading],
    histories: Mapping[tuple[str, str], DeviceHistory] | None = None,
    *,
    is_past: bool = False,
    kept: Mapping[tuple[str, str], DeviceHistory] = {},
) -> list[DeviceRow]:
    """Return one row for each accelerator, and one for each worker without an answer."""
    workers = sorted(readings, key=lambda worker: _sortable(worker.pod.name))
    names = short_names([worker.pod.name for worker in workers])
    rows: list[DeviceRow] = []
    rank = 0
    for worker in workers:
        pod, short, node, reading = worker.pod.key, names[worker.pod.name], worker.pod.node, worker.reading
        pod = pod if worker.pod.name else ""
        for device in reading.devices:
            place = worker.pod.key, device.label
            history, older = (histories or {}).get(place), kept.get(place)
            entries = history.revision if history is not None else 0
            told = reading.noun, "", node, reading.trouble
            rows.append(DeviceRow(pod, short, device, rank, *told, history, entries, is_past, older))
            rank += 1
        if not reading.devices:
            rows.append(DeviceRow(pod, short, None, error=reading.error or "No accelerator.", node=node))
    return rows


def answered(rows: Sequence[DeviceRow]) -> Sequence[DeviceRow]:
    """Return the rows that a table is worth: none where no worker has answered, all for one reason."""
    reasons = {row.error.replace(row.pod.partition("/")[2], "") for row in rows if row.device is None}
    return () if len(reasons) == 1 and all(row.device is None for row in rows) else rows


def search_text(row: DeviceRow) -> str:
    """Return the text that a filter matches."""
    return f"{row.pod} {row.node} {row.device.model if row.device else row.error}"


def name_cell(row: DeviceRow) -> CellValue:
    """The model, or the reason for no answer."""
    return Span(row.error, Tone.WARN) if row.device is None else row.device.model


def index_cell(row: DeviceRow) -> CellValue:
    """The device's number in its worker."""
    return row.device.label if row.device else _ABSENT


def load_cell(row: DeviceRow, width: int = 0) -> CellValue:
    """The share of time in which the device worked, after a bar in the rest of `width`; or why there is no answer."""
    if row.device is None:
        return Span(row.error, Tone.WARN)
    load = row.device.load_pct
    if load is None:
        return _ABSENT
    text = Span(f" {load:>3.0f}%", Tone.WARN if load < _IDLE_PERCENT else Tone.PLAIN)
    return (*meter(load, 100, cells=max(1, width - _LOAD_TEXT) if width else _LEAST_LOAD), text)


def cores_cell(row: DeviceRow, width: int = 0) -> CellValue:
    """The load of each core: one bar each, and the percentages where they fit."""
    loads = row.device.core_pcts if row.device else ()
    if not loads:
        return _ABSENT
    bars = Span("".join(map(_level_of, loads)), Tone.BUSY)
    both = bars, Span("".join(f" {load:.0f}%" for load in loads))
    return (bars,) if width and width_of(both) > width else both


def trend_cell(row: DeviceRow, width: int = _LEAST_TREND) -> CellValue:
    """The load over time, up to now at the right end; the memory in use where no load is measured."""
    history = row.kept or row.history
    if history is None or row.device is None:
        return _ABSENT
    levels = history.levels(Quantity.LOAD, width)
    if all(level is None for level in levels):
        total = row.device.mem_total_bytes or 0
        levels = [
            None if level is None or not total else 100 * level / total
            for level in history.levels(Quantity.MEMORY, width)
        ]
    if len(levels) < 2:
        return _ABSENT
    spans = [
        Span(" " if level is None else _level_of(level), Tone.WARN if (level or 0) < _IDLE_PERCENT else Tone.BUSY)
        for level in levels
    ]
    return fit(tuple(spans), width, align_right=True)


def load_range_cell(row: DeviceRow) -> CellValue:
    """Least and greatest load."""
    found = _extent(row, Quantity.LOAD)
    return _ABSENT if found is None else f"{found.least:.0f}–{found.most:.0f}%"


def power_range_cell(row: DeviceRow) -> CellValue:
    """Least and greatest power."""
    found = _extent(row, Quantity.POWER)
    return _ABSENT if found is None else f"{found.least:.0f}–{found.most:.0f}W"


def temperature_range_cell(row: DeviceRow) -> CellValue:
    """Least and greatest temperature."""
    found = _extent(row, Quantity.TEMPERATURE)
    return _ABSENT if found is None else f"{found.least:.0f}–{found.most:.0f}°C"


def memory_peak_cell(row: DeviceRow) -> CellValue:
    """The most memory that was in use."""
    found = _extent(row, Quantity.MEMORY)
    return _ABSENT if found is None else f"{found.most / _GIB:.1f}Gi"


def memory_cell(row: DeviceRow, width: int = 0) -> CellValue:
    """Used and total memory, in GiB, after a bar that takes the rest of `width` columns."""
    device = row.device
    if device is None or device.mem_used_bytes is None:
        return _ABSENT
    if not device.mem_total_bytes:
        return f"{device.mem_used_bytes / _GIB:.1f}Gi"
    text = f"{device.mem_used_bytes / _GIB:.1f}/{device.mem_total_bytes / _GIB:.0f}Gi"
    cells = max(_LEAST_MEMORY, width - _MEMORY_TEXT)
    if width and (cells := min(cells, width - len(text) - 1)) < 1:
        return text
    return (*meter(device.mem_used_bytes, device.mem_total_bytes, cells=cells), Span(f" {text}"))


def memory_kinds_cell(row: DeviceRow) -> CellValue:
    """The memory in use by kind, the greatest first."""
    parts = row.device.mem_parts if row.device else ()
    return ", ".join(f"{name} {size / _GIB:.1f}Gi" for name, size in parts) or _ABSENT


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


def clock_cell(row: DeviceRow) -> CellValue:
    """The clock of the multiprocessors and its maximum, in MHz."""
    device = row.device
    if device is None or device.clock_mhz is None:
        return _ABSENT
    return f"{device.clock_mhz}/{device.clock_max_mhz}" if device.clock_max_mhz else str(device.clock_mhz)


def clock_range_cell(row: DeviceRow) -> CellValue:
    """Lowest and highest clock, in MHz."""
    found = _extent(row, Quantity.CLOCK)
    return _ABSENT if found is None else f"{found.least:.0f}–{found.most:.0f}"


def throttle_cell(row: DeviceRow) -> CellValue:
    """The reasons for a lower clock; of the past with the part of the time in which each was there."""
    reasons = row.device.throttle if row.device else ()
    if not reasons:
        return _ABSENT
    shares = row.device.throttle_shares if row.device else ()
    words = (
        [f"{reason} {_percent(share)}" for reason, share in zip(reasons, shares, strict=True)] if shares else reasons
    )
    return Span(", ".join(words), Tone.PLAIN if _HARMLESS.issuperset(reasons) else Tone.WARN)


def ecc_cell(row: DeviceRow) -> CellValue:
    """Corrected and uncorrected memory errors."""
    device = row.device
    if device is None or (device.ecc_corrected is None and device.ecc_uncorrected is None):
        return _ABSENT
    corrected, uncorrected = ("-" if n is None else str(n) for n in (device.ecc_corrected, device.ecc_uncorrected))
    return Span(f"{corrected}/{uncorrected}", Tone.BAD if device.ecc_uncorrected else Tone.PLAIN)


def link_errors_cell(row: DeviceRow) -> CellValue:
    """Errors of the device's NVLinks since its driver was loaded."""
    count = row.device.nvlink_errors if row.device else None
    return _ABSENT if count is None else Span(str(count), Tone.WARN if count else Tone.PLAIN)


def nvlink_cell(row: DeviceRow, width: int = 0) -> CellValue:
    """Bytes a second over the device's NVLinks, after their history in the rest of `width`."""
    return _traffic_cell(row, Quantity.NVLINK, row.device.nvlink_rate if row.device else None, width)


def nvlink_range_cell(row: DeviceRow) -> CellValue:
    """Least and greatest traffic of the device's NVLinks."""
    return _traffic_range(row, Quantity.NVLINK)


def efa_cell(row: DeviceRow, width: int = 0) -> CellValue:
    """Bytes a second over the EFA adapters of the device's node, after their history in the rest of `width`."""
    return _traffic_cell(row, Quantity.EFA, row.device.efa_rate if row.device else None, width)


def efa_range_cell(row: DeviceRow) -> CellValue:
    """Least and greatest traffic of the EFA adapters of the device's node."""
    return _traffic_range(row, Quantity.EFA)


def has_nvlink(rows: Iterable[DeviceRow]) -> bool:
    """Return whether any device has NVLinks that count."""
    devices = (row.device for row in rows if row.device is not None)
    return any(device.nvlink_bytes is not None or device.nvlink_rate is not None for device in devices)


def has_efa(rows: Iterable[DeviceRow]) -> bool:
    """Return whether any worker sees the counters of EFA adapters."""
    devices = (row.device for row in rows if row.device is not None)
    return any(device.efa_bytes is not None or device.efa_rate is not None for device in devices)


def rate_text(bytes_a_second: float) -> str:
    """Return a rate in decimal units, as links are sold: `412GB/s`, `1.3GB/s`, `27MB/s`, `0`."""
    if bytes_a_second < _KB:
        return "0"
    if bytes_a_second < _MB:
        return f"{bytes_a_second / _KB:.0f}kB/s"
    if bytes_a_second < _GB:
        return f"{bytes_a_second / _MB:.0f}MB/s"
    billions = bytes_a_second / _GB
    return f"{billions:.1f}GB/s" if billions < 99.95 else f"{billions:.0f}GB/s"


def _traffic_cell(row: DeviceRow, quantity: Quantity, rate: float | None, width: int) -> CellValue:
    if rate is None:
        return _ABSENT
    text = Span(f" {rate_text(rate):>8}")
    most = _extent(row, quantity)
    if row.history is None or most is None or not most.most or width <= len(text.text):
        return (text,) if width else Span(rate_text(rate))
    levels = row.history.levels(quantity, width - len(text.text))
    shown = "".join(" " if level is None else _level_of(100 * level / most.most) for level in levels)
    return fit((Span(shown, Tone.BUSY), text), width, align_right=True)


def _traffic_range(row: DeviceRow, quantity: Quantity) -> CellValue:
    found = _extent(row, quantity)
    return _ABSENT if found is None else f"{rate_text(found.least)}–{rate_text(found.most)}"


def processes_cell(row: DeviceRow) -> CellValue:
    """The number of processes that the tool named."""
    count = row.device.processes if row.device else None
    return _ABSENT if count is None else str(count)


def node_cell(row: DeviceRow) -> CellValue:
    """The worker's node, without its domain."""
    return row.node.partition(".")[0] or _ABSENT


def load_key(row: DeviceRow) -> float:
    """The sort key of the load: workers without an answer come first, as they need attention."""
    return -1 if row.device is None or row.device.load_pct is None else row.device.load_pct


def _throttled_by(row: DeviceRow) -> str:
    """Return the reasons for a lower clock that are not usual; empty if there are none."""
    if row.device is None:
        return ""
    reasons, shares = row.device.throttle, row.device.throttle_shares
    if not shares:
        return ", ".join(reason for reason in reasons if reason not in _HARMLESS)
    return ", ".join(
        f"{reason} in {_percent(share)} of the time"
        for reason, share in zip(reasons, shares, strict=True)
        if reason not in _HARMLESS and share >= _OFTEN
    )


def _percent(share: float) -> str:
    """Return a share in percent; a small one is not 0."""
    return f"{max(1, round(100 * share))}%"


def _place(row: DeviceRow) -> str:
    """Name a device in a sentence: `rank 2, worker-2 GPU 0`, `trn-0 ND1`."""
    label = row.device.label if row.device is not None else "?"
    return f"rank {row.rank}, {row.worker} GPU {label}" if row.noun == "GPU" else f"{row.worker} {label}"


def _level_of(percent: float) -> str:
    return _LEVELS[max(0, min(len(_LEVELS) - 1, int(percent / 100 * len(_LEVELS))))]


def _extent(row: DeviceRow, quantity: Quantity) -> Extent | None:
    histories = (one for one in (row.kept, row.history) if one is not None and row.device is not None)
    return next((found for one in histories if (found := one.extent(quantity)) is not None), None)


def _sortable(name: str) -> str:
    """Pad the numbers of a name, so that `worker-2` sorts before `worker-10`."""
    return _NUMBER.sub(lambda match: match[1].zfill(8), name)


def summary(
    rows: Sequence[DeviceRow],
    past: PastReadings | None = None,
    *,
    has_ended: bool = False,
    zeros: Sequence[float] = (),
    is_one_job: bool = True,
) -> list[Cells]:
    """Return two lines: the mean load, then what is wrong, then the model; and the slowest device.

    Args:
        rows: The accelerators.
        past: The time that they are of, if they are not those of now.
        has_ended: The stage of that time is over.
        zeros: Seconds for which each device at 0 % has been there.
        is_one_job: They work together, so that one can wait for another.
    """
    known = [row for row in rows if row.device is not None]
    if not rows:
        return []
    if not known:
        return [(Span(f"No worker answered: {rows[0].error}", Tone.WARN),)]
    loads = [load for row in known if (load := load_key(row)) >= 0]
    noun = f"{len(known)} {known[0].noun}{'s' * (len(known) != 1)}"
    words = _mean_words(sum(loads) / len(loads) if loads else None)
    head = [Span(f"{noun}{_time_words(past, has_ended=has_ended)}, {words}", Tone.STRONG)]
    troubled = next((row for row in known if row.trouble), None)
    if troubled is not None:
        head.append(Span(f"   ✗ {troubled.worker}: {', '.join(troubled.trouble)}", Tone.BAD))
    silent = len(rows) - len(known)
    if silent:
        head.append(Span(f"   ✗ {silent} worker{'s' * (silent > 1)} did not answer", Tone.BAD))
    unused = [seconds for seconds in zeros if seconds >= UNUSED_SECONDS]
    if unused:
        head.append(Span(f"   ▲ {len(unused)} requested, but at 0% for {duration(min(unused))} or more", Tone.WARN))
    models = {row.device.model for row in known if row.device is not None}
    if len(models) == 1 and not known[0].noun.startswith(min(models)):
        head.append(Span(f" · {models.pop()}", Tone.MUTED))
    held = [row for row in known if row.pod]
    return [tuple(head), _laggards(held, is_one_job=is_one_job)] if loads and held else [tuple(head)]


def _mean_words(mean: float | None) -> str:
    return "whose load is not measured" if mean is None else f"{mean:.0f}% busy on average"


def _time_words(past: PastReadings | None, *, has_ended: bool) -> str:
    if past is None:
        return ""
    if past.ended_at == past.began_at:
        return f", sampled once, at {time_of_day(past.ended_at)} UTC"
    label = "ended at" if has_ended else "last sample at"
    each = "" if past.is_common else " (each over its own part of it)"
    return f" over {duration(past.ended_at - past.began_at)}{each}, {label} {time_of_day(past.ended_at)} UTC"


def _laggards(rows: Sequence[DeviceRow], *, is_one_job: bool) -> Cells:
    """Name the devices that slow down the others.

    A rank that waits in a collective is as busy as all, and draws less power than the one that it waits for. So heat,
    a low clock and, among equals, *high* power are better evidence than a load that is a little lower for a moment.

    Source: `docs/facts/nvidia-smi.md#waiting`.
    """
    loads = [(row, load) for row in rows if (load := row.load) is not None]
    if not loads:
        return (Span("No load was measured.", Tone.MUTED),)
    ordered = sorted(load for _, load in loads)
    usual = median(ordered)
    slowest, least = min(loads, key=lambda one: one[1])
    others = _median_of_others(ordered, least)
    busy = [row for row, load in loads if load > usual - _LAGS_BY_PERCENT and load >= _IDLE_PERCENT]
    late = [row for row, load in loads if _lags(load, _median_of_others(ordered, load))]
    suspect = _suspect(busy) or (_waiting(busy) if is_one_job and not late else "")
    if suspect:
        return (Span(f"▲ {suspect}", Tone.WARN),)
    most = max(load_key(row) for row, _ in loads)
    if usual >= _IDLE_PERCENT > most:  # between two steps, or since a moment ago
        return (Span(f"no device is busy at this moment: {most:.0f}% at most", Tone.MUTED),)
    if usual < _IDLE_PERCENT and not late:
        return _at_rest([row for row, _ in loads], most)
    if not late:
        return (Span(f"slowest: {_place(slowest)} at {least:.0f}%, no lag", Tone.MUTED),)
    words = f"▲ slowest: {_place(slowest)} at {least:.0f}% (others: {others:.0f}%)"
    more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
    signs = [*_little_power(slowest, rows), *_signs(slowest, rows)]
    because = f": {' and '.join(signs)}" if signs else ""
    return (Span(f"{words}{_for_how_long(slowest, others)}{more}{because}", Tone.WARN),)


def _at_rest(rows: Sequence[DeviceRow], most: float) -> Cells:
    """Tell how many of devices are busy, where most are not; the first samples of a job are no reason for a warning."""
    verb, busy = "was" if rows[0].is_past else "is", sum(load_key(row) >= _IDLE_PERCENT for row in rows)
    if busy:
        verb = verb if busy == 1 else "were" if rows[0].is_past else "are"
        return (Span(f"▲ {busy} of {len(rows)} devices {verb} busy: {most:.0f}% at most", Tone.WARN),)
    below = (row.history.seconds_below(Quantity.LOAD, _IDLE_PERCENT) for row in rows if row.history is not None)
    if not rows[0].is_past and max(below, default=0.0) < _BEGINS_SECONDS:
        return (Span("no device is busy yet", Tone.MUTED),)
    return (Span(f"▲ no device {verb} busy: {most:.0f}% at most", Tone.WARN),)


def _lags(load: float, others: float) -> bool:
    return others - load >= _LAGS_BY_PERCENT or load < _IDLE_PERCENT <= others


def _median_of_others(ordered: Sequence[float], value: float) -> float:
    """Return the median of sorted values without one that is `value`; of a single one, it."""
    rest = len(ordered) - 1
    if rest < 1:
        return value
    left_out = bisect_left(ordered, value)
    low, high = (place + (place >= left_out) for place in ((rest - 1) // 2, rest // 2))
    return (ordered[low] + ordered[high]) / 2


def _for_how_long(row: DeviceRow, usual: float) -> str:
    level = max(usual - _LAGS_BY_PERCENT, _IDLE_PERCENT)
    if row.history is None or row.is_past:
        return ""
    seconds = row.history.seconds_below(Quantity.LOAD, level)
    return f" for {duration(seconds)}" if seconds >= _LASTS_SECONDS else ""


def _suspect(busy: Sequence[DeviceRow]) -> str:
    """Describe the busy device that shows a sign of being held up; empty if there is none.

    Little power alone is none: a rank that waits for another one draws little.
    """
    for row in sorted(busy, key=lambda row: (row.device.power_w if row.device else None) or 0.0):
        if signs := _signs(row, busy):
            return f"{_place(row)} is as busy as the others, but {' and '.join([*_little_power(row, busy), *signs])}"
    return ""


def _waiting(busy: Sequence[DeviceRow]) -> str:
    """Describe which of the equally busy devices wait for which, as their power shows; empty if none does."""
    drawn = [(row, row.device.power_w) for row in busy if row.device is not None and row.device.power_w is not None]
    if len(drawn) < 2 or len({row.device.model for row, _ in drawn if row.device is not None}) > 1:
        return ""
    most = max(watts for _, watts in drawn)
    at_work = [(row, watts) for row, watts in drawn if watts >= _STARVED * most]
    waiting = [(row, watts) for row, watts in drawn if watts < _STARVED * most]
    if not waiting:
        return _all_waiting(busy)
    works, waits = median(watts for _, watts in at_work), median(watts for _, watts in waiting)
    if len(at_work) <= len(waiting):
        more = f" (and {len(at_work) - 1} more)" if len(at_work) > 1 else ""
        first = max(at_work, key=lambda one: one[1])[0]
        return f"the others wait for {_place(first)}{more}: it draws {works:.0f} W, they {waits:.0f} W, all are busy"
    more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
    first, watts = min(waiting, key=lambda one: one[1])
    return f"{_place(first)}{more} waits for the others: it is as busy, but draws {watts:.0f} W (others: {works:.0f} W)"


def _all_waiting(busy: Sequence[DeviceRow]) -> str:
    """Describe devices that are busy with nothing: each at full load, with little power and without traffic."""
    devices = [row.device for row in busy if row.device is not None]
    for device in devices:
        if (
            (device.load_pct or 0.0) < _FULL_PERCENT
            or device.nvlink_rate is None
            or device.nvlink_rate >= _KB
            or (device.power_w or 0.0) >= _WAITS_BELOW * (device.power_cap_w or 0.0)
        ):
            return ""
    watts, cap = _usual(device.power_w for device in devices), _usual(device.power_cap_w for device in devices)
    return f"all are busy, but draw {watts:.0f} of {cap:.0f} W and send nothing over NVLink: a collective hangs"


def _little_power(row: DeviceRow, others: Sequence[DeviceRow]) -> list[str]:
    """Return the words for much less power than the others draw; none if it is not."""
    own = row.device.power_w if row.device is not None else None
    watts = _usual(other.device.power_w for other in others if other.device is not None and other is not row)
    return [f"draws {own:.0f} W (others: {watts:.0f} W)"] if own is not None and own < _STARVED * watts else []


def _signs(row: DeviceRow, others: Sequence[DeviceRow]) -> list[str]:
    """Return what holds a device up, as far as it shows."""
    device = row.device
    if device is None:
        return []
    signs = []
    clock = _usual(other.device.clock_mhz for other in others if other.device is not None and other is not row)
    if device.clock_mhz is not None and device.clock_mhz < _STARVED * clock and "power cap" not in device.throttle:
        signs.append(f"runs at {device.clock_mhz} MHz (others: {clock:.0f} MHz)")
    if reasons := _throttled_by(row):
        signs.append(f"is throttled ({reasons})")
    if device.temp_c is not None and device.temp_c >= _HOT_CELSIUS:
        signs.append(f"is at {device.temp_c} °C")
    if device.ecc_uncorrected:
        signs.append(f"has {device.ecc_uncorrected} uncorrected memory error{'s' * (device.ecc_uncorrected > 1)}")
    return signs


def _usual(values: Iterable[float | None]) -> float:
    """Return the median of known values; 0 without any."""
    known = [value for value in values if value is not None]
    return median(known) if known else 0.0
