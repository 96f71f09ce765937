"""Moving up and down in lines that a widget draws itself: one set of keys for tables, logs and rails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.actions import parse
from textual.binding import Binding, BindingType

from tui.present.scroll import thumb_of
from tui.widgets.stripes import StripWidget

WHEEL_LINES = 3


class SteeredWidget(StripWidget):
    """A widget with the arrow, vi and page keys, whose subclass says what a step is."""

    PARTS: ClassVar[tuple[str, ...]] = ("rail--thumb", "rail--line")
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    SteeredWidget > .rail--thumb { color: $foreground 45%; }
    SteeredWidget > .rail--line { color: $foreground 15%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", id="move.down", show=False),
        Binding("up,k", "move(-1)", "up", id="move.up", show=False),
        Binding("pagedown,ctrl+f", "page(1.0)", "page down", id="move.page_down", show=False),
        Binding("pageup,ctrl+b", "page(-1.0)", "page up", id="move.page_up", show=False),
        Binding("ctrl+d", "page(0.5)", "half a page down", id="move.half_down", show=False),
        Binding("ctrl+u", "page(-0.5)", "half a page up", id="move.half_up", show=False),
        Binding("home,g", "top", "top", id="move.top", show=False),
        Binding("end,G", "bottom", "bottom", id="move.bottom", show=False),
    ]

    @property
    def page_lines(self) -> int:
        """Lines of a page."""
        return max(1, self.size.height)

    @abstractmethod
    def step(self, lines: int) -> None:
        """Move by lines; beyond an end means that end."""

    @abstractmethod
    def jump(self, *, to_end: bool) -> None:
        """Move to the first or the last line."""

    def scroll_lines(self, lines: int) -> None:
        """Move the view; widgets with a cursor may do other than `step`."""
        self.step(lines)

    def rail_segment(self, y: int, *, top: int, count: int, height: int) -> Segment:
        """One cell of a scrollbar: row `y` of a rail of `height` rows over `count` lines; blank if all are visible."""
        start, size = thumb_of(top, count, height)
        if size >= height:
            return Segment(" ", self.skin.base)
        is_thumb = start <= y < start + size
        return Segment("┃" if is_thumb else "│", self.skin.parts["rail--thumb" if is_thumb else "rail--line"])

    def move_by(self, key: str) -> bool:
        """Do what a movement key says, at once: `False` for any other key.

        Textual sends a key through the queues of all widgets up to the app before it looks what the key is bound to.
        """
        move = _moves().get(key)
        if move is None:
            return False
        getattr(self, f"action_{move.action}")(*move.parameters)
        return True

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self.step(lines)

    def action_page(self, pages: float) -> None:
        """Move by pages, with one line of overlap for whole ones."""
        lines = round(abs(pages) * self.page_lines)
        lines = max(1, lines - 1 if abs(pages) >= 1 else lines)
        self.step(lines if pages > 0 else -lines)

    def action_top(self) -> None:
        """Move to the first line."""
        self.jump(to_end=False)

    def action_bottom(self) -> None:
        """Move to the last line."""
        self.jump(to_end=True)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down with the wheel."""
        event.stop()
        self.scroll_lines(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up with the wheel."""
        event.stop()
        self.scroll_lines(-WHEEL_LINES)


class _Move(NamedTuple):
    action: str
    parameters: tuple[Any, ...]


@cache
def _moves() -> Mapping[str, _Move]:
    """What each key does that is bound above."""
    bindings = [binding for binding in SteeredWidget.BINDINGS if isinstance(binding, Binding)]
    return {key: _Move(*parse(binding.action)[1:]) for binding in bindings for key in binding.key.split(",")}
