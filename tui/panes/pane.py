"""The base of every pane: a bordered widget that pulls its picture when told to."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from actions.base.errors import RefusedError
from tui.keys import Context
from tui.live.desk import Desk
from tui.live.health import FeedHealth, FeedState
from tui.present.cells import fit_ends, text_of, width_of
from tui.present.subject import Subject

_BORDER_ENDS = 6
"""Columns of a border that its texts leave free."""


class Pane(Widget):
    """A pane shows one thing and acts on nothing: what the operator wants goes to the screen as a line.

    Its border has the title and the health of its source. `pull` is called on the loop while the pane is visible,
    at most ten times a second and only after a change; a pane keeps the revision it showed and does nothing for the
    same one.

    Args:
        desk: What the picture is made from.
    """

    CONTEXT: ClassVar[Context]
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; layout: vertical; border: round $foreground 25%; }
    Pane > .totals { height: 2; padding: 0 1; }
    """

    @dataclass
    class Entered(Message):
        """The operator goes into what is selected; `line` is the command line that does it."""

        line: str

    def __init__(self, desk: Desk) -> None:
        super().__init__(id=self.CONTEXT.value)
        self.desk = desk
        self.border_title = self.CONTEXT.value
        self._health_label = ""

    @abstractmethod
    def pull(self) -> None:
        """Look at the sources and show what changed."""

    def subject(self) -> Subject | None:
        """What is selected, for commands that name no object."""
        return None

    def point_at(self, of: str) -> None:
        """Show `of`: what that is depends on the pane.

        Raises:
            ConsoleError: The pane cannot.
        """
        if of:
            raise RefusedError(f"The {self.CONTEXT} pane shows one thing only; it cannot show {of!r}.")

    def narrow(self, text: str) -> None:
        """Show only what matches `text`; empty shows all.

        Raises:
            RefusedError: There is nothing to narrow.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to filter.")

    @property
    def narrowed_by(self) -> str:
        """The filter that is on; empty for none."""
        return ""

    def order(self, column: str, *, descending: bool) -> None:
        """Order by a column.

        Raises:
            ConsoleError: There is nothing to order, or no such column.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to sort.", hint=f"It cannot sort by {column!r}.")

    def on_mount(self) -> None:
        """Have the first picture drawn."""
        self.desk.ticker.poke()

    def take_focus(self) -> None:
        """Put the focus where keys of this pane are meant to go; of a pane that is still being made, when it is."""
        if self.is_mounted:
            self.focus_content()
        else:
            self.call_after_refresh(self.focus_content)

    def focus_content(self) -> None:
        """Put the focus on the widget that takes this pane's keys."""
        self.focus()

    def show_health(self, health: FeedHealth) -> None:
        """Tell at the border how the source is doing; what is not live is dimmed and says so in words."""
        label = self.desk.label_of(health)
        room = self.size.width - _BORDER_ENDS
        if width_of(label) > room > 0:
            label = text_of(fit_ends(label, room))  # what to do about it stands at the end
        if label != self._health_label:
            self._health_label = label
            self.border_subtitle = Content(label)  # setting it repaints the whole pane
        self.set_class(health.state in (FeedState.WAITING, FeedState.REFUSED), "-stale")
