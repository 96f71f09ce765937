"""Mistakes in the shape of a blueprint, each as a sentence: the place, what is allowed there, and what is nearest."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from actions.base.decoding import convert
from actions.base.errors import nearest_hint
from actions.blueprint.parts import Expectation, Where
from actions.blueprint.structure.schema import allowed_at, keys_at, type_at, value_type, words_of

_UNKNOWN_KEY = re.compile(r"unknown field `([^`]*)`")
_MISSING_KEY = re.compile(r"missing required field `([^`]*)`")
_FORM = re.compile(r"matching regex '(.*)'")
_PATH_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]|(\[\.\.\.\])")
_FORMS = {
    "[a-z0-9_]": "Use lower case, digits and _, and begin with a letter.",
    "[a-z0-9-]": "Use lower case, digits and -, and begin with a letter.",
    "[0-9a-f]{64}": "Write a SHA-256: 64 hexadecimal digits.",
    "/[smh]": "Write lines in a second, minute or hour, such as 5/s.",
    "%": "Write a percentage, such as 92%.",
    "[0-9]+\\.[0-9]+": 'Write a version in quotes, such as "1.35".',
}
"""The remedy by a part of the expression."""


class ModelMistake(msgspec.Struct, frozen=True):
    """A value that does not fit.

    Args:
        where: Its path from the value that was converted; of a key that is missing, from the mapping that lacks it.
        message: A sentence that begins behind the name of the place.
        hint: The remedy.
        missing: The key that is missing, if one is.
        unknown: The key that is not known, if one is.
    """

    where: Where
    message: str
    hint: str = ""
    missing: str = ""
    unknown: str = ""


def decode_part(value: Any, kind: Any) -> Any:
    """Return a plain value as a part of the model.

    Raises:
        msgspec.ValidationError: It does not fit; `mistake_in` has it in words.
    """
    return convert(value, kind, dec_hook=_decoded)


def _decoded(kind: type, value: Any) -> Any:
    if kind is Expectation and isinstance(value, str):
        return Expectation.parse(value)
    raise ValueError(f"Expected {kind.__name__}")


def mistake_in(value: Any, kind: Any, error: msgspec.ValidationError) -> ModelMistake:
    """Return in words why a value is not of a kind."""
    where, kind, value, text = _place(value, kind, error)
    if (unknown := _UNKNOWN_KEY.search(text)) is not None:
        hint = nearest_hint(unknown[1], keys_at(kind, value, ()))
        return ModelMistake(where, "", hint, unknown=unknown[1])
    if (missing := _MISSING_KEY.search(text)) is not None:
        name = missing[1]
        found = type_at(kind, value, (name,))
        allowed = allowed_at(kind, {**value, name: None}, (name,))
        words = f"one of {', '.join(allowed)}" if allowed else words_of(found)
        return ModelMistake(where, f" needs the key {name!r}.", f"Add {name}: {words}.", missing=name)
    allowed = allowed_at(kind, value, ())
    if allowed and (text.startswith("Invalid") or isinstance(value, str)):
        listed = f" is {shown(value)}, not one of {', '.join(allowed)}."
        return ModelMistake(where, listed, nearest_hint(str(value), allowed, ""))
    if (form := _FORM.search(text)) is not None and isinstance(value, str):
        hint = next((hint for part, hint in _FORMS.items() if part in form[1]), "Correct it.")
        return ModelMistake(where, f" is {shown(value)}, which does not have the form {form[1]}.", hint)
    if isinstance(value, str) and kind is Expectation:
        return ModelMistake(
            where, f": {text.partition(';')[0]}.", "Write a shorter and a longer end, such as 35m..45m."
        )
    return ModelMistake(where, f" must be {words_of(kind)}, not {shown(value)}.", _remedy(kind, value))


def _place(value: Any, kind: Any, error: msgspec.ValidationError) -> tuple[Where, Any, Any, str]:
    """Return the exact place of an error: its path, the kind that is wanted there, the value, and msgspec's text.

    msgspec hides the keys of mappings with free names: their values are tried one by one.
    """
    text, _, path = str(error).partition(" - at `$")
    where: Where = ()
    for match in _PATH_STEP.finditer(path.rstrip("`")):
        if match[3] is not None and isinstance(value, dict):
            return _below_free_name(value, value_type(kind), where, text)
        step: str | int = match[1] if match[1] is not None else int(match[2] or 0)
        if not _has(value, step):
            break
        if text.startswith("Invalid value") and (tags := allowed_at(kind, value, (step,))):
            return (*where, step), Literal[tags], value[step], text
        kind, value, where = type_at(kind, value, (step,)), value[step], (*where, step)
    return where, kind, value, text


def _below_free_name(value: dict[str, Any], kind: Any, where: Where, text: str) -> tuple[Where, Any, Any, str]:
    for key, item in value.items():
        try:
            decode_part(item, kind)
        except msgspec.ValidationError as error:
            below, found, place, inner = _place(item, kind, error)
            return (*where, key, *below), found, place, inner
    return where, dict[str, kind], value, text


def _has(value: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


def shown(value: Any) -> str:
    """Return a value in words or as it stands in the file, shortened."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            return repr(value[:60])
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return str(value)


def _remedy(kind: Any, value: Any) -> str:
    wanted = words_of(kind)
    if wanted.startswith("a list") and not isinstance(value, dict):
        return "Put a - before each item."
    if "a text" in wanted and isinstance(value, bool | int | float):
        return f'Put it in quotes: "{shown(value)}".'
    if "number" in wanted and isinstance(value, str):
        return "Write it without quotes and units."
    return "Correct it, or leave the key out."
