"""The widget of a board: its lines, and one cursor that goes through the entries of all sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip

from tui.present.home.board import Board, BoardEntry
from tui.widgets.base import NavigableWidget, WidgetMessage
from tui.widgets.table_model import RowCursor


class SectionList(NavigableWidget, can_focus=True):
    """A board with a cursor.

        sections = SectionList()
        sections.show(board_of(bands, width, height))

    Until the operator moves the cursor, it is at the heaviest entry. `tab` goes to the next section; past the last one
    it is left to the screen, which goes to the next pane.
    """

    HAS_TERMINAL_COLOURS = False
    PARTS = (*NavigableWidget.PARTS, "sections--cursor")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"sections--cursor"}
    DEFAULT_CSS = """
    SectionList { width: 1fr; height: 1fr; }
    SectionList > .sections--cursor { background: $foreground 12%; }
    SectionList:focus > .sections--cursor { background: $primary 35%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open", id="sections.choose", show=False),
        Binding("tab", "section(1)", "next section", id="sections.next", show=False),
        Binding("shift+tab", "section(-1)", "previous section", id="sections.previous", show=False),
    ]

    @dataclass
    class Selected(WidgetMessage):
        """The operator opened an entry: enter, or a double click."""

        entry: BoardEntry

    @dataclass
    class Highlighted(WidgetMessage):
        """The cursor is on another entry."""

        entry: BoardEntry | None

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._board = Board()
        self._cursor = RowCursor()
        self._is_moved = False
        self._announced: BoardEntry | None = None
        self._top = 0

    @property
    def selected(self) -> BoardEntry | None:
        """The entry under the cursor; `None` without entries."""
        return next((entry for entry in self._board.entries if entry.key == self._cursor.key), None)

    @property
    def is_moved(self) -> bool:
        """True once the operator has moved the cursor: until then its place is a proposal."""
        return self._is_moved

    @property
    def shown_keys(self) -> Sequence[str]:
        """The keys of all entries, in the order of the cursor."""
        return [entry.key for entry in self._board.entries]

    def show(self, board: Board) -> None:
        """Replace the board; an equal one costs nothing."""
        before, key, top = self._board, self._cursor.key, self._top
        if board == before:
            return
        self._board = board
        self._cursor.follow(self.shown_keys)
        if not self._is_moved and board.entries:
            self._cursor.place(max(range(len(board.entries)), key=lambda place: (board.entries[place].weight, -place)))
        self._scroll()
        if (self._cursor.key, self._top, len(board.lines)) != (key, top, len(before.lines)):
            self._tell()
            return
        changed = [y for y, (old, new) in enumerate(zip(before.lines, board.lines, strict=True)) if old != new]
        self.refresh(*(Region(0, y - top, self.size.width, 1) for y in changed))
        self._announce()

    def select(self, key: str) -> bool:
        """Move the cursor to an entry; return `False` if there is none of that key."""
        found = self._cursor.seek(key)
        self._is_moved = self._is_moved or found
        self._tell()
        return found

    def step(self, lines: int) -> None:
        """Move the cursor by entries."""
        self._is_moved = True
        self._cursor.place(self._cursor.index + lines)
        self._tell()

    def jump(self, *, to_end: bool) -> None:
        """Go to the first or the last entry."""
        self._is_moved = True
        self._cursor.place(len(self._board.entries) - 1 if to_end else 0)
        self._tell()

    def action_section(self, by: int) -> None:
        """Go to the first entry of the next or the previous section; at the end go around, or to another pane."""
        firsts = self._board.firsts
        here = max((place for place, first in enumerate(firsts) if first <= self._cursor.index), default=0)
        there = here + by
        if 0 <= there < len(firsts):
            self._is_moved = True
            self._cursor.place(firsts[there])
            self._tell()
            return
        self.post_message(self.Left(self, by))

    @dataclass
    class Left(WidgetMessage):
        """`tab` in the last section, or `shift+tab` in the first one."""

        by: int

    def wrap(self, by: int) -> None:
        """Go on at the first section, or at the last one."""
        firsts = self._board.firsts
        if firsts:
            self._cursor.place(firsts[0] if by > 0 else firsts[-1])
            self._tell()

    def action_choose(self) -> None:
        """Post that the entry under the cursor was opened."""
        if (entry := self.selected) is not None:
            self.post_message(self.Selected(self, entry))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked entry; a double click opens it."""
        at = event.get_content_offset(self)
        y = -1 if at is None else self._top + at.y
        if at is None or y >= len(self._board.lines):
            return
        blocks = [block for block in self._board.lines[y] if block.x <= at.x < block.x + block.width and block.key]
        if blocks and self.select(blocks[0].key) and event.chain > 1:
            self.action_choose()

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self._scroll()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render the blocks of one line."""
        width, index = self.size.width, self._top + y
        base = self.resolved_styles.base
        if index >= len(self._board.lines):
            return Strip.blank(width, base)
        segments: list[Segment] = []
        x = 0
        for block in self._board.lines[index]:
            if block.x > x:
                segments.append(Segment(" " * (block.x - x), base))
            is_current = block.key and block.key == self._cursor.key
            ground = self.resolved_styles.parts["sections--cursor"] if is_current else base
            segments += self.paint(block.cells, block.width, ground)
            x = block.x + block.width
        return Strip(segments).adjust_cell_length(width, base)

    def _scroll(self) -> None:
        """Choose the first line so that the cursor's is visible; the whole board, if it fits."""
        height, count = max(1, self.size.height), len(self._board.lines)
        if count <= height:
            self._top = 0
            return
        line = 0 if self._cursor.index == 0 else self._board.line_of(self._cursor.key)
        self._top = max(0, min(max(line - height + 1, min(self._top, max(0, line - 1))), count - height))

    def _tell(self) -> None:
        self._scroll()
        self.refresh()
        self._announce()

    def _announce(self) -> None:
        if (entry := self.selected) != self._announced:
            self._announced = entry
            self.post_message(self.Highlighted(self, entry))
