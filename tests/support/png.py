"""The screen of a running app as a PNG, for people who look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.style import Style
from textual.app import App

from tui.textual_private import screen_strips

ResultT = TypeVar("ResultT")
Color = tuple[int, int, int]
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf")
FOREGROUND: Color = (224, 224, 224)
BACKGROUND: Color = (18, 18, 18)
_BRAILLE = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit's dot."""


def save_png(app: App[ResultT], path: Path, *, font_size: int = 15) -> None:
    """Draw what `app` shows, one cell of the font a cell of the terminal."""
    fonts = {bold: ImageFont.truetype(FONT.with_stem(FONT.stem + "-Bold" * bold), font_size) for bold in (False, True)}
    cell_width = round(fonts[False].getlength("M"))
    cell_height = sum(fonts[False].getmetrics())
    strips = screen_strips(app)
    image = Image.new("RGB", (app.size.width * cell_width, len(strips) * cell_height), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for row, strip in enumerate(strips):
        column, top = 0, row * cell_height
        for text, style, _ in strip:
            foreground, background, is_bold = _look(style)
            if not (width := cell_len(text)):
                continue
            box = (column * cell_width, top, (column + width) * cell_width - 1, top + cell_height - 1)
            draw.rectangle(box, fill=background)
            for character in text:
                if "\u2800" <= character <= "\u28ff":  # braille, which the font lacks
                    for x, y in _dots(ord(character) - 0x2800, cell_width, cell_height):
                        left = column * cell_width + x
                        draw.rectangle((left, top + y, left + 1, top + y + 1), fill=foreground)
                elif character != " ":
                    draw.text((column * cell_width, top), character, font=fonts[is_bold], fill=foreground)
                column += cell_len(character)
    image.save(path)


def _dots(pattern: int, cell_width: int, cell_height: int) -> Iterator[tuple[int, int]]:
    """Places of the dots of a braille pattern within its cell."""
    for bit, (column, row) in enumerate(_BRAILLE):
        if pattern >> bit & 1:
            yield (2 * column + 1) * cell_width // 4 - 1, (2 * row + 1) * cell_height // 8 - 1


def _look(style: Style | None) -> tuple[Color, Color, bool]:
    foreground, background, is_bold = FOREGROUND, BACKGROUND, False
    if style is not None:
        is_bold = bool(style.bold)
        if style.color is not None and not style.color.is_default:
            red, green, blue = style.color.get_truecolor()
            foreground = (red, green, blue)
        if style.bgcolor is not None and not style.bgcolor.is_default:
            red, green, blue = style.bgcolor.get_truecolor(foreground=False)
            background = (red, green, blue)
        if style.dim:
            foreground = tuple((2 * f + b) // 3 for f, b in zip(foreground, background, strict=True))  # type: ignore[assignment]  # three stay three
        if style.reverse:
            foreground, background = background, foreground
    return foreground, background, is_bold
