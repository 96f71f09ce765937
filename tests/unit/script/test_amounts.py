"""Durations and comparisons."""

from __future__ import annotations

import math

import pytest

from actions.script.model import parse_comparison, parse_duration


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2m", 120), ("1h30m", 5400), ("0.5s", 0.5), (7, 7)])
def test_durations_read_as_people_write_them(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0", "0s", "m", math.inf])
def test_other_texts_are_no_durations(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"not a duration|not above zero"):
        parse_duration(text)


def test_a_plain_number_means_equal() -> None:
    assert parse_comparison(3).holds(3.0)
    assert not parse_comparison("3").holds(3.1)


def test_nan_meets_no_bound() -> None:
    assert not any(parse_comparison(text).holds(math.nan) for text in ("< 9", "> 9", "== 9", "!= 9"))


@pytest.mark.parametrize("text", ["", ">=", "about 3", "1..2", True])
def test_other_texts_are_no_comparisons(text: str | float) -> None:
    with pytest.raises(ValueError, match="not a comparison"):
        parse_comparison(text)
