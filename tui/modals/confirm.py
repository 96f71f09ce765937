"""Asking before something is done: yes or no, or the name of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.present.cells import Cells
from tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody is asked.

    Args:
        title: The deed: `Tear down bionemo-esm1nv-1121-a3f9`.
        lines: What will happen, line by line.
        word: What has to be typed; empty for a plain yes or no.
        word_is: What the word is: `the cluster's name`.
    """

    title: str
    lines: Sequence[Cells] = ()
    word: str = ""
    word_is: str = ""


class ConfirmModal(ModalScreen[bool]):
    """Yes with `y`; everything that leads out means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("n,q,escape,enter", "answer(False)", "no", show=False),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Title, what will happen, the two answers."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = self._question.title
            yield _lines(self._question)
            yield Static("y  yes      n  no", classes="dialog-keys", markup=False)

    def action_answer(self, is_yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(is_yes)


class TypeNameModal(ModalScreen[bool]):
    """Yes only by typing a word, letter by letter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "no", show=False)]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Title, what will happen, the field."""
        question = self._question
        with Vertical(classes="dialog -danger") as dialog:
            dialog.border_title = question.title
            yield _lines(question)
            yield Static(f"Type {question.word_is}, {question.word}, and press enter.", markup=False)
            field = Input(id="word", select_on_focus=False)
            field.cursor_blink = False
            yield field
            yield Static("", id="refusal", markup=False)
            yield Static("enter  do it      esc  leave it", classes="dialog-keys", markup=False)

    def on_mount(self) -> None:
        """The field takes the keys."""
        self.query_one("#word", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Only the exact word is a yes."""
        event.stop()
        if event.value == self._question.word:
            self.dismiss(True)
        else:
            self.query_one("#refusal", Static).update(f"That is not {self._question.word_is}.")

    def action_cancel(self) -> None:
        """Close with a no."""
        self.dismiss(False)


def _lines(question: Question) -> VerticalScroll:
    return VerticalScroll(Lines(question.lines), classes="dialog-body", can_focus=False)
