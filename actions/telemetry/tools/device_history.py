"""Accelerators over time: spans of samples as a run keeps them, and a bounded history of each device.

A run may take weeks, and each of its devices is sampled every few seconds. So samples are joined into spans, of which
the least, the mean and the greatest value are kept. Early spans are short and later ones longer: so many in a day as
in the first hour.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from actions.telemetry.tools.devices import Device, DeviceReading

SPANS_OF_ALL = 200
"""A span takes at least this part of the time since the first one: the file grows by the logarithm of the time."""
_EARLY_SECONDS = 5.0
"""Less by so much: of the first quarter of an hour each sample is a span."""


class Quantity(IntEnum):
    """A quantity that is kept over time."""

    LOAD = 0
    """Percent."""
    MEMORY = 1
    """Bytes in use."""
    POWER = 2
    """Watts."""
    TEMPERATURE = 3
    """Degrees Celsius."""
    NVLINK = 4
    """Bytes a second, sent and received."""
    EFA = 5
    """Bytes a second over all adapters of the node, sent and received."""
    CLOCK = 6
    """MHz of the multiprocessors."""


_ALWAYS = Quantity.TEMPERATURE + 1
"""Number of quantities that every record has; the others are few machines'."""


_FIRST = 3
_WIDTH = _FIRST + 3 * len(Quantity)
"""Numbers of an entry: begin, end, samples, and three for each `Quantity`."""


class Extent(NamedTuple):
    """Least, mean and greatest value in a span of time."""

    least: float
    mean: float
    most: float


