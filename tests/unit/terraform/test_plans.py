"""Saved plans: counted, and hashed by what they change."""

from __future__ import annotations

import json

import pytest

from actions.base.errors import FormatError
from actions.terraform.plans import read_plan


def a_plan(*changes: tuple[str, list[str]], after: object = None, timestamp: str = "t") -> bytes:
    return json.dumps(
        {
            "format_version": "1.2",
            "timestamp": timestamp,
            "resource_changes": [
                {"address": address, "type": "x", "change": {"actions": actions, "after": after}}
                for address, actions in changes
            ],
        }
    ).encode()


def test_changes_are_counted_as_terraform_counts_them() -> None:
    plan = read_plan(
        a_plan(
            ("a", ["create"]),
            ("b", ["update"]),
            ("c", ["delete", "create"]),
            ("d", ["delete"]),
            ("e", ["no-op"]),
            ("f", ["create", "delete"]),
        )
    )
    assert (plan.add, plan.change, plan.destroy) == (3, 1, 3)
    assert [(item.address, item.action) for item in plan.resources] == [
        ("a", "create"),
        ("b", "update"),
        ("c", "replace"),
        ("d", "delete"),
        ("f", "replace"),
    ]


def test_the_hash_follows_values_not_time_or_order() -> None:
    one = read_plan(a_plan(("a", ["create"]), ("b", ["create"]), after={"x": 1}))
    same = read_plan(a_plan(("b", ["create"]), ("a", ["create"]), after={"x": 1}, timestamp="later"))
    other = read_plan(a_plan(("a", ["create"]), ("b", ["create"]), after={"x": 2}))

    assert one.plan_hash == same.plan_hash
    assert one.plan_hash != other.plan_hash


def test_a_plan_without_changes_is_empty() -> None:
    assert read_plan(a_plan(("a", ["no-op"]))).is_empty


def test_something_else_is_an_error() -> None:
    with pytest.raises(FormatError):
        read_plan(b"Error")
