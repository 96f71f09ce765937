"""The prompt: one line of input after a sign: `/` searches or filters, `&` filters, `:` takes a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.suggester import Suggester
from textual.widgets import Input, Static

from tui.widgets.base import WidgetMessage

Completer = Callable[[str], Sequence[str]]
"""A function that completes the typed text to whole lines, best first."""

HISTORY_LENGTH = 200
SHOWN_COMPLETIONS = 6


class PromptLine(Horizontal):
    """A row over the last line of its parent: it appears when opened, takes one line of text, and closes.

    Its parent's `layers` have to end with `prompt`. Nothing below changes its size, so that nothing is laid out anew.

        prompt = PromptLine("/")            # hidden until
        prompt.open("initial text")    # takes the focus
        @on(PromptLine.Changed) …           # at every key
        @on(PromptLine.Submitted) …         # enter: closed, with the text
        @on(PromptLine.Cancelled) …         # esc: closed

    Up and down recall earlier entries. The focus returns to the widget that had it.

    Args:
        sign: Text before the input.
        hint: Placeholder of an empty input.
        completer: Returns completions, shown beside the input; `tab` takes the first.
    """

    DEFAULT_CSS = """
    PromptLine { layer: prompt; dock: bottom; height: 1; width: 1fr; display: none; }
    PromptLine.-open { display: block; }
    PromptLine > .prompt--sign { width: auto; padding: 0 1; text-style: bold; color: $text-accent; }
    PromptLine > .prompt--others { width: auto; max-width: 60%; height: 1; color: $foreground 50%; padding: 0 1; }
    PromptLine > Input, PromptLine > Input:focus { width: 1fr; border: none; height: 1; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", id="prompt.cancel", show=False),
        Binding("up", "recall(-1)", "previous", id="prompt.previous", show=False),
        Binding("down", "recall(1)", "next", id="prompt.next", show=False),
        Binding("tab", "complete", "complete", id="prompt.complete", show=False, priority=True),
    ]

    @dataclass
    class Changed(WidgetMessage):
        """The text changed."""

        text: str

    @dataclass
    class Submitted(WidgetMessage):
        """The operator pressed enter; the prompt is closed."""

        text: str

    @dataclass
    class Cancelled(WidgetMessage):
        """The operator pressed escape; the prompt is closed."""

    def __init__(
        self,
        sign: str,
        *,
        hint: str = "",
        completer: Completer | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._sign = Static(sign, classes="prompt--sign", markup=False)
        suggester = _CompleterSuggester(completer) if completer else None
        self._input = Input(placeholder=hint, compact=True, suggester=suggester)
        self._input.cursor_blink = False
        self._input.can_focus = False
        self._completer = completer
        self._others = Static("", classes="prompt--others", markup=False)
        self._history: list[str] = []
        self._recalled = 0

    @property
    def is_open(self) -> bool:
        """True if the prompt is open."""
        return self.has_class("-open")

    @property
    def text(self) -> str:
        """The typed text."""
        return self._input.value

    def compose(self) -> ComposeResult:
        """Yield sign, input and completions."""
        yield self._sign
        yield self._input
        if self._completer is not None:
            yield self._others

    def open(self, text: str = "", *, sign: str = "") -> None:
        """Show the prompt with `text`, and take the focus; `sign` replaces the sign."""
        if sign:
            self._sign.update(sign)
        self.add_class("-open")
        self._recalled = len(self._history)
        self._input.value = text
        self._input.cursor_position = len(text)
        self._input.can_focus = True
        self._input.focus()

    def close(self) -> None:
        """Hide the prompt; unless the caller moves the focus, Textual gives it to the next widget."""
        self.remove_class("-open")
        self._input.can_focus = False

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._completer is not None:
            known = len(event.value) - len(re.split(r"[ =]", event.value)[-1])  # of the last word or value
            self._others.update("  ".join(line[known:] for line in self._completer(event.value)[:SHOWN_COMPLETIONS]))
        if self.is_open:
            self.post_message(self.Changed(self, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history = [*self._history[-HISTORY_LENGTH:], text]
        self.close()
        self.post_message(self.Submitted(self, text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable tab without a completer, so that it bubbles."""
        return action != "complete" or self._completer is not None

    def action_cancel(self) -> None:
        """Close without a result."""
        self.close()
        self.post_message(self.Cancelled(self))

    def action_recall(self, direction: int) -> None:
        """Put an older or newer entry into the input."""
        self._recalled = max(0, min(self._recalled + direction, len(self._history)))
        text = self._history[self._recalled] if self._recalled < len(self._history) else ""
        self._input.value = text
        self._input.cursor_position = len(text)

    def action_complete(self) -> None:
        """Take the best completion."""
        if self._completer is None:
            return
        best = next(iter(self._completer(self._input.value)), None)
        if best is not None:
            self._input.value = best
            self._input.cursor_position = len(best)


class _CompleterSuggester(Suggester):
    """The adapter of a completer to Textual's grey suggestion."""

    def __init__(self, completer: Completer) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._completer = completer

    async def get_suggestion(self, value: str) -> str | None:
        """Return the best completion that begins with the typed text."""
        return next((line for line in self._completer(value) if line.startswith(value)), None)
