"""Curves prepared for drawing: cleaned, smoothed and thinned, with round ticks."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from typing import TypeAlias

import msgspec

from actions.base.numbers import LEAST, MOST
from actions.base.wording import duration
from tui.present.cells import Span, fit, text_of

NAME_WIDTH = 24


class Curve(msgspec.Struct, frozen=True, eq=False):
    """Points as measured, oldest first; both sequences `(n,)`. Values may be NaN or infinite."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    glyph: str = ""
    """A character drawn on some of its points, to distinguish it from others without colour; empty for none."""
    times: Sequence[float | None] = ()
    """Times of the points, seconds since the epoch; empty if unknown."""


class TimeAxis(Enum):
    """The times on an x axis."""

    NONE = auto()
    """Steps, or sizes."""
    CLOCK = auto()
    ELAPSED = auto()
    """Since the first point of each curve, so that runs of different days can be compared."""


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
    return Curve(curve.name, [x for x, _ in kept], [y for _, y in kept], curve.glyph)


def by_time(curve: Curve, time: TimeAxis) -> Curve:
    """Return the curve over its times, in seconds; points without one are left out."""
    kept = [(at, y) for at, y in zip(curve.times, curve.ys, strict=False) if at is not None and math.isfinite(at)]
    begin = kept[0][0] if kept and time is TimeAxis.ELAPSED else 0.0
    xs = [at - begin for at, _ in kept]
    return Curve(curve.name, xs, [y for _, y in kept], curve.glyph, [at for at, _ in kept])


def on_axis(curve: Curve, *, is_by_size: bool, time: TimeAxis) -> Curve:
    """Return the curve over the x axis that is chosen."""
    if time is not TimeAxis.NONE:
        return by_time(curve, time)
    return by_size(curve) if is_by_size else curve


def nearest(curve: Curve, x: float) -> int | None:
    """Return the place of the point nearest to an x, the earlier of two; `None` without any point.

    Args:
        curve: Over its axis, in rising x.
        x: On that axis.
    """
    if not curve.xs:
        return None
    at = bisect_left(curve.xs, x)
    around = [place for place in (at - 1, at) if 0 <= place < len(curve.xs)]
    return min(around, key=lambda place: abs(curve.xs[place] - x))


