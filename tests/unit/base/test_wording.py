"""Durations, as people and servers write them."""

from __future__ import annotations

import pytest

from actions.base.wording import seconds_in


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3m20s", 200.0), ("1d2h3m4s", 93_784.0), ("1y", 31_536_000.0), ("1.5h", 5_400.0), ("0.5s", 0.5), ("0s", 0.0)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5Gi", "<unknown>", "-3s", "3s2m", "1e9s", f"{'9' * 400}s", "٣s"])
def test_anything_else_is_none(text: str) -> None:
    assert seconds_in(text) is None
