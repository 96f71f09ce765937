"""Bars of text that fill from left to right."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int) -> str:
    """The filled part of a bar.

    Args:
        share: 0 to 1; what is beyond is cut. Anything above 0 shows at least a sliver, and only 1 fills it.
        width: Terminal columns of the whole bar.

    Returns:
        At most `width` characters, without padding.
    """
    if width <= 0 or not share > 0:
        return ""
    if share >= 1:
        return "█" * width
    eighths = min(width * 8 - 1, max(1, round(share * width * 8)))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
