"""The history of a device is bounded, and keeps its extremes."""

from __future__ import annotations

import msgspec
import pytest

from actions.telemetry.tools.device_history import (
    DeviceHistory,
    DeviceSpan,
    DeviceTotals,
    Extent,
    Quantity,
    RateMeter,
    SpanCollector,
    SpanRecord,
)
from actions.telemetry.tools.devices import Device, DeviceReading


def filled(count: int, *, is_whole: bool) -> DeviceHistory:
    history = DeviceHistory(8, is_whole=is_whole)
    for place in range(count):
        history.add_sample(100.0 + place, Device(0, "0", load_pct=float(place)))
    return history


def test_a_ring_drops_the_oldest() -> None:
    ring = filled(20, is_whole=False)
    assert list(ring.span) == [112, 119]
    assert ring.extent(Quantity.LOAD) == Extent(12, 15.5, 19)


def test_a_whole_history_grows_coarser_and_forgets_no_extreme() -> None:
    whole = filled(1000, is_whole=True)
    assert list(whole.span) == [100, 1099]
    extent = whole.extent(Quantity.LOAD)
    assert extent is not None
    assert (extent.least, extent.most) == (0, 999)
    assert extent.mean == pytest.approx(499.5, abs=1)
    levels = whole.levels(Quantity.LOAD, 4)
    assert levels == sorted(levels, key=lambda level: level or 0)


def test_what_was_never_measured_is_unknown() -> None:
    history = filled(3, is_whole=False)
    assert history.extent(Quantity.POWER) is None
    assert history.levels(Quantity.POWER, 3) == [None] * 3
    assert history.recent(Quantity.POWER) is None
    assert DeviceHistory().levels(Quantity.LOAD, 2) == [None, None]
    assert not any(DeviceHistory().span)


def test_a_lag_lasts_from_its_first_low_entry_up_to_now() -> None:
    history = DeviceHistory()
    for at, load in ((0, 10), (10, 90), (20, 10), (30, 12), (40, 11)):
        history.add_sample(at, Device(0, "0", load_pct=load))
    assert history.seconds_below(Quantity.LOAD, 50) == 20
    assert history.seconds_below(Quantity.LOAD, 5) == 0


def counted(nvlink: int | None = None, efa: int | None = None) -> DeviceReading:
    return DeviceReading((Device(0, "0", load_pct=90.0, nvlink_bytes=nvlink, efa_bytes=efa),))


def rates(meter: RateMeter, at: float, reading: DeviceReading) -> tuple[float | None, float | None]:
    (device,) = meter.rated(at, reading).devices
    return device.nvlink_rate, device.efa_rate


def test_a_rate_is_the_difference_of_two_samples_and_never_a_guess() -> None:
    meter = RateMeter()
    assert rates(meter, 100.0, counted(1_000, 50)) == (None, None)
    assert rates(meter, 104.0, counted(9_000, 90)) == (2_000.0, 10.0)
    assert rates(meter, 104.0, counted(9_000, 90)) == (2_000.0, 10.0)  # the same sample, seen again
    assert rates(meter, 103.0, counted(8_000, 80)) == (None, None)  # an older one
    assert rates(meter, 106.0, counted(10, 110)) == (None, 10.0)  # the driver was loaded anew
    assert rates(meter, 1_000.0, counted(20, 200)) == (None, None)  # nobody looked for long
    assert rates(meter, 1_001.0, counted()) == (None, None)


