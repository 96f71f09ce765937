"""Lines of many logs in one sequence: each stands, with its stamp, behind a tag of fixed width that names its log.

A record is a letter (`L` a line, `M` a marker), the log's number in six digits, a tab, a stamp in the form of
`logstamps`, a blank, the text. So records are put into the order of time as they are, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from actions.base.errors import RefusedError
from actions.cluster.logbatch import LogBatch, batches_of
from actions.cluster.loglines import LogLine
from actions.cluster.logstamps import STAMP_BYTES, ns_of

TAG_BYTES = 8
MOST_LOGS = 1_000_000
TEXT_AT = TAG_BYTES + STAMP_BYTES + 1
"""Where the text begins."""

tag_in = itemgetter(slice(TAG_BYTES))
"""The tag of a record."""
stamp_in = itemgetter(slice(TAG_BYTES, TAG_BYTES + STAMP_BYTES))
"""The stamp of a record: what it is sorted by."""


def tag_of(number: int, *, is_marker: bool = False) -> bytes:
    """The tag of a log.

    Raises:
        RefusedError: There cannot be so many.
    """
    if number >= MOST_LOGS:
        raise RefusedError(f"There are more than {MOST_LOGS:,} logs.", hint="Watch fewer pods.")
    return b"%c%06d\t" % (b"M" if is_marker else b"L", number)


def records_of(batch: LogBatch, number: int) -> list[bytes]:
    """The lines of a batch as records."""
    return batch.tagged(tag_of(number, is_marker=batch.is_marker))[:-1].split(b"\n")


def batch_of(records: Iterable[bytes]) -> LogBatch:
    """Records that have the same tag as a batch."""
    listed = list(records)
    data = b"\n".join([record[TAG_BYTES:] for record in listed]) + b"\n"
    return LogBatch(data, is_marker=listed[0][:1] == b"M")


def marker_of(text: str, number: int, at_ns: int) -> bytes:
    """The record of a remark of ours in a log."""
    (batch,) = batches_of([LogLine(at_ns, text, is_marker=True)])
    return records_of(batch, number)[0]


def line_in(record: bytes) -> LogLine:
    """The line of a record."""
    text = record[TEXT_AT:].decode("utf-8", "replace")
    return LogLine(ns_of(stamp_in(record)), text, record[:1] == b"M")


def number_in(tag: bytes) -> int:
    """The number of the log."""
    return int(tag[1 : TAG_BYTES - 1])
