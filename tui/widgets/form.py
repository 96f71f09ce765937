"""A form of typed fields that is checked while it is edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from actions.base.wording import folded
from tui.present.cells import Cells, Span, Tone, fit
from tui.present.form import EDITS, Check, Entries, Field, LineEdit, Value, options_of, text_of_value
from tui.widgets.base import NavigableWidget, WidgetMessage

_TITLE_WIDTH = 26
_EDITOR_WIDTHS = (24, 48)
"""Smallest and greatest width; between them a third of the form."""
_HELP_LINES = 2


class FormRenderer(NavigableWidget):
    """The drawing of a form. `_at` is the current field, `_line` its text during editing, `_top` the first visible row.

    Args:
        entries: Texts, values and problems of the fields.
    """

    PARTS: ClassVar[tuple[str, ...]] = (
        *NavigableWidget.PARTS, "form--editor", "form--current", "form--marked", "form--cursor", "form--wrong",
    )  # fmt: skip
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    FormRenderer { width: 1fr; height: 1fr; }
    FormRenderer > .form--editor { background: $surface; }
    FormRenderer > .form--current { background: $primary 25%; text-style: bold; }
    FormRenderer > .form--marked { background: $primary 60%; text-style: bold; }
    FormRenderer > .form--cursor { background: $foreground; color: $background; }
    FormRenderer > .form--wrong { background: $error 25%; }
    """

    def __init__(self, entries: Entries, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._entries = entries
        self._at = 0
        self._top = 0
        self._line = LineEdit.of(entries.texts[0] if entries.fields else "")

    @property
    def page_lines(self) -> int:
        """Rows above the explanation of the current field."""
        return max(1, self.size.height - _HELP_LINES)

    def on_resize(self) -> None:
        """Keep the current field visible."""
        self.keep_in_sight()
        self.refresh()

    def keep_in_sight(self) -> None:
        """Scroll until the current field is visible."""
        self._top = max(min(self._top, self._at), self._at - self.page_lines + 1)

    def render_line(self, y: int) -> Strip:
        """Render a field's row, or a line of the current field's explanation."""
        width = self.size.width
        if y >= self.page_lines:
            return self.paint(self._explained(y - self.page_lines, width), width)
        at, count = self._top + y, len(self._entries.fields)
        rail = self.rail_segment(y, top=self._top, count=count, height=self.page_lines)
        body = self._row(at, width - 1) if at < count else self.paint((), width - 1)
        return Strip([*body, rail], width)

    def _explained(self, y: int, width: int) -> Cells:
        if not self._entries.fields:
            return ()
        lines = folded(self._entries.explanation(self._at), max(1, width - 1))
        rest = lines[y:] if y == _HELP_LINES - 1 else lines[y : y + 1]
        return fit(Span(" ".join(rest), Tone.MUTED), width)

    def _row(self, at: int, width: int) -> Strip:
        title = min(_TITLE_WIDTH, width * 45 // 100)
        editor = min(max(width // 3, _EDITOR_WIDTHS[0]), _EDITOR_WIDTHS[1], width * 55 // 100)
        base = self.resolved_styles.base
        named = self.segments((*fit(Span(self._entries.fields[at].title), title - 1), Span(" ")), base)
        note = self.segments(fit((Span(" "), *self._entries.note(at)), max(0, width - title - editor)), base)
        return Strip([*named, *self._editor(at, editor), *note]).adjust_cell_length(width, base)

    def _editor(self, at: int, width: int) -> Strip:
        parts, field, text = self.resolved_styles.parts, self._entries.fields[at], self._entries.texts[at]
        is_current = at == self._at and self.has_focus
        if options_of(field):
            choice: Cells = (Span("‹ ", Tone.MUTED), Span(text), Span(" ›", Tone.MUTED))
            return self.paint(
                fit(choice, width), width, parts["form--current"] if is_current else self.resolved_styles.base
            )
        is_wrong = field.key in self._entries.errors
        if not is_current:
            return self.paint(fit(text, width), width, parts["form--wrong" if is_wrong else "form--editor"])
        ground = parts["form--wrong" if is_wrong else "form--current"]
        return Strip(self._edited(width, parts["form--marked"] if self._line.is_marked else ground)).adjust_cell_length(
            width, ground
        )

    def _edited(self, width: int, ground: Style) -> list[Segment]:
        """Return the part of the text around the cursor that fits."""
        text, cursor = self._line.text, self._line.cursor
        return [
            Segment(text[max(0, cursor - width + 1) : cursor], ground),
            Segment(text[cursor : cursor + 1] or " ", self.resolved_styles.parts["form--cursor"]),
            Segment(text[cursor + 1 :], ground),
        ]


_EDITING = {
    "home": "home,ctrl+a",
    "end": "end,ctrl+e",
    "word_left": "ctrl+left",
    "word_right": "ctrl+right",
    "backspace": "backspace",
    "delete": "delete",
    "delete_word": "ctrl+w,ctrl+backspace",
    "delete_to_start": "ctrl+u",
    "delete_to_end": "ctrl+k",
}


def no_objections(values: Mapping[str, Value]) -> Mapping[str, str]:
    """Return no problems: the check of a form without one."""
    del values
    return {}


class ParameterForm(FormRenderer, can_focus=True, inherit_bindings=False):
    """A form with one row a field: title, editor, and bounds, default (if changed) or problem.

        form = ParameterForm(fields, check=lambda values: {"workers": "needs 64 GPUs, the quota is 32"})
        @on(ParameterForm.Changed) …      # at every key: event.values, event.errors
        @on(ParameterForm.Submitted) …    # enter, only without problems

    It is one widget for any number of fields, so it opens at once and no key is lost between fields. Up, down and tab
    move between fields, left and right change a choice, `ctrl+r` resets a field to its default. Entering a text field
    selects its text: typing replaces it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "previous field", id="form.previous", show=False),
        Binding("down", "move(1)", "next field", id="form.next", show=False),
        Binding("shift+tab", "go_round(-1)", "previous field", id="form.previous_round", show=False),
        Binding("tab", "go_round(1)", "next field", id="form.next_round", show=False),
        Binding("enter", "submit", "launch", id="form.submit", show=False),
        Binding("ctrl+r", "reset", "default", id="form.reset", show=False),
        Binding("left", "sideways(-1)", "previous", id="form.left", show=False),
        Binding("right", "sideways(1)", "next", id="form.right", show=False),
        *(Binding(keys, f"edit('{name}')", name, id=f"form.{name}", show=False) for name, keys in _EDITING.items()),
    ]

    @dataclass
    class Changed(WidgetMessage):
        """A value changed; `values` holds those that can be parsed, `errors` the problems by key."""

        values: Mapping[str, Value]
        errors: Mapping[str, str]

    @dataclass
    class Submitted(WidgetMessage):
        """The operator pressed enter, and there is no problem."""

        values: Mapping[str, Value]

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        values: Mapping[str, Value] | None = None,
        check: Check = no_objections,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(Entries(fields, values or {}, check), id=id, classes=classes)
        self._check = check

    @property
    def entries(self) -> Entries:
        """Texts, values and problems of the fields."""
        return self._entries

    def show(self, fields: Sequence[Field], values: Mapping[str, Value], *, current: str = "") -> None:
        """Show other fields, or other defaults; the field with the key `current`, or the first one, becomes current."""
        self._entries = Entries(fields, values, self._check)
        self._go_to(next((place for place, field in enumerate(fields) if field.key == current), 0))
        self._tell()

    def on_mount(self) -> None:
        """Report the initial values and problems."""
        self._tell()

    def move_by(self, key: str) -> bool:
        """Return false: letters are typed into fields."""
        return False

    def on_key(self, event: events.Key) -> None:
        """Edit a text. No letter turns a choice: a line that was meant for another place would change the launch."""
        if event.character is None or not event.is_printable or self._is_choice:
            return
        self._edit(self._line.typed(event.character))
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Insert pasted text."""
        event.stop()
        if not self._is_choice:
            self._edit(self._line.typed(event.text))

    def on_click(self, event: events.Click) -> None:
        """Go to the clicked field; if it is current already, turn its choice."""
        at = self._top + event.y
        if event.y >= self.page_lines or at >= len(self._entries.fields):
            return
        if at == self._at and self._is_choice:
            self._put(self._entries.turned(at, 1))
        else:
            self._go_to(at)

    def step(self, lines: int) -> None:
        """Go to a field before or after."""
        self._go_to(max(0, min(self._at + lines, len(self._entries.fields) - 1)))

    def jump(self, *, to_end: bool) -> None:
        """Go to the first or the last field."""
        self._go_to(len(self._entries.fields) - 1 if to_end else 0)

    def action_go_round(self, step: int) -> None:
        """Go to the next or previous field, from the last one to the first."""
        self._go_to((self._at + step) % max(1, len(self._entries.fields)))

    def action_sideways(self, step: int) -> None:
        """Turn a choice, or move the cursor by one character."""
        if self._is_choice:
            self._put(self._entries.turned(self._at, step))
        else:
            self._edit(EDITS["left" if step < 0 else "right"](self._line))

    def action_edit(self, name: str) -> None:
        """Edit the text of the current field, by a name of `EDITS`."""
        if not self._is_choice:
            self._edit(EDITS[name](self._line))

    def action_submit(self) -> None:
        """Submit the values, or go to the first field with a problem."""
        wrong = self._entries.first_wrong
        if wrong is not None:
            self._go_to(wrong)
        elif not self._entries.errors:
            self.post_message(self.Submitted(self, self._entries.values))

    def action_reset(self) -> None:
        """Reset the current field to its default."""
        if self._entries.fields:
            self._put(text_of_value(self._entries.fields[self._at].default))

    @property
    def _is_choice(self) -> bool:
        return not self._entries.fields or bool(options_of(self._entries.fields[self._at]))

    def _go_to(self, at: int) -> None:
        if self._entries.fields:
            self._at, self._line = at, LineEdit.of(self._entries.texts[at])
            self.keep_in_sight()
        self.refresh()

    def _put(self, text: str) -> None:
        """Set the text of the current field, without editing state."""
        self._edit(LineEdit.of(text))

    def _edit(self, line: LineEdit) -> None:
        self._line = line
        if self._entries.write(self._at, line.text):
            self._tell()
        self.refresh()

    def _tell(self) -> None:
        self.post_message(self.Changed(self, self._entries.values, self._entries.errors))
