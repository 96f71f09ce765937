"""Lines kept together are the lines that each by itself would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.untrusted import clean_lines, clean_text
from actions.cluster.logs.batch import (
    LogBatch,
    batch_of,
    batches_of,
    line_in,
    number_in,
    read_lines,
    tag_in,
    tagged_lines,
)
from actions.cluster.logs.lines import START, LogCursor, LogLine, ns_of, split_stamp, stamp_of

_NS = st.integers(0, 253_402_300_799 * 1_000_000_000)
_PIECES = st.sampled_from(
    [
        b"a",
        b"\x1b[31m",
        b"\x1b[",
        b"\x1b]0;t",
        b"\x07",
        b"\x9b",
        b"\xc2\x9b",
        b"\r",
        b"\t",
        b"\xe2\x80",
        b"\xe2\x80\xae",
    ]
)


@given(st.lists(st.lists(_PIECES, max_size=6).map(b"".join), min_size=1, max_size=6))
def test_lines_are_cleaned_together_as_each_would_be(lines: list[bytes]) -> None:
    alone = [clean_text(line.decode("utf-8", "replace")).encode() for line in lines]
    assert clean_lines(b"".join(line + b"\n" for line in lines)) == b"".join(line + b"\n" for line in alone)


@given(_NS, _NS)
def test_stamps_stand_in_the_order_of_time(one: int, other: int) -> None:
    assert (stamp_of(one) < stamp_of(other)) == (one < other)
    assert ns_of(stamp_of(one)) == min(one, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("given", "stamp"),
    [
        (b"2026-11-21T10:00:00Z x", b"2026-11-21T10:00:00.000000000Z"),
        (b"2026-11-21T10:00:00.25Z x", b"2026-11-21T10:00:00.250000000Z"),
        (b"2026-11-21T23:30:00.25-01:30 x", b"2026-11-22T01:00:00.250000000Z"),
        (b"2026-13-45T99:99:99Z x", b"2026-13-45T99:99:99.000000000Z"),
    ],
)
def test_every_form_of_a_stamp_becomes_one(given: bytes, stamp: bytes) -> None:
    assert split_stamp(given) == (stamp, b"x")
    ((line,),) = read_lines([given], previous_ns=0)
    assert line.text == "x"


def test_remarks_of_the_server_part_the_lines_around_them() -> None:
    usual = b"2026-11-21T10:00:0%d.000000000Z line %d"
    batches = read_lines([usual % (1, 1), b"too many open files", usual % (2, 2), usual % (3, 3)], previous_ns=5)
    assert [(batch.is_marker, [line.text for line in batch]) for batch in batches] == [
        (False, ["line 1"]),
        (True, ["too many open files"]),
        (False, ["line 2", "line 3"]),
    ]
    assert batches[1].first_ns == batches[0].first_ns


def test_a_cursor_counts_the_lines_of_the_newest_moment_wherever_they_stand() -> None:
    (batch,) = batches_of([LogLine(7, "a"), LogLine(5, "late"), LogLine(7, "b")])
    cursor = batch.passed_by(START)
    assert cursor == LogCursor(7, 2)
    assert batch.passed_by(cursor) == LogCursor(7, 4)
    assert batch.passed_by(LogCursor(9, 1)) == LogCursor(9, 1)
    (marker,) = batches_of([LogLine(99, "gap", is_marker=True)])
    assert marker.passed_by(cursor) == cursor


def test_records_carry_their_log_and_become_batches_again() -> None:
    (batch,) = batches_of([LogLine(7, "a\tb"), LogLine(8, "ü\r\x1b[31m")])
    records = tagged_lines(batch, 42)
    assert [number_in(tag_in(record)) for record in records] == [42, 42]
    assert [line_in(record) for record in records] == list(batch)
    assert batch_of(records).data == batch.data


def test_a_text_with_a_newline_stays_one_line() -> None:
    (batch,) = batches_of([LogLine(7, "a\nb")])
    assert [line.text for line in batch] == ["a b"]


def test_a_batch_is_a_sequence() -> None:
    batch = LogBatch(b"".join(b"%s %d\n" % (stamp_of(at), at) for at in range(5)))
    assert (len(batch), batch[1].at_ns, [line.text for line in batch[3:]]) == (5, 1, ["3", "4"])
    assert batch.without_first(5) is None
