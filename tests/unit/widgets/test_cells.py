"""Toned text and scrollbars: what fits where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.present.cells import Span, Tone, cells_of, fit, merged, text_of, width_of, wrapped
from tui.widgets.base import thumb_of

texts = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs", "So"]), max_size=12)


@given(st.lists(st.builds(Span, texts, st.sampled_from(Tone)), max_size=5), st.integers(0, 40), st.booleans())
def test_fitted_text_has_exactly_the_width_asked_for(spans: list[Span], width: int, align_right: bool) -> None:
    assert width_of(fit(tuple(spans), width, align_right=align_right)) == width


def test_what_was_cut_ends_in_an_ellipsis_and_keeps_its_tones() -> None:
    cells = fit((Span("ready ", Tone.GOOD), Span("since yesterday", Tone.MUTED)), 10)
    assert text_of(cells) == "ready sin…"
    assert [span.tone for span in cells] == [Tone.GOOD, Tone.MUTED]


@given(st.lists(st.builds(Span, texts, st.sampled_from(Tone)), max_size=8))
def test_runs_of_one_tone_keep_every_character_and_its_tone(spans: list[Span]) -> None:
    runs = merged(spans)
    assert "".join(text for text, _ in runs) == "".join(span.text for span in spans)
    wanted = [(char, span.tone) for span in spans for char in span.text if not char.isspace()]
    assert [(char, tone) for text, tone in runs for char in text if not char.isspace()] == wanted


def test_blanks_do_not_break_a_run() -> None:
    spans = (Span("a", Tone.GOOD), Span("  ", Tone.MUTED), Span("b", Tone.GOOD), Span("c"))
    assert merged(spans) == [("a  b", Tone.GOOD), ("c", Tone.PLAIN)]


def test_wide_characters_count_twice() -> None:
    assert text_of(fit("進捗状況", 5)) == "進捗…"
    assert text_of(fit("進捗", 6, align_right=True)) == "  進捗"


def test_plain_text_and_a_span_are_cells_too() -> None:
    assert cells_of("a") == (Span("a"),)
    assert cells_of(Span("a", Tone.BAD)) == (Span("a", Tone.BAD),)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 80))
def test_the_thumb_is_always_on_its_rail(top: int, count: int, height: int) -> None:
    start, size = thumb_of(top, count, height)
    assert start >= 0
    assert 1 <= size <= height
    assert start + size <= height


def test_the_thumb_stands_at_the_ends_when_the_view_does() -> None:
    assert thumb_of(0, 1_000, 20)[0] == 0
    start, size = thumb_of(980, 1_000, 20)
    assert start + size == 20
    assert thumb_of(0, 5, 20) == (0, 20)


@given(st.lists(st.tuples(st.text("ab €…", max_size=12), st.sampled_from(Tone)), max_size=6), st.integers(0, 30))
def test_a_wrapped_line_has_all_words_in_their_order(parts: list[tuple[str, Tone]], width: int) -> None:
    line = tuple(Span(text, tone) for text, tone in parts)
    rows = wrapped(line, width)
    assert "".join("".join(text_of(row) for row in rows).split()) == "".join(text_of(line).split())
    longest = max((width_of(part) for part, _ in parts), default=0)
    assert width == 0 or all(width_of(text_of(row).rstrip()) <= max(width, longest + 2) for row in rows)
