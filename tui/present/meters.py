"""Small bars in table cells: how much of a whole is taken."""

from __future__ import annotations

from tui.present.bars import bar
from tui.present.cells import Cells, Span, Tone


def meter(part: float, whole: float, *, cells: int = 5) -> Cells:
    """A bar of `cells` columns, full at `part` ≥ `whole`; more than the whole is marked by its tone."""
    filled = bar(part / whole if whole > 0 else 0.0, cells)
    tone = Tone.WARN if part > whole else Tone.GOOD if part == whole else Tone.BUSY
    return (Span(filled, tone), Span("·" * (cells - len(filled)), Tone.MUTED))
