"""Which words name a key of the keyboard, as Textual calls them."""

from __future__ import annotations

import unicodedata

_MODIFIERS = ("ctrl+", "shift+", "alt+", "super+", "meta+", "hyper+")
_NAMED = frozenset(
    {
        "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "backspace", "enter",
        "return", "escape", "tab", "space", "slash", "backslash", "at", "minus", "plus", "underscore",
        *(f"f{number}" for number in range(1, 25)),
    }
)  # fmt: skip


def is_key(word: str) -> bool:
    """Whether `word` names a key: `j`, `enter`, `ctrl+w`, `question_mark`."""
    while word.startswith(_MODIFIERS):
        word = word.partition("+")[2]
    if len(word) == 1 or word in _NAMED:
        return True
    try:
        unicodedata.lookup(word.replace("_", " "))
    except KeyError:
        return False
    return True
