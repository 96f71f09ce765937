"""The appearance of the whole screen: the theme, and the filters that every line passes on its way to the terminal."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from actions.base.errors import FormatError
from actions.base.files import asset, read_file

_FILES = {"dark": "tokens", "light": "light", "high-contrast": "high-contrast", "transparent": "tokens"}
"""The file below `assets/styles` with the colours of each theme."""
_LIGHT_GROUNDS = ("7", "15")
"""White, as `COLORFGBG` numbers it: rxvt, Konsole, iTerm2 and others name text and ground in it, `0;15`."""
_DEFAULT_BACKGROUND = Style(bgcolor=RichColor.default())
_TOKEN = re.compile(r"^\$(?P<name>[a-z-]+):\s*(?P<value>[^;]+);", re.MULTILINE)


def theme_name(name: str) -> str:
    """Return Textual's name of a theme of the console."""
    return f"eksml-{name}"


def _file_of(name: str) -> str:
    """Return the file of a theme: `transparent` is drawn on the terminal's own ground, which may be light."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if name == "transparent" and ground in _LIGHT_GROUNDS else _FILES[name]


def tokens(name: str = "dark") -> dict[str, str]:
    """Return names and values of the colours of a theme."""
    text = read_file(asset(f"styles/{_file_of(name)}.tcss")).decode()
    return {match["name"]: match["value"].strip() for match in _TOKEN.finditer(text)}


def console_theme(name: str = "dark") -> Theme:
    """Return one of the console's themes.

    Raises:
        FormatError: A token is missing.
    """
    known = tokens(name)
    try:
        return Theme(
            name=theme_name(name),
            primary=known["primary"],
            secondary=known["secondary"],
            accent=known["accent"],
            success=known["success"],
            warning=known["warning"],
            error=known["error"],
            foreground=known["foreground"],
            background=known["background"],
            surface=known["surface"],
            panel=known["panel"],
            boost=known["boost"],
            dark=_file_of(name) != "light",
        )
    except KeyError as missing:
        raise FormatError(f"assets/styles/{_file_of(name)}.tcss has no token ${missing.args[0]}.") from None


_SIGNS = {
    "─━▔═–—": "-",
    "▁": "_",
    "│┃║▌▐▏▎▍┊": "|",
    "╭╮╰╯┌┐└┘├┤┬┴┼╴╶": "+",
    "▂▃": ".",
    "▄▅": "=",
    "█▉▊▋▇▆■░▒▓": "#",
    "●✱•": "*",
    "○◌◐": "o",
    "◆◇": "?",
    "›→▸": ">",
    "▶": "@",
    "◀‹←": "<",
    "▲↑": "^",
    "▼↓▾": "v",
    "✔✓": "+",
    "✘✗×": "x",
    "…": "~",
    "·": ".",
    "°": " ",
    "µ": "u",
    "═": "=",
    "╞╡": "+",
    "‖": "|",
    "“”": '"',
    "‘’": "'",
}
_WORDS = {"≥ ": ">=", "≤ ": "<=", " … ": "...", "≥": ">", "≤": "<"}
"""Signs with the blanks around them: what they are in ASCII takes more columns than they do."""
_TABLE = {sign: likeness for signs, likeness in _SIGNS.items() for sign in signs}
_DOTS = ("\u2801", "\u28ff")
"""The braille characters of charts."""


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Return `text` in ASCII, of the same width; a character without a substitute is `?`."""
    if text.isascii():
        return text
    for sign, likeness in _WORDS.items():
        text = text.replace(sign, likeness)
    return "".join(map(_plain, text))


def _plain(character: str) -> str:
    if character.isascii():
        return character
    if character in _TABLE:
        return _TABLE[character]
    if _DOTS[0] <= character <= _DOTS[1]:
        return "*"
    return " " if character in "\u2800\xa0" else "?" * cell_len(character)


class AsciiFilter(LineFilter):
    """A filter that replaces characters by ASCII ones of the same width in every line on its way to the driver."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII; the same list if they already are."""
        if all(text.isascii() for text, _, _ in segments):
            return segments
        return [Segment(plain(text), style, control) for text, style, control in segments]


class TransparentFilter(LineFilter):
    """A filter that leaves the background to the terminal where a line has that of the theme."""

    def __init__(self) -> None:
        super().__init__()
        self._background = Color.parse(tokens("transparent")["background"]).rich_color.triplet
        self._without = lru_cache(maxsize=4096)(self._without_background)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without the background of the theme."""
        return [
            Segment(text, self._without(style) if style is not None else None, control)
            for text, style, control in segments
        ]

    def _without_background(self, style: Style) -> Style:
        is_themes = style.bgcolor is not None and style.bgcolor.triplet == self._background
        return style + _DEFAULT_BACKGROUND if is_themes else style


_FORBIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class ControlFilter(LineFilter):
    """A filter that removes control and invisible format characters from every line on its way to the driver.

    The first barrier is `actions.base.untrusted`, at the edge; this is the second, for text of any widget that passed
    the first. The removed characters have no width, so nothing moves. Use:

        class ConsoleApp(App):
            def get_line_filters(self):
                return [*super().get_line_filters(), self._control_filter]
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without such characters; the same list if they are clean."""
        if all(text.isprintable() for text, _, _ in segments):
            return segments
        return [
            segment if segment.text.isprintable() else Segment(_FORBIDDEN.sub("", segment.text), segment.style)
            for segment in segments
        ]
