"""Where the thumb of a scrollbar stands."""

from __future__ import annotations


def thumb_of(top: int, count: int, height: int) -> tuple[int, int]:
    """Place the thumb of a rail.

    Args:
        top: Index of the first visible line.
        count: All lines.
        height: Visible lines, and length of the rail.

    Returns:
        First row of the thumb and its length in rows; length `height` when everything is visible.
    """
    if height <= 0 or count <= height:
        return 0, max(0, height)
    size = max(1, height * height // count)
    last_top = count - height
    start = round(min(top, last_top) * (height - size) / last_top)
    return start, size
