"""How long a server wishes not to be asked: `Retry-After`, whatever it holds.

Source: RFC 9110, sections 5.6.7 (dates) and 10.2.3.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from actions.base.clock import SystemClock
from actions.cluster.limits import RETRY_AFTER_SECONDS

_DELTA = re.compile(r"[0-9]+", re.ASCII)
_LONG_DIGITS = 9


def read_retry_after(text: str, *, date: str = "", now: datetime | None = None) -> float | None:
    """Seconds from 0 to `RETRY_AFTER_SECONDS`; `None` for a text that is neither seconds nor a date.

    Args:
        text: The header.
        date: The answer's `Date`: a moment is measured from it, so that our own clock need not be right.
        now: Where there is no `Date`; the machine's clock by default.
    """
    text = text.strip()
    if _DELTA.fullmatch(text):
        return capped_wait(float(text) if len(text) <= _LONG_DIGITS else math.inf)
    moment = _moment(text)
    if moment is None:
        return None
    since = _moment(date.strip()) or now or SystemClock().now()
    return capped_wait((moment - since).total_seconds())


def capped_wait(seconds: float | None) -> float | None:
    """A wish, which may be any number, as a wait that can be kept; `None` for none."""
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS)


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # takes as long to import as a frame to draw, and is rarely needed

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
