"""The console's theme, made from the one file that names colours."""

from __future__ import annotations

import re

from textual.theme import Theme

from actions.base.errors import FormatError
from actions.base.files import asset

NAME = "eksml"

_TOKEN = re.compile(r"^\$(?P<name>[a-z-]+):\s*(?P<value>[^;]+);", re.MULTILINE)


def tokens() -> dict[str, str]:
    """Names and values of `assets/styles/tokens.tcss`."""
    text = asset("styles/tokens.tcss").read_text(encoding="utf-8")
    return {match["name"]: match["value"].strip() for match in _TOKEN.finditer(text)}


def console_theme() -> Theme:
    """The dark theme of the console.

    Raises:
        FormatError: A token is missing.
    """
    known = tokens()
    try:
        return Theme(
            name=NAME,
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
            dark=True,
        )
    except KeyError as missing:
        raise FormatError(f"assets/styles/tokens.tcss has no token ${missing.args[0]}.") from None
