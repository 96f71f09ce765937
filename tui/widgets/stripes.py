"""The base of every widget that draws its own lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.present.cells import Cells, Span, Tone, merged


class Skin(msgspec.Struct, frozen=True):
    """The styles of a widget, looked up once per style change: Textual's properties cost 50 µs each."""

    base: Style
    tones: Mapping[Tone, Style]
    """Foregrounds only, to be laid over any background."""
    parts: Mapping[str, Style]
    """Component styles by class name, with their background."""
    background: Color
    is_plain: bool
    """Nothing surrounds or colours the lines, so they go to the terminal as they are drawn."""


class StripWidget(Widget):
    """A widget that draws lines of toned text, with cached styles.

    Subclasses name the component classes they need in `PARTS`, draw in `render_line` or `render_part` with `paint`, and
    clear caches of finished strips in `restyled`. Touch it on the event loop only.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in Tone}
    HAS_TERMINAL_COLOURS: ClassVar[bool] = True
    """Whether its text may be in the terminal's own colours, which have to be translated in every line."""
    PARTS: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    StripWidget > .tone--muted { color: $foreground 60%; }
    StripWidget > .tone--strong { text-style: bold; }
    StripWidget > .tone--good { color: $text-success; }
    StripWidget > .tone--busy { color: $text-primary; }
    StripWidget > .tone--warn { color: $text-warning; }
    StripWidget > .tone--bad { color: $text-error; text-style: bold; }
    StripWidget > .tone--accent { color: $text-accent; }
    """

    _skin: Skin | None = None

    @property
    def skin(self) -> Skin:
        """The current styles."""
        if self._skin is None:
            self._skin = Skin(
                base=self.rich_style,
                tones={tone: _foreground(self.get_component_rich_style(f"tone--{tone}")) for tone in Tone},
                parts={part: self.get_component_rich_style(part) for part in self.PARTS},
                background=self.background_colors[1],
                is_plain=self._is_plain(),
            )
            self.restyled()
        return self._skin

    def notify_style_update(self) -> None:
        """Textual's call after theme, class or focus changed."""
        self._skin = None
        super().notify_style_update()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every line passes on its way to the terminal."""
        filters = super().get_line_filters()
        if self.HAS_TERMINAL_COLOURS:
            return filters
        return [one for one in filters if not isinstance(one, ANSIToTruecolor)]

    def render_lines(self, crop: Region) -> list[Strip]:
        """The part of the widget that `crop` is, for the terminal.

        Textual's way there adds borders, padding and tints to each line and keeps it: where there are none that costs
        more than drawing.
        """
        if not self.skin.is_plain:
            return super().render_lines(crop)
        background, filters = self.skin.background, self.get_line_filters()
        left, right = crop.column_span
        strips = []
        for y in crop.line_range:
            segments: list[Segment] = list(self.render_part(y, left, right))
            for one in filters:
                segments = one.apply(segments, background)
            strips.append(Strip(segments, right - left))
        return strips

    def render_line(self, y: int) -> Strip:
        """A line of the content, as wide as it is. Subclasses have this or, where a part costs less, `render_part`."""
        return self.render_part(y, 0, self.size.width)

    def render_part(self, y: int, left: int, right: int) -> Strip:
        """Columns `[left, right)` of a line of the content."""
        return self.render_line(y).crop_extend(left, right, self.skin.base)

    def _is_plain(self) -> bool:
        styles = self.styles
        is_bare = not styles.gutter and not styles.outline and styles.hatch in (None, "none")
        return is_bare and not styles.tint.a and styles.text_opacity == 1.0 and self.opacity == 1.0

    def restyled(self) -> None:
        """Called when styles changed: forget finished strips."""

    def paint(self, cells: Cells, width: int, base: Style | None = None) -> Strip:
        """Draw `cells` on `base`, cut or padded to `width` columns."""
        ground = self.skin.base if base is None else base
        return Strip(self.segments(cells, ground)).adjust_cell_length(width, ground)

    def segments(self, cells: Iterable[Span], ground: Style) -> list[Segment]:
        """Draw `cells` on `ground`, as wide as they are."""
        tones = self.skin.tones
        return [Segment(text, ground if tone is Tone.PLAIN else ground + tones[tone]) for text, tone in merged(cells)]


def _foreground(style: Style) -> Style:
    return Style(
        color=style.color,
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        reverse=style.reverse,
    )
