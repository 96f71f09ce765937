"""Amounts: as Kubernetes writes them, as a person reads them."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from actions.base.numbers import in_bounds

HOURS_PER_MONTH = 730
"""365 × 24 / 12, as AWS's own calculator and eks-node-viewer count a month."""

UNKNOWN = "?"

_UNITS = {
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}  # fmt: skip
_MEMO_SIZE = 16384
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_WHOLE_DOLLARS = 100
_CENT = Decimal("0.01")
_FINEST = Decimal("0.000001")


@lru_cache(maxsize=_MEMO_SIZE)
def parse_quantity(text: str) -> float:
    """Read a quantity: `500m`, `16Gi`, `1e3`, `8`.

    Raises:
        ValueError: It is none, or more than there can be of anything.
    """
    unit = text[-2:] if text[-2:] in _UNITS else text[-1:]
    try:
        amount = in_bounds(float(text[: -len(unit)]) * _UNITS[unit] if unit in _UNITS else float(text))
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise ValueError(f"{text[:40]!r} is not an amount")
    return amount


def format_cpu(milli: int) -> str:
    """Return cores from thousandths of a core, at most one decimal above 10: `0.25`, `3.92`, `95.7`, `192`."""
    cores = milli / 1000
    return _trimmed(cores, 1 if abs(cores) >= 10 else 2)


def format_bytes(size_bytes: int) -> str:
    """Bytes with a binary unit and at most three digits: `512Mi`, `15.3Gi`, `1.91Ti`."""
    value = float(size_bytes)
    for unit in _BINARY:
        if abs(value) < 1000 or unit == _BINARY[-1]:
            break
        value /= 1024
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{_trimmed(value, digits)}{unit}"


def size_text(size_bytes: int) -> str:
    """Return a size for a sentence or a list, in the digits of `format_bytes`: `8 B`, `512 MiB`, `15.3 GiB`."""
    text = format_bytes(size_bytes)
    digits = text.rstrip("".join(_BINARY))
    return f"{digits} {text[len(digits) :]}B"


def format_usd(amount: Decimal) -> str:
    """Return dollars and cents with thousands separators: `$1,234.50`."""
    return f"${amount.quantize(_CENT, ROUND_HALF_UP):,}"


def format_range(low: Decimal, high: Decimal, left_out: str = "", *, is_whole: bool = False) -> str:
    """Return the ends of an amount: `$0.08–0.38`, `$12.00`, `$0.08–0.38 + traffic`.

    Args:
        low: Low end.
        high: High end.
        left_out: What is not in it; empty for nothing.
        is_whole: Without cents where they do not matter.
    """
    first, last = (format_dollars(one) if is_whole else format_usd(one) for one in (low, high))
    span = first if first == last else f"{first}–{last.removeprefix('$')}"
    return f"{span} + {left_out}" if left_out else span


def format_dollars(amount: Decimal) -> str:
    """Return an amount without cents where they do not matter: `$1,027`, `$13.08`."""
    return f"${amount:,.0f}" if amount >= _WHOLE_DOLLARS else format_usd(amount)


def bounded(amount: str, *, is_lower_bound: bool) -> str:
    """Return an amount for a table: `≥ $12.34` if something that costs is not in it. Sentences have `at least`."""
    return f"≥ {amount}" if is_lower_bound else amount


def decimal_text(amount: Decimal) -> str:
    """Return an amount as programs read it, to a millionth of a dollar, without zeros at its end: `12.345679`, `0`."""
    text = f"{amount.quantize(_FINEST, ROUND_HALF_UP):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_hourly(amount: Decimal | None, *, is_lower_bound: bool = False) -> str:
    """Return an hourly sum: `$82.27/h`, `≥ $82.27/h`, `?`.

    Args:
        amount: The sum of the known prices; `None` if none is known.
        is_lower_bound: Something that costs is not in it.
    """
    return UNKNOWN if amount is None else bounded(f"{format_usd(amount)}/h", is_lower_bound=is_lower_bound)


def percent_of(part: int, whole: int) -> float | None:
    """Return `part` of `whole` in percent, `None` without a whole; above 100 if more is requested than there is."""
    return 100 * part / whole if whole > 0 else None


def _trimmed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
