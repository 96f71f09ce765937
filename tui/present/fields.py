"""Typed fields of a form: what may be entered, read from text."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TypeAlias

import msgspec

Value: TypeAlias = int | float | str | bool

_SECRET = re.compile(r"(env|file|secretsmanager):\S+")


class FieldKind(StrEnum):
    """The type of a field."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    CHOICE = "choice"
    SWITCH = "switch"
    SECRET = "secret"  # noqa: S105 - a word, not a secret
    """A reference to a secret, never the secret: `env:NAME`, `file:PATH`, `secretsmanager:ID`."""


class Field(msgspec.Struct, frozen=True):
    """One field.

    Args:
        key: Its name in the values.
        title: Its name on the screen.
        kind: Its type.
        default: What holds if nothing is entered; of the kind's type.
        help: One sentence.
        minimum: Least number, if any.
        maximum: Greatest number, if any.
        choices: What can be chosen.
        unit: Shown behind the bounds.
    """

    key: str
    title: str
    kind: FieldKind
    default: Value = ""
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Value, ...] = ()
    unit: str = ""

    @property
    def bounds(self) -> str:
        """What may be entered, in a few characters; empty if anything."""
        match self.kind:
            case FieldKind.INTEGER | FieldKind.NUMBER:
                return _range(self.minimum, self.maximum, self.unit)
            case FieldKind.SECRET:
                return "env:NAME, file:PATH or secretsmanager:ID"
            case FieldKind.TEXT | FieldKind.CHOICE | FieldKind.SWITCH:
                return self.unit


def text_of_value(value: Value) -> str:
    """A value as it is typed."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def read_field(field: Field, text: str) -> Value:
    """The value that `text` stands for.

    Raises:
        ValueError: It is not of the field's kind, or out of its bounds; the message is a sentence without a subject.
    """
    text = text.strip()
    match field.kind:
        case FieldKind.INTEGER:
            return int(_bounded(field, _number(text, whole=True)))
        case FieldKind.NUMBER:
            return _bounded(field, _number(text, whole=False))
        case FieldKind.SWITCH:
            return text == "yes"
        case FieldKind.CHOICE:
            return _chosen(field, text)
        case FieldKind.SECRET if not _SECRET.fullmatch(text) and text != field.default:
            raise ValueError("must be a reference: env:NAME, file:PATH or secretsmanager:ID")
        case FieldKind.TEXT | FieldKind.SECRET:
            return text


def _chosen(field: Field, text: str) -> Value:
    by_text = {text_of_value(choice): choice for choice in field.choices}
    if text not in by_text:
        raise ValueError(f"must be one of {', '.join(by_text)}")
    return by_text[text]


def _number(text: str, *, whole: bool) -> float:
    try:
        number = int(text.replace(",", "").replace("_", "")) if whole else float(text)
    except ValueError:
        raise ValueError("must be a whole number" if whole else "must be a number") from None
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    return number


def _bounded(field: Field, number: float) -> float:
    too_low = field.minimum is not None and number < field.minimum
    too_high = field.maximum is not None and number > field.maximum
    if too_low or too_high:
        raise ValueError(f"must be {_range(field.minimum, field.maximum, field.unit)}")
    return number


def _plain(number: float) -> str:
    """A bound as people write it: never with an exponent."""
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


def _range(minimum: float | None, maximum: float | None, unit: str) -> str:
    low, high = ("" if bound is None else _plain(bound) for bound in (minimum, maximum))
    if low and high:
        text = low if low == high else f"{low}…{high}"
    elif low or high:
        text = f"at least {low}" if low else f"at most {high}"
    else:
        text = ""
    return f"{text} {unit}".strip()
