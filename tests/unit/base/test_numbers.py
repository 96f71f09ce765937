"""Numbers from outside are within what all arithmetic behind survives, or are none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.clock import parse_rfc3339
from actions.base.numbers import LATEST, LEAST, MOST, in_bounds, moment, real, whole
from actions.base.wording import brief_duration, duration, rough_duration
from actions.fleet.quantity import parse_quantity


@given(st.floats(), st.floats())
def test_what_is_within_bounds_survives_arithmetic(one: float, other: float) -> None:
    a, b = in_bounds(one), in_bounds(other)
    assert math.isnan(a) == math.isnan(one)
    if math.isfinite(a) and math.isfinite(b):
        assert math.isfinite(a * b)
        assert math.isfinite((a - b) ** 2 * 1000)
        assert not a or math.isfinite(1 / a)
        assert not a or math.isfinite(math.log10(abs(a * a)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e308, math.inf), (-1e101, -math.inf), (5e-324, 0.0), (LEAST, LEAST), (MOST, MOST), (-2.5, -2.5), (0.0, 0.0)],
)
def test_beyond_the_bounds_is_infinity_or_zero(value: float, expected: float) -> None:
    assert in_bounds(value) == expected


def test_values_of_documents() -> None:
    assert real(10**400) == math.inf
    assert real(-(10**5000)) == -math.inf
    assert real(3) == 3.0
    assert [real(each) for each in (True, None, "1", [1])] == [None] * 4


def test_whole_numbers() -> None:
    assert whole("0012") == 12
    assert [whole(each) for each in ("", "-1", "1.0", "\u00b2", "\u0661", "9" * 19, "9" * 5000, "1_0")] == [None] * 8


def test_moments() -> None:
    assert moment(1.7e9) == 1.7e9
    assert [moment(each) for each in (-1, LATEST + 1, 1e300, -1e18, math.nan, math.inf, "1", 10**400)] == [None] * 8


@pytest.mark.parametrize("text", ["1e999", "9" * 400, "nan", "inf", "-infGi", "1e300Ei"])
def test_no_amount_of_kubernetes_is_beyond_them(text: str) -> None:
    with pytest.raises(ValueError, match=r"amount|float"):
        parse_quantity(text)


def test_a_moment_outside_of_all_years_is_no_timestamp() -> None:
    for text in ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"):
        with pytest.raises(ValueError, match="not a timestamp"):
            parse_rfc3339(text)


@pytest.mark.parametrize("form", [duration, brief_duration, rough_duration])
def test_any_number_of_seconds_has_words(form: object) -> None:
    assert callable(form)
    for seconds in (math.inf, -math.inf, math.nan, 1e308, -5.0):
        assert form(seconds)
