"""The order of stages."""

from __future__ import annotations

import pytest

from actions.base.errors import BlueprintError
from actions.run.state.planner import order_of, parking_order, teardown_order
from actions.run.state.records import Action
from actions.run.state.view import StageState, StageView


def test_each_stage_comes_after_what_it_needs_and_otherwise_as_written() -> None:
    assert order_of({"c": ("b",), "x": (), "b": (), "d": ("c", "x")}) == ("x", "b", "c", "d")


def test_a_circle_is_named() -> None:
    with pytest.raises(BlueprintError, match="in a circle: a, b"):
        order_of({"a": ("b",), "b": ("a",)})


def test_an_unknown_need_is_named() -> None:
    with pytest.raises(BlueprintError, match="'a' needs 'z'"):
        order_of({"a": ("z",)})


def _stage(name: str, kind: str, *, holds_accelerators: bool = False) -> StageView:
    return StageView(name, name, kind, StageState.SUCCEEDED, attempt=1, holds_accelerators=holds_accelerators)


_RAY = (
    _stage("operators", "manifests"),
    _stage("nodes", "terraform", holds_accelerators=True),
    _stage("cluster", "manifests", holds_accelerators=True),
    _stage("train", "job"),
)
"""As in a blueprint whose jobs work on a cluster that stays between them."""


def test_what_keeps_nodes_by_its_pods_goes_before_the_nodes_do() -> None:
    assert teardown_order(_RAY, deletes_data=True) == [
        (Action.UNDO, "train"),
        (Action.UNDO, "cluster"),
        (Action.DRAIN, ""),
        (Action.UNDO, "nodes"),
        (Action.UNDO, "operators"),
        (Action.AUDIT, ""),
    ]


def test_parking_ends_what_holds_accelerators_by_its_pods_first() -> None:
    assert parking_order(_RAY) == [(Action.UNDO, "cluster"), (Action.DRAIN, ""), (Action.UNDO, "nodes")]
