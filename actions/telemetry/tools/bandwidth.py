"""Judgements of the output of nccl-tests and `fi_info`: do the ranks exchange data as they should.

Source: `assets/bandwidth/all_reduce.csv`; see the README beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from actions.base.files import asset
from actions.fleet.instance_types import load_rows
from actions.fleet.quantity import size_text
from actions.telemetry.tools.collectives import NcclReading, NcclRow
from actions.telemetry.tools.efa import EfaReading

_MOST_SHARE = 1.15
"""Of a measured curve: above it, what was measured is not what the curve is of."""


class Judgement(msgspec.Struct, frozen=True):
    """The result of one check. `is_good` is `None` where the output does not show it."""

    subject: str
    is_good: bool | None
    detail: str


class ReferenceCurve(msgspec.Struct, frozen=True):
    """A measured curve. `points` are (message size in bytes, bus bandwidth in GB/s), by size."""

    instance_type: str
    nodes: int
    ranks_per_node: int
    points: tuple[tuple[int, float], ...]
    source: str

    @property
    def name(self) -> str:
        """The nodes that it was measured on: `2 × p5.48xlarge`."""
        return f"{self.nodes} × {self.instance_type}"

    def at(self, size: int) -> float | None:
        """Return the bandwidth at a size; `None` below the smallest that was measured."""
        before = [point for point in self.points if point[0] <= size]
        after = [point for point in self.points if point[0] > size]
        if not before:
            return None
        low, high = before[-1], after[0] if after else before[-1]
        if low[0] in (size, high[0]):
            return low[1]
        share = math.log(size / low[0]) / math.log(high[0] / low[0])
        return low[1] + share * (high[1] - low[1])


def load_references(path: Path | None = None) -> tuple[ReferenceCurve, ...]:
    """Return the curves at `path`, or those that ship with the program.

    Raises:
        FormatError: A row is wrong; the message names file and line.
    """
    curves: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    sources: dict[tuple[str, int, int], str] = {}
    for row in load_rows(path or asset("bandwidth/all_reduce.csv")):
        key = (row.text("instance_type"), row.count("nodes") or 0, row.count("ranks_per_node") or 0)
        try:
            point = (row.count("size_bytes") or 0, float(row.text("busbw_gbs")))
        except ValueError as error:
            raise row.error(str(error)) from error
        curves.setdefault(key, []).append(point)
        sources[key] = row.text("source")
    return tuple(ReferenceCurve(*key, tuple(sorted(points)), sources[key]) for key, points in curves.items())


def judge_bandwidth(
    reading: NcclReading, reference: ReferenceCurve | None, *, at_least_percent: float, from_bytes: int
) -> tuple[Judgement, ...]:
    """Judge whether a test came to its end, computed rightly, went over EFA, and was fast.

    Args:
        reading: The test's output.
        reference: The curve of the same nodes, `None` if none is published.
        at_least_percent: Share of the reference, at every size from `from_bytes` on, out of place.
        from_bytes: Small messages are about latency and vary a lot.
    """
    return (
        _complete(reading),
        _values(reading),
        _network(reading),
        _speed(reading, reference, at_least_percent, from_bytes),
    )


def judge_adapters(reading: EfaReading, *, ranks: int, adapters: int) -> tuple[Judgement, ...]:
    """Judge whether every rank lists so many EFA adapters."""
    seen = {rank: reading.adapters_of(rank) for rank in range(ranks)}
    short = [f"rank {rank} sees {count}" for rank, count in seen.items() if count < adapters]
    if short:
        said = f"; {reading.error}" if reading.error else ""
        return (Judgement("EFA adapters", False, f"{', '.join(short)} of {adapters}{said}."),)
    return (Judgement("EFA adapters", True, f"{ranks} ranks see {adapters} each."),)


def peak_of(reading: NcclReading) -> tuple[float, int] | None:
    """Return the highest bus bandwidth out of place, in GB/s, and its message size; `None` without a row.

    References, curves and shares are out of place as well.
    """
    return max(((row.out_of_place.busbw, row.size) for row in reading.rows), default=None)


def _complete(reading: NcclReading) -> Judgement:
    subject = "test complete"
    if reading.error:
        return Judgement(subject, False, reading.error)
    if not reading.rows:
        return Judgement(subject, False, "the log has no row of a result table.")
    if reading.avg_bus_bandwidth is None:
        last = size_text(reading.rows[-1].size)
        return Judgement(subject, False, f"the table ends at {last}, without an average.")
    return Judgement(subject, True, f"{len(reading.rows)} sizes, average {reading.avg_bus_bandwidth:g} GB/s.")


def _values(reading: NcclReading) -> Judgement:
    subject = "values right"
    wrong = reading.wrong_rows
    if wrong or (reading.out_of_bounds is not None and not reading.out_of_bounds.ok):
        first = f", the first at {size_text(wrong[0].size)}" if wrong else ""
        return Judgement(subject, False, f"{len(wrong)} of {len(reading.rows)} sizes have wrong values{first}.")
    if not reading.is_checked:
        return Judgement(subject, None, "not checked: the test ran without -c 1.")
    return Judgement(subject, True, "nothing was wrong or out of bounds.")


def _network(reading: NcclReading) -> Judgement:
    subject = "over EFA"
    if reading.is_efa is None:
        return Judgement(subject, None, "NCCL did not print its network.")
    if not reading.is_efa:
        return Judgement(subject, False, "NCCL went over TCP sockets.")
    return Judgement(subject, True, "NCCL selected the provider efa.")


def _speed(reading: NcclReading, reference: ReferenceCurve | None, percent: float, from_bytes: int) -> Judgement:
    subject = "bus bandwidth"
    peak = peak_of(reading)
    if peak is None or not peak[0]:
        return Judgement(subject, None, "there is none: a single rank sends nothing.")
    said = f"peak {peak[0]:g} GB/s at {size_text(peak[1])}"
    if reference is None:
        return Judgement(subject, None, f"{said}; no curve of such nodes is published.")
    shares = list(_shares(reading.rows, reference, from_bytes))
    if not shares:
        return Judgement(subject, None, f"{said}; no message of {size_text(from_bytes)} or more to compare.")
    share, row = min(shares, key=lambda one: one[0])
    measured, wanted = row.out_of_place.busbw, reference.at(row.size)
    if share * 100 < percent:
        detail = (
            f"{measured:g} GB/s at {size_text(row.size)}, {share:.0%} of the {wanted:g} of {reference.name}; {said}."
        )
        return Judgement(subject, False, detail)
    most, row = max(shares, key=lambda one: one[0])
    if most > _MOST_SHARE:
        detail = f"faster than these nodes can be: {most:.0%} of {reference.name} at {size_text(row.size)}; {said}."
        return Judgement(subject, None, detail)
    return Judgement(subject, True, f"{said}; from {size_text(from_bytes)} on ≥ {share:.0%} of {reference.name}.")


def _shares(rows: Sequence[NcclRow], reference: ReferenceCurve, from_bytes: int) -> Iterator[tuple[float, NcclRow]]:
    for row in rows:
        wanted = reference.at(row.size)
        if row.size >= from_bytes and wanted:
            yield row.out_of_place.busbw / wanted, row
