"""The order of stages."""

from __future__ import annotations

import pytest

from actions.base.errors import BlueprintError
from actions.run.graph import order_of


def test_each_stage_comes_after_what_it_needs_and_otherwise_as_written() -> None:
    assert order_of({"c": ("b",), "x": (), "b": (), "d": ("c", "x")}) == ("x", "b", "c", "d")


def test_a_circle_is_named() -> None:
    with pytest.raises(BlueprintError, match="in a circle: a, b"):
        order_of({"a": ("b",), "b": ("a",)})


def test_an_unknown_need_is_named() -> None:
    with pytest.raises(BlueprintError, match="'a' needs 'z'"):
        order_of({"a": ("z",)})
