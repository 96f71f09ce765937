"""The check of custom resources against their `openAPIV3Schema`: defaults, unknown fields, wrong values.

Source: kubernetes.io "Structural schemas"; messages as apiserver 1.34 writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actions.base.patterns import PatternError, compile_pattern
from actions.sandbox.apiserver.storage.codec import Object, clone, encode
from actions.sandbox.apiserver.storage.errors import Cause

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def with_defaults(value: Any, schema: Object) -> Any:
    """`value` with every declared default filled in, in place."""
    if isinstance(value, dict):
        for name, inner in (schema.get("properties") or {}).items():
            if name not in value and "default" in inner:
                value[name] = clone({"default": inner["default"]})["default"]
            if name in value:
                value[name] = with_defaults(value[name], inner)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for name in value:
                value[name] = with_defaults(value[name], more)
    elif isinstance(value, list):
        inner = schema.get("items") or {}
        value[:] = [with_defaults(item, inner) for item in value]
    return value


def prune(value: Any, schema: Object, *, path: str = "") -> list[str]:
    """Remove what the schema does not declare, in place, and return the paths of what was removed."""
    if isinstance(value, list):
        inner = schema.get("items") or {}
        return [gone for place, item in enumerate(value) for gone in prune(item, inner, path=f"{path}[{place}]")]
    if not isinstance(value, dict):
        return []
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("type") != "object"
    declared, more = schema.get("properties") or {}, schema.get("additionalProperties")
    removed: list[str] = []
    for name in list(value):
        here = f"{path}.{name}" if path else name
        if name in declared:
            removed += prune(value[name], declared[name], path=here)
        elif isinstance(more, dict):
            removed += prune(value[name], more, path=here)
        elif not more and not is_open and not (schema.get("x-kubernetes-embedded-resource") and _is_type_meta(name)):
            del value[name]
            removed.append(here)
    return removed


def prune_resource(body: Object, schema: Object) -> list[str]:
    """`prune` for a whole custom resource: its type and metadata are always declared."""
    if not schema:
        return []
    kept: Object = {name: body.pop(name) for name in ("apiVersion", "kind", "metadata") if name in body}
    removed = prune(body, schema)
    body.update(kept)
    return removed


def _is_type_meta(name: str) -> bool:
    return name in ("apiVersion", "kind", "metadata")


def violations(value: Any, schema: Object, path: str = "") -> Iterator[Cause]:
    """Yield every place where `value` does not conform to the schema."""
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield _wrong_type(path, "null", schema["type"])
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _wrong_type(path, _type_name(value), "integer or string")
        return
    expected = schema.get("type")
    if expected and not _is_a(value, expected):
        yield _wrong_type(path, _type_name(value), expected)
        return
    yield from _scalar_violations(value, schema, path)
    if isinstance(value, dict):
        yield from _map_violations(value, schema, path)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from violations(item, schema.get("items") or {}, f"{path}[{place}]")


def _map_violations(value: Object, schema: Object, path: str) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(_join(path, name), "Required value", "FieldValueRequired")
    declared, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in value.items():
        if name in declared:
            yield from violations(inner, declared[name], _join(path, name))
        elif isinstance(more, dict):
            yield from violations(inner, more, _join(path, name))


def _scalar_violations(value: Any, schema: Object, path: str) -> Iterator[Cause]:
    allowed = schema.get("enum")
    shown = encode(value).decode()
    if allowed and value not in allowed:
        names = ", ".join(encode(one).decode() for one in allowed)
        yield Cause(path, f"Unsupported value: {shown}: supported values: {names}", "FieldValueNotSupported")
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(value, int | float) and low is not None and value < low:
        yield Cause(path, f"Invalid value: {shown}: {path} in body should be greater than or equal to {low}")
    if isinstance(value, int | float) and high is not None and value > high:
        yield Cause(path, f"Invalid value: {shown}: {path} in body should be less than or equal to {high}")
    pattern = schema.get("pattern")
    if isinstance(value, str) and pattern and not _matches(pattern, value):
        yield Cause(path, f"Invalid value: {shown}: {path} in body should match '{pattern}'")
    shortest = schema.get("minItems") if isinstance(value, list) else schema.get("minLength")
    if isinstance(value, list | str) and shortest and len(value) < shortest:
        yield Cause(path, f"Invalid value: {shown}: {path} in body should have at least {shortest}")


def _matches(pattern: str, value: str) -> bool:
    """Return whether the pattern is found in the value; one that cannot be compiled lets everything pass."""
    try:
        return compile_pattern(pattern).search(value)
    except PatternError:
        return True


def _is_a(value: object, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    return isinstance(value, _TYPES.get(expected, (object,)))


def _type_name(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _TYPES.items() if isinstance(value, types)), "null")


def _wrong_type(path: str, found: str, expected: str) -> Cause:
    message = f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"'
    return Cause(path, message, "FieldValueTypeInvalid")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
