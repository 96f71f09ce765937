"""The viewer: a text on the whole screen (describe, YAML, help, findings)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from actions.base.errors import RefusedError
from actions.base.wording import counted
from tui.present.cells import Cells, Span, Tone
from tui.present.text import WrappedLine, wrapped_lines
from tui.terminal.clipboard import Clipboard, Clipping, copy_out
from tui.widgets.base import Lines, NavigableWidget

_HINT = (Span(" esc back   / search   n N next, previous   g G top, bottom   W wrap   Y copy", Tone.MUTED),)


ViewedText = str | Callable[[int], str]
"""A text, or a function that lays it out for a number of columns."""


_COLUMNS = 80
"""The width of a text before it is on screen."""


def _lines_of(text: ViewedText, width: int) -> list[str]:
    laid_out = text if isinstance(text, str) else text(width)
    return [line.expandtabs(4) for line in laid_out.splitlines()] or [""]


class TextView(NavigableWidget, can_focus=True):
    """Lines of plain text with scrolling and search; long lines are wrapped or cut.

    Args:
        text: The text, or a function that lays it out for a number of columns.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("W", "wrap", "wrap", id="text.wrap", show=False)]

    def __init__(self, text: ViewedText) -> None:
        super().__init__()
        self._text = text
        self._lines = _lines_of(text, _COLUMNS)
        self._rows: list[WrappedLine] = []
        self._is_wrapped = True
        self._top = 0
        self._needle = ""

    def on_resize(self) -> None:
        """Lay out for the new width; the first visible line stays the first, as far as it is the same."""
        if callable(self._text):
            self._lines = _lines_of(self._text, self.size.width - 1)
        self._lay_out()

    @property
    def is_wrapped(self) -> bool:
        """True while long lines are wrapped."""
        return self._is_wrapped

    @property
    def text(self) -> str:
        """The text as it is laid out now, without the wrapping of lines that are still too long."""
        return "\n".join(self._lines)

    def action_wrap(self) -> None:
        """Switch between wrapping and cutting long lines."""
        self._is_wrapped = not self._is_wrapped
        self._lay_out()

    def search(self, needle: str) -> int:
        """Mark every occurrence of `needle`, ignoring case, and go to the first one from here on.

        Returns:
            The number of matching lines.
        """
        self._needle = needle.lower()
        found = self._found()
        if found:
            self._top = next((index for index in found if index >= self._top), found[0])
        self._clamp()
        return len(found)

    def next_match(self, direction: int) -> None:
        """Go to the next matching line, or the previous one for a negative direction."""
        found = self._found()
        if direction > 0:
            found = [index for index in found if index > self._top] or found
            self._top = found[0] if found else self._top
        else:
            found = [index for index in found if index < self._top] or found
            self._top = found[-1] if found else self._top
        self._clamp()

    def step(self, lines: int) -> None:
        """Scroll."""
        self._top += lines
        self._clamp()

    def jump(self, *, to_end: bool) -> None:
        """Scroll to an end."""
        self._top = len(self._rows) if to_end else 0
        self._clamp()

    def render_line(self, y: int) -> Strip:
        """Render one row, with the matches marked."""
        index = self._top + y
        body = self.paint(self._marked(self._rows[index]) if index < len(self._rows) else (), self.size.width - 1)
        rail = self.rail_segment(y, top=self._top, count=len(self._rows), height=self.size.height)
        return Strip([*body, rail], self.size.width)

    def _marked(self, row: WrappedLine) -> Cells:
        text = row.text
        if not self._needle or self._needle not in text.lower():
            line = self._lines[row.line]
            is_heading = bool(line) and not line.startswith((" ", "-"))
            return (Span(text, Tone.STRONG if is_heading else Tone.PLAIN),)
        parts = re.split(f"({re.escape(self._needle)})", text, flags=re.IGNORECASE)
        return tuple(Span(part, Tone.ACCENT if n % 2 else Tone.PLAIN) for n, part in enumerate(parts) if part)

    def _found(self) -> list[int]:
        """Return the first row of every matching line."""
        if not self._needle:
            return []
        lines = {at for at, line in enumerate(self._lines) if self._needle in line.lower()}
        starts = {row.line: at for at, row in reversed(list(enumerate(self._rows)))}
        return sorted(starts[line] for line in lines if line in starts)

    def _lay_out(self) -> None:
        line = self._rows[self._top].line if self._top < len(self._rows) else 0
        self._rows = wrapped_lines(self._lines, self.size.width - 1 if self._is_wrapped else 0)
        self._top = next((at for at, row in enumerate(self._rows) if row.line == line), 0)
        self._clamp()

    def _clamp(self) -> None:
        self._top = max(0, min(self._top, len(self._rows) - self.size.height))
        self.refresh()


class Viewer(ModalScreen[None]):
    """A screen with a titled text; closes with `esc` or `q`.

    Args:
        title: Stands in the border.
        text: The text, or a function that lays it out for a number of columns.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "back", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("n", "next(1)", "next match", show=False),
        Binding("N", "next(-1)", "previous match", show=False),
        Binding("Y", "copy", "copy", show=False),
    ]

    def __init__(self, title: str, text: ViewedText) -> None:
        super().__init__()
        self._title = title
        self._view = TextView(text)
        self._field = Input(placeholder="search", id="viewer-search", compact=True, select_on_focus=False)
        self._field.cursor_blink = False

    def compose(self) -> ComposeResult:
        """Yield the text, and a line of keys that the search input replaces."""
        self._view.border_title = Content(self._title)
        yield self._view
        yield self._field
        yield Lines([_HINT], id="viewer-keys")

    def on_mount(self) -> None:
        """Focus the text."""
        self._view.focus()

    def action_search(self) -> None:
        """Open the search input."""
        self.add_class("-searching")
        self._field.focus()

    def wrap(self, value: str) -> None:
        """Wrap long lines (`all`) or cut them (`none`); without a value, the other one, as the key does."""
        if value != ("all" if self._view.is_wrapped else "none"):
            self._view.action_wrap()

    def action_next(self, direction: int) -> None:
        """Go to another match."""
        self._view.next_match(direction)

    def action_copy(self) -> None:
        """Copy the whole text; the border names what was copied, or why nothing was."""
        try:
            done = copy_out(cast(Clipboard, self.app), Clipping(self._view.text, self._title))
        except RefusedError as error:
            done = error.sentence()
        self._view.border_subtitle = Content(done)

    def action_leave(self) -> None:
        """Close the search input, or else the viewer."""
        if self._field.has_focus:
            self._stop_searching()
        else:
            self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search for the entered text."""
        event.stop()
        found = self._view.search(event.value)
        self._view.border_subtitle = Content(f"{counted(found, 'line')} with {event.value!r}" if event.value else "")
        self._stop_searching()

    def _stop_searching(self) -> None:
        self.remove_class("-searching")
        self._view.focus()
