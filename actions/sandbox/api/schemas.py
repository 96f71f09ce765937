"""Built-in types as OpenAPI schemas, for `kubectl explain` and for what `kubectl apply` knows of lists."""

from __future__ import annotations

import re
from functools import cache

from actions.sandbox.api.codec import Object
from actions.sandbox.api.fields import fields_of, root_of
from actions.sandbox.api.shapes import BuiltinShape

REFERENCE = "#/components/schemas/"
_CONTAINERS = frozenset({"V1Container", "V1EphemeralContainer"})
_VERSIONED = re.compile(r"^(\w*?V\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)$")
_ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}


def builtin_schema(kind: str) -> Object:
    """The schema of a kind; an open object if its fields are not known."""
    root = root_of(kind)
    return _object(root) if root else {"type": "object", **_ANYTHING}


def used_schemas(kinds: list[str]) -> Object:
    """Every type below these kinds, by name."""
    found: Object = {}
    waiting = [root for kind in kinds if (root := root_of(kind))]
    while waiting:
        for code in fields_of(waiting.pop()).values():
            name = code.replace("[]", "").replace("{}", "")
            if fields_of(name) and schema_name(name) not in found:
                found[schema_name(name)] = _object(name)
                waiting.append(name)
    return found


def schema_name(type_name: str) -> str:
    """`v1.PodSpec` for `V1PodSpec`: `kubectl explain` shows what follows the last dot."""
    match = _VERSIONED.match(type_name)
    return f"{match[1].lower()}.{match[2]}" if match else type_name


@cache
def _object(type_name: str) -> Object:
    properties = {name: _property(type_name, name, code) for name, code in fields_of(type_name).items()}
    return {"type": "object", "properties": properties}


def _property(type_name: str, field: str, code: str) -> Object:
    schema = _schema(code)
    shape = BuiltinShape(field, "containers" if type_name in _CONTAINERS else "").list_shape()
    if code.startswith("[]") and (shape.keys or shape.is_set):
        schema["x-kubernetes-patch-strategy"] = "merge"
        if shape.keys:
            schema["x-kubernetes-patch-merge-key"] = shape.keys[0]
    return schema


def _schema(code: str) -> Object:
    if code.startswith("[]"):
        return {"type": "array", "items": _schema(code[2:])}
    if code.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(code[2:])}
    if fields_of(code):
        return {"allOf": [{"$ref": REFERENCE + schema_name(code)}]}
    return dict(_ANYTHING) if code == "any" else {"type": code if code != "datetime" else "string"}
