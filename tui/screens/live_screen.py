"""The base class of screens with live data."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from tui.textual_private import paint_only_changes

ResultT = TypeVar("ResultT")


class LiveScreen(Screen[ResultT]):
    """A screen that refreshes its data when the ticker fires."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As Textual's, which paints all of the screen whenever the focus moves."""

    def __init__(self) -> None:
        super().__init__()
        paint_only_changes(self)

    @abstractmethod
    def refresh_data(self) -> None:
        """Read the feeds and show what changed."""
