"""Texts folded into lines."""

from actions.base.wording import folded


def test_a_name_with_hyphens_stays_whole() -> None:
    assert folded("The pod esm1nv-worker-0 waits.", 16) == ["The pod", "esm1nv-worker-0", "waits."]


def test_a_word_that_is_longer_than_a_line_is_folded_at_its_hyphens() -> None:
    assert folded("Pod one-two-three-four", 10) == ["Pod one-", "two-three-", "four"]


def test_a_word_that_is_longer_than_a_line_behind_its_indent_is_folded_at_its_hyphens() -> None:
    assert folded("see one-two-three", 13, further="  ") == ["see one-two-", "  three"]


def test_lines_are_indented_and_counted() -> None:
    assert folded("one two three", 7, first="→ ", further="  ") == ["→ one", "  two", "  three"]
    assert folded("one two three four", 9, most=1) == ["one two …"]
    assert folded("", 9) == []
