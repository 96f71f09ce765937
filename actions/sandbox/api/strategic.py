"""Strategic merge patch: a merge patch that knows which lists merge by key.

Source: k8s.io/apimachinery `strategicpatch`; the directives `$patch`, `$deleteFromPrimitiveList`,
`$setElementOrder` and `$retainKeys`.
"""

from __future__ import annotations

from typing import Any

from actions.sandbox.api.codec import Object
from actions.sandbox.api.shapes import ListShape, Shape

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_patch(target: Object, change: Object, shape: Shape) -> Object:
    """The object that `change` makes of `target`; `target` itself is left alone."""
    return _merge_map(target, change, shape)


def _merge_map(target: Object, change: Object, shape: Shape) -> Object:
    directive = change.get("$patch")
    if directive in ("replace", "delete"):
        return {name: value for name, value in change.items() if name != "$patch"} if directive == "replace" else {}
    kept = change.get("$retainKeys")
    merged = {name: value for name, value in target.items() if kept is None or name in kept}
    for name, value in change.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif not name.startswith("$"):
            _merge_field(merged, name, value, shape.child(name))
    for name, order in change.items():
        if name.startswith(_ORDER):
            _reorder(merged, name.removeprefix(_ORDER), order, shape)
    return merged


def _merge_field(merged: Object, name: str, value: Any, shape: Shape) -> None:
    if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
        merged.pop(name, None)
    elif isinstance(value, dict):
        before = merged.get(name)
        merged[name] = _merge_map(before if isinstance(before, dict) else {}, value, shape)
    elif isinstance(value, list):
        merged[name] = _merge_list(merged.get(name) or [], value, shape)
    else:
        merged[name] = value


def _merge_list(target: list[Any], change: list[Any], shape: Shape) -> list[Any]:
    rule = shape.list_shape()
    if rule.is_set:
        return target + [item for item in change if item not in target]
    is_replacement = any(isinstance(item, dict) and item.get("$patch") == "replace" for item in change)
    if not rule.keys or is_replacement:
        return [item for item in change if not (isinstance(item, dict) and "$patch" in item)]
    return _merge_keyed(target, change, rule, shape.items())


def _key_of(item: object, rule: ListShape) -> object:
    """The first key alone tells items apart, as `patchMergeKey` has one."""
    return item.get(rule.keys[0]) if isinstance(item, dict) else item


def _merge_keyed(target: list[Any], change: list[Any], rule: ListShape, shape: Shape) -> list[Any]:
    merged = list(target)
    for item in change:
        key = _key_of(item, rule)
        position = next((i for i, old in enumerate(merged) if _key_of(old, rule) == key), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if _key_of(old, rule) != key]
        elif position is None:
            merged.append(_merge_map({}, item, shape))
        else:
            merged[position] = _merge_map(merged[position], item, shape)
    return merged


def _reorder(merged: Object, field: str, order: list[Any], shape: Shape) -> None:
    """Bring the items that the patch names into its order; the others keep their places after them."""
    rule = shape.child(field).list_shape()
    wanted = [_key_of(item, rule) if rule.keys else item for item in order]
    ranks = {repr(key): rank for rank, key in enumerate(wanted)}
    items = merged.get(field) or []
    merged[field] = sorted(
        items, key=lambda item: ranks.get(repr(_key_of(item, rule) if rule.keys else item), len(ranks))
    )