_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def time_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round moments between `low` and `high`, in seconds: at most `most`, at least one."""
    if most < 2 or not high > low:
        return [low]
    days = max(1, math.ceil((high - low) / most / 86_400)) * 86_400
    step = next((step for step in _TIME_STEPS if (high - low) / step <= most), days)
    first = math.ceil(low / step)
    return [float(number * step) for number in range(first, math.floor(high / step) + 1)][:most] or [low]


def time_labels(ticks: Sequence[float], time: TimeAxis) -> list[str]:
    """Format moments: `2h05m` since the begin, `14:05` of one day, `11-20 14:05` of several, with seconds if needed."""
    if time is TimeAxis.ELAPSED:
        return [duration(tick) for tick in ticks]
    days = {tick // 86_400 for tick in ticks}
    form = ("%m-%d " if len(days) > 1 else "") + ("%H:%M:%S" if any(tick % 60 for tick in ticks) else "%H:%M")
    return [datetime.fromtimestamp(tick, UTC).strftime(form) for tick in ticks]


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


def round_ticks(low: float, high: float, most: int, *, least_step: float = 0.0) -> list[float]:
    """Return round numbers between `low` and `high`: at most `most`, at least one, and `least_step` apart."""
    is_point = high - low <= max(LEAST, 1e-9 * max(abs(low), abs(high)))  # finer than numbers of that size are
    if is_point or most < 2 or not high - low <= MOST:
        return [low]
    raw = (high - low) / most
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.999)
    if least_step and step % least_step:  # 2.5, or less than one
        step = least_step * math.ceil(step / least_step)
    first = math.ceil(low / step - 1e-9)
    ticks = [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return ticks[:most] or [low]


_LONG_POWER = 1e16
"""From here on a number is shorter by its power than by its unit."""


def short_number(value: float) -> str:
    """Format a number in at most seven characters: `0.0312`, `12.5`, `1.2k`, `3.4M`, `2e-07`; `?` if not finite."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    if size >= _LONG_POWER:
        return f"{value:.3g}"
    for limit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if name == 'k' else limit):.4g}{name}"
    return f"{value:.4g}"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Format the ticks of an axis, no two alike: as many digits as neighbours need to differ, in one unit for all.

    The ticks of a narrow range far from zero, such as 1552.2 and 1552.4, differ behind the digits of `short_number`.
    """
    labels = [short_number(tick) for tick in ticks]
    for digits in range(5, _MOST_DIGITS + 1):
        if len(set(labels)) == len(set(ticks)):
            break
        labels = [_spelled(tick, digits) for tick in ticks]
    return labels


_MOST_DIGITS = 17
"""Digits after which two different floats are written differently."""


def _spelled(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if math.isfinite(value) else "?"


class MarkKind(StrEnum):
    """The reasons for a vertical mark on a chart; the value is the word in its legend."""

    EPOCH = "epoch"
    RESTART = "restart"
    ALARM = "alarm"


class Mark(msgspec.Struct, frozen=True):
    """A place on the x axis of a chart at which something has happened."""

    kind: MarkKind
    x: float
    at: float | None = None
    """Seconds since the epoch; `None` if unknown."""


Window: TypeAlias = tuple[float, float]
_SMALLEST_PART = 1e-4
"""Least part of the x axis that can be shown."""


def zoomed(whole: Window, window: Window | None, factor: float, around: float | None) -> Window | None:
    """Return the part of the x axis that is `factor` times as wide as the present one; `None` for all of it.

    Args:
        whole: The ends of the axis.
        window: The part that is shown; `None` for all of it.
        factor: Below 1 to see more of less.
        around: What keeps its place on the screen; `None` for the middle.
    """
    low, high = window or whole
    width = (high - low) * factor
    if width >= whole[1] - whole[0]:
        return None
    if width < (whole[1] - whole[0]) * _SMALLEST_PART:
        return window
    fixed = around if around is not None and low <= around <= high else (low + high) / 2
    return _within(whole, fixed - (fixed - low) * factor, width)


def panned(whole: Window, window: Window | None, distance: float) -> Window | None:
    """Return the window moved along the x axis, as far as the axis goes."""
    return None if window is None else _within(whole, window[0] + distance, window[1] - window[0])


def with_point(whole: Window, window: Window | None, x: float) -> Window | None:
    """Return the window, moved just so far that `x` is in it."""
    if window is None or window[0] <= x <= window[1]:
        return window
    return panned(whole, window, x - window[0] if x < window[0] else x - window[1])


def _within(whole: Window, low: float, width: float) -> Window:
    low = max(whole[0], min(low, whole[1] - width))
    return low, low + width


def stepped(curves: Sequence[Curve], cursor: float | None, count: int, window: Window | None) -> float | None:
    """Return the x of the point that is `count` points further on; `None` without any point.

    Args:
        curves: Over the axis; the points of all of them count.
        cursor: The point so far; without one, the last point in the window.
        count: Negative to go back.
        window: The part of the axis that is shown.
    """
    xs = sorted({x for curve in curves for x in curve.xs if math.isfinite(x)})
    if not xs:
        return None
    if cursor is None:
        inside = bisect_right(xs, window[1]) - 1 if window else len(xs) - 1
        return xs[max(0, inside)]
    at = bisect_left(xs, cursor)
    is_between = at == len(xs) or xs[at] != cursor
    at += count - (is_between and count > 0)
    return xs[max(0, min(at, len(xs) - 1))]


def values_at(curves: Sequence[Curve], x: float) -> list[tuple[str, bool]]:
    """Return the value of each curve at its point nearest to `x`, in six digits; false for a point elsewhere."""
    found = []
    for curve in curves:
        place = nearest(curve, x)
        found.append(("–", False) if place is None else (f"{curve.ys[place]:.6g}", curve.xs[place] == x))
    return found


def time_at(curves: Sequence[Curve], x: float) -> str:
    """Return the time of day, UTC, of the first point at `x`; empty if it has none."""
    for curve in curves:
        place = nearest(curve, x)
        if place is not None and curve.xs[place] == x and place < len(curve.times):
            at = curve.times[place]
            if at is not None:
                return f"{datetime.fromtimestamp(at, UTC):%m-%d %H:%M:%S}"
    return ""


def mark_places(marks: Sequence[Mark], kind: MarkKind, *, time: TimeAxis, window: Window | None) -> list[float]:
    """Return the places of the marks of a kind on the axis that is shown, each once."""
    if time is TimeAxis.ELAPSED:
        return []  # each curve has a begin of its own
    places = (mark.at if time is TimeAxis.CLOCK else mark.x for mark in marks if mark.kind is kind)
    low, high = window or (-math.inf, math.inf)
    return sorted({place for place in places if place is not None and low <= place <= high})


def marks_in_words(marks: Sequence[Mark]) -> list[str]:
    """Return `1 restart`, `3 epochs`: the number of marks of each kind, the rare ones first."""
    counts = [(sum(mark.kind is kind for mark in marks), kind.value) for kind in reversed(MarkKind)]
    return [f"{count:,} {word}{'s' * (count > 1)}" for count, word in counts if count]
