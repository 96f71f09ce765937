"""A form of parameters that is checked while it is edited: some fields shown, the others folded by group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.markup import escape
from textual.strip import Strip
from textual.widgets import Collapsible, Input, Select

from actions.base.wording import folded
from actions.blueprint.model import Parameter
from actions.blueprint.parts import Scalar
from tui.present.cells import Span, Tone, fit
from tui.present.form import Check, Entries, no_mistakes, options_of, text_of_value
from tui.widgets.base import Lines, LineWidget, WidgetMessage

_TITLE_WIDTH = 26
"""Columns left of the editors; as in the style sheet below."""
_HELP_LINES = 2
_ON_GROUP = "Enter shows these fields, and hides them again."
UNGROUPED = "Others"
"""The heading of folded fields without a group."""


class ChoiceInput(Select[str], inherit_bindings=False):
    """Some options, turned by arrows or chosen from the list that a click opens.

    No letter turns them: a line that was meant for another place would change the launch.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "previous", id="form.left", show=False),
        Binding("right", "turn(1)", "next", id="form.right", show=False),
        Binding("alt+down", "show_overlay", "list", id="form.list", show=False),
    ]

    def __init__(self, options: Sequence[str], chosen: str) -> None:
        super().__init__([(option, option) for option in options], value=chosen, allow_blank=False, compact=True)
        self._texts = tuple(options)

    def action_turn(self, step: int) -> None:
        """Choose the next or previous option, from the last one the first."""
        self.value = self._texts[(self._texts.index(str(self.value)) + step) % len(self._texts)]


class FieldRow(LineWidget):
    """A field: title, editor, and its bounds, default or mistake.

    Args:
        key: Its key.
        entries: What the fields of the form hold.
    """

    DEFAULT_CSS = """
    FieldRow { height: 1; width: 1fr; layout: horizontal; }
    FieldRow > Input, FieldRow > ChoiceInput { margin-left: 26; width: 36%; min-width: 24; max-width: 48; height: 1; }
    FieldRow > ChoiceInput > SelectCurrent, FieldRow > ChoiceInput:focus > SelectCurrent { height: 1; border: none; }
    FieldRow > ChoiceInput > SelectCurrent, FieldRow > Input { background: $surface; }
    FieldRow > ChoiceInput:focus > SelectCurrent, FieldRow > Input:focus { background: $primary 25%; text-style: bold; }
    FieldRow > Input.-wrong, FieldRow > Input.-wrong:focus { background: $error 25%; }
    """

    def __init__(self, key: str, entries: Entries) -> None:
        super().__init__()
        self.key = key
        options, text = options_of(entries.fields[key]), entries.texts[key]
        self._entries = entries
        self.editor = ChoiceInput(options, text) if options else Input(text, compact=True)
        if isinstance(self.editor, Input):
            self.editor.cursor_blink = False

    @property
    def text(self) -> str:
        """The text in the editor."""
        return str(self.editor.value)

    def compose(self) -> ComposeResult:
        """Yield the editor; the rest is drawn."""
        yield self.editor

    def put(self, text: str) -> None:
        """Put a text into the editor."""
        self.editor.value = text

    def show(self, entries: Entries) -> None:
        """Show the field of these entries."""
        self._entries = entries
        self.put(entries.texts[self.key])
        self.review()

    def review(self) -> None:
        """Draw title and note again."""
        self.editor.set_class(self.key in self._entries.mistakes, "-wrong")
        self.refresh()

    def on_click(self) -> None:
        """Go to the editor, wherever the row was clicked."""
        self.editor.focus()

    def render_line(self, y: int) -> Strip:
        """Draw title and note, with room for the editor between them."""
        title = fit(Span(self._entries.fields[self.key].title), _TITLE_WIDTH - 1)
        room = Span(" " * (self.editor.size.width + 1))
        width = max(0, self.size.width - _TITLE_WIDTH - self.editor.size.width)
        return self.paint((*title, room, *fit((Span(" "), *self._entries.note(self.key)), width)), self.size.width)


class FieldGroup(Collapsible):
    """Folded fields, whose rows are made when it is opened.

    Args:
        name: Its heading.
        keys: Its fields.
        entries: What the fields of the form hold.
    """

    DEFAULT_CSS = """
    FieldGroup, FieldGroup:focus-within { border: none; padding: 0; background: $background; }
    FieldGroup > CollapsibleTitle { padding: 0; color: $foreground 80%; }
    FieldGroup > Contents { padding: 0 0 0 2; }
    """

    def __init__(self, name: str, keys: Sequence[str], entries: Entries) -> None:
        super().__init__(title="", collapsed_symbol="▸", expanded_symbol="▾")
        self._heading = name
        self.keys = tuple(keys)
        self.rows: Sequence[FieldRow] = ()
        self.review(entries)

    def review(self, entries: Entries) -> None:
        """Show the number of changes; unfold for a mistake."""
        self._entries = entries
        if any(key in entries.mistakes for key in self.keys):
            self.collapsed = False
        self.title = escape(entries.summary(self._heading, self.keys))

    async def unfold(self) -> None:
        """Show the fields; once it returns they can have the focus."""
        self.collapsed = False
        await self._make_rows()

    @on(Collapsible.Expanded)
    async def _make_rows(self) -> None:
        if not self.rows:
            self.rows = [FieldRow(key, self._entries) for key in self.keys]
            await self.query_one(Collapsible.Contents).mount(*self.rows)


class FieldRows(VerticalScroll, can_focus=False, inherit_bindings=False):
    """The rows of a form, scrolled above its help."""

    DEFAULT_CSS = "FieldRows { height: 1fr; scrollbar-size-vertical: 1; }"


