"""JSON patch and JSON merge patch.

Source: RFC 6902, RFC 7386.
"""

from __future__ import annotations

from typing import Any

from actions.sandbox.api.codec import Object
from actions.sandbox.api.status import ApiFault


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


def _refuse(why: str) -> ApiFault:
    return ApiFault(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise _refuse(f"{pointer!r} is no JSON pointer")
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
        ApiFault: 422, an operation is malformed, its path does not exist or its test failed.
    """
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise _refuse("a JSON patch is a list of operations")
    for operation in operations:
        _apply_operation(target, operation)
    return target
