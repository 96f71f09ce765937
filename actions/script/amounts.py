"""Small values that scripts write as text: durations and comparisons."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

import msgspec

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_COMPARISON = re.compile(r"(>=|<=|==|!=|>|<)?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


def parse_duration(text: str | float) -> float:
    """Seconds from `90s`, `2m`, `1h30m` or a plain number of seconds.

    Raises:
        ValueError: It is none of these, or not above zero.
    """
    if isinstance(text, int | float):
        seconds = float(text)
    else:
        match = _DURATION.fullmatch(text.strip())
        if not match or not any(match.groups()):
            raise ValueError(f"{text!r} is no duration; write 90s, 2m or 1h30m")
        hours, minutes, rest = match.groups()
        seconds = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(rest or 0)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not above zero")
    return seconds


class Comparison(msgspec.Struct, frozen=True):
    """A bound such as `>= 200`. NaN meets none."""

    sign: str
    bound: float

    def holds(self, value: float) -> bool:
        """Whether `value` meets the bound."""
        return not math.isnan(value) and _OPERATORS[self.sign](value, self.bound)

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


def parse_comparison(text: str | float) -> Comparison:
    """Read `>= 200`, `< 9`, or a plain number, which means *equal*.

    Raises:
        ValueError: It is no comparison.
    """
    match = _COMPARISON.fullmatch(str(text).strip())
    if isinstance(text, bool) or not match:
        raise ValueError(f"{text!r} is no comparison; write '>= 200', '< 9' or a number")
    return Comparison(match[1] or "==", float(match[2]))
