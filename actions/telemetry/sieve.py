"""Which of many lines can hold a finding at all: lines that differ only in their numbers are looked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress

_MOST_SHAPES = 4096
_LONGEST_SHAPE = 512


class LineSieve:
    """Remembers the shapes of lines: a line without its digits, and without signs that matter to nobody.

    A log has few shapes, and most of them say nothing. So a line costs one look-up, whatever is looked for.

    Args:
        may_interest: Says of a shape whether a line of that shape may hold something. It may err on the side of yes.
        signs: What it looks at besides letters, blanks and what is not ASCII; never digits.
    """

    def __init__(self, may_interest: Callable[[str], bool], *, signs: str) -> None:
        self._may_interest = may_interest
        self._dropped = signs_but(signs)
        self._known: dict[bytes, bool] = {}

    def pick(self, data: bytes) -> list[int]:
        """Which of the lines in `data` may hold something, by their places; each line ends with a newline."""
        shapes = data.translate(None, self._dropped).split(b"\n")
        shapes.pop()
        verdicts = list(map(self._known.get, shapes))
        if None in verdicts:
            self._learn(shapes)
            verdicts = [self._known.get(shape, True) for shape in shapes]
        return list(compress(range(len(shapes)), verdicts))

    def _learn(self, shapes: Iterable[bytes]) -> None:
        """Look at the shapes that are new. Very long ones are not kept: the reader looks at them itself."""
        fresh = {shape for shape in shapes if len(shape) <= _LONGEST_SHAPE} - self._known.keys()
        if len(self._known) + len(fresh) > _MOST_SHAPES:
            self._known.clear()
        for shape in fresh:
            self._known[shape] = self._may_interest(shape.decode())


def signs_but(kept: str) -> bytes:
    """Digits and signs in ASCII but those in `kept`: what a shape is without."""
    return bytes(code for code in range(0x21, 0x7F) if not chr(code).isalpha() and chr(code) not in kept)