class DeviceSpan(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A device in a span of time."""

    label: str
    model: str
    memory_total_bytes: int | None
    extents: tuple[Extent | None, ...]
    """One for each `Quantity` up to temperature; `None` where it was not measured."""
    further: tuple[Extent | None, ...] = ()
    """One for each further `Quantity`; empty if none of them was measured."""
    limits: tuple[float | None, ...] = ()
    """Power cap in watts, and highest clock in MHz; empty if neither is known."""
    throttle: tuple[tuple[str, int], ...] = ()
    """The reasons for a lower clock, each with the number of samples that had it."""
    errors: tuple[int | None, ...] = ()
    """Corrected and uncorrected memory errors, and errors of NVLinks; empty if none of them is counted."""

    @property
    def all_extents(self) -> tuple[Extent | None, ...]:
        """One for each `Quantity`."""
        missing = len(Quantity) - len(self.extents) - len(self.further)
        return (*self.extents, *self.further, *[None] * missing)


class SpanRecord(msgspec.Struct, frozen=True, gc=False):
    """The devices of a pod in a span of time."""

    pod: str
    since: float
    until: float
    """Seconds since the epoch."""
    noun: str
    devices: tuple[DeviceSpan, ...]
    node: str = ""
    samples: int = 1
    """Number of samples in it."""


def values_of(device: Device) -> tuple[float | None, ...]:
    """Return a device's values in the order of `Quantity`."""
    return (
        device.load_pct,
        device.mem_used_bytes,
        device.power_w,
        device.temp_c,
        device.nvlink_rate,
        device.efa_rate,
        device.clock_mhz,
    )


def errors_of(device: Device) -> tuple[int | None, ...]:
    """Return a device's counted errors in the order of `DeviceSpan.errors`."""
    return device.ecc_corrected, device.ecc_uncorrected, device.nvlink_errors


class DeviceTotals:
    """The state of a device over samples or spans, in constant space: reasons for a lower clock, and errors."""

    def __init__(self) -> None:
        self.samples = 0
        self.throttle: Counter[str] = Counter()
        """Number of samples with each reason; there are a dozen reasons."""
        self.errors: tuple[int | None, ...] = ()
        """In the order of `DeviceSpan.errors`: the greatest count of a GPU, as it counts from the load of its driver;
        the sum of a Neuron device, which counts anew in each record."""

    def add(
        self, label: str, throttle: Sequence[tuple[str, int]], errors: Sequence[int | None], samples: int = 1
    ) -> None:
        """Add what so many samples of the device with this label had."""
        self.samples += samples
        for reason, count in throttle:
            self.throttle[reason] += count
        if any(count is not None for count in errors):
            join = sum if label.startswith("ND") else max
            known = self.errors or (None,) * len(errors)
            pairs = ([one for one in pair if one is not None] for pair in zip(known, errors, strict=True))
            self.errors = tuple(join(pair) if pair else None for pair in pairs)

    def shares(self) -> list[tuple[str, float]]:
        """Return the reasons with the share of the samples that had each, the most frequent first."""
        return [(reason, count / self.samples) for reason, count in self.throttle.most_common()]


_FREED = 0.1
"""Share of the most memory of a pod's devices below which its process is gone: a driver keeps less than 1 %."""
_HELD_SECONDS = 30.0
_SAME_MOMENT = 1.0
"""Seconds: begins are kept with the precision of short floats."""
_LONGEST_GAP = 120.0
"""Seconds between two samples from which the mean in between is not a measure of now."""


class RateMeter:
    """Bytes a second of the devices of one machine, from the counters of its last two samples."""

    def __init__(self) -> None:
        self._at = 0.0
        self._newest: DeviceReading | None = None

    def rated(self, at: float, reading: DeviceReading) -> DeviceReading:
        """Return a sample with rates; without any if it is the first one, or counters began anew.

        Args:
            at: Its moment, in seconds since the epoch. For that of the newest sample the same is returned again.
            reading: The sample.
        """
        if self._newest is not None and at <= self._at:
            return self._newest if at == self._at else reading
        seconds, before = at - self._at, self._newest
        if before is not None and seconds <= _LONGEST_GAP:
            earlier = {device.label: device for device in before.devices}
            rated = (_with_rates(device, earlier.get(device.label), seconds) for device in reading.devices)
            reading = replace(reading, devices=tuple(rated))
        self._at, self._newest = at, reading
        return reading


def _with_rates(device: Device, before: Device | None, seconds: float) -> Device:
    if before is None or (device.nvlink_bytes is None and device.efa_bytes is None):
        return device
    nvlink = _rate(before.nvlink_bytes, device.nvlink_bytes, seconds)
    return replace(device, nvlink_rate=nvlink, efa_rate=_rate(before.efa_bytes, device.efa_bytes, seconds))


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    return None if before is None or now is None or now < before else round((now - before) / seconds)


class _Gathered:
    """The samples of a device so far: for each quantity their number, least, sum and greatest value."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._totals = DeviceTotals()
        self._counts = [0] * len(Quantity)
        self._sums = [0.0] * len(Quantity)
        self._least = [math.inf] * len(Quantity)
        self._most = [-math.inf] * len(Quantity)

    def add(self, device: Device) -> None:
        self._device = device
        self._totals.add(device.label, [(reason, 1) for reason in device.throttle], errors_of(device))
        for place, value in enumerate(values_of(device)):
            if value is not None:
                self._counts[place] += 1
                self._sums[place] += value
                self._least[place] = min(self._least[place], value)
                self._most[place] = max(self._most[place], value)

    def span(self) -> DeviceSpan:
        extents = tuple(
            Extent(least, round(total / count, 3), most) if count else None
            for count, total, least, most in zip(self._counts, self._sums, self._least, self._most, strict=True)
        )
        device, totals = self._device, self._totals
        limits = device.power_cap_w, device.clock_max_mhz
        return DeviceSpan(
            device.label,
            device.model,
            device.mem_total_bytes,
            extents[:_ALWAYS],
            extents[_ALWAYS:] if any(self._counts[_ALWAYS:]) else (),
            limits if limits != (None, None) else (),
            tuple(totals.throttle.items()),
            totals.errors,
        )


class SpanCollector:
    """The open span of one pod.

    Samples in which the process has freed the memory are held back for half a minute: at the end of a pod they show
    only that its container was still there, and would lower the means of a whole run. In the midst of one they count.

    Args:
        pod: Its name.
        node: The name of its node.
    """

    def __init__(self, pod: str, node: str) -> None:
        self._pod = pod
        self._node = node
        self._noun = ""
        self._since = self._until = 0.0
        self._samples = 0
        self._devices: dict[str, _Gathered] = {}
        self._meter = RateMeter()
        self._most_memory = 0
        self._held: list[tuple[float, DeviceReading]] = []

    def add(self, at: float, reading: DeviceReading) -> None:
        """Add a sample."""
        self._held.append((at, self._meter.rated(at, reading)))
        used = [device.mem_used_bytes for device in reading.devices if device.mem_used_bytes is not None]
        self._most_memory = max(self._most_memory, sum(used))
        is_freed = bool(used) and sum(used) < _FREED * self._most_memory
        if not is_freed or at - self._held[0][0] > _HELD_SECONDS:
            for sample in self._held:
                self._gather(*sample)
            self._held = []

    def _gather(self, at: float, reading: DeviceReading) -> None:
        if not self._devices:
            self._since = at
        self._until, self._noun, self._samples = at, reading.noun, self._samples + 1
        for device in reading.devices:
            self._devices.setdefault(device.label, _Gathered(device)).add(device)

    def is_due(self, began: float) -> bool:
        """Return whether the span is long enough, for a stage whose first sample is of `began`."""
        return (
            bool(self._devices) and self._until - self._since >= (self._until - began) / SPANS_OF_ALL - _EARLY_SECONDS
        )

    def record(self) -> SpanRecord | None:
        """Return the span so far; `None` without a sample."""
        if not self._devices:
            return None
        devices = tuple(one.span() for one in self._devices.values())
        return SpanRecord(self._pod, self._since, self._until, self._noun, devices, self._node, self._samples)

    def begin_anew(self) -> None:
        """Begin the next span."""
        self._devices, self._samples = {}, 0


class DeviceHistory:
    """The history of one device: a ring of its newest samples, or all of it in ever coarser steps.

    Args:
        limit: Number of entries that are kept.
        is_whole: At the limit, join neighbours in pairs; otherwise drop the oldest.
    """

    def __init__(self, limit: int = 240, *, is_whole: bool = False) -> None:
        self.revision = 0
        """Number of entries so far."""
        self._limit = limit
        self._is_whole = is_whole
        self._began = 0.0
        self._cells = array("f")

    def add(self, since: float, until: float, extents: Sequence[Extent | None], samples: int = 1) -> None:
        """Add an entry, newer than all others, made of so many samples.

        Args:
            since: Its begin, in seconds since the epoch.
            until: Its end.
            extents: One for each `Quantity`.
            samples: Their number.
        """
        if not self._cells:
            self._began = since
        self.revision += 1
        self._cells.append(since - self._began)
        self._cells.append(until - self._began)
        self._cells.append(samples)
        for extent in extents:
            self._cells.extend(extent or (math.nan, math.nan, math.nan))
        if len(self._cells) > self._limit * _WIDTH:
            if self._is_whole:
                self._join_pairs()
            else:
                del self._cells[:_WIDTH]

    def add_sample(self, at: float, device: Device) -> None:
        """Add a single sample."""
        values = values_of(device)
        self.add(at, at, [None if value is None else Extent(value, value, value) for value in values])

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end, in seconds since the epoch; both 0 if it is empty."""
        if not self._cells:
            return 0.0, 0.0
        return self._began + self._cells[0], self._began + self._cells[-_WIDTH + 1]

    def extent(self, quantity: Quantity) -> Extent | None:
        """Return least, mean and greatest value over all of it; `None` if it was never measured."""
        least, mean, most = (self._cells[_FIRST + 3 * quantity + place :: _WIDTH] for place in range(3))
        weighed = [
            (value, weight) for value, weight in zip(mean, self._cells[2::_WIDTH], strict=True) if _is_known(value)
        ]
        if not weighed:
            return None
        total = sum(weight for _, weight in weighed)
        average = sum(value * weight for value, weight in weighed) / total
        return Extent(min(filter(_is_known, least)), average, max(filter(_is_known, most)))

    def levels(self, quantity: Quantity, width: int) -> list[float | None]:
        """Return the means in `width` equal stretches of the time; `None` where nothing was measured."""
        means = self._cells[_FIRST + 1 + 3 * quantity :: _WIDTH]
        if not means or width <= 0:
            return [None] * max(0, width)
        since, until = self._cells[0], self._cells[-_WIDTH + 1]
        width = min(width, len(means))
        step = (until - since) / width or 1.0
        sums, counts = [0.0] * width, [0] * width
        for begin, end, value in zip(self._cells[0::_WIDTH], self._cells[1::_WIDTH], means, strict=True):
            if not math.isnan(value):
                last = min(width - 1, int((end - since) / step))
                for place in range(min(width - 1, int((begin - since) / step)), last + 1):
                    sums[place] += value
                    counts[place] += 1
        return [total / count if count else None for total, count in zip(sums, counts, strict=True)]

    def recent(self, quantity: Quantity, entries: int = 5) -> float | None:
        """Return the mean of the newest entries: one sample is not a state."""
        known = [value for value in self._cells[_FIRST + 1 + 3 * quantity :: _WIDTH][-entries:] if _is_known(value)]
        return sum(known) / len(known) if known else None

    def mean_since(self, quantity: Quantity, moment: float) -> float | None:
        """Return the mean of the entries that begin at a moment (seconds since the epoch) or later; `None` of none."""
        total = samples = 0.0
        means = self._cells[_FIRST + 1 + 3 * quantity :: _WIDTH]
        for begin, weight, value in zip(self._cells[0::_WIDTH], self._cells[2::_WIDTH], means, strict=True):
            if self._began + begin >= moment - _SAME_MOMENT and not math.isnan(value):
                total, samples = total + value * weight, samples + weight
        return total / samples if samples else None

    def seconds_below(self, quantity: Quantity, level: float) -> float:
        """Return for how long, up to now, the mean has been below a level without a break."""
        means = self._cells[_FIRST + 1 + 3 * quantity :: _WIDTH]
        begins = self._cells[0::_WIDTH]
        since: float | None = None
        for begin, value in zip(reversed(begins), reversed(means), strict=True):
            if math.isnan(value) or value >= level:
                break
            since = begin
        return 0.0 if since is None else self._cells[-_WIDTH + 1] - since

    def _join_pairs(self) -> None:
        """Join every two entries into one; an odd last one stays as it is."""
        cells, joined = self._cells, array("f")
        count = len(cells) // _WIDTH
        for first in range(0, count - 1, 2):
            one, two = (cells[place * _WIDTH : (place + 1) * _WIDTH] for place in (first, first + 1))
            joined.append(one[0])
            joined.append(two[1])
            joined.append(one[2] + two[2])
            for place in range(_FIRST, _WIDTH, 3):
                joined.extend(_joined(one[place : place + 3], one[2], two[place : place + 3], two[2]))
        if count % 2:
            joined.extend(cells[-_WIDTH:])
        self._cells = joined


def _joined(one: array[float], one_weight: float, two: array[float], two_weight: float) -> Sequence[float]:
    if math.isnan(one[1]) or math.isnan(two[1]):
        return two if math.isnan(one[1]) else one
    mean = (one[1] * one_weight + two[1] * two_weight) / (one_weight + two_weight)
    return min(one[0], two[0]), mean, max(one[2], two[2])


def _is_known(value: float) -> bool:
    return not math.isnan(value)
