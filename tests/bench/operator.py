"""The keys of an operator's day at the console: seeded, so that two runs press the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

ESCAPE = b"\x1b[27u"
"""The key as terminals with kitty's protocol send it: nothing behind it makes another key of it."""
_PREFIX = b"\x17"


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

ON_ANY_CLUSTER = (
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

ON_A_SANDBOX = (
    *ON_ANY_CLUSTER,
    Deed("describe a pod", (b"2", b"j", b"d", b"j", b"j", ESCAPE), 6),
    Deed("YAML of a pod", (b"2", b"j", b"y", b"G", ESCAPE), 3),
    Deed("logs of a pod", (b"2", b"l", b"k", b"k", b"G", b"/", *_line("step"), b"\r", b"n", ESCAPE), 5),
    Deed("logs of the run", (b"5", b"G", b"k", b"&", *_line("loss"), b"\r", ESCAPE, b"G"), 4),
    Deed("curves", (b"7", b"m", b"m", b"L", b"L", b"E", b"E"), 5),
    Deed("why", (b"1", b"w", b"j", ESCAPE), 3),
    Deed("why of a stage", (b"4", b"j", b"w", ESCAPE), 2),
    Deed("open a run", (b"0", b"\r", b"j", b"k"), 4),
    Deed("contexts", (b":", *_line("context"), b"\r", ESCAPE), 1),
)
"""With a run, its logs and its curves."""


def day(deeds: tuple[Deed, ...], *, keys: int, seed: int = 19) -> Iterator[Deed]:
    """Deeds in an order of chance, until so many keys are pressed."""
    dice = random.Random(seed)
    weights = [deed.weight for deed in deeds]
    while keys > 0:
        (deed,) = dice.choices(deeds, weights)
        keys -= len(deed.keys)
        yield deed
