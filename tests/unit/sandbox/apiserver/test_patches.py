"""Patches change what they name and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.writes.merge_keys import BuiltinMergeSchema
from actions.sandbox.apiserver.writes.patches import json_patch, merge_patch, strategic_patch


def test_a_merge_patch_removes_by_null_and_replaces_lists() -> None:
    target = {"a": {"b": 1, "c": 2}, "list": [1, 2]}
    assert merge_patch(target, {"a": {"b": None}, "list": [3], "new": {"x": 1}}) == {
        "a": {"c": 2},
        "list": [3],
        "new": {"x": 1},
    }
    assert target == {"a": {"b": 1, "c": 2}, "list": [1, 2]}


def test_a_json_patch_applies_its_operations_in_order() -> None:
    target: dict[str, Any] = {"a": [1, 2], "b": {"c~/d": 1}}
    operations = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "remove", "path": "/a/1"},
        {"op": "replace", "path": "/b/c~0~1d", "value": 2},
        {"op": "copy", "from": "/a", "path": "/e"},
        {"op": "move", "from": "/b", "path": "/f"},
    ]
    assert json_patch(target, operations) == {"a": [0, 2, 3], "e": [0, 2, 3], "f": {"c~/d": 2}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/list/7", "value": 1},
        {"op": "jump", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refusal:
        json_patch({"a": 1, "list": []}, [operation])
    assert refusal.value.code == 422


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


def test_a_strategic_patch_merges_containers_by_name() -> None:
    before = containers({"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"})
    change = containers({"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]})
    after = strategic_patch(before, change, BuiltinMergeSchema())
    assert after["spec"]["containers"] == [
        {"name": "a", "image": "2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
        {"name": "b", "image": "1"},
    ]


def test_a_strategic_patch_deletes_an_item_and_keeps_the_order_it_is_told() -> None:
    before = containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    change = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "b", "$patch": "delete"}],
        }
    }
    after = strategic_patch(before, change, BuiltinMergeSchema())
    assert [one["name"] for one in after["spec"]["containers"]] == ["c", "a"]


def test_a_strategic_patch_replaces_what_says_so() -> None:
    before = {"metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]}}
    change = {
        "metadata": {"labels": {"$patch": "replace", "b": "2"}, "$deleteFromPrimitiveList/finalizers": ["x"]},
    }
    after = strategic_patch(before, change, BuiltinMergeSchema())
    assert after == {"metadata": {"labels": {"b": "2"}, "finalizers": ["y"]}}
