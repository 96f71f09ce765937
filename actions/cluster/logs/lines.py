"""One log line, its sortable timestamp, and the place up to which a log has been taken.

A stamp is thirty bytes of RFC 3339 in UTC, whose order as bytes is the order of time.
"""

from __future__ import annotations

import calendar
import re
import time
from functools import lru_cache

import msgspec

from actions.base.line_cutter import CutPolicy

STAMP_BYTES = 30
STAMP_OUTLINE = b"0000-00-00T00:00:00.000000000Z"
"""A stamp whose digits are all zeros; see `DIGITS_TO_ZERO`."""
DIGITS_TO_ZERO = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_FORM = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))(?: |$)", re.ASCII)
NANOSECONDS = 1_000_000_000
_LATEST_SECOND = 253_402_300_799
"""The end of the year 9999."""
_LATEST_NS = (1 << 63) - 1


def ns_of(stamp: bytes) -> int:
    """Return nanoseconds since the epoch, at most 63 bits of them; 0 for a date that does not exist."""
    return min(_second_of(stamp[:19]) * NANOSECONDS + int(stamp[20:29]), _LATEST_NS)


def stamp_of(at_ns: int) -> bytes:
    """Return the stamp of nanoseconds since the epoch, limited to the years from 1970 to 9999."""
    seconds, fraction = divmod(max(at_ns, 0), NANOSECONDS)
    return b"%s.%09dZ" % (_text_of(min(seconds, _LATEST_SECOND)), fraction)


def split_stamp(line: bytes) -> tuple[bytes, bytes] | None:
    """Return stamp and text of a line as a kubelet sends it, in any form of RFC 3339; `None` if it has no timestamp."""
    found = _FORM.match(line)
    if found is None:
        return None
    moment, fraction, sign, hours, minutes = found.groups()
    text = line[found.end() :]
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds = _second_of(moment) + (offset if sign == b"-" else -offset)
        moment = _text_of(min(max(seconds, 0), _LATEST_SECOND))
    return b"%s.%sZ" % (moment, (fraction or b"").ljust(9, b"0")), text


@lru_cache(maxsize=1024)
def _second_of(moment: bytes) -> int:
    """Return seconds since the epoch of `YYYY-MM-DDThh:mm:ss`."""
    year, month, day = int(moment[:4]), int(moment[5:7]), int(moment[8:10])
    hour, minute, second = int(moment[11:13]), int(moment[14:16]), int(moment[17:19])
    try:
        return max(calendar.timegm((year, month, day, hour, minute, second)), 0)
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def _text_of(seconds: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of one container.

    `at_ns` is the server's timestamp, nanoseconds since the epoch; `text` has passed `clean_text`, has no newline and
    keeps its `\\r`. A marker is a line of ours (a gap, a restart) or one that the server could not stamp.
    """

    at_ns: int
    text: str
    is_marker: bool = False


class LogCursor(msgspec.Struct, frozen=True, gc=False):
    """The position up to which a log was taken: `seen` lines with exactly the newest timestamp `at_ns`."""

    at_ns: int
    seen: int


START = LogCursor(0, 0)


def _stamp_in(line: bytes) -> bytes:
    """Return what stands before the text of a line as a kubelet sends it, with its blank; empty without a stamp."""
    stamped = split_stamp(line)
    return line[: len(line) - len(stamped[1])] if stamped else b""


KUBELET_LOG = CutPolicy(head_of=_stamp_in)
"""The policy for a log as a kubelet sends it: the parts of a progress bar carry the timestamp of their line."""
