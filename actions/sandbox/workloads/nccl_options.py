"""The command line of nccl-tests.

Source: nccl-tests 2.13 `src/common.cu`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LONG = {
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepfactor": "-f",
    "--ngpus": "-g",
    "--check": "-c",
    "--iters": "-n",
}


class Options(msgspec.Struct, frozen=True):
    """What a test does. Sizes in bytes."""

    smallest: int = 32 << 20
    largest: int = 32 << 20
    factor: int = 2
    gpus: int = 1
    iterations: int = 20
    checks: bool = True


def options_of(argv: Sequence[str]) -> Options:
    """Read the options; one that is not known, or is no number, is passed over as a value of the default."""
    given: dict[str, int] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, _, value = word.partition("=")
        name = _LONG.get(name, name)
        if name in _LONG.values():
            number = _number(value or (words.pop(0) if words else ""))
            if number is not None:
                given[name] = number
    plain = Options()
    smallest = max(4, given.get("-b", plain.smallest))
    return Options(
        smallest=smallest,
        largest=max(smallest, given.get("-e", plain.largest)),
        factor=max(2, given.get("-f", plain.factor)),
        gpus=max(1, given.get("-g", plain.gpus)),
        iterations=max(1, given.get("-n", plain.iterations)),
        checks=bool(given.get("-c", 1)),
    )


def _number(text: str) -> int | None:
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if digits.isdigit() else None
