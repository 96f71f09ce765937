"""Plain text in as many columns as there are."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tui.present.text import wrapped_lines


def texts(line: str, width: int) -> list[str]:
    return [row.text for row in wrapped_lines([line], width)]


def test_a_line_that_fits_is_left_as_it_is() -> None:
    assert texts("  a   b", 7) == ["  a   b"]
    assert texts("", 7) == [""]


def test_what_follows_a_label_goes_on_under_itself() -> None:
    assert texts("  w    Why is it stuck? The cause", 20) == [
        "  w    Why is it",
        "       stuck? The",
        "       cause",
    ]


def test_other_lines_go_on_two_columns_in() -> None:
    assert texts("one two three four", 9) == ["one two", "  three", "  four"]


@pytest.mark.parametrize("line", ["x" * 50, "key   " + "y" * 50, "日本語" * 12, "  - " + "z" * 30 + " end"])
def test_a_word_that_is_too_long_is_broken_and_nothing_of_it_is_lost(line: str) -> None:
    rows = texts(line, 16)

    assert all(cell_len(row) <= 16 for row in rows)
    assert "".join("".join(rows).split()) == "".join(line.split())


def test_rows_know_their_line_and_without_a_width_nothing_is_wrapped() -> None:
    assert [row.line for row in wrapped_lines(["one two three", "four"], 8)] == [0, 0, 1]
    assert len(wrapped_lines(["x" * 500], 0)) == 1
