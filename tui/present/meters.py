"""Small bars in table cells: how much of a whole is taken."""

from __future__ import annotations

from tui.present.cells import Cells, Span, Tone

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def meter(part: float, whole: float, *, cells: int = 5) -> Cells:
    """A bar of `cells` columns; full, and marked as such, at `part` ≥ `whole`; never empty where `part` > 0."""
    share = min(1.0, part / whole) if whole > 0 else 0.0
    eighths = max(round(share * cells * 8), 1 if part > 0 else 0)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    tone = Tone.WARN if part > whole else Tone.GOOD if share >= 0.999 else Tone.BUSY
    return (Span(bar, tone), Span("·" * (cells - len(bar)), Tone.MUTED))
