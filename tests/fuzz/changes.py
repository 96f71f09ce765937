"""Changes of a sample: bytes, lines, numbers and words of it, and other samples' pieces."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_NUMBERS = (
    b"0", b"-1", b"1e308", b"-1e308", b"1e999", b"5e-324", b"-5e-324", b"1e-320", b"NaN", b"-inf", b"Infinity",
    b"9" * 18, b"9" * 19, b"9" * 40, b"9" * 400, b"9" * 5000, b"0x7fffffffffffffff", b"1_000", b"\xc2\xb2", b"\xd9\xa1",
    b"18446744073709551616", b"-9223372036854775809", b"1.7976931348623157e308", b"2.2250738585072014e-308", b"1e100",
)  # fmt: skip
_PIECES = (
    b"", b" ", b"\n", b"\r", b"\t", b"\0", b"\x1b[31m", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xae",
    b"[" * 300, b"{" * 300, b"{\"a\":" * 300, b"- " * 300, b"(" * 300, b"${" * 100, b'"' * 33, b"'" * 33, b"<<EOT\n",
    b"/*", b"//", b"#", b"&a ", b"*a", b"!!int x", b"!!python/object:os.system x", b"? ", b"<<: ", b"---\n", b"...\n",
    b"null", b"true", b"~", b"[]", b"{}", b'""', b"x" * 5000, b"a" * 200_000, b"1,", b",", b":", b": ", b"=", b"|",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d[\d.,]{0,30}(?:[eE][-+]?\d{1,3})?")
_WORD = re.compile(rb"[A-Za-z_][\w.-]{1,40}")
_MOST_BYTES = 1 << 20

Change = Callable[[bytes, random.Random, Sequence[bytes]], bytes]


def changed(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    """Return a sample after one to eight changes.

    Args:
        sample: What to change.
        dice: The same dice give the same result.
        others: Samples whose pieces may come in.
    """
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        sample = dice.choice(_CHANGES)(sample, dice, others)[:_MOST_BYTES]
    return sample


def _place(sample: bytes, dice: random.Random) -> tuple[int, int]:
    begin = dice.randint(0, len(sample))
    return begin, min(len(sample), begin + dice.choice((0, 1, 1, 4, 20, 200)))


def _replace_bytes(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    del others
    begin, end = _place(sample, dice)
    return sample[:begin] + dice.randbytes(dice.choice((0, 1, 1, 3))) + sample[end:]


def _put_piece(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    del others
    begin, end = _place(sample, dice)
    return sample[:begin] + dice.choice(_PIECES) + sample[end:]


def _cut(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    del others
    begin, _ = _place(sample, dice)
    return sample[:begin] if dice.random() < 0.5 else sample[begin:]


def _put_number(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    del others
    return _instead_of(_NUMBER, dice.choice(_NUMBERS), sample, dice)


def _put_word(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    words = _WORD.findall(dice.choice(others) if dice.random() < 0.5 else sample)
    return _instead_of(_WORD, dice.choice((*words[:500], *_PIECES, *_NUMBERS)), sample, dice)


def _instead_of(pattern: re.Pattern[bytes], new: bytes, sample: bytes, dice: random.Random) -> bytes:
    found = list(pattern.finditer(sample, dice.randint(0, len(sample))))[:200] or list(pattern.finditer(sample))[:200]
    if not found:
        return sample + new
    hit = dice.choice(found)
    return sample[: hit.start()] + new + sample[hit.end() :]


def _change_lines(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    lines = sample.split(b"\n")
    at = dice.randrange(len(lines))
    match dice.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = [lines[at]] * dice.choice((1, 2, 50))
        case 2:
            other = dice.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            theirs = dice.choice(others).split(b"\n")
            lines[at:at] = theirs[dice.randrange(len(theirs)) :][: dice.choice((1, 5, 40))]
    return b"\n".join(lines)


def _recode(sample: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    del others
    text = sample.decode("utf-8", "replace")
    return text.encode(dice.choice(("utf-16", "utf-16-le", "utf-8-sig", "utf-32")), "replace")


_CHANGES: tuple[Change, ...] = (
    _replace_bytes,
    _put_piece,
    _put_piece,
    _cut,
    _put_number,
    _put_number,
    _put_number,
    _put_word,
    _put_word,
    _change_lines,
    _change_lines,
    _recode,
)
