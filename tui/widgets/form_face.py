"""How a form looks: a row for each field, and below the rows what is said of the current one."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.present.cells import Cells, Span, Tone, fit
from tui.present.entries import Entries, options_of
from tui.present.line_edit import LineEdit
from tui.widgets.steering import SteeredWidget

_TITLE_WIDTH = 26
_EDITOR_WIDTHS = (24, 48)
"""Least and greatest; between them a third of the form."""
_HELP_LINES = 2


class FormFace(SteeredWidget):
    """Draws entries. `_at` is the current field, `_line` the text in it while it is edited, `_top` the first row seen.

    Args:
        entries: What stands in the fields.
    """

    PARTS: ClassVar[tuple[str, ...]] = (
        *SteeredWidget.PARTS, "form--editor", "form--current", "form--marked", "form--cursor", "form--wrong",
    )  # fmt: skip
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    FormFace { width: 1fr; height: 1fr; }
    FormFace > .form--editor { background: $surface; }
    FormFace > .form--current { background: $primary 25%; text-style: bold; }
    FormFace > .form--marked { background: $primary 60%; text-style: bold; }
    FormFace > .form--cursor { background: $foreground; color: $background; }
    FormFace > .form--wrong { background: $error 25%; }
    """

    def __init__(self, entries: Entries, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._entries = entries
        self._at = 0
        self._top = 0
        self._line = LineEdit.of(entries.texts[0] if entries.fields else "")

    @property
    def page_lines(self) -> int:
        """Rows above what is said of the current field."""
        return max(1, self.size.height - _HELP_LINES)

    def on_resize(self) -> None:
        """Keep the current field in sight."""
        self.keep_in_sight()
        self.refresh()

    def keep_in_sight(self) -> None:
        """Move the rows so far that the current field is seen."""
        self._top = max(min(self._top, self._at), self._at - self.page_lines + 1)

    def render_line(self, y: int) -> Strip:
        """A row, or a line of what is said about the current field."""
        width = self.size.width
        if y >= self.page_lines:
            return self.paint(self._said(y - self.page_lines, width), width)
        at, count = self._top + y, len(self._entries.fields)
        rail = self.rail_segment(y, top=self._top, count=count, height=self.page_lines)
        body = self._row(at, width - 1) if at < count else self.paint((), width - 1)
        return Strip([*body, rail], width)

    def _said(self, y: int, width: int) -> Cells:
        if not self._entries.fields:
            return ()
        lines = textwrap.wrap(self._entries.explanation(self._at), max(1, width - 1))
        rest = lines[y:] if y == _HELP_LINES - 1 else lines[y : y + 1]
        return fit(Span(" ".join(rest), Tone.MUTED), width)

    def _row(self, at: int, width: int) -> Strip:
        title = min(_TITLE_WIDTH, width * 45 // 100)
        editor = min(max(width // 3, _EDITOR_WIDTHS[0]), _EDITOR_WIDTHS[1], width * 55 // 100)
        base = self.skin.base
        named = self.segments((*fit(Span(self._entries.fields[at].title), title - 1), Span(" ")), base)
        note = self.segments(fit((Span(" "), *self._entries.note(at)), max(0, width - title - editor)), base)
        return Strip([*named, *self._editor(at, editor), *note]).adjust_cell_length(width, base)

    def _editor(self, at: int, width: int) -> Strip:
        parts, field, text = self.skin.parts, self._entries.fields[at], self._entries.texts[at]
        is_current = at == self._at and self.has_focus
        if options_of(field):
            choice: Cells = (Span("‹ ", Tone.MUTED), Span(text), Span(" ›", Tone.MUTED))
            return self.paint(fit(choice, width), width, parts["form--current"] if is_current else self.skin.base)
        is_wrong = field.key in self._entries.errors
        if not is_current:
            return self.paint(fit(text, width), width, parts["form--wrong" if is_wrong else "form--editor"])
        ground = parts["form--wrong" if is_wrong else "form--current"]
        return Strip(self._edited(width, parts["form--marked"] if self._line.is_marked else ground)).adjust_cell_length(
            width, ground
        )

    def _edited(self, width: int, ground: Style) -> list[Segment]:
        """The text around the cursor, which is always in sight."""
        text, cursor = self._line.text, self._line.cursor
        return [
            Segment(text[max(0, cursor - width + 1) : cursor], ground),
            Segment(text[cursor : cursor + 1] or " ", self.skin.parts["form--cursor"]),
            Segment(text[cursor + 1 :], ground),
        ]