def test_traffic_is_kept_over_time_and_records_without_it_are_as_before() -> None:
    collector = SpanCollector("worker-0", "node-1")
    for at, sent in ((100.0, 0), (102.0, 4_000), (104.0, 20_000)):
        collector.add(at, counted(sent))
    record = collector.record()
    assert record is not None
    (span,) = record.devices
    assert span.all_extents[Quantity.NVLINK] == Extent(2_000, 5_000, 8_000)
    assert span.all_extents[Quantity.EFA] is None
    history = DeviceHistory(is_whole=True)
    history.add(record.since, record.until, span.all_extents, record.samples)
    assert history.extent(Quantity.NVLINK) == Extent(2_000, 5_000, 8_000)
    assert history.extent(Quantity.LOAD) == Extent(90, 90, 90)

    written = msgspec.json.decode(msgspec.json.encode(record), type=SpanRecord)
    assert written == record
    of_before = b'["0", "A10G", null, [[1.0, 2.0, 3.0], null, null, null]]'
    old = msgspec.json.decode(of_before, type=DeviceSpan)
    assert old.all_extents == (Extent(1, 2, 3), None, None, None, None, None, None)
    history.add(200.0, 201.0, old.all_extents)
    assert history.extent(Quantity.NVLINK) == Extent(2_000, 5_000, 8_000)


def used(mebibytes: int, load: float = 0.0) -> DeviceReading:
    return DeviceReading((Device(0, "0", load_pct=load, mem_used_bytes=mebibytes << 20),))


def means(*samples: tuple[float, DeviceReading]) -> tuple[float, int]:
    """Return the mean load of samples, and how many count."""
    collector = SpanCollector("worker-0", "node-1")
    for at, reading in samples:
        collector.add(at, reading)
    record = collector.record()
    assert record is not None
    load = record.devices[0].all_extents[Quantity.LOAD]
    assert load is not None
    return load.mean, record.samples


def test_samples_after_the_process_do_not_count_at_the_end_and_do_in_the_midst() -> None:
    busy = [(float(at), used(40_000, 90.0)) for at in (0, 5, 10)]
    assert means(*busy, (15.0, used(3))) == (90.0, 3)
    assert means(*busy, (15.0, used(3, 40.0)), (20.0, used(3))) == (90.0, 3)  # the load is a mean over a second
    assert means(*busy, (15.0, used(3)), (20.0, used(30_000, 90.0))) == (72.0, 5)  # it was restarted
    assert means(*busy, *((float(at), used(3)) for at in range(15, 55, 5))) == (24.545, 11)  # it stays
    assert means((0.0, used(3)), (5.0, used(3))) == (0.0, 2)  # it has not begun
    assert means(*((float(at), counted(0)) for at in (0, 5))) == (90.0, 2)  # memory is not told


def test_clock_reasons_and_errors_are_kept_in_constant_space() -> None:
    collector = SpanCollector("worker-0", "node-1")
    for at in range(1000):
        hot = ("hot",) if at < 100 else ()
        device = Device(
            0, "0", clock_mhz=1980 - 500 * bool(hot), clock_max_mhz=1980, power_cap_w=700.0,
            throttle=(*hot, "power cap"), ecc_corrected=at // 500, ecc_uncorrected=0, nvlink_errors=None,
        )  # fmt: skip
        collector.add(float(at), DeviceReading((device,)))
    record = collector.record()
    assert record is not None
    assert len(msgspec.json.encode(record)) < 400
    (span,) = msgspec.json.decode(msgspec.json.encode(record), type=SpanRecord).devices
    assert span.all_extents[Quantity.CLOCK] == Extent(1480, 1930, 1980)
    assert list(span.limits) == [700, 1980]
    assert dict(span.throttle) == {"hot": 100, "power cap": 1000}
    assert list(span.errors) == [1, 0, None]
    totals = DeviceTotals()
    totals.add(span.label, span.throttle, span.errors, record.samples)
    totals.add(span.label, (("hot", 1000),), (3, None, 7), 1000)
    assert totals.shares() == [("hot", 0.55), ("power cap", 0.5)]
    assert totals.errors == (3, 0, 7)


def test_errors_of_neuron_are_added_as_each_record_counts_anew() -> None:
    totals = DeviceTotals()
    for errors in ((2, 0, None), (1, 1, None)):
        totals.add("ND0", (), errors)
    assert totals.errors == (3, 1, None)
