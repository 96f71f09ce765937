"""A growing file, cut into lines: the same lines however it comes, and from wherever it is taken up again."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from actions.cluster.logs.lines import BAR_BYTES, MAX_LINE_BYTES, FileCutter, FileLine
from actions.cluster.logs.pod_file import quoted_glob

BAR = b"".join(b"\rEpoch 0:  %d%%" % percent for percent in range(100)) * 12
TEXTS = st.lists(st.sampled_from([b"a line\n", b"\n", b"caf\xc3\xa9\n", b"x\r\n", BAR, b"tail", b"\x1b[31mred\n"]))


def lines_of(chunks: list[bytes], offset: int = 0) -> list[FileLine]:
    cutter = FileCutter(offset)
    return [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()


@given(TEXTS, st.lists(st.integers(0, 20_000), max_size=8))
def test_lines_do_not_depend_on_how_the_file_comes(parts: list[bytes], cuts: list[int]) -> None:
    text = b"".join(parts)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    chunks = [text[start:end] for start, end in itertools.pairwise(places)]
    assert lines_of(chunks) == lines_of([text])


@given(TEXTS, st.integers(0, 50))
def test_taken_up_behind_a_line_it_goes_on_as_if_it_had_never_stopped(parts: list[bytes], index: int) -> None:
    text = b"".join(parts)
    cutter = FileCutter()
    whole = cutter.feed(text)
    if not whole:
        return
    place = whole[index % len(whole)]
    rest = FileCutter(place.end).feed(text[place.end :])
    assert [*whole[: whole.index(place) + 1], *rest] == whole or whole.count(place) > 1


def test_a_bar_without_a_newline_comes_in_parts() -> None:
    lines = FileCutter().feed(BAR)
    assert lines
    assert all(line.text.startswith("\rEpoch") for line in lines)
    assert all(len(line.text) >= BAR_BYTES for line in lines)


def test_a_line_without_end_is_cut() -> None:
    (line,) = FileCutter().feed(b"x" * (MAX_LINE_BYTES + 5))
    assert (len(line.text), line.end) == (MAX_LINE_BYTES, MAX_LINE_BYTES)


def test_a_path_keeps_its_wildcards_and_nothing_else_for_the_shell() -> None:
    assert quoted_glob("/shared/*/0/log") == "/shared/*/0/log"
    assert quoted_glob("/a b/$(x)*") == "'/a b/$(x)'*"
