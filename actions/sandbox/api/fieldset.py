"""Sets of field paths, and their written form `FieldsV1`.

A path is a tuple of steps as `FieldsV1` spells them: `f:name` for a field, `k:{"name":"a"}` for an item under its key,
`v:"x"` for a member of a set. An item of a keyed list is in the set itself, beside the fields within it.

Source: sigs.k8s.io/structured-merge-diff `fieldpath`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from actions.sandbox.api.codec import Object, encode
from actions.sandbox.api.shapes import ListShape, Shape

Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = dict[Path, object]

_UNOWNED = frozenset(
    {("f:apiVersion",), ("f:kind",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
            "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName",
        )
    }
)  # fmt: skip
ITEM = object()
"""The value of a path that stands for the presence of a list item."""


def item_step(item: Any, rule: ListShape, shape: Shape) -> str:
    """The step to one item of a keyed list or set."""
    if rule.is_set or not isinstance(item, dict):
        return "v:" + encode(item).decode()
    keys = {key: item.get(key, shape.default_of(key)) for key in sorted(rule.keys)}
    return "k:" + encode({key: value for key, value in keys.items() if value is not None}).decode()


def leaves_of(body: Object, shape: Shape) -> Leaves:
    """Every owned path of an object with its value; atomic lists and maps are one leaf."""
    found: Leaves = {}
    for path, value in _walk(body, shape, ()):
        if path[:2] not in _UNOWNED and path not in _UNOWNED:
            found[path] = value
    return found


def _walk(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict) and not shape.is_atomic_map() and (value or not path):
        for name, inner in value.items():
            step = (*path, f"f:{name}")
            if step not in _UNOWNED:
                yield from _walk(inner, shape.child(name), step)
    elif isinstance(value, list) and (rule := shape.list_shape()) != ListShape():
        inside = shape.items()
        for item in value:
            step = (*path, item_step(item, rule, inside))
            yield step, ITEM
            if isinstance(item, dict):
                yield from _walk(item, inside, step)
    else:
        yield path, value


def encode_fields(paths: Iterable[Path]) -> Object:
    """Write a set of paths as `FieldsV1`; a path that also has paths below it gets a `.`."""
    root: Object = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        if path[-1][:2] in ("k:", "v:"):
            node["."] = {}
    return {step: _without_lone_dots(node) for step, node in root.items()}


def _without_lone_dots(node: Object) -> Object:
    if node.keys() == {"."}:
        return {}
    return {step: inner if step == "." else _without_lone_dots(inner) for step, inner in node.items()}


def decode_fields(fields: Object) -> set[Path]:
    """Read a `FieldsV1`."""
    found: set[Path] = set()
    _collect(fields, (), found)
    return found


def _collect(node: Object, path: Path, found: set[Path]) -> None:
    steps = [step for step in node if step != "."]
    if path and ("." in node or not steps):
        found.add(path)
    for step in steps:
        _collect(node[step], (*path, step), found)


def describe(path: Path) -> str:
    """A path as conflict messages spell it: `.spec.containers[name="a"].image`."""
    text = ""
    for step in path:
        body = step[2:]
        if step.startswith("f:"):
            text += f".{body}"
        elif step.startswith("k:"):
            text += "[" + body.strip("{}").replace('":', "=").replace('"', "", 1).replace(',"', ",") + "]"
        else:
            text += f"[={body}]"
    return text
