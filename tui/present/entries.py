"""What stands in the fields of a form, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tui.present.cells import Cells, Span, Tone
from tui.present.fields import Field, FieldKind, Value, read_field, text_of_value

Check: TypeAlias = Callable[[Mapping[str, Value]], Mapping[str, str]]
"""Looks at all values together; returns what is wrong by field key, as sentences without a subject."""


class Entries:
    """The texts of a form's fields, read as values.

    Args:
        fields: The fields, in their order.
        values: What stands there at first, where it is not the default.
        check: Looks at all values together.
    """

    def __init__(self, fields: Sequence[Field], values: Mapping[str, Value], check: Check) -> None:
        self.fields = tuple(fields)
        self.texts = [text_of_value(values.get(field.key, field.default)) for field in fields]
        self.values: Mapping[str, Value] = {}
        """Every value that can be read."""
        self.errors: Mapping[str, str] = {}
        """What is wrong, by field key."""
        self._check = check
        self._review()

    def write(self, at: int, text: str) -> bool:
        """Have `text` stand in the field at a position; whether values or errors are different for it."""
        if not self.fields:
            return False
        self.texts[at] = text
        return self._review()

    def _review(self) -> bool:
        values: dict[str, Value] = {}
        errors: dict[str, str] = {}
        for field, text in zip(self.fields, self.texts, strict=True):
            try:
                values[field.key] = read_field(field, text)
            except ValueError as error:
                errors[field.key] = str(error)
        errors |= {key: text for key, text in self._check(values).items() if key not in errors}
        if (values, errors) == (self.values, self.errors):
            return False
        self.values, self.errors = values, errors
        return True

    @property
    def first_wrong(self) -> int | None:
        """Position of the first field that is wrong."""
        return next((at for at, field in enumerate(self.fields) if field.key in self.errors), None)

    def turned(self, at: int, step: int) -> str:
        """The option `step` places after the one that is chosen, round the end; what stands there if there is none."""
        options, text = options_of(self.fields[at]) if self.fields else (), self.texts[at] if self.fields else ""
        if not options:
            return text
        place = options.index(text) if text in options else -step
        return options[(place + step) % len(options)]

    def note(self, at: int) -> Cells:
        """What is wrong, else what differs from the default, else what may be entered."""
        field = self.fields[at]
        default = text_of_value(field.default)
        if problem := self.errors.get(field.key, ""):
            return (Span(f"✘ {problem}", Tone.BAD),)
        if self.texts[at].strip() != default:
            about = f" · {field.bounds}" if field.bounds else ""
            return (Span("● ", Tone.ACCENT), Span(f"default {default or 'empty'}{about}", Tone.MUTED))
        about = " · ".join(part for part in (field.bounds, field.help) if part)
        return (Span(f"  {about}", Tone.MUTED),)

    def explanation(self, at: int) -> str:
        """All that is to be said about a field, as sentences."""
        field = self.fields[at]
        default = text_of_value(field.default)
        chosen = ", ".join(options_of(field)) if field.kind is FieldKind.CHOICE else ""
        parts = (
            field.help,
            field.bounds,
            f"one of {chosen}" if chosen else "",
            f"default {default}" if default else "",
        )
        return " · ".join(part for part in parts if part)


def options_of(field: Field) -> tuple[str, ...]:
    """What a field can be set to, as it is shown; empty for one that takes text."""
    match field.kind:
        case FieldKind.CHOICE:
            return tuple(text_of_value(choice) for choice in field.choices)
        case FieldKind.SWITCH:
            return ("yes", "no")
        case FieldKind.INTEGER | FieldKind.NUMBER | FieldKind.TEXT | FieldKind.SECRET:
            return ()
