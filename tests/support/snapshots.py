"""Screens as text files: their rows, a digest of their colours, and the comparison with what is kept.

`tests/snapshots/README.md` describes the files and how they are written anew.
"""

from __future__ import annotations

import difflib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip

UPDATE = "UPDATE_SNAPSHOTS"
"""Environment variable: set to 1, files are written instead of compared."""

_ROLES = (
    *("primary", "secondary", "accent", "success", "warning", "error", "foreground", "background"),
    *("surface", "panel", "boost"),
)
_CODES = 26 * 26
_CELL_LINES = ("underline", "strike", "reverse")
"""The styles that are seen of a blank, too."""
_MARKS = {"bold": "bold", "dim": "dim", "italic": "italic", "underline": "underlined", "strike": "struck"}


class _Cell(NamedTuple):
    """The look of one column of a row. A blank has no `ink`, so that it joins what stands before it."""

    ink: str
    ground: str
    marks: str


def strips(app: App[Any]) -> list[Strip]:
    """Return what the terminal shows, row by row: the screen in front, and what is seen behind it."""
    visible_screen_stack.set(app._background_screens)  # as when a frame is drawn
    return app.screen._compositor.render_strips()


def without_tabs(app: App[Any], drawn: Sequence[Strip]) -> list[Strip]:
    """Return the rows of the terminal without the tabs of all panes, which a new pane changes on every screen."""
    hidden = {
        tabs.region.y: tabs.render_lines(Region(0, 0, tabs.region.width, 1))[0].text
        for screen in app.screen_stack
        for tabs in screen.query("#tabs")
    }
    return [strip for row, strip in enumerate(drawn) if strip.text != hidden.get(row)]


def rows(drawn: Iterable[Strip]) -> list[str]:
    """Return the rows of the terminal, without the blanks at their ends."""
    return [strip.text.rstrip() for strip in drawn]


def styled(app: App[Any], drawn: Sequence[Strip]) -> list[str]:
    """Return the rows of the terminal, and below them the digest of its colours."""
    names = _color_names(app)
    runs = [
        _runs([cell for segment in strip for cell in _cells(segment.text, segment.style, names)]) for strip in drawn
    ]
    codes = _codes({cell for row in runs for cell, _ in row})
    lines = [" ".join(f"{codes[cell]}{width}" for cell, width in row) for row in runs]
    legend = sorted((code, _described(cell)) for cell, code in codes.items())
    return [*rows(drawn), "", "-- colours --", *_numbered(lines), "", *(f"{code} {text}" for code, text in legend)]


def difference(file: Path, lines: Sequence[str], spare: Path) -> str:
    """Compare lines with a kept file, or write the file where that is asked for.

    Args:
        file: The kept one.
        lines: What the screen is now.
        spare: Folder for a text that differs.

    Returns:
        A unified diff and the path of the new text; empty if nothing differs.
    """
    text = "\n".join(lines) + "\n"
    known = file.read_text(encoding="utf-8") if file.exists() else ""
    if text == known:
        return ""
    target = file if is_updating() else spare / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    if is_updating():
        return ""
    told = difflib.unified_diff(known.splitlines(), lines, f"kept/{file.name}", f"now/{file.name}", lineterm="", n=1)
    return "\n".join([*told, f"now: {target}"])


def is_updating() -> bool:
    """Return whether files are to be written."""
    return os.environ.get(UPDATE, "") not in ("", "0")


def _color_names(app: App[Any]) -> dict[str, str]:
    """The colours of the theme, by their value."""
    theme = app.current_theme
    return {str(value).lower(): role for role in _ROLES if (value := getattr(theme, role)) is not None}


def _cells(text: str, style: Style | None, names: dict[str, str]) -> Iterator[_Cell]:
    style = style or Style.null()
    marks = " ".join(word for name, word in _MARKS.items() if getattr(style, name))
    ink, ground = _color(style.color, names), _color(style.bgcolor, names)
    if style.reverse:
        ink, ground = ground, ink
    shown = _Cell(ink, ground, marks)
    is_lined = any(getattr(style, name) for name in _CELL_LINES)
    for character in text:
        yield _Cell("", ground, "") if character == " " and not is_lined else shown


def _color(color: Any, names: dict[str, str]) -> str:
    if color is None or color.is_default:
        return "default"
    value = str(color.get_truecolor().hex)
    return names.get(value, value)


def _runs(cells: list[_Cell]) -> list[tuple[_Cell, int]]:
    """Equal neighbours together; blanks belong to what stands before them on the same ground, else to what follows."""
    for places in (range(1, len(cells)), range(len(cells) - 2, -1, -1)):
        for at in places:
            near = cells[at - places.step]
            if not cells[at].ink and near.ground == cells[at].ground:
                cells[at] = near
    return [(cell, sum(1 for _ in group)) for cell, group in groupby(cells)]


def _codes(cells: set[_Cell]) -> dict[_Cell, str]:
    """Two letters for each way of drawing, made from what it is: another one on the screen renames none."""
    taken: dict[int, _Cell] = {}
    for cell in sorted(cells):
        number = zlib.crc32("/".join(cell).encode()) % _CODES
        while number in taken:
            number = (number + 1) % _CODES
        taken[number] = cell
    return {cell: chr(97 + number // 26) + chr(97 + number % 26) for number, cell in taken.items()}


def _described(cell: _Cell) -> str:
    ink = f"{cell.ink} " if cell.ink else ""
    marks = f" {cell.marks}" if cell.marks else ""
    return f"{ink}on {cell.ground}{marks}"


def _numbered(lines: list[str]) -> Iterator[str]:
    """Each line with its row's number, equal neighbours as one: `3-7 ab80`."""
    first = 1
    for line, group in groupby(lines):
        last = first + sum(1 for _ in group) - 1
        yield f"{first if first == last else f'{first}-{last}'} {line}"
        first = last + 1
