"""The stage rail of a run: one row a stage, with state, time and expected duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from actions.base.wording import duration, duration_range
from tui.present.cells import Cells, Span, Tone, bar, fit, width_of
from tui.present.rail import GLYPHS, Glyph, StageLine, StageLook
from tui.textual_private import measure_anew
from tui.widgets.base import NavigableWidget, WidgetMessage
from tui.widgets.table_model import RowCursor

TITLE_WIDTH = 30
NARROW = 54
"""Below so many columns the bar and the expected duration are left out."""
LEAST_BAR = 10
MOST_BAR = 60
_RANGE_COLUMNS = 10
_EXPECTED_COLUMNS = 17
"""Wide enough for ` expected 35m–45m`; the word is left out if the note has no room."""
_TROUBLE = Glyph("▲", Tone.BAD)
LEAST_NOTE = 10
"""Below so many columns a note is left out, as it would be unreadable."""
_CALLING = (StageLook.WAITING, StageLook.UNKNOWN, StageLook.FAILED)
_CURRENT = (StageLook.RUNNING, StageLook.WAITING, StageLook.UNKNOWN, StageLook.FAILED, StageLook.UNDOING)


class StageRail(NavigableWidget, can_focus=True):
    """Stages from first to last, with a cursor.

        rail = StageRail()
        rail.show([StageLine("train", "Train", StageLook.RUNNING, elapsed_seconds=95, expected_seconds=(60, 120))])

    The cursor follows the stage at work until the operator moves it; `End`, or another run, makes it follow again. Call
    `show` as often as durations should advance.
    """

    PARTS = (*NavigableWidget.PARTS, "rail--cursor")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rail--cursor"}
    DEFAULT_CSS = """
    StageRail { width: 1fr; height: 1fr; }
    StageRail > .rail--cursor { background: $foreground 12%; }
    StageRail:focus > .rail--cursor { background: $primary 35%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "open", id="rail.choose", show=False)]

    @dataclass
    class Selected(WidgetMessage):
        """The operator opened a stage: enter, or a double click."""

        key: str

    @dataclass
    class Highlighted(WidgetMessage):
        """The cursor moved to another stage."""

        key: str

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._stages: tuple[StageLine, ...] = ()
        self._cursor = RowCursor()
        self._is_following = True
        self._of = ""
        self._announced = ""

    @property
    def selected_key(self) -> str:
        """The key of the stage under the cursor; empty without stages."""
        return self._cursor.key

    def show(self, stages: Sequence[StageLine], of: str = "") -> None:
        """Replace the stages; equal ones cost nothing.

        Args:
            stages: From first to last.
            of: The run that they are of: the cursor that the operator has moved in another one means nothing here.
        """
        new = tuple(stages)
        if of != self._of:
            self._of, self._is_following, self._stages = of, True, ()
        if new == self._stages:
            return
        is_as_high = len(new) == len(self._stages)
        self._stages = new
        if not is_as_high:
            measure_anew(self)
        self._cursor.follow([stage.key for stage in new])
        if self._is_following:
            self._cursor.place(_working(new))
        self._tell()

    def select(self, key: str) -> bool:
        """Move the cursor to a stage; return `False` if there is none of that key."""
        found = self._cursor.seek(key)
        self._is_following = self._is_following and not found
        self._tell()
        return found

    def step(self, lines: int) -> None:
        """Move the cursor, and stop following."""
        self._is_following = False
        self._cursor.place(self._cursor.index + lines)
        self._tell()

    def jump(self, *, to_end: bool) -> None:
        """Go to the first stage, or to the one at work, and follow that."""
        self._is_following = to_end
        self._cursor.place(_working(self._stages) if to_end else 0)
        self._tell()

    def action_choose(self) -> None:
        """Post that the stage under the cursor was opened."""
        if self._cursor.key:
            self.post_message(self.Selected(self, self._cursor.key))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked stage; a double click opens it."""
        at = event.get_content_offset(self)
        if at is not None and (index := self._cursor.top + at.y) < len(self._stages):
            self.step(index - self._cursor.index)
            if event.chain > 1:
                self.action_choose()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of stages, for `height: auto`."""
        return len(self._stages)

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self._cursor.resize(self.size.height)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render one stage."""
        width, index = self.size.width, self._cursor.top + y
        if index >= len(self._stages):
            return Strip.blank(width, self.resolved_styles.base)
        base = self.resolved_styles.parts["rail--cursor"] if index == self._cursor.index else self.resolved_styles.base
        line = self.paint(self._cells(self._stages[index], width - 1), width - 1, base)
        scrollbar = self.rail_segment(y, top=self._cursor.top, count=len(self._stages), height=self._cursor.height)
        return Strip([*line, scrollbar], width)

    def _cells(self, stage: StageLine, width: int) -> Cells:
        glyph = _TROUBLE if stage.is_trouble else GLYPHS[stage.look]
        if stage.look is StageLook.SKIPPED:
            return fit((Span(f" {glyph.sign} {stage.title}", Tone.MUTED),), width)
        elapsed = "" if stage.elapsed_seconds is None else duration(stage.elapsed_seconds)
        title_width = min(TITLE_WIDTH, max(map(_title_width, self._stages), default=0))
        tone = Tone.MUTED if glyph.tone is Tone.MUTED else Tone.PLAIN
        cells: list[Span] = [Span(f" {glyph.sign} ", glyph.tone)]
        cells += fit(Span(stage.title, tone), min(title_width, max(8, width - 12)))
        cells += fit(Span(f" {elapsed}", Tone.PLAIN), 8, align_right=True)
        calls = stage.is_trouble or stage.is_warning or stage.look in _CALLING
        if width >= NARROW and not (calls and stage.note):  # what calls a person comes before how long it takes
            rest = width - width_of(tuple(cells))
            bar_width = min(MOST_BAR, max(LEAST_BAR, (rest - _EXPECTED_COLUMNS) // 3))
            room = rest - bar_width - 2 - LEAST_NOTE
            cells += self._against_expectation(stage, bar_width, is_short=room < _EXPECTED_COLUMNS)
        if width - width_of(tuple(cells)) >= LEAST_NOTE:
            cells.append(Span(f"  {stage.note or _word(stage)}", Tone.WARN if stage.is_warning else glyph.tone))
        return fit(tuple(cells), width)

    def _against_expectation(self, stage: StageLine, bar_width: int, *, is_short: bool) -> Cells:
        share, columns = stage.share, _RANGE_COLUMNS if is_short else _EXPECTED_COLUMNS
        expected = duration_range(*stage.expected_seconds) if stage.expected_seconds else ""
        words = fit(Span(f" {expected}" if is_short or not expected else f" expected {expected}", Tone.MUTED), columns)
        if share is None or stage.look not in (StageLook.RUNNING, StageLook.UNDOING):
            return (Span(" " * (bar_width + 2)), *words)
        filled = bar(share, bar_width)
        tone = Tone.WARN if share > 1 else Tone.BUSY
        rest = "·" * (bar_width - len(filled))
        return (Span("  "), Span(filled, tone), Span(rest, Tone.MUTED), *words)

    def _tell(self) -> None:
        self.refresh()
        if self._cursor.key != self._announced:
            self._announced = self._cursor.key
            self.post_message(self.Highlighted(self, self._announced))


def _title_width(stage: StageLine) -> int:
    return 0 if stage.look is StageLook.SKIPPED else width_of(stage.title)


def _word(stage: StageLine) -> str:
    """Return the note of a stage that has none."""
    if stage.share is not None and stage.share > 1 and stage.look is StageLook.RUNNING:
        return "longer than expected"
    return "" if stage.look is StageLook.PENDING else stage.look.value


def _working(stages: Sequence[StageLine]) -> int:
    """Return the index of the stage at work, else of the last one that was started."""
    at_work = next((index for index, stage in enumerate(stages) if stage.look in _CURRENT), None)
    if at_work is not None:
        return at_work
    idle = (StageLook.PENDING, StageLook.SKIPPED)
    begun = [index for index, stage in enumerate(stages) if stage.look not in idle]
    return begun[-1] if begun else 0