class ParameterForm(Vertical):
    """Parameters, one row each; those that are not shown are folded by their group.

        form = ParameterForm(fields, shown=("workers",), check=lambda values: {"workers": "is above the quota of 32"})
        @on(ParameterForm.Changed) …      # at every key: event.values, event.mistakes
        @on(ParameterForm.Submitted) …    # enter, only without mistakes

    Up, down and tab move between fields and groups, left and right change a choice, `ctrl+r` resets a field to its
    default. Entering a text selects it: typing replaces it. A group with a mistake is unfolded.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "previous field", id="form.previous", show=False),
        Binding("down", "app.focus_next", "next field", id="form.next", show=False),
        Binding("enter", "submit", "launch", id="form.submit", show=False),
        Binding("ctrl+r", "reset", "default", id="form.reset", show=False),
    ]
    DEFAULT_CSS = """
    ParameterForm > .form--help { height: 2; }
    """

    @dataclass
    class Changed(WidgetMessage):
        """A value changed; `values` holds those that can be read, `mistakes` what is wrong by key."""

        values: Mapping[str, Scalar]
        mistakes: Mapping[str, str]

    @dataclass
    class Submitted(WidgetMessage):
        """The operator pressed enter, and there is no mistake."""

        values: Mapping[str, Scalar]

    def __init__(
        self,
        fields: Mapping[str, Parameter],
        *,
        shown: Sequence[str] = (),
        values: Mapping[str, Scalar] | None = None,
        check: Check = no_mistakes,
    ) -> None:
        super().__init__()
        self.entries = Entries(fields, values or {}, check)
        self._check = check
        self._shown = [FieldRow(key, self.entries) for key in shown]
        folded_keys: dict[str, list[str]] = {}
        for key, field in fields.items():
            if key not in shown:
                folded_keys.setdefault(field.group or UNGROUPED, []).append(key)
        self._groups = [FieldGroup(name, keys, self.entries) for name, keys in folded_keys.items()]
        self._help = Lines(classes="form--help")
        self._current = self._shown[0] if self._shown else None
        self.is_on_group = False
        """The heading of a group has the focus, not a field."""

    def compose(self) -> ComposeResult:
        """Yield the shown fields, the folded ones, and the help of the current one."""
        yield FieldRows(*self._shown, *self._groups)
        yield self._help

    @property
    def _rows(self) -> Iterable[FieldRow]:
        return (*self._shown, *(row for group in self._groups for row in group.rows))

    def show(self, fields: Mapping[str, Parameter], values: Mapping[str, Scalar]) -> None:
        """Show the same fields with other defaults and values."""
        self.entries = Entries(fields, values, self._check)
        for row in self._rows:
            row.show(self.entries)
        self._tell()

    def leave_out(self, keys: Collection[str]) -> None:
        """Take fields that are not folded out of sight, and show all others of these."""
        for row in self._shown:
            row.display = row.key not in keys

    async def go_to(self, key: str) -> None:
        """Unfold the group of a field, and give it the focus."""
        for group in self._groups:
            if key in group.keys:
                await group.unfold()
        for row in self._rows:
            if row.key == key:
                row.editor.focus()

    async def go_to_next(self, keys: Sequence[str]) -> None:
        """Go to the field of these keys that follows the current one, or to the first."""
        if keys:
            here = self._current.key if self._current is not None else ""
            await self.go_to(keys[(keys.index(here) + 1) % len(keys) if here in keys else 0])

    def take_focus(self) -> None:
        """Give the focus to the field that had it last, or to the first one."""
        if self._current is not None:
            self._current.editor.focus()

    def on_mount(self) -> None:
        """Report the initial values and mistakes."""
        self._tell()

    def on_resize(self) -> None:
        """Fold the help for the new width, and keep the current field in sight."""
        self._explain()
        if self._current is not None:
            self.call_after_refresh(self._current.scroll_visible, animate=False)

    @on(events.DescendantFocus)
    def _focus_moved(self, event: events.DescendantFocus) -> None:
        row = next((node for node in event.widget.ancestors if isinstance(node, FieldRow)), None)
        self.is_on_group = row is None
        self._current = row or self._current
        self._explain()

    @on(Input.Changed)
    @on(Select.Changed)
    def _edited(self, event: Input.Changed | Select.Changed) -> None:
        event.stop()
        row = event.control.parent
        if isinstance(row, FieldRow) and self.entries.write(row.key, row.text):
            self._tell()

    @on(Input.Submitted)
    async def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        await self.action_submit()

    async def action_submit(self) -> None:
        """Submit the values, or go to the first field with a mistake."""
        if self.entries.mistakes:
            await self.go_to(next(iter(self.entries.mistakes)))
        else:
            self.post_message(self.Submitted(self, self.entries.values))

    def action_reset(self) -> None:
        """Reset the current field to its default."""
        if self._current is not None and self._current.has_focus_within:
            self._current.put(text_of_value(self.entries.fields[self._current.key].default))

    def _explain(self) -> None:
        if self._current is None:
            return
        text = _ON_GROUP if self.is_on_group else self.entries.explanation(self._current.key)
        lines = folded(text, max(1, self.size.width - 1))
        rest = " ".join(lines[_HELP_LINES - 1 :])
        shown = [*lines[: _HELP_LINES - 1], rest]
        self._help.show([fit(Span(line, Tone.MUTED), self.size.width) for line in shown])

    def _tell(self) -> None:
        for row in self._rows:
            row.review()
        for group in self._groups:
            group.review(self.entries)
        self._explain()
        self.post_message(self.Changed(self, self.entries.values, self.entries.mistakes))
