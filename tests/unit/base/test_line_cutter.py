"""Streams, cut into lines: the same lines however they arrive, and from wherever a file is taken up again."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.line_cutter import BAR_BYTES, MAX_LINE_BYTES, CutPolicy, LineCutter
from actions.cluster.logs.lines import KUBELET_LOG
from actions.telemetry.runtime_format import TOOL_OUTPUT, decode_lines

FILE = CutPolicy(overflow="cut", keeps_ends=True)
BAR = b"".join(b"\rEpoch 0:  %d%%" % percent for percent in range(100)) * 12
CRLF = b"y" * BAR_BYTES + b"\r\n"
TEXTS = st.lists(
    st.sampled_from([b"a line\n", b"\n", b"caf\xc3\xa9\n", b"x\r\n", b"\r", BAR, CRLF, b"tail", b"\x1b[31mred\n"])
)


def lines_of(chunks: list[bytes], policy: CutPolicy) -> list[bytes]:
    cutter = LineCutter(policy)
    return [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()


@pytest.mark.parametrize("policy", [CutPolicy(), FILE, KUBELET_LOG, TOOL_OUTPUT])
@given(parts=TEXTS, cuts=st.lists(st.integers(0, 20_000), max_size=8))
def test_lines_do_not_depend_on_how_the_stream_arrives(policy: CutPolicy, parts: list[bytes], cuts: list[int]) -> None:
    text = b"".join(parts)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    chunks = [text[start:end] for start, end in itertools.pairwise(places)]
    assert lines_of(chunks, policy) == lines_of([text], policy)


@given(TEXTS, st.integers(0, 50))
def test_a_file_taken_up_behind_a_line_is_cut_as_if_it_had_been_read_at_once(parts: list[bytes], index: int) -> None:
    text = b"".join(parts)
    whole = LineCutter(FILE).feed(text)
    if not whole:
        return
    taken = whole[: index % len(whole) + 1]
    assert text.startswith(b"".join(taken))
    assert taken + LineCutter(FILE).feed(text[sum(map(len, taken)) :]) == whole


def test_a_bar_without_a_newline_comes_in_parts() -> None:
    lines = LineCutter(FILE).feed(BAR)
    assert lines
    assert all(line.startswith(b"\rEpoch") for line in lines)
    assert all(len(line) >= BAR_BYTES for line in lines)


def test_a_return_before_a_newline_is_no_bar() -> None:
    assert LineCutter().feed(CRLF) == [CRLF[:-1]]


def test_a_line_of_a_file_without_end_is_cut() -> None:
    (line,) = LineCutter(FILE).feed(b"x" * (MAX_LINE_BYTES + 5))
    assert len(line) == MAX_LINE_BYTES


def test_what_is_beyond_the_limit_is_dropped_and_counted() -> None:
    cutter = LineCutter(TOOL_OUTPUT)
    assert cutter.feed(b"x" * (MAX_LINE_BYTES + 5)) == []
    line, short = decode_lines(cutter.feed(b"\nshort\n"))
    assert line == "x" * MAX_LINE_BYTES + " … (+5 bytes)"
    assert short == "short"


def test_every_redraw_of_a_captured_bar_is_a_line_but_not_inside_a_record_of_a_log_file() -> None:
    record = b"2026-11-21T10:00:00Z stdout F 10%\r20%"
    assert lines_of([b"10%\r20%\r\n", record, b"\n30%"], TOOL_OUTPUT) == [b"10%", b"20%", b"", record, b"30%"]
