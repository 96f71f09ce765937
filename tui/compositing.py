"""The way from what changed on a screen to what is written to the terminal.

Textual's own compositor asks every widget of a screen for every line, whatever changed: 4 of the 9 ms of a frame of
the node table. This one asks who is seen for what changed. It uses private names of textual 8.2.8; what it relies on
has its tests in `tests/contract/test_compositing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from textual._compositor import Compositor, CompositorUpdate
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


def paint_only_changes(screen: Screen[Any]) -> None:
    """Let a screen that was just made go this way."""
    screen._compositor = ChangesCompositor()  # noqa: SLF001 - Textual has no setting for it


class _Owned(NamedTuple):
    """Columns `[left, right)` of some lines that one widget is seen in."""

    widget: Widget
    place: Region
    """Of the whole widget on the screen."""
    left: int
    right: int


class _Piece(NamedTuple):
    x: int
    y: int
    strip: Strip


class PiecesUpdate(CompositorUpdate):
    """Pieces of lines, each to be written at its place."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        """The pieces as the terminal takes them."""
        return "".join([f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.pieces])


class ChangesCompositor(Compositor):
    """Paints as Textual's does, but of a part of the screen only that part."""

    def render_partial_update(self) -> PiecesUpdate | None:  # type: ignore[override]
        """What is to be written so that the screen shows what changed; `None` if nothing did."""
        regions, self._dirty_regions = self._dirty_regions, set()
        owned: dict[_Owned, list[int]] = {}
        for y, left, right in self._regions_to_spans(regions):
            for part in self._owners(y, left, right):
                owned.setdefault(part, []).append(y)
        pieces = [piece for part, lines in owned.items() for run in _runs(lines) for piece in _drawn(part, run)]
        return PiecesUpdate(pieces) if pieces else None

    def _owners(self, y: int, left: int, right: int) -> Iterator[_Owned]:
        """Who is seen in a part of a line: widgets in front hide those behind them."""
        parts = [(left, right)]
        for widget, shown, place in self.layers_visible[y]:
            rest: list[tuple[int, int]] = []
            for begin, end in parts:
                first, last = max(begin, shown.x), min(end, shown.right)
                if first >= last:
                    rest.append((begin, end))
                    continue
                yield _Owned(widget, place, first, last)
                rest += [(a, b) for a, b in ((begin, first), (last, end)) if a < b]
            parts = rest
            if not parts:
                return


def _runs(lines: list[int]) -> Iterator[range]:
    """Lines, ascending, as ranges without gaps."""
    begin = lines[0]
    for line, following in zip(lines, [*lines[1:], -1], strict=True):
        if following != line + 1:
            yield range(begin, line + 1)
            begin = following


def _drawn(part: _Owned, lines: range) -> Iterator[_Piece]:
    place = part.place
    asked = Region(part.left - place.x, lines.start - place.y, part.right - part.left, len(lines))
    for y, strip in zip(lines, part.widget.render_lines(asked), strict=False):  # a widget may know less than its place
        yield _Piece(part.left, y, strip)
