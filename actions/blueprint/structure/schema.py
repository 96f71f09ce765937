"""The structure of `blueprint.yaml`, read from the model: its JSON Schema, and the keys allowed at a place."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import msgspec

from actions.blueprint.model import Blueprint
from actions.blueprint.parts import EXPECTATION, Expectation

_NAMED = ("Parameter", "Derived", "Holding", "SecretObject", "Results", "Preset")
"""The structures that components may have under the same name: the file may leave any key to them."""
_TAKEN = (("Blueprint", "stages", "id"), ("CheckStage", "checks", "title"), ("CapacityStage", "quotas", "title"))
"""The lists that take what components have by name, with the key of the name."""
_TAGS = {"kind", "check"}


def blueprint_schema() -> dict[str, Any]:
    """The schema, draft 2020-12. It is that of the file, so before its components are merged into it."""
    schema = msgspec.json.schema(Blueprint, schema_hook=_hooked)
    definitions = schema["$defs"]
    body = definitions["Blueprint"]
    body["properties"].pop("folder")  # where it was loaded from: not a key of the file
    body["properties"]["checks"] = {"type": "object", "additionalProperties": {"type": "object"}, "default": {}}
    for struct in structs_of(Blueprint):
        properties = definitions[struct.__name__]["properties"]
        for key, text in key_docs(struct).items():
            if key in properties:
                properties[key] = {**properties[key], "description": text}
    for name in _NAMED:
        definitions[name].pop("required", None)
    for name, key, named_by in _TAKEN:
        listed = definitions[name]["properties"][key]
        listed["items"] = _taken(listed["items"], named_by, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "eksml-tui blueprint",
        **schema,
    }


def _taken(items: Mapping[str, Any], named_by: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of items that are whole, a name, or a name with the keys that differ from a component's."""
    whole = items.get("anyOf", [items])
    kinds = [definitions[each["$ref"].rpartition("/")[2]] for each in whole]
    keys = sorted({name for kind in kinds for name in kind["properties"]} - _TAGS | {"uses"})
    differing = {"type": "object", "required": [named_by], "propertyNames": {"enum": keys}}
    return {"anyOf": [*whole, {"type": "string"}, differing]}


def structs_of(kind: Any) -> list[Any]:
    """The structures that a type is made of, each once, in the order of their keys."""
    found: dict[Any, None] = {}
    waiting = [kind]
    while waiting:
        item = waiting.pop(0)
        if typing.get_args(item):
            waiting = [*(each for each in typing.get_args(item) if each is not Ellipsis), *waiting]
        elif _config(item) is not None and item not in found:
            found[item] = None
            waiting = [*field_types(item).values(), *waiting]
    return list(found)


@cache
def key_docs(struct: Any) -> dict[str, str]:
    """The meaning of each key of a structure that says more than its name, from the model's own text, by key."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if not base.__module__.startswith("actions."):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for line, after in pairwise(lines):
            match line, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    names = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
    return {names[name]: text for name, text in found.items() if name in names}


def schema_text() -> str:
    """The schema as a file, for editors."""
    return msgspec.json.format(msgspec.json.encode(blueprint_schema(), order="deterministic"), indent=2).decode() + "\n"


def _hooked(kind: type) -> dict[str, Any]:
    """Return the schema of a type of ours. For any other raise `NotImplementedError`, as msgspec requires."""
    if kind is Expectation:
        return {"type": "string", "pattern": EXPECTATION, "examples": ["35m..45m"]}
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)


def keys_at(kind: Any, value: Any, steps: Sequence[str | int]) -> tuple[str, ...]:
    """The keys of the structure at a place; empty if it is none, or its kind is not known.

    Args:
        kind: What the whole value is converted to: a struct, or a union of tagged ones.
        value: As it stands in the file.
        steps: From the value to the place.
    """
    found = _structs_at(kind, value, steps)
    return tuple(field.encode_name for field in msgspec.structs.fields(found[0])) if len(found) == 1 else ()


def allowed_at(kind: Any, value: Any, steps: Sequence[str | int]) -> tuple[str, ...]:
    """The words that may stand at a place: of an enumeration, or the tags that pick a structure; empty for any.

    Args:
        kind: What the whole value is converted to.
        value: As it stands in the file.
        steps: From the value to the place.
    """
    if steps:
        members = members_of(type_at(kind, value, steps[:-1]))
        tagged = [item for item in members if _config(item) is not None and _config(item).tag_field == steps[-1]]
        if tagged:
            return tuple(str(_config(item).tag) for item in tagged)
    found: list[str] = []
    for item in members_of(type_at(kind, value, steps)):
        if typing.get_origin(item) is Literal:
            found += map(str, typing.get_args(item))
        elif isinstance(item, type) and issubclass(item, StrEnum):
            found += [member.value for member in item]
    return tuple(found)


def type_at(kind: Any, value: Any, steps: Sequence[str | int]) -> Any:
    """The type of the model at a place; `None` if it is not known."""
    for step in steps:
        if isinstance(step, int):
            arguments = typing.get_args(kind)
            kind = arguments[0] if arguments else None
        elif typing.get_origin(kind) is dict:
            kind = value_type(kind)
        else:
            structs = _matching(kind, value)
            kind = _field_type(structs[0], step) if len(structs) == 1 else None
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
    return kind


def value_type(kind: Any) -> Any:
    """The type of the values of a mapping with free names."""
    return typing.get_args(kind)[1] if typing.get_origin(kind) is dict else None


def words_of(kind: Any) -> str:
    """A type in words: `a text`, `a list of texts`, `one of none, nvidia-smi`."""
    members = [item for item in members_of(kind) if item is not types.NoneType]
    if {bool, str} <= {*members}:
        return "a text, a number, true or false"
    return " or ".join(dict.fromkeys(_word_of(item) for item in members)) or "left out"


def _word_of(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _word_of(arguments[0])
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else str(arguments[0])
    if origin is tuple:
        return f"a list of {words_of(arguments[0]).removeprefix('a ')}s" if arguments[0] in _WORDS else "a list"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return f"one of {', '.join(item.value for item in kind)}"
    return _WORDS.get(kind, "a mapping")


_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Expectation: "a duration such as 35m..45m",
}


def _structs_at(kind: Any, value: Any, steps: Sequence[str | int]) -> list[Any]:
    place = value
    for step in steps:
        place = place[step]
    return _matching(type_at(kind, value, steps), place)


def _matching(kind: Any, value: Any) -> list[Any]:
    """The structs of a union that a value's tag picks; the only one, if there is but one."""
    structs = [item for item in members_of(kind) if _config(item) is not None]
    if len(structs) <= 1:
        return structs
    tags = value if isinstance(value, dict) else {}
    return [item for item in structs if tags.get(_config(item).tag_field) == _config(item).tag]


def members_of(kind: Any) -> tuple[Any, ...]:
    """The types of a union; a type that is none as the only one."""
    return typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)


def _field_type(struct: Any, name: str) -> Any:
    return field_types(struct).get(name)


@cache
def field_types(struct: Any) -> dict[str, Any]:
    """The types of a structure's keys."""
    hints = typing.get_type_hints(struct)
    return {item.encode_name: hints[item.name] for item in msgspec.structs.fields(struct)}


def _config(kind: Any) -> Any:
    return getattr(kind, "__struct_config__", None)
