"""The confirmation dialogs: yes or no, or typing a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.present.cells import Cells, width_of
from tui.widgets.base import Lines

BODY_COLUMNS = 68
"""Maximum length of a body line, on a screen of eighty columns."""


class Confirmation(msgspec.Struct, frozen=True):
    """The contents of a confirmation dialog.

    Args:
        title: The action: `Tear down bionemo-esm1nv-1121-a3f9`.
        lines: Its effects, line by line.
        word: Word to type; empty for a plain yes or no.
        word_is: Meaning of the word: `the cluster's name`.
    """

    title: str
    lines: Sequence[Cells] = ()
    word: str = ""
    word_is: str = ""


_ANSWERS = {"y  yes": True, "n  enter  no": False}


class _Asking(ModalScreen[bool]):
    """The base of both dialogs: a body that may be longer than the screen, scrolled by keys.

    Args:
        question: The contents.
        answers: The keys that close it, as shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
    ]

    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012 - declared by Textual
    """On a short screen the dialog has no margins, so that the keys that close it stay visible."""

    def __init__(self, question: Confirmation, answers: str) -> None:
        super().__init__()
        self._question = question
        self._answers = answers
        self._body = VerticalScroll(Lines(question.lines), classes="dialog-body", can_focus=False)
        self._keys = Static(answers, classes="dialog-keys", markup=False)

    def on_mount(self) -> None:
        """Show the keys that scroll the body once its size is known."""
        self.call_after_refresh(self._name_keys)

    def on_resize(self) -> None:
        """Show or hide the keys that scroll the body."""
        self.call_after_refresh(self._name_keys)

    def action_move(self, lines: int) -> None:
        """Scroll the body."""
        self._body.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll the body by its height."""
        self._body.scroll_relative(y=pages * max(1, self._body.size.height - 1), animate=False)

    def _name_keys(self) -> None:
        more = "↑ ↓  scroll" if self._body.max_scroll_y > 0 else ""
        line = f"{self._answers}      {more}".rstrip()
        fits = width_of(line) <= self._keys.size.width
        self._keys.update(line if fits or not more else f"{self._answers}  ↑ ↓")


class ConfirmModal(_Asking):
    """A dialog answered with `y`; every other way out means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("n,q,escape,enter", "answer(False)", "no", show=False),
        Binding("k", "move(-1)", "up", show=False),
        Binding("j", "move(1)", "down", show=False),
        Binding("g,home", "page(-99)", "first line", show=False),
        Binding("G,end", "page(99)", "last line", show=False),
    ]

    def __init__(self, question: Confirmation) -> None:
        super().__init__(question, "      ".join(_ANSWERS))

    def compose(self) -> ComposeResult:
        """Yield title, body and the two answers."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Content(self._question.title)
            yield self._body
            yield self._keys

    def on_click(self, event: events.Click) -> None:
        """Answer with the key under the pointer."""
        place, at = self._keys.content_region, event.screen_offset
        column = at.x - place.x if place.contains_point(at) else -1
        for text, is_yes in _ANSWERS.items():
            first = self._answers.index(text)
            if first <= column < first + len(text):
                self.dismiss(is_yes)

    def action_answer(self, is_yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(is_yes)


class TypeNameModal(_Asking):
    """A dialog confirmed only by typing a word exactly."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "no", show=False)]

    def __init__(self, question: Confirmation) -> None:
        super().__init__(question, "enter  confirm      esc  cancel")

    def compose(self) -> ComposeResult:
        """Yield title, body and the input."""
        question = self._question
        with Vertical(classes="dialog -danger") as dialog:
            dialog.border_title = Content(question.title)
            yield self._body
            yield Static(f"Type {question.word_is}, {question.word}, and press enter.", markup=False)
            field = Input(id="word", select_on_focus=False)
            field.cursor_blink = False
            yield field
            yield Static("", id="refusal", markup=False)
            yield self._keys

    def on_mount(self) -> None:
        """Focus the input."""
        self.query_one("#word", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with a yes if the word is exact."""
        event.stop()
        if event.value == self._question.word:
            self.dismiss(True)
        else:
            self.query_one("#refusal", Static).update(f"That is not {self._question.word_is}.")

    def action_cancel(self) -> None:
        """Close with a no."""
        self.dismiss(False)
