"""A form of typed fields that says what is wrong while one types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from tui.present.fields import Field, Value
from tui.widgets.choice import Choice
from tui.widgets.field_row import FieldRow

Check: TypeAlias = Callable[[Mapping[str, Value]], Mapping[str, str]]
"""Looks at all values together; returns what is wrong by field key, as sentences without a subject."""


def no_objections(values: Mapping[str, Value]) -> Mapping[str, str]:
    """A check that finds nothing wrong."""
    del values
    return {}


class ParameterForm(VerticalScroll, can_focus=False):
    """One row a field: title, editor, and beside it the bounds, the default if changed, or what is wrong.

        form = ParameterForm(fields, check=lambda values: {"workers": "needs 64 GPUs, the quota is 32"})
        @on(ParameterForm.Changed) …      # at every key: event.values, event.errors
        @on(ParameterForm.Submitted) …    # enter, only when nothing is wrong

    What is to be said about the field with the focus stands in full below the rows. Up, down and tab move between
    fields, left and right change a choice, `ctrl+r` sets a field back to its default.
    """

    DEFAULT_CSS = """
    ParameterForm { width: 1fr; height: 1fr; scrollbar-size-vertical: 1; }
    ParameterForm > .form--help { dock: bottom; height: 2; color: $foreground 75%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "previous field", id="form.previous", show=False),
        Binding("down", "step(1)", "next field", id="form.next", show=False),
        Binding("enter", "submit", "launch", id="form.submit", show=False),
        Binding("ctrl+r", "reset", "default", id="form.reset", show=False),
    ]

    @dataclass
    class Changed(Message):
        """A value changed; `values` holds those that can be read, `errors` what is wrong by key."""

        form: ParameterForm
        values: Mapping[str, Value]
        errors: Mapping[str, str]

        @property
        def control(self) -> ParameterForm:
            """The form, so that handlers can be bound by its id."""
            return self.form

    @dataclass
    class Submitted(Message):
        """The operator pressed enter, and nothing is wrong."""

        form: ParameterForm
        values: Mapping[str, Value]

        @property
        def control(self) -> ParameterForm:
            """The form, so that handlers can be bound by its id."""
            return self.form

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        values: Mapping[str, Value] | None = None,
        check: Check = no_objections,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        present = values or {}
        self._rows = [FieldRow(field, present.get(field.key, field.default)) for field in fields]
        self._help = Static("", classes="form--help", markup=False)
        self._check = check
        self._values: dict[str, Value] = {}
        self._errors: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """The rows, and the place for help."""
        yield from self._rows
        yield self._help

    @property
    def values(self) -> Mapping[str, Value]:
        """Every value that can be read."""
        return dict(self._values)

    @property
    def changed_values(self) -> Mapping[str, Value]:
        """Those that are not the default."""
        defaults = {row.field.key: row.field.default for row in self._rows}
        return {key: value for key, value in self._values.items() if value != defaults[key]}

    @property
    def errors(self) -> Mapping[str, str]:
        """What is wrong, by field key."""
        return dict(self._errors)

    def set_value(self, key: str, value: Value) -> None:
        """Put a value into a field.

        Raises:
            KeyError: There is no such field.
        """
        row = next((row for row in self._rows if row.field.key == key), None)
        if row is None:
            raise KeyError(key)
        row.set_value(value)
        self._review()

    def focus_first(self) -> None:
        """Give the focus to the first field."""
        if self._rows:
            self._rows[0].editor.focus()

    def on_mount(self) -> None:
        """Say from the start what is wrong."""
        self._review()

    def on_descendant_focus(self) -> None:
        """Explain the field that got the focus."""
        row = next((row for row in self._rows if row.has_focus_within), None)
        if row is not None:
            self._help.update(row.explanation)

    def action_step(self, step: int) -> None:
        """Go to the next or previous field."""
        at = next((index for index, row in enumerate(self._rows) if row.has_focus_within), 0)
        self._rows[max(0, min(at + step, len(self._rows) - 1))].editor.focus()

    def action_submit(self) -> None:
        """Hand the values over, or go to the first field that is wrong."""
        self._review()
        wrong = next((row for row in self._rows if row.field.key in self._errors), None)
        if wrong is not None:
            wrong.editor.focus()
        elif not self._errors:
            self.post_message(self.Submitted(self, self.values))

    def action_reset(self) -> None:
        """Set the field with the focus back to its default."""
        row = next((row for row in self._rows if row.has_focus_within), None)
        if row is not None:
            row.set_value(row.field.default)
            self._review()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_submit()

    @on(Input.Changed)
    @on(Choice.Changed)
    def _edited(self, event: Message) -> None:
        event.stop()
        self._review()

    def _review(self) -> None:
        """Read all fields, check them together, and tell rows and owner if anything is different."""
        values: dict[str, Value] = {}
        errors: dict[str, str] = {}
        for row in self._rows:
            try:
                values[row.field.key] = row.read()
            except ValueError as error:
                errors[row.field.key] = str(error)
        errors |= {key: text for key, text in self._check(values).items() if key not in errors}
        for row in self._rows:
            row.tell(errors.get(row.field.key, ""))
        if (values, errors) != (self._values, self._errors):
            self._values, self._errors = values, errors
            self.post_message(self.Changed(self, values, errors))
