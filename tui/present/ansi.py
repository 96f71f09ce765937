"""Text with SGR colours, as in a log line, to styled segments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

_TOKEN = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]{0,64})m"
    r"|\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[@-Z\\-_])?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)
_PLAIN = Style.null()
_ATTRIBUTES = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
    9: Style(strike=True),
    22: Style(bold=False, dim=False),
    23: Style(italic=False),
    24: Style(underline=False),
    27: Style(reverse=False),
    29: Style(strike=False),
    39: Style(color="default"),
    49: Style(bgcolor="default"),
}


def last_frame(line: str) -> str:
    """Return the last state of a line whose parts overwrite each other with `\\r` (progress bars)."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def segments_of(line: str) -> list[Segment]:
    """Parse one line. Only SGR has an effect; every other control is dropped; tabs are expanded.

    A line without any control, the usual one, costs two scans.
    """
    text = last_frame(line)
    if "\t" in text:
        text = text.expandtabs()
    if text.isprintable():
        return [Segment(text, _PLAIN)]
    return list(_styled(text))


def visible_text(line: str) -> str:
    """Return the characters of `segments_of(line)`."""
    return "".join(segment.text for segment in segments_of(line))


def _styled(text: str) -> Iterator[Segment]:
    style, at = _PLAIN, 0
    for match in _TOKEN.finditer(text):
        if match.start() > at:
            yield Segment(text[at : match.start()], style)
        at = match.end()
        if (parameters := match["sgr"]) is not None:
            style = _after(style, parameters)
    if at < len(text):
        yield Segment(text[at:], style)


@lru_cache(4096)
def _after(style: Style, parameters: str) -> Style:
    """Return the style after `ESC [ parameters m`."""
    codes = [min(int(code), 255) if code.isdigit() else 0 for code in parameters.replace(":", ";").split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = _PLAIN
        elif code in (38, 48):
            if (color := _take_color(codes)) is not None:
                style += Style(color=color) if code == 38 else Style(bgcolor=color)
        else:
            style += _simple(code)
    return style


def _simple(code: int) -> Style:
    if 30 <= code <= 37 or 90 <= code <= 97:
        return Style(color=Color.from_ansi(code - 30 if code < 90 else code - 82))
    if 40 <= code <= 47 or 100 <= code <= 107:
        return Style(bgcolor=Color.from_ansi(code - 40 if code < 100 else code - 92))
    return _ATTRIBUTES.get(code, _PLAIN)


def _take_color(codes: list[int]) -> Color | None:
    """Consume `5;N` or `2;R;G;B` from the front."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        return Color.from_ansi(codes.pop(0))
    if kind == 2 and len(codes) >= 3:
        red, green, blue = codes[:3]
        del codes[:3]
        return Color.from_rgb(red, green, blue)
    return None
