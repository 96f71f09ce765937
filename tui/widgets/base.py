"""The base classes of widgets that draw their own lines: cached styles, plain lines, movement keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from actions.base.wording import folded
from tui.defects import shown
from tui.present.cells import Cells, Link, Span, Tone, link_at, merged
from tui.textual_private import GuardedWidget, measure_anew


def thumb_of(top: int, count: int, height: int) -> tuple[int, int]:
    """Place the thumb of a scrollbar.

    Args:
        top: Index of the first visible line.
        count: All lines.
        height: Visible lines, and length of the scrollbar.

    Returns:
        First row of the thumb and its length in rows; length `height` if everything is visible.
    """
    if height <= 0 or count <= height:
        return 0, max(0, height)
    size = max(1, height * height // count)
    last_top = count - height
    start = round(min(top, last_top) * (height - size) / last_top)
    return start, size


class ResolvedStyles(msgspec.Struct, frozen=True):
    """The styles of a widget, resolved once per style change: Textual's properties cost 50 µs each."""

    base: Style
    tones: Mapping[Tone, Style]
    """Foregrounds only, for any background."""
    parts: Mapping[str, Style]
    """Component styles by class name, with their background."""
    background: Color
    is_plain: bool
    """No border, padding or tint: lines go to the terminal as they are drawn."""


@dataclass
class WidgetMessage(Message):
    """A message of one widget, which handlers can be bound to by the widget's id."""

    widget: Widget

    @property
    def control(self) -> Widget:
        """The widget, as Textual names it for the selector of a handler."""
        return self.widget


