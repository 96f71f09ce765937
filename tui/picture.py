"""A picture of the screen without the secrets that are on it.

Rich draws a line as one text element for each style, and leaves blank ones out: a secret may be in several of them.

Source: rich 15 `console.py`, `Console.export_svg`.
"""

from __future__ import annotations

import html
import re
from itertools import groupby

import msgspec

from actions.base.untrusted import KNOWN

_TEXT = re.compile(
    r'(?P<head><text [^>]*?x="(?P<x>[\d.e+]+)"[^>]*?textLength="(?P<length>[\d.e+]+)"'
    r'[^>]*?clip-path="url\(#[^)]*-line-(?P<line>\d+)\)"[^>]*>)(?P<said>[^<]*)(?P<tail></text>)'
)
_HIDDEN = "•"


class _Element(msgspec.Struct, frozen=True):
    start: int
    """Of what it says in the picture, and its end."""
    end: int
    line: str
    left: float
    right: float
    said: str


def without_secrets(picture: str) -> str:
    """The SVG with every character of a secret replaced, where one line of the screen shows the whole of it."""
    elements = [
        _Element(
            start=match.start("said"),
            end=match.end("said"),
            line=match["line"],
            left=float(match["x"]),
            right=float(match["x"]) + float(match["length"]),
            said=html.unescape(match["said"]).replace("\xa0", " "),
        )
        for match in _TEXT.finditer(picture)
    ]
    pieces, at = [], 0
    for _, line in groupby(elements, key=lambda element: element.line):
        for element, said in _hidden(list(line)):
            pieces += [picture[at : element.start], html.escape(said).replace(" ", "&#160;")]
            at = element.end
    return "".join(pieces) + picture[at:]


def _hidden(line: list[_Element]) -> list[tuple[_Element, str]]:
    """The elements of one line that have to say something else, and what."""
    text, places = "", []
    for number, element in enumerate(line):
        if number and element.left > line[number - 1].right + 1:
            text += " "
        places.append(len(text))
        text += element.said
    masked = list(text)
    for start, end in KNOWN.spans(text):
        masked[start:end] = _HIDDEN * (end - start)
    said = ["".join(masked[place : place + len(one.said)]) for place, one in zip(places, line, strict=True)]
    return [(one, new) for one, new in zip(line, said, strict=True) if new != one.said]
