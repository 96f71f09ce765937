"""A field with a few values, changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tui.present.cells import Span, Tone
from tui.widgets.stripes import StripWidget


class Choice(StripWidget, can_focus=True):
    """`‹ value ›`: left and right go through the options, space to the next one."""

    PARTS = ("choice--focus",)
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; }
    Choice > .choice--focus { background: $primary 35%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space,l", "turn(1)", "next", id="choice.next", show=False),
        Binding("left,h", "turn(-1)", "previous", id="choice.previous", show=False),
    ]

    @dataclass
    class Changed(Message):
        """Another option is chosen."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            """The field, so that handlers can be bound by its id."""
            return self.choice

    def __init__(self, options: Sequence[str], value: str) -> None:
        super().__init__()
        self._options = tuple(options)
        self._value = value

    @property
    def value(self) -> str:
        """The option that is chosen."""
        return self._value

    @value.setter
    def value(self, value: str) -> None:
        if value != self._value:
            self._value = value
            self.refresh()
            self.post_message(self.Changed(self, value))

    def action_turn(self, step: int) -> None:
        """Choose the next or previous option, round the end."""
        if self._options:
            at = self._options.index(self._value) if self._value in self._options else -step
            self.value = self._options[(at + step) % len(self._options)]

    def on_click(self, event: events.Click) -> None:
        """Choose the next option."""
        event.stop()
        self.action_turn(1)

    def render_line(self, y: int) -> Strip:
        """The value between its arrows."""
        base = self.skin.parts["choice--focus"] if self.has_focus else self.skin.base
        cells = (Span("‹ ", Tone.MUTED), Span(self._value), Span(" ›", Tone.MUTED))
        return self.paint(cells, self.size.width, base)
