"""Quantities come back in the form in which an API server stores them."""

from __future__ import annotations

import pytest

from actions.sandbox.model.quantities import canonical


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("5120Mi", "5Gi"),
        ("32000Mi", "32000Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("2000", "2k"),
        ("0", "0"),
        ("1e3", "1e3"),
        ("some", "some"),
    ],
)
def test_the_largest_unit_that_leaves_a_whole_number_is_stored(given: str, stored: str) -> None:
    assert canonical(given) == stored
    assert canonical(stored) == stored
