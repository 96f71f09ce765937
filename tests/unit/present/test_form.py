"""The contents of the fields of a form, and one line of text while it is edited."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tui.present.cells import text_of
from tui.present.form import EDITS, Entries, Field, FieldKind, LineEdit, Value

WORKERS = Field("workers", "Workers", FieldKind.INTEGER, 8, minimum=1, maximum=64, unit="nodes")
INSTANCE = Field("instance", "Instance type", FieldKind.CHOICE, "g5.12xlarge", choices=("g5.12xlarge", "p4d.24xlarge"))
SPOT = Field("spot", "Spot capacity", FieldKind.SWITCH, False, help="cheaper, may be taken back")


def agreed(values: Mapping[str, Value]) -> Mapping[str, str]:
    del values
    return {}


def test_a_text_that_cannot_be_read_is_an_error_and_no_value() -> None:
    entries = Entries([WORKERS, SPOT], {}, agreed)

    assert entries.write(0, "65")
    assert entries.values == {"spot": False}
    assert entries.errors == {"workers": "must be 1–64 nodes"}
    assert entries.first_wrong == 0
    assert text_of(entries.note(0)) == "✘ must be 1–64 nodes"


def test_the_same_value_written_otherwise_is_no_change() -> None:
    entries = Entries([WORKERS], {}, agreed)

    assert not entries.write(0, " 8 ")


def test_options_go_round_and_one_that_is_none_of_them_leads_to_the_first() -> None:
    entries = Entries([INSTANCE, WORKERS], {}, agreed)

    assert entries.turned(0, 1) == "p4d.24xlarge"
    assert entries.turned(0, -1) == "p4d.24xlarge"
    entries.write(0, "g6.xlarge")
    assert entries.turned(0, 1) == "g5.12xlarge"
    assert entries.turned(1, 1) == "8"


def test_a_field_is_explained_with_its_options_and_its_default() -> None:
    entries = Entries([INSTANCE, SPOT], {}, agreed)

    assert entries.explanation(0) == "one of g5.12xlarge, p4d.24xlarge · default g5.12xlarge"
    assert entries.explanation(1) == "cheaper, may be taken back · default no"


def test_what_differs_from_the_default_names_it() -> None:
    entries = Entries([WORKERS], {"workers": 4}, agreed)

    assert text_of(entries.note(0)) == "● default 8 · 1–64 nodes"


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
