"""A widget on a screen that paints for a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.strip import Strip

from tui.widgets.base import LineWidget


class Painter(LineWidget):
    """Has the styles that every line is drawn with."""

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Painter]:
        """One on a screen."""
        app = _Canvas()
        async with app.run_test():
            yield app.query_one(Painter)

    def render_line(self, y: int) -> Strip:
        return Strip.blank(self.size.width)


class _Canvas(App[None]):
    def compose(self) -> ComposeResult:
        yield Painter()
