"""Lists and numbers in a sentence."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`.

    Args:
        names: All of them.
        most: How many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns.

    Args:
        rows: Of cells, the titles first; all of one length.
        right: The places of columns that are set to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def aligned_text(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return rows as one text with aligned columns; see `aligned`."""
    return "".join(f"{line}\n" for line in aligned(rows, right=right))


def counted(count: int, noun: str) -> str:
    """`1 object`, `2 objects`; of a noun whose plural ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def folded(text: str, width: int, *, first: str = "", further: str = "", most: int | None = None) -> list[str]:
    """Fold a text at its spaces, so that names and commands with hyphens can be copied.

    Args:
        text: Of one paragraph. At hyphens it is folded only if it has a word that is longer than a line.
        width: Of a line, in columns.
        first: Indent of the first line.
        further: Indent of the others.
        most: Lines at most; the last one ends with an ellipsis where more would follow.

    Returns:
        The lines; none for an empty text.
    """
    room = width - max(len(first), len(further))
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=further,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=any(len(word) > room for word in text.split()),
    )
