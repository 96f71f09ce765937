"""Everything that is drawn, in ASCII."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tui.present.ascii import plain


class AsciiFilter(LineFilter):
    """Replaces signs by their likeness in ASCII in every line on its way to the driver; nothing moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments where they are ASCII."""
        if all(text.isascii() for text, _, _ in segments):
            return segments
        return [Segment(plain(text), style, control) for text, style, control in segments]