class LineWidget(GuardedWidget):
    """A widget that draws lines of toned text, with cached styles.

    Subclasses name the component classes they need in `PARTS`, draw in `render_line` or `render_part` with `paint`, and
    clear caches of finished strips in `restyled`. Used on the event loop only.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in Tone}
    HAS_TERMINAL_COLOURS: ClassVar[bool] = True
    """True if text may have the terminal's own ANSI colours, which have to be translated in every line."""
    PARTS: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    LineWidget > .tone--muted { color: $foreground 60%; }
    LineWidget > .tone--strong { text-style: bold; }
    LineWidget > .tone--good { color: $text-success; }
    LineWidget > .tone--busy { color: $text-primary; }
    LineWidget > .tone--warn { color: $text-warning; }
    LineWidget > .tone--bad { color: $text-error; text-style: bold; }
    LineWidget > .tone--accent { color: $text-accent; }
    """

    _skin: ResolvedStyles | None = None
    _is_skin_current = False

    @property
    def resolved_styles(self) -> ResolvedStyles:
        """The current styles."""
        before = self._skin
        if before is None or not self._is_skin_current:
            self._is_skin_current = True
            self._skin = ResolvedStyles(
                base=self.rich_style,
                tones={tone: _foreground(self.get_component_rich_style(f"tone--{tone}")) for tone in Tone},
                parts={part: self.get_component_rich_style(part) for part in self.PARTS},
                background=self.background_colors[1],
                is_plain=self._is_plain(),
            )
            if self._skin != before:
                self.restyled(before)
            return self._skin
        return before

    def notify_style_update(self) -> None:
        """Resolve the styles again; Textual calls it after theme, class or focus changed."""
        self._is_skin_current = False
        super().notify_style_update()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that every line passes on its way to the terminal."""
        filters = super().get_line_filters()
        if self.HAS_TERMINAL_COLOURS:
            return filters
        return [one for one in filters if not isinstance(one, ANSIToTruecolor)]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the part of the widget in `crop`; a sentence in its place if that fails.

        Textual's own method adds borders, padding and tints to each line and caches it: if there are none, that costs
        more than drawing.
        """
        rows: list[str] = []
        strips: list[Strip] = []
        with shown(lambda sentence: rows.extend(folded(sentence, max(1, crop.width)))):
            strips = self._rendered_lines(crop)
        if rows:
            texts = (rows[y] if y < len(rows) else "" for y in crop.line_range)
            strips = [Strip([Segment(text)]).adjust_cell_length(crop.width) for text in texts]
        return strips

    def _rendered_lines(self, crop: Region) -> list[Strip]:
        if not self.resolved_styles.is_plain:
            return super().render_lines(crop)
        background, filters = self.resolved_styles.background, self.get_line_filters()
        left, right = crop.column_span
        strips = []
        for y in crop.line_range:
            segments: list[Segment] = list(self.render_part(y, left, right))
            for line_filter in filters:
                segments = line_filter.apply(segments, background)
            strips.append(Strip(segments, right - left))
        return strips

    def render_line(self, y: int) -> Strip:
        """Render a line of the content in full width. Subclasses override this or, for cheap parts, `render_part`."""
        return self.render_part(y, 0, self.size.width)

    def render_part(self, y: int, left: int, right: int) -> Strip:
        """Render columns `[left, right)` of a line of the content."""
        return self.render_line(y).crop_extend(left, right, self.resolved_styles.base)

    def _is_plain(self) -> bool:
        styles = self.styles
        is_bare = not styles.gutter and not styles.outline and styles.hatch in (None, "none")
        return is_bare and not styles.tint.a and styles.text_opacity == 1.0 and self.opacity == 1.0

    def restyled(self, before: ResolvedStyles | None) -> None:
        """Drop finished strips that had other styles before (`None`: all of them); called when styles changed."""

    def paint(self, cells: Cells, width: int, base: Style | None = None) -> Strip:
        """Draw `cells` on `base`, cut or padded to `width` columns."""
        ground = self.resolved_styles.base if base is None else base
        return Strip(self.segments(cells, ground)).adjust_cell_length(width, ground)

    def segments(self, cells: Iterable[Span], ground: Style) -> list[Segment]:
        """Draw `cells` on `ground`, as wide as they are."""
        tones = self.resolved_styles.tones
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


class Lines(LineWidget):
    """A few lines of text, replaced by `show`; lines beyond its height, which the style sheet sets, are hidden."""

    DEFAULT_CSS = "Lines { width: 1fr; height: 1; }"

    @dataclass
    class Clicked(WidgetMessage):
        """The operator clicked a link."""

        link: Link

    def __init__(self, lines: Sequence[Cells] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines = tuple(lines)

    def show(self, lines: Sequence[Cells]) -> None:
        """Replace the lines; equal ones cost nothing."""
        new = tuple(lines)
        if new != self._lines:
            is_as_high = len(new) == len(self._lines)
            self._lines = new
            if is_as_high:
                self.refresh()
            else:
                measure_anew(self)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines, for `height: auto`."""
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """Render one of the lines, or a blank one."""
        return self.paint(self._lines[y] if y < len(self._lines) else (), self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Post the link under the pointer, if there is one."""
        at = event.get_content_offset(self)
        link = link_at(self._lines[at.y], at.x) if at is not None and at.y < len(self._lines) else None
        if link is not None:
            event.stop()
            self.post_message(self.Clicked(self, link))


WHEEL_LINES = 3


class NavigableWidget(LineWidget):
    """A widget with arrow, vi and page keys; subclasses implement `step` and `jump`."""

    PARTS: ClassVar[tuple[str, ...]] = ("rail--thumb", "rail--line")
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    NavigableWidget > .rail--thumb { color: $foreground 45%; }
    NavigableWidget > .rail--line { color: $foreground 15%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", id="move.down", show=False),
        Binding("up,k", "move(-1)", "up", id="move.up", show=False),
        Binding("pagedown,ctrl+f", "page(1.0)", "page down", id="move.page_down", show=False),
        Binding("pageup,ctrl+b", "page(-1.0)", "page up", id="move.page_up", show=False),
        Binding("ctrl+d", "page(0.5)", "half a page down", id="move.half_down", show=False),
        Binding("ctrl+u", "page(-0.5)", "half a page up", id="move.half_up", show=False),
        Binding("home,g", "top", "top", id="move.top", show=False),
        Binding("end,G", "bottom", "bottom", id="move.bottom", show=False),
    ]

    @property
    def page_lines(self) -> int:
        """The number of lines of a page."""
        return max(1, self.size.height)

    @abstractmethod
    def step(self, lines: int) -> None:
        """Move by lines, at most to an end."""

    @abstractmethod
    def jump(self, *, to_end: bool) -> None:
        """Move to the first or the last line."""

    def scroll_lines(self, lines: int) -> None:
        """Move the view; the same as `step` unless a widget with a cursor overrides it."""
        self.step(lines)

    def rail_segment(self, y: int, *, top: int, count: int, height: int) -> Segment:
        """Draw row `y` of a scrollbar of `height` rows over `count` lines; blank if all are visible."""
        start, size = thumb_of(top, count, height)
        if size >= height:
            return Segment(" ", self.resolved_styles.base)
        is_thumb = start <= y < start + size
        return Segment(
            "┃" if is_thumb else "│", self.resolved_styles.parts["rail--thumb" if is_thumb else "rail--line"]
        )

    def move_by(self, key: str) -> bool:
        """Handle a movement key at once; return `False` for any other key.

        Textual sends a key through the queues of all widgets up to the app before it looks up its binding.
        """
        move = _moves().get(key)
        if move is None:
            return False
        getattr(self, f"action_{move.action}")(*move.parameters)
        return True

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self.step(lines)

    def action_page(self, pages: float) -> None:
        """Move by pages, with one line of overlap for whole ones."""
        lines = round(abs(pages) * self.page_lines)
        lines = max(1, lines - 1 if abs(pages) >= 1 else lines)
        self.step(lines if pages > 0 else -lines)

    def action_top(self) -> None:
        """Move to the first line."""
        self.jump(to_end=False)

    def action_bottom(self) -> None:
        """Move to the last line."""
        self.jump(to_end=True)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down with the wheel."""
        event.stop()
        self.scroll_lines(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up with the wheel."""
        event.stop()
        self.scroll_lines(-WHEEL_LINES)


class _Move(NamedTuple):
    action: str
    parameters: tuple[Any, ...]


@cache
def _moves() -> Mapping[str, _Move]:
    """Map each bound key to its movement."""
    bindings = [binding for binding in NavigableWidget.BINDINGS if isinstance(binding, Binding)]
    return {key: _Move(*parse(binding.action)[1:]) for binding in bindings for key in binding.key.split(",")}
