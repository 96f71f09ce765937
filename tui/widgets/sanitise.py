"""The second barrier against controls in outside text: nothing that is drawn can carry one to the terminal."""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_FORBIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class ControlFilter(LineFilter):
    """Removes control and invisible format characters from every line on its way to the driver.

    The first barrier is `actions.base.untrusted`, at the edge; text that slips past it, through whatever widget, ends
    here as harmless characters. All that is removed takes no column, so nothing moves. Use:

        class ConsoleApp(App):
            def get_line_filters(self):
                return [*super().get_line_filters(), self._control_filter]
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments where they are clean."""
        if all(text.isprintable() for text, _, _ in segments):
            return segments
        return [
            segment if segment.text.isprintable() else Segment(_FORBIDDEN.sub("", segment.text), segment.style)
            for segment in segments
        ]
