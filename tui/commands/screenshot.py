"""Pictures of the screen, as SVG or text, without secrets."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.segment import Segment, Segments
from textual.app import App
from textual.strip import Strip
from textual.widget import Widget

from actions.base.untrusted import KNOWN, redact
from tui.settings.settings import ConsoleSettings, form_of
from tui.textual_private import screen_strips, screen_text

if TYPE_CHECKING:
    from tui.base_app import TypeAheadApp

_TEXT = re.compile(
    r'(?P<head><text [^>]*?x="(?P<x>[\d.e+]+)"[^>]*?textLength="(?P<length>[\d.e+]+)"'
    r'[^>]*?clip-path="url\(#[^)]*-line-(?P<line>\d+)\)"[^>]*>)(?P<content>[^<]*)(?P<tail></text>)'
)
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_TITLE = "eksml-tui"
_HIDDEN = "•"
_FRAMES = 2
"""Until what was taken off the screen is drawn over."""


def save_screen(app: App[Any], settings: ConsoleSettings, file: Path, part: Widget | None = None) -> None:
    """Write the screen, as SVG or, for a name ending in `.txt`, as text. Known secrets on it are hidden.

    Args:
        app: The console.
        settings: May refuse files.
        file: Gets it.
        part: Write this part of the screen alone, as SVG.

    Raises:
        ConfigError: The file has another ending, cannot be written, or not by a script.
    """
    is_text = form_of(file, {".svg": "svg", ".txt": "text"}) == "text"
    text = redact(screen_text(app)) + "\n" if is_text else screen_svg(app, part)
    settings.write_file(file, text.encode())


async def save_uncovered(
    app: TypeAheadApp[Any], settings: ConsoleSettings, file: Path, part: Widget | None = None
) -> None:
    """Do as `save_screen`, once notifications and the line that asked for it are off the screen."""
    app.close_notifications()
    for _ in range(_FRAMES):
        shown = asyncio.Event()
        if not app.screen.call_after_refresh(shown.set):
            break
        await shown.wait()
    save_screen(app, settings, file, part)


def screen_svg(app: App[Any], part: Widget | None = None) -> str:
    """Return the screen, or a part of it, as `svg_of`."""
    if part is None:
        return _cleaned(app.export_screenshot(title=_TITLE))
    area = part.region
    return svg_of([strip.crop(area.x, area.right) for strip in screen_strips(app)[area.y : area.bottom]])


def svg_of(lines: Sequence[Strip]) -> str:
    """Return lines as SVG without secrets and without references: its font is the viewer's own monospace."""
    width = max((line.cell_length for line in lines), default=0)
    console = Console(width=width, file=StringIO(), force_terminal=True, color_system="truecolor", record=True)
    for line in lines:
        console.print(Segments([*line, Segment.line()]))
    return _cleaned(console.export_svg(title=_TITLE))


def _cleaned(picture: str) -> str:
    return without_secrets(_FONT_FACE.sub("", picture))


class _Element(msgspec.Struct, frozen=True):
    """One `<text>` element of the picture.

    Args:
        start: Offset of its content in the picture.
        end: Offset behind its content.
        line: Number of the screen's line, as text.
        left: Left end on the line, in the picture's units.
        right: Right end.
        content: Its text, unescaped.
    """

    start: int
    end: int
    line: str
    left: float
    right: float
    content: str


def without_secrets(picture: str) -> str:
    """Return the SVG with every character of a secret replaced, where one line of the screen shows the whole of it."""
    elements = [
        _Element(
            start=match.start("content"),
            end=match.end("content"),
            line=match["line"],
            left=float(match["x"]),
            right=float(match["x"]) + float(match["length"]),
            content=html.unescape(match["content"]).replace("\xa0", " "),
        )
        for match in _TEXT.finditer(picture)
    ]
    pieces, offset = [], 0
    for _, line in groupby(elements, key=lambda element: element.line):
        for element, content in _masked(list(line)):
            pieces += [picture[offset : element.start], html.escape(content).replace(" ", "&#160;")]
            offset = element.end
    return "".join(pieces) + picture[offset:]


def _masked(line: list[_Element]) -> list[tuple[_Element, str]]:
    """Return the elements of one line that show a part of a secret, each with its new content."""
    text, places = "", []
    for number, element in enumerate(line):
        if number and element.left > line[number - 1].right + 1:
            text += " "
        places.append(len(text))
        text += element.content
    masked = list(text)
    for start, end in KNOWN.spans(text):
        masked[start:end] = _HIDDEN * (end - start)
    contents = ["".join(masked[place : place + len(item.content)]) for place, item in zip(places, line, strict=True)]
    return [(item, new) for item, new in zip(line, contents, strict=True) if new != item.content]
