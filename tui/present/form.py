"""The state of a form: parameters, what their fields hold as text and as values, and the words beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from actions.base.errors import ParameterError
from actions.base.wording import counted
from actions.blueprint.model import Parameter, ParameterType
from actions.blueprint.parameters import read_value
from actions.blueprint.parts import Scalar
from tui.present.cells import Cells, Span, Tone

Check: TypeAlias = Callable[[Mapping[str, Scalar]], Mapping[str, str]]
"""A function that checks all values together; returns mistakes by field, as phrases without a subject."""


def no_mistakes(values: Mapping[str, Scalar]) -> Mapping[str, str]:
    """Return no mistakes: the check of a form without one."""
    del values
    return {}


class Entries:
    """The texts of a form's fields, read as values.

    Args:
        fields: The parameters by key, in order.
        values: Initial values that are not the default.
        check: Check of all values together.
    """

    def __init__(
        self, fields: Mapping[str, Parameter], values: Mapping[str, Scalar], check: Check = no_mistakes
    ) -> None:
        self.fields = fields
        self.texts = {key: text_of_value(values.get(key, field.default)) for key, field in fields.items()}
        self.values: Mapping[str, Scalar] = {}
        """Every value that can be read, by key."""
        self.mistakes: Mapping[str, str] = {}
        """Phrases such as `must be 1–64`, by key, in the order of the fields."""
        self._check = check
        self._review()

    def write(self, key: str, text: str) -> bool:
        """Set the text of a field; return whether values or mistakes changed."""
        self.texts[key] = text
        return self._review()

    def _review(self) -> bool:
        values: dict[str, Scalar] = {}
        wrong: dict[str, str] = {}
        for key, field in self.fields.items():
            try:
                values[key] = read_value(key, field, self.texts[key].strip())
            except ParameterError:
                wrong[key] = _mistake(field, self.texts[key])
        wrong = {**self._check(values), **wrong}
        mistakes = {key: wrong[key] for key in self.fields if key in wrong}
        is_changed = (values, mistakes) != (self.values, self.mistakes)
        self.values, self.mistakes = values, mistakes
        return is_changed

    def is_changed(self, key: str) -> bool:
        """Return whether a field holds anything but its default."""
        return self.texts[key].strip() != text_of_value(self.fields[key].default)

    def note(self, key: str) -> Cells:
        """Return what stands beside a field: its mistake, else its default if it differs, and its bounds."""
        if mistake := self.mistakes.get(key, ""):
            return (Span(f"✘ {mistake}", Tone.BAD),)
        field = self.fields[key]
        if not self.is_changed(key):
            return (Span(f"  {bounds(field)}", Tone.MUTED),)
        words = " · ".join(
            part for part in (f"default {text_of_value(field.default) or 'empty'}", bounds(field)) if part
        )
        return (Span("● ", Tone.ACCENT), Span(words, Tone.MUTED))

    def explanation(self, key: str) -> str:
        """Return the mistake, the help and the options of a field in one line."""
        field, mistake = self.fields[key], self.mistakes.get(key, "")
        choices = f"One of {', '.join(options_of(field))}." if field.choices else ""
        return " ".join(part for part in (f"{field.title} {mistake}." if mistake else "", field.help, choices) if part)

    def summary(self, name: str, keys: Collection[str]) -> str:
        """Return the title of a group of fields: its name, their number, and how many are changed."""
        changed = sum(map(self.is_changed, keys))
        return f"{name}: {counted(len(keys), 'field')}" + (f" ({changed} changed)" if changed else "")


def text_of_value(value: Scalar) -> str:
    """Format a value as it is typed."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def options_of(field: Parameter) -> tuple[str, ...]:
    """Return the options of a field, as shown; empty for one that takes text."""
    if field.type is ParameterType.BOOLEAN:
        return ("yes", "no")
    return tuple(map(text_of_value, field.choices))


def bounds(field: Parameter) -> str:
    """Return the permitted entries in a few characters; empty for any text, and for a choice."""
    if field.type is ParameterType.SECRET:
        return "env:NAME, file:/PATH or secretsmanager:NAME"
    low, high = ("" if bound is None else f"{bound:,.12g}" for bound in (field.minimum, field.maximum))
    if low and high:
        limits = low if low == high else f"{low}–{high}"
    else:
        limits = f"at least {low}" if low else f"at most {high}" if high else ""
    return f"{limits} {field.unit}".strip()


def _mistake(field: Parameter, text: str) -> str:
    if field.pattern:
        return f"is not of its form, as {field.default}" if field.default else "is not of its form"
    try:
        number = float(text)
    except ValueError:
        number = None
    if field.type is ParameterType.INTEGER and (number is None or not number.is_integer()):
        return "must be a whole number"
    if field.type is ParameterType.NUMBER and number is None:
        return "must be a number"
    return f"must be {bounds(field)}" if bounds(field) else "cannot be used"
