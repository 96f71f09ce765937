"""One row of a form."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widgets import Input, Static

from tui.present.cells import Cells, Span, Tone, fit
from tui.present.fields import Field, FieldKind, Value, read_field, text_of_value
from tui.widgets.choice import Choice
from tui.widgets.stripes import StripWidget


class FieldRow(Horizontal):
    """Title, editor, note."""

    DEFAULT_CSS = """
    FieldRow { height: 1; width: 1fr; }
    FieldRow > .field--title { width: 26; max-width: 45%; height: 1; }
    FieldRow > Choice, FieldRow > Input { width: 24; max-width: 55%; }
    FieldRow > FieldNote { width: 1fr; }
    """

    def __init__(self, field: Field, value: Value) -> None:
        super().__init__()
        self.field = field
        self._note = FieldNote()
        self._title = Static(field.title, classes="field--title", markup=False)
        self.editor: Input | Choice = _editor_of(field, text_of_value(value))

    def compose(self) -> ComposeResult:
        """Left to right."""
        yield self._title
        yield self.editor
        yield self._note

    def read(self) -> Value:
        """The value that stands there.

        Raises:
            ValueError: What stands there is none; the message says what is wanted.
        """
        return read_field(self.field, self.editor.value)

    def set_value(self, value: Value) -> None:
        """Put a value there."""
        self.editor.value = text_of_value(value)

    @property
    def explanation(self) -> str:
        """All that is to be said about the field, as sentences."""
        default = text_of_value(self.field.default)
        parts = (self.field.help, self.field.bounds, f"default {default}" if default else "")
        return " · ".join(part for part in parts if part)

    def tell(self, problem: str) -> None:
        """Show what is wrong, else what differs from the default, else what may be entered."""
        default = text_of_value(self.field.default)
        is_changed = self.editor.value.strip() != default
        self.set_class(bool(problem), "-invalid")
        self.set_class(is_changed, "-changed")
        if problem:
            self._note.show((Span(f"✘ {problem}", Tone.BAD),))
        elif is_changed:
            about = f" · {self.field.bounds}" if self.field.bounds else ""
            self._note.show((Span("● ", Tone.ACCENT), Span(f"default {default or 'empty'}{about}", Tone.MUTED)))
        else:
            about = " · ".join(part for part in (self.field.bounds, self.field.help) if part)
            self._note.show((Span(f"  {about}", Tone.MUTED),))


class FieldNote(StripWidget):
    """What is said beside a field."""

    DEFAULT_CSS = "FieldNote { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._cells: Cells = ()

    def show(self, cells: Cells) -> None:
        """Say something else."""
        if cells != self._cells:
            self._cells = cells
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The note, cut where the row ends."""
        return self.paint(fit((Span(" "), *self._cells), self.size.width), self.size.width)


def _editor_of(field: Field, text: str) -> Input | Choice:
    match field.kind:
        case FieldKind.CHOICE:
            return Choice([text_of_value(choice) for choice in field.choices], text)
        case FieldKind.SWITCH:
            return Choice(("yes", "no"), text)
        case FieldKind.INTEGER | FieldKind.NUMBER | FieldKind.TEXT | FieldKind.SECRET:
            editor = Input(text, compact=True)
            editor.cursor_blink = False
            return editor
