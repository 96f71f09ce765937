"""The state of a form: typed fields, their entries, and the line being edited."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from actions.base.patterns import compile_pattern
from tui.present.cells import Cells, Span, Tone

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
    """A field of a form.

    Args:
        key: Name in the values.
        title: Name on the screen.
        kind: Type of the value.
        default: Value if nothing is entered; of the kind's type.
        help: One sentence.
        minimum: Smallest number, if limited.
        maximum: Greatest number, if limited.
        choices: Options of a choice.
        unit: Unit, shown after the bounds.
        pattern: Regular expression that a text must match; empty for any text.
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
    pattern: str = ""

    @property
    def bounds(self) -> str:
        """The permitted entries, in a few characters; empty for any text."""
        match self.kind:
            case FieldKind.INTEGER | FieldKind.NUMBER:
                return _range(self.minimum, self.maximum, self.unit)
            case FieldKind.SECRET:
                return "env:NAME, file:PATH or secretsmanager:ID"
            case FieldKind.TEXT | FieldKind.CHOICE | FieldKind.SWITCH:
                return self.unit


def text_of_value(value: Value) -> str:
    """Format a value as it is typed."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def read_field(field: Field, text: str) -> Value:
    """Parse `text` as a value of the field.

    Raises:
        ValueError: It is not of the field's kind, or out of bounds; the message is a sentence without a subject.
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
        case FieldKind.TEXT if field.pattern and text != field.default:
            if not compile_pattern(field.pattern).fullmatch(text):
                raise ValueError("is not of its form")
            return text
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
    """Format a bound with thousands separators, never with an exponent."""
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


def _range(minimum: float | None, maximum: float | None, unit: str) -> str:
    low, high = ("" if bound is None else _plain(bound) for bound in (minimum, maximum))
    if low and high:
        text = low if low == high else f"{low}–{high}"
    elif low or high:
        text = f"at least {low}" if low else f"at most {high}"
    else:
        text = ""
    return f"{text} {unit}".strip()


Check: TypeAlias = Callable[[Mapping[str, Value]], Mapping[str, str]]
"""A function that checks all values together; returns problems by field key, as sentences without a subject."""


class Entries:
    """The texts of a form's fields, parsed as values.

    Args:
        fields: The fields, in order.
        values: Initial values that are not the default.
        check: Check of all values together.
    """

    def __init__(self, fields: Sequence[Field], values: Mapping[str, Value], check: Check) -> None:
        self.fields = tuple(fields)
        self.texts = [text_of_value(values.get(field.key, field.default)) for field in fields]
        self.values: Mapping[str, Value] = {}
        """Every value that can be parsed, by field key."""
        self.errors: Mapping[str, str] = {}
        """Problems by field key."""
        self._check = check
        self._review()

    def write(self, at: int, text: str) -> bool:
        """Set the text of the field at a position; return whether values or errors changed."""
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
        """Return the position of the first field with a problem."""
        return next((at for at, field in enumerate(self.fields) if field.key in self.errors), None)

    def turned(self, at: int, step: int) -> str:
        """Return the option `step` places after the chosen one, wrapping around; the text if there are no options."""
        options, text = options_of(self.fields[at]) if self.fields else (), self.texts[at] if self.fields else ""
        if not options:
            return text
        place = options.index(text) if text in options else -step
        return options[(place + step) % len(options)]

    def note(self, at: int) -> Cells:
        """Return the field's problem, else its default if the entry differs, else its bounds and help."""
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
        """Return help, bounds, options and default of a field in one line."""
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
    """Return the options of a field, as shown; empty for one that takes text."""
    match field.kind:
        case FieldKind.CHOICE:
            return tuple(text_of_value(choice) for choice in field.choices)
        case FieldKind.SWITCH:
            return ("yes", "no")
        case FieldKind.INTEGER | FieldKind.NUMBER | FieldKind.TEXT | FieldKind.SECRET:
            return ()


_WORD_BEFORE = re.compile(r"\S*\s*$")
_WORD_AFTER = re.compile(r"\s*\S*")


class LineEdit(msgspec.Struct, frozen=True):
    """Text under a cursor.

    Args:
        text: The characters.
        cursor: Characters before the cursor.
        is_marked: The whole text is selected, as on entering a field: typing replaces it.
    """

    text: str
    cursor: int
    is_marked: bool = False

    @classmethod
    def of(cls, text: str) -> LineEdit:
        """Return a text just entered by the cursor: at its end, all selected."""
        return cls(text, len(text), is_marked=bool(text))

    def typed(self, text: str) -> LineEdit:
        """Return the line with `text` inserted at the cursor; line ends become blanks."""
        text = " ".join(text.splitlines())
        if self.is_marked:
            return LineEdit(text, len(text))
        before, after = self._halves
        return LineEdit(before + text + after, self.cursor + len(text))

    def at(self, cursor: int) -> LineEdit:
        """Return the line with the cursor moved, within the text; nothing is selected."""
        return LineEdit(self.text, max(0, min(cursor, len(self.text))))

    def without(self, start: int, end: int) -> LineEdit:
        """Return the line without the characters from `start` up to `end`, or empty if all is selected."""
        if self.is_marked:
            return LineEdit("", 0)
        start, end = max(0, start), min(end, len(self.text))
        return LineEdit(self.text[:start] + self.text[end:], start)

    @property
    def word_start(self) -> int:
        """Return the start of the word before the cursor."""
        found = _WORD_BEFORE.search(self._halves[0])
        return found.start() if found else 0

    @property
    def word_end(self) -> int:
        """Return the end of the word after the cursor."""
        found = _WORD_AFTER.match(self.text, self.cursor)
        return found.end() if found else len(self.text)

    @property
    def _halves(self) -> tuple[str, str]:
        return self.text[: self.cursor], self.text[self.cursor :]


EDITS: Mapping[str, Callable[[LineEdit], LineEdit]] = {
    "left": lambda line: line.at(line.cursor - 1),
    "right": lambda line: line.at(line.cursor + 1),
    "home": lambda line: line.at(0),
    "end": lambda line: line.at(len(line.text)),
    "word_left": lambda line: line.at(line.word_start),
    "word_right": lambda line: line.at(line.word_end),
    "backspace": lambda line: line.without(line.cursor - 1, line.cursor),
    "delete": lambda line: LineEdit.at(line.without(line.cursor, line.cursor + 1), line.cursor),
    "delete_word": lambda line: line.without(line.word_start, line.cursor),
    "delete_to_start": lambda line: line.without(0, line.cursor),
    "delete_to_end": lambda line: line.without(line.cursor, len(line.text)),
}
"""The effect of editing keys, by name."""
