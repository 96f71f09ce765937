"""Numbers as trainers print them."""

from __future__ import annotations

import re

NUMBER = (
    r"(?:[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,40})?|\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?"
    r"|[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?:\.\d)?)"
)
"""Pattern of one number: `6,785`, `7.5e-9`, `nan`, and tqdm's padded `nan.0`. Every repetition is bounded."""

_NUMBER = re.compile(NUMBER)


def number_of(text: str) -> float:
    """The value of a text that `NUMBER` matches. May be NaN or infinite.

    Raises:
        ValueError: It does not match.
    """
    try:
        return float(text)
    except ValueError:
        plain = text.replace(",", "")
        return float(plain if plain[-1].isdigit() and plain[-3:-2].isdigit() else plain.partition(".")[0])


def number_or_none(text: str) -> float | None:
    """The value if the whole of `text`, blanks aside, is a number."""
    stripped = text.strip()
    return number_of(stripped) if _NUMBER.fullmatch(stripped) else None
