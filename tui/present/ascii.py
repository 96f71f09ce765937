"""The console's signs in ASCII, column for column, for terminals and locales that have no others."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len

_SIGNS = {
    "─━▔═–—": "-",
    "▁": "_",
    "│┃║▌▐▏▎▍": "|",
    "╭╮╰╯┌┐└┘├┤┬┴┼╴╶": "+",
    "█▉▊▋▇▆▅▄▃▂■░▒▓": "#",
    "●✱•": "*",
    "○◌": "o",
    "◆◇": "?",
    "▶›→": ">",
    "◀‹←": "<",
    "▲↑": "^",
    "▼↓": "v",
    "✔✓": "+",
    "✘✗×": "x",
    "…": "~",
    "·": ".",
    "≥": ">",
    "≤": "<",
    "“”": '"',
    "‘’": "'",
}
_TABLE = {sign: likeness for signs, likeness in _SIGNS.items() for sign in signs}
_DOTS = ("\u2801", "\u28ff")
"""Of charts."""


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """`text` in ASCII, in as many terminal columns; what has no likeness is `?`."""
    return text if text.isascii() else "".join(map(_plain, text))


def _plain(character: str) -> str:
    if character.isascii():
        return character
    if character in _TABLE:
        return _TABLE[character]
    if _DOTS[0] <= character <= _DOTS[1]:
        return "*"
    return " " if character in "\u2800\xa0" else "?" * cell_len(character)
