"""Looking for numbers once for all lines of an outline finds what looking in every line would."""

from __future__ import annotations

import pytest

from actions.telemetry.dialects.dialect import Dialect
from actions.telemetry.dialects.generic import GenericLines
from actions.telemetry.dialects.progress_bars import bar_of
from actions.telemetry.log_reader import DIALECTS, read_log
from actions.telemetry.log_records import LogRecord, PrefixReader, split_records, strip_controls
from actions.telemetry.outlines import LONGEST_KEPT, memoize_by_outline, outline_of
from actions.telemetry.points import number_of
from tests.unit.telemetry.test_marks import sample_lines


def _records(lines: list[str]) -> list[LogRecord]:
    prefixes = PrefixReader()
    pieces = (piece for line in lines for piece in split_records(line))
    return [record for piece in pieces if (record := prefixes.read(strip_controls(piece), None))]


@pytest.mark.parametrize("kind", [*DIALECTS, GenericLines])
def test_a_dialect_reads_by_the_outline_what_it_reads_by_the_text(kind: type[Dialect]) -> None:
    for lines in sample_lines():
        by_outline, by_text = kind(), kind()
        for record in _records(lines):
            assert str(by_outline.read(record)) == str(by_text.read(record._replace(outline=record.text)))


@pytest.mark.parametrize("text", ["", "step 1299 loss 3.5", "스텝 19 █▎ 7%", "\ud800 12", "٣ 4"])
def test_an_outline_is_as_long_as_its_text_and_has_zeros_for_digits(text: str) -> None:
    assert outline_of(text) == "".join("0" if character in "0123456789" else character for character in text)


def test_an_outline_is_looked_at_once_unless_it_is_very_long() -> None:
    looked: list[str] = []

    @memoize_by_outline
    def length(outline: str) -> int:
        looked.append(outline)
        return len(outline)

    short, long = "step 0", "0" * (LONGEST_KEPT + 1)
    assert [length(short), length(short), length(long), length(long)] == [6, 6, len(long), len(long)]
    assert looked == [short, long, long]


def test_lines_of_one_outline_keep_their_own_numbers() -> None:
    points = read_log(b"step 10 loss 2.5\nstep 20 loss nan.0\nstep 30 loss 2.4\nstep 40 loss nan.7\n")
    assert [(point.step, str(point.value)) for point in points] == [(10, "2.5"), (20, "nan"), (30, "2.4"), (40, "nan")]


@pytest.mark.parametrize(
    ("text", "value"),
    [("6,785", 6785.0), ("1,234.5e1", 12345.0), ("-inf.0", float("-inf")), ("Infinity.0", float("inf")), (".5", 0.5)],
)
def test_numbers_are_read_as_trainers_print_them(text: str, value: float) -> None:
    assert number_of(text) == value


def test_keys_of_a_bar_keep_their_digits() -> None:
    bar = bar_of("Epoch 1: 10%|# | 10/99 [00:01<00:09, 9.5it/s, top1=0.31, top5=0.62]")
    assert bar is not None
    assert (bar.label, bar.texts, bar.rate_text) == ("Epoch 1", {"top1": "0.31", "top5": "0.62"}, "9.5")
