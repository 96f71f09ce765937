"""The line store and the search over it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.cluster.logs.batch import batches_of, tagged_lines
from actions.cluster.logs.lines import LogLine
from tui.present.ansi import visible_text
from tui.widgets.log_buffer import BufferedLine, LineSearch, LogBuffer
from tui.widgets.log_renderer import AllLines, MatchingLines


def a_buffer(*lines: str, source: str = "pod-0") -> LogBuffer:
    buffer = LogBuffer()
    buffer.extend(BufferedLine(line, source) for line in lines)
    return buffer


def found(buffer: LogBuffer, pattern: str) -> list[int]:
    search = LineSearch(buffer, pattern)
    while not search.advance(seconds=0.0):
        continue
    return list(search.matches)


def test_lines_keep_text_source_time_and_marker() -> None:
    buffer = LogBuffer()
    record = BufferedLine("step 1 loss 2.5 — ünïcode 進", "worker-3", 1_700_000_000_123_456_789, is_marker=True)
    buffer.extend([BufferedLine("first"), record])
    assert buffer.line(1) == record
    assert buffer.sources == ("", "worker-3")


def test_sealed_chunks_read_like_open_ones() -> None:
    buffer = LogBuffer()
    lines = [f"line {number} " + "x" * 100 for number in range(20_000)]
    buffer.extend(BufferedLine(line) for line in lines)
    assert [buffer.line(number).text for number in (0, 9_999, 19_999)] == [lines[0], lines[9_999], lines[19_999]]
    assert buffer.kept_bytes < sum(map(len, lines)) / 2


def test_the_oldest_lines_go_by_count_and_are_counted() -> None:
    buffer = LogBuffer(max_lines=5_000)
    buffer.extend(BufferedLine(f"{number} " + "y" * 200) for number in range(30_000))
    assert buffer.end == 30_000
    assert 5_000 <= buffer.end - buffer.start < 10_000
    assert buffer.evicted == buffer.start
    assert buffer.line(buffer.start).text.startswith(f"{buffer.start} ")
    with pytest.raises(IndexError):
        buffer.line(buffer.start - 1)


def test_the_oldest_lines_go_by_bytes_too() -> None:
    buffer = LogBuffer(max_bytes=300_000)
    buffer.extend(BufferedLine(f"{number * 7919 % 100_003:x}" * 20) for number in range(60_000))
    assert buffer.evicted > 0
    assert buffer.kept_bytes < 300_000 + 2 * 400_000


def test_a_huge_line_is_cut_and_says_how_much_is_missing() -> None:
    assert a_buffer("z" * 10_000).line(0).text.endswith("… (1,808 characters more)")


def test_a_huge_progress_bar_keeps_its_last_state() -> None:
    assert a_buffer("\r".join(f"{percent:3}% |####|" for percent in range(1_000))).line(0).text == "999% |####|"


def test_a_search_ignores_case_unless_a_capital_is_in_the_pattern() -> None:
    buffer = a_buffer("Loss 1", "loss 2", "other")
    assert found(buffer, "loss") == [0, 1]
    assert found(buffer, "Loss") == [0]


def test_a_search_sees_what_the_eye_sees() -> None:
    buffer = a_buffer("\x1b[31mER\x1b[0mROR here", "old 10%\rnew 20%", "nothing", "tail 30%\r")
    assert found(buffer, "error") == [0]
    assert found(buffer, "old") == []
    assert found(buffer, "new") == [1]
    assert found(buffer, "tail") == [3]


def test_a_broken_expression_is_taken_literally() -> None:
    assert found(a_buffer("rank [0", "rank 1"), "[0") == [0]


def test_d21_a_search_that_would_never_end_ends() -> None:
    assert found(a_buffer("a" * 5000, "b"), "(a+)+$x") == []


def test_an_inverse_search_finds_the_others() -> None:
    assert found(a_buffer("noise", "signal", "noise"), "!noise") == [1]


@given(
    st.lists(st.text(st.sampled_from("aabA 1.é"), max_size=6), max_size=20),
    st.lists(
        st.sampled_from(
            ["a", "b", "A", "é", " ", r"\.", r"\d", r"\b", "^", "$", "b*", "a?", ".", "|", "[ab]", "(", "(a)"]
        ),
        max_size=4,
    ),
)
def test_a_filter_and_its_inverse_divide_the_lines_whatever_the_pattern(lines: list[str], parts: list[str]) -> None:
    """Of many patterns a run of matching lines is found at once, of the others line by line."""
    pattern, buffer = "".join(parts) or "a", a_buffer(*lines)
    matching = found(buffer, pattern)
    assert matching == [n for n, line in enumerate(lines) if found(a_buffer(line), pattern)]
    assert sorted([*matching, *found(buffer, f"!{pattern}")]) == list(range(len(lines)))


def test_a_slice_of_a_search_ends_in_time_whatever_it_finds() -> None:
    buffer = LogBuffer()
    buffer.extend(BufferedLine(f"hit {number} " + "q" * 100) for number in range(20_000))
    for pattern in ("hit", "!hit", "[h]it", "miss"):
        search, slices = LineSearch(buffer, pattern), 1
        while not search.advance(seconds=0.0):
            slices += 1
        assert slices >= 8, "one chunk each"
        assert len(search.matches) == (20_000 if "h" in pattern and pattern[0] != "!" else 0)


def test_an_anchored_pattern_means_the_line() -> None:
    assert found(a_buffer("step 1", "a step 2", "step 3"), "^step") == [0, 2]


def test_a_search_takes_up_new_lines_and_drops_forgotten_ones() -> None:
    buffer = LogBuffer(max_lines=1_000)
    buffer.extend(BufferedLine(f"hit {number} " + "q" * 300) for number in range(3_000))
    search = LineSearch(buffer, "hit")
    search.advance(seconds=60.0)
    buffer.extend(BufferedLine("hit again " + "q" * 300) for _ in range(5_000))
    search.advance(seconds=60.0)
    assert list(search.matches) == list(range(buffer.start, buffer.end))


def test_steps_through_matches_end_at_both_ends() -> None:
    buffer = a_buffer("x", "hit", "x", "hit", "x")
    search = LineSearch(buffer, "hit")
    search.advance()
    assert (search.after(-1), search.after(1), search.after(3)) == (1, 3, None)
    assert (search.before(5), search.before(3), search.before(1)) == (3, 1, None)
    window = MatchingLines(search)
    assert (window.count, window.at_or_after(2), window.before(buffer.end), window.rank(3)) == (2, 3, 3, 1)


def test_all_lines_are_walked_from_start_to_end() -> None:
    window = AllLines(a_buffer("a", "b", "c"))
    assert (window.at_or_after(0), window.at_or_after(3), window.before(99), window.before(0)) == (0, None, 2, None)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\x1b\r"), max_size=40), max_size=30))
def test_a_search_agrees_with_a_plain_look_at_every_line(lines: list[str]) -> None:
    buffer = a_buffer(*lines)
    assert found(buffer, "a") == [number for number, line in enumerate(lines) if "a" in line.lower()]


@given(st.text(st.sampled_from("ab\x1b[31m;\r0"), max_size=60))
def test_visible_text_has_no_controls_whatever_comes(line: str) -> None:
    assert all(character.isprintable() for character in visible_text(line))


def test_records_are_taken_many_at_once_and_read_like_lines() -> None:
    lines = [LogLine(at, "z" * 10_000 if at == 3 else f"ü {at}", is_marker=at == 2) for at in range(2_500)]
    records = [record for batch in batches_of(lines) for record in tagged_lines(batch, 7)]
    buffer = LogBuffer()
    buffer.extend([BufferedLine("before", "somebody")])
    buffer.extend_tagged(records, lambda number: f"pod-{number}")
    assert buffer.sources == ("somebody", "pod-7")
    assert buffer.line(3) == BufferedLine("ü 2", "pod-7", 2, is_marker=True)
    assert buffer.line(4).text.endswith("… (1,808 characters more)")
    assert buffer.line(2_500) == BufferedLine("ü 2499", "pod-7", 2_499)
    assert found(buffer, "ü 2499") == [2_500]


def test_sources_of_one_batch_are_numbered_in_the_order_of_their_first_lines() -> None:
    """Their colours follow from it, and are the same every time a log is opened."""
    buffer = LogBuffer()
    numbers = [7, 3, 12, 3, 0, 31, 5]
    records = [b"L%06d\t2026-11-21T10:00:00.000000000Z line" % number for number in numbers]
    buffer.extend_tagged(records, lambda number: f"pod-{number}")
    assert buffer.sources == ("pod-7", "pod-3", "pod-12", "pod-0", "pod-31", "pod-5")


def test_a_search_keeps_to_some_sources_across_chunks() -> None:
    buffer = LogBuffer()
    buffer.extend(BufferedLine(f"line {n} " + "x" * 200, f"pod-{n % 3}") for n in range(5_000))
    search = LineSearch(buffer, "", only=["pod-1"])
    while not search.advance(seconds=0.0):
        continue
    assert list(search.matches) == list(range(1, 5_000, 3))
    narrow = LineSearch(buffer, "!line 1", only=["pod-1", "pod-2"])
    assert narrow.advance(seconds=60.0)
    wanted = [n for n in range(5_000) if n % 3 and not str(n).startswith("1")]
    assert list(narrow.matches) == wanted
