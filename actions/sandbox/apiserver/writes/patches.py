"""The patches of a PATCH request: JSON patch, JSON merge patch and strategic merge patch, which merges lists by key.

Source: RFC 6902, RFC 7386; k8s.io/apimachinery `strategicpatch` with its directives `$patch`,
`$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys`.
"""

from __future__ import annotations

from typing import Any

from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.writes.merge_keys import ListMergeRule, MergeSchema


def merge_patch(target: Any, change: Any) -> Any:
    """The value that RFC 7386 makes of `target`; `target` itself is left alone."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _refuse(why: str) -> StatusError:
    return StatusError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise _refuse(f"{pointer!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(items: list[Any], step: str, *, is_end_allowed: bool = False) -> int:
    if step == "-" and is_end_allowed:
        return len(items)
    if not step.isdigit() or int(step) >= len(items) + is_end_allowed:
        raise _refuse(f"no item {step} in a list of {len(items)}")
    return int(step)


def _descend(value: Any, step: str) -> Any:
    if isinstance(value, list):
        return value[_index(value, step)]
    if isinstance(value, dict) and step in value:
        return value[step]
    raise _refuse(f"path has no {step!r}")


def _resolve(document: Any, steps: list[str]) -> Any:
    for step in steps:
        document = _descend(document, step)
    return document


def _add(document: Any, steps: list[str], value: Any) -> None:
    parent = _resolve(document, steps[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, steps[-1], is_end_allowed=True), value)
    elif isinstance(parent, dict):
        parent[steps[-1]] = value
    else:
        raise _refuse(f"{'/'.join(steps)} lies in neither a map nor a list")


def _remove(document: Any, steps: list[str]) -> Any:
    parent = _resolve(document, steps[:-1])
    gone = _descend(parent, steps[-1])
    if isinstance(parent, list):
        del parent[int(steps[-1])]
    else:
        del parent[steps[-1]]
    return gone


def _replace(document: Any, steps: list[str], value: Any) -> None:
    parent = _resolve(document, steps[:-1])
    _descend(parent, steps[-1])
    if isinstance(parent, list):
        parent[int(steps[-1])] = value
    else:
        parent[steps[-1]] = value


def _apply_operation(document: Object, operation: dict[str, Any]) -> None:
    steps = _steps(str(operation.get("path", "")))
    if not steps:
        raise _refuse("the whole object cannot be replaced by a patch")
    match operation.get("op"):
        case "add":
            _add(document, steps, operation.get("value"))
        case "remove":
            _remove(document, steps)
        case "replace":
            _replace(document, steps, operation.get("value"))
        case "test":
            if _resolve(document, steps) != operation.get("value"):
                raise _refuse(f"testing path {operation['path']} failed")
        case "move":
            _add(document, steps, _remove(document, _steps(str(operation.get("from", "")))))
        case "copy":
            _add(document, steps, _resolve(document, _steps(str(operation.get("from", "")))))
        case other:
            raise _refuse(f"unknown operation {other!r}")


def json_patch(target: Object, operations: object) -> Object:
    """Apply RFC 6902 operations in order to `target`, in place.

    Raises:
        StatusError: 422, an operation is malformed, its path does not exist or its test failed.
    """
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise _refuse("a JSON patch is a list of operations")
    for operation in operations:
        _apply_operation(target, operation)
    return target


_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_patch(target: Object, change: Object, merge_schema: MergeSchema) -> Object:
    """The object that `change` makes of `target`; `target` itself is left alone."""
    return _merge_map(target, change, merge_schema)


def _merge_map(target: Object, change: Object, merge_schema: MergeSchema) -> Object:
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
            _merge_field(merged, name, value, merge_schema.child(name))
    for name, order in change.items():
        if name.startswith(_ORDER):
            _reorder(merged, name.removeprefix(_ORDER), order, merge_schema)
    return merged


def _merge_field(merged: Object, name: str, value: Any, merge_schema: MergeSchema) -> None:
    if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
        merged.pop(name, None)
    elif isinstance(value, dict):
        before = merged.get(name)
        merged[name] = _merge_map(before if isinstance(before, dict) else {}, value, merge_schema)
    elif isinstance(value, list):
        merged[name] = _merge_list(merged.get(name) or [], value, merge_schema)
    else:
        merged[name] = value


def _merge_list(target: list[Any], change: list[Any], merge_schema: MergeSchema) -> list[Any]:
    rule = merge_schema.list_rule()
    if rule.is_set:
        return target + [item for item in change if item not in target]
    is_replacement = any(isinstance(item, dict) and item.get("$patch") == "replace" for item in change)
    if not rule.keys or is_replacement:
        return [item for item in change if not (isinstance(item, dict) and "$patch" in item)]
    return _merge_keyed(target, change, rule, merge_schema.items())


def _key_of(item: object, rule: ListMergeRule) -> object:
    """Return the key of a list item: the first one alone, as `patchMergeKey` has one."""
    return item.get(rule.keys[0]) if isinstance(item, dict) else item


def _merge_keyed(target: list[Any], change: list[Any], rule: ListMergeRule, merge_schema: MergeSchema) -> list[Any]:
    merged = list(target)
    for item in change:
        key = _key_of(item, rule)
        position = next((i for i, old in enumerate(merged) if _key_of(old, rule) == key), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if _key_of(old, rule) != key]
        elif position is None:
            merged.append(_merge_map({}, item, merge_schema))
        else:
            merged[position] = _merge_map(merged[position], item, merge_schema)
    return merged


def _reorder(merged: Object, field: str, order: list[Any], merge_schema: MergeSchema) -> None:
    """Bring the items that the patch names into its order; the others keep their places after them."""
    rule = merge_schema.child(field).list_rule()
    wanted = [_key_of(item, rule) if rule.keys else item for item in order]
    ranks = {repr(key): rank for rank, key in enumerate(wanted)}
    items = merged.get(field) or []
    merged[field] = sorted(
        items, key=lambda item: ranks.get(repr(_key_of(item, rule) if rule.keys else item), len(ranks))
    )
