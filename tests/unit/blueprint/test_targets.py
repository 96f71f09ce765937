"""Targets: every form finds its one slot and writes it."""

from __future__ import annotations

from typing import Any

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint.parts import FieldTarget, Scalar
from actions.blueprint.targets import find, is_format, target_value


def an_object() -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"a.b/c": "old"}},
        "spec": {
            "count": 1,
            "line": "run --step=1  --other=step=2 --last 3",
            "list": [{"values": ["old"]}],
            "template": {
                "spec": {
                    "initContainers": [{"name": "first", "command": ["x", "step=1"]}],
                    "containers": [
                        {
                            "name": "main",
                            "args": ["a", "key=old", "other"],
                            "env": [
                                {"name": "N", "value": "old"},
                                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s"}}},
                            ],
                            "resources": {"limits": {"nvidia.com/gpu": 1}},
                        }
                    ],
                }
            },
        },
    }


def target(**fields: str) -> FieldTarget:
    return FieldTarget(file="f.yaml", kind="Job", name="j", **fields)


@pytest.mark.parametrize(
    ("fields", "value", "where", "expected"),
    [
        ({"path": "spec.count"}, 8, ("spec", "count"), 8),
        ({"path": 'metadata.labels."a.b/c"'}, "new", ("metadata", "labels", "a.b/c"), "new"),
        ({"path": "spec.list[0].values[0]"}, "new", ("spec", "list", 0, "values", 0), "new"),
        (
            {"container": "main", "path": 'resources.limits."nvidia.com/gpu"'},
            4,
            ("spec", "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
            4,
        ),
        (
            {"container": "main", "arg": "key="},
            5,
            ("spec", "template", "spec", "containers", 0, "args", 1),
            "key=5",
        ),
        (
            {"container": "first", "arg": "step="},
            True,
            ("spec", "template", "spec", "initContainers", 0, "command", 1),
            "step=true",
        ),
        (
            {"path": "spec.line", "arg": "--step="},
            20,
            ("spec", "line"),
            "run --step=20  --other=step=2 --last 3",
        ),
        (
            {"container": "main", "env": "N"},
            7,
            ("spec", "template", "spec", "containers", 0, "env", 0, "value"),
            "7",
        ),
    ],
)
def test_each_form_writes_its_field(
    fields: dict[str, str], value: Scalar, where: tuple[str | int, ...], expected: Scalar
) -> None:
    manifest = an_object()
    find(target(**fields), [manifest]).write(value)

    node: Any = manifest
    for step in where:
        node = node[step]
    assert node == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "spec.none"},
        {"path": "spec.list[1].values[0]"},
        {"path": "spec..count"},
        {"container": "main", "env": "S"},
        {"container": "absent", "arg": "key="},
        {"container": "main", "arg": "step="},
        {"path": "spec.line", "arg": "step="},
        {"path": "spec.count", "arg": "1"},
    ],
)
def test_what_is_not_there_is_an_error(fields: dict[str, str]) -> None:
    with pytest.raises(BlueprintError, match="matches nothing"):
        find(target(**fields), [an_object()])


def test_two_objects_of_one_name_are_an_error() -> None:
    with pytest.raises(BlueprintError, match="has 2 Job named 'j'"):
        find(target(path="spec.count"), [an_object(), an_object()])


def test_a_format_has_exactly_one_place() -> None:
    assert target_value(7, "'x_%03d'") == "'x_007'"
    assert target_value(7, "") == 7
    assert target_value("a", "%s-node") == "a-node"
    assert [is_format(text) for text in ("%s", "%dGi", "100%% %04d", "none", "%s%s", "%x", "%", "%5.2f")] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]
