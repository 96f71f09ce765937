"""One line of text while it is edited."""

from __future__ import annotations

import pytest

from tui.present.form import EDITS, LineEdit


def after(text: str, *names: str) -> LineEdit:
    line = LineEdit(text, len(text))
    for name in names:
        line = EDITS[name](line)
    return line


@pytest.mark.parametrize(
    ("names", "text", "cursor"),
    [
        (("left", "backspace"), "s3://a bucke_", 12),
        (("home", "delete"), "3://a bucket_", 0),
        (("delete",), "s3://a bucket_", 14),
        (("home", "left", "backspace"), "s3://a bucket_", 0),
        (("word_left",), "s3://a bucket_", 7),
        (("home", "word_right"), "s3://a bucket_", 6),
        (("delete_word",), "s3://a ", 7),
        (("home", "word_right", "delete_to_end"), "s3://a", 6),
        (("word_left", "delete_to_start"), "bucket_", 0),
    ],
)
def test_keys_edit_at_the_cursor(names: tuple[str, ...], text: str, cursor: int) -> None:
    line = after("s3://a bucket_", *names)

    assert (line.text, line.cursor) == (text, cursor)


def test_what_is_typed_takes_the_place_of_a_marked_text_and_then_follows_it() -> None:
    line = LineEdit.of("8").typed("1").typed("6")

    assert (line.text, line.cursor) == ("16", 2)


def test_moving_keeps_a_marked_text_and_deleting_empties_it() -> None:
    assert EDITS["left"](LineEdit.of("2410")).typed("5").text == "24150"
    assert EDITS["backspace"](LineEdit.of("2400")).text == ""


def test_a_pasted_line_end_is_a_blank() -> None:
    assert LineEdit("", 0).typed("a\nb\n").text == "a b"
