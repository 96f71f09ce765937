"""Lists and numbers in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`.

    Args:
        names: All of them.
        most: How many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(count: int, noun: str) -> str:
    """`1 object`, `2 objects`; of a noun whose plural ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
