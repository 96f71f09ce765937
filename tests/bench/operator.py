"""The keys of an operator's day at the console: seeded, so that two runs press the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

ESCAPE = b"\x1b[27u"
"""The key as terminals with kitty's protocol send it: nothing behind it makes another key of it."""
_PREFIX = b"\x17"
_SEED = 19


class Deed(msgspec.Struct, frozen=True):
    """One thing that is done, key by key.

    Attributes:
        name: For the report.
        keys: What is sent, one press each.
        weight: How often, beside the others.
        size: Columns and rows that the terminal gets before; none to leave it.
    """

    name: str
    keys: tuple[bytes, ...]
    weight: int
    size: tuple[int, int] | None = None


def _line(text: str) -> tuple[bytes, ...]:
    return tuple(letter.encode() for letter in text)


_QUAD = (b":", *_line("layout quad"), b"\r")
_LAYOUTS = {"four panes": _QUAD, "the run's panes": (_PREFIX, b"r"), "one pane": (_PREFIX, b"o")}
_PANES = b"1234567890"

DEEDS = (
    *(Deed("open a pane", (bytes([digit]),), 4) for digit in _PANES),
    Deed("move", (b"j",) * 6 + (b"k",) * 2, 12),
    Deed("to both ends", (b"G", b"k", b"g"), 4),
    *(Deed(f"layout: {name}", keys, 6) for name, keys in _LAYOUTS.items()),
    Deed("walk through panes", (*_QUAD, _PREFIX, b"l", _PREFIX, b"j", _PREFIX, b"h", _PREFIX, b"k"), 3),
    Deed("zoom", (b"z", b"j", b"z"), 3),
    Deed("help", (b"?", b"j", b"j", ESCAPE), 2),
    Deed("palette", (b"\x10", *_line("node"), ESCAPE), 2),
    Deed("command line", (b":", *_line("open pods"), b"\r"), 3),
    Deed("a refused command", (b":", *_line("opne"), b"\r"), 1),
    Deed("filter", (b"2", b"/", *_line("train"), b"\r", b"j", ESCAPE), 4),
    Deed("describe a node", (b"1", b"j", b"d", b"j", b"j", ESCAPE), 4),
    Deed("sort", (b"1", b":", *_line("sort type"), b"\r"), 1),
    Deed("events", (b"8", b"j", b"j", b"G"), 3),
    Deed("a launch form, left again", (b":", *_line("launch bionemo-esm1nv"), b"\r", b"\t", b"\t", ESCAPE), 2),
    Deed("a smaller window", (b"1",), 1, (100, 30)),
    Deed("a larger window", (b"1",), 2, (220, 50)),
)
"""Asks for nothing that only some clusters have."""


def day(*, keys: int) -> Iterator[Deed]:
    """Deeds in an order of chance, until so many keys are pressed."""
    dice = random.Random(_SEED)
    weights = [deed.weight for deed in DEEDS]
    while keys > 0:
        (deed,) = dice.choices(DEEDS, weights)
        keys -= len(deed.keys)
        yield deed
