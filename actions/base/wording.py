"""Lists, numbers and durations in a sentence."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from itertools import pairwise

UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
"""Units of durations with their seconds."""
_ROUNDED_SECONDS = 600
_LONG_DAYS = 100
"""From so many days on hours do not matter."""


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`.

    Args:
        names: All of them.
        most: How many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns.

    Args:
        rows: Of cells, the titles first; all of one length.
        right: The places of columns that are set to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def aligned_text(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return rows as one text with aligned columns; see `aligned`."""
    return "".join(f"{line}\n" for line in aligned(rows, right=right))


def counted(count: int, noun: str) -> str:
    """`1 object`, `2 objects`; of a noun whose plural ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_LONGEST_SECONDS = 1e12


def duration(seconds: float) -> str:
    """Format a duration: `0.4s`, `42s`, `3m12s`, `2h05m`, `4d07h`, `120d`. A negative one is `0s`."""
    if not seconds >= 0:  # not a number, too
        return "0s"
    if 0 < seconds < 1:
        return f"{seconds:.1f}s"
    whole = int(min(seconds, _LONGEST_SECONDS))
    if whole >= _LONG_DAYS * 86_400:
        return f"{whole // 86_400}d"
    for (name, size), (below, below_size) in pairwise(UNITS):
        if whole >= size:
            return f"{whole // size}{name}{whole % size // below_size:02}{below}"
    return f"{whole}s"


def brief_duration(seconds: float) -> str:
    """Format a duration that stands still, such as a limit: `1m30s`, `40m`, `2h30m`; to the minute from ten on."""
    text = duration(60 * round(seconds / 60) if _ROUNDED_SECONDS <= seconds < _LONGEST_SECONDS else seconds)
    return text[:-3] if text[-3:-1] == "00" and text[-4:-3].isalpha() else text


def rough_duration(seconds: float) -> str:
    """Format a duration in one unit, rounded down: `42s`, `3m`, `2h`, `4d`."""
    whole = int(min(seconds, _LONGEST_SECONDS)) if seconds > 0 else 0
    return next((f"{whole // size}{name}" for name, size in UNITS if whole >= size), "0s")


_UNIT_SECONDS = {"y": 31_536_000, **dict(UNITS)}
_DURATION = re.compile("".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,3}})?){unit})?" for unit in _UNIT_SECONDS), re.ASCII)


def seconds_in(text: str) -> float | None:
    """Read a duration such as `90s`, `1h30m`, `1.5h` or `2d3h`; `None` for anything else."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        return None
    return sum(float(part or 0) * size for part, size in zip(found.groups(), _UNIT_SECONDS.values(), strict=True))


def duration_range(low_seconds: float, high_seconds: float, *, is_rough: bool = True) -> str:
    """Format an expected duration: `35m–45m`, or one value if both look the same.

    Args:
        low_seconds: The least.
        high_seconds: The greatest.
        is_rough: In one unit each, for columns; else in two, where the second is not zero: `1h50m–3h`.
    """
    low, high = map(rough_duration if is_rough else brief_duration, (low_seconds, high_seconds))
    return low if low == high else f"{low}–{high}"


def folded(text: str, width: int, *, first: str = "", further: str = "", most: int | None = None) -> list[str]:
    """Fold a text at its spaces, so that names and commands with hyphens can be copied.

    Args:
        text: Of one paragraph. At hyphens it is folded only if it has a word that is longer than a line.
        width: Of a line, in columns.
        first: Indent of the first line.
        further: Indent of the others.
        most: Lines at most; the last one ends with an ellipsis where more would follow.

    Returns:
        The lines; none for an empty text.
    """
    room = width - max(len(first), len(further))
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=further,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=any(len(word) > room for word in text.split()),
    )
