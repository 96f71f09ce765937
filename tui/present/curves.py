"""Curves prepared for drawing: cleaned, smoothed and thinned, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from tui.present.cells import Span, fit, text_of

NAME_WIDTH = 24


class Curve(msgspec.Struct, frozen=True, eq=False):
    """Points as measured, oldest first; both sequences `(n,)`. Values may be NaN or infinite."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


class Figures(msgspec.Struct, frozen=True):
    """The figures of a curve's legend. All are NaN when no value is finite."""

    last: float
    low: float
    high: float
    unshown: int
    """Values that cannot be drawn: infinite, not a number, or not positive on a logarithmic axis."""


class Line(msgspec.Struct, frozen=True):
    """Points to connect, in order, with breaks where a value could not be drawn (`None`)."""

    xs: tuple[float, ...]
    ys: tuple[float | None, ...]


def clean_name(name: str) -> str:
    """Return a curve's name for the legend: printable, of bounded length."""
    printable = "".join(character for character in name if character.isprintable())
    return text_of(fit(Span(printable), NAME_WIDTH)).rstrip()


def heights_of(curve: Curve, *, is_log: bool) -> list[float | None]:
    """Return heights on the y axis (decimal logarithms on a logarithmic one); `None` for values that have none."""
    if is_log:
        return [math.log10(y) if y > 0 and math.isfinite(y) else None for y in curve.ys]
    return [y if math.isfinite(y) else None for y in curve.ys]


def by_size(curve: Curve) -> Curve:
    """Return the curve over the binary logarithm of its x; points at 0 bytes are left out."""
    kept = [(math.log2(x), y) for x, y in zip(curve.xs, curve.ys, strict=True) if x > 0 and math.isfinite(x)]
    return Curve(curve.name, [x for x, _ in kept], [y for _, y in kept])


def size_ticks(low: float, high: float, most: int) -> list[float]:
    """Return the exponents of powers of two between `low` and `high`: at most `most`, at least one."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, -(-(last - first + 1) // max(1, most)))
    return [float(power) for power in range(first, last + 1, step)] or [low]


def figures_of(curve: Curve, *, is_log: bool) -> Figures:
    """Return the last, least and greatest finite value, and the number of values that are not shown."""
    finite = [y for y in curve.ys if math.isfinite(y)]
    unshown = sum(height is None for height in heights_of(curve, is_log=is_log))
    if not finite:
        return Figures(math.nan, math.nan, math.nan, unshown)
    return Figures(finite[-1], min(finite), max(finite), unshown)


def smoothed(heights: Sequence[float | None], *, weight: float = 0.9) -> list[float | None]:
    """Return the exponential moving average, corrected for its start; gaps stay gaps and do not affect it."""
    average, share = 0.0, 0.0
    result: list[float | None] = []
    for height in heights:
        if height is None:
            result.append(None)
            continue
        average = average * weight + (1 - weight) * height
        share = share * weight + (1 - weight)
        result.append(average / share)
    return result


def thinned(xs: Sequence[float], heights: Sequence[float | None], buckets: int) -> Line:
    """Keep at most two points a bucket, the least and the greatest, in their order: spikes and gaps survive."""
    count = min(len(xs), len(heights))
    if count <= 2 * buckets:
        return Line(tuple(xs[:count]), tuple(heights[:count]))
    kept_xs: list[float] = []
    kept: list[float | None] = []
    for bucket in range(buckets):
        begin, end = bucket * count // buckets, (bucket + 1) * count // buckets
        here = [index for index in range(begin, end) if heights[index] is not None]
        if not here:
            kept_xs.append(xs[begin])
            kept.append(None)
            continue
        extremes = {min(here, key=lambda i: heights[i] or 0.0), max(here, key=lambda i: heights[i] or 0.0)}
        for index in sorted(extremes):
            kept_xs.append(xs[index])
            kept.append(heights[index])
    return Line(tuple(kept_xs), tuple(kept))


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between `low` and `high`: at most `most`, at least one."""
    is_point = high - low <= 1e-9 * max(abs(low), abs(high))  # finer than numbers of that size can tell
    if is_point or most < 2:
        return [low]
    raw = (high - low) / most
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    ticks = [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return ticks[:most] or [low]


def short_number(value: float) -> str:
    """Format a number in at most seven characters: `0.0312`, `12.5`, `1.2k`, `3.4M`, `2e-07`; `?` if not finite."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    for limit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if name == 'k' else limit):.4g}{name}"
    return f"{value:.4g}"
