"""Numbers from outside: from logs, reports of tools, tables and stored values, within what all arithmetic survives.

A float of Python goes up to 1.8e308 and down to 5e-324, but the sum of two, a square or a decimal logarithm of such a
number does not. What is beyond `MOST` is infinite for everything behind this module, and what is nearer to zero than
`LEAST` is zero: a loss that has got there can be compared with nothing.
"""

from __future__ import annotations

import math

MOST = 1e100
LEAST = 1e-100
MOST_DIGITS = 18
"""Of a whole number: as many as 64 bits hold. Python itself refuses texts of more than 4,300."""
LATEST = 4102444800.0
"""The last moment that is taken for a time, seconds since the epoch: the year 2100."""


def in_bounds(value: float) -> float:
    """Return a number as all arithmetic survives it. NaN and infinities stay: that is what was printed."""
    if LEAST <= value <= MOST or value == 0 or -MOST <= value <= -LEAST:
        return value
    if math.isnan(value) or math.isinf(value):
        return value
    return math.copysign(math.inf if abs(value) > MOST else 0.0, value)


def real(value: object) -> float | None:
    """Return a value of a foreign document as a bounded number; `None` if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) > MOST:  # one of 400 digits cannot become a float
        return math.inf if value > 0 else -math.inf
    return in_bounds(float(value))


def whole(text: str) -> int | None:
    """Return the whole number that a text is, without a sign; `None` for anything else, and for too many digits."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def moment(seconds: object) -> float | None:
    """Return seconds since the epoch; `None` for what is not between 1970 and `LATEST`."""
    value = real(seconds)
    return value if value is not None and 0 <= value <= LATEST else None
