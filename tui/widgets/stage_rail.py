"""The rail of a run: one row a stage, with its state, its time and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui.present.cells import Cells, Span, Tone, bar, fit, width_of
from tui.present.run import GLYPHS, StageLine, StageLook
from tui.present.text import duration, duration_range
from tui.widgets.base import NavigableWidget
from tui.widgets.table_model import RowCursor

TITLE_WIDTH = 30
NARROW = 54
"""Below so many columns the bar and the expectation are left out."""
BAR_WIDTH = 10
LEAST_NOTE = 10
"""Columns below which a note would be a riddle."""
_CURRENT = (StageLook.RUNNING, StageLook.WAITING, StageLook.UNKNOWN, StageLook.FAILED, StageLook.UNDOING)


class StageRail(NavigableWidget, can_focus=True):
    """Stages from first to last, with a cursor.

        rail = StageRail()
        rail.show([StageLine("train", "Train", StageLook.RUNNING, elapsed_seconds=95, expected_seconds=(60, 120))])

    The cursor goes with the stage that is at work until the operator moves it; `End` lets it go along again. Call
    `show` as often as durations are to move.
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
    class Selected(Message):
        """The operator chose a stage: enter, or a double click."""

        rail: StageRail
        key: str

        @property
        def control(self) -> StageRail:
            """The rail, so that handlers can be bound by its id."""
            return self.rail

    @dataclass
    class Highlighted(Message):
        """The cursor is on another stage."""

        rail: StageRail
        key: str

        @property
        def control(self) -> StageRail:
            """The rail, so that handlers can be bound by its id."""
            return self.rail

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._stages: tuple[StageLine, ...] = ()
        self._cursor = RowCursor()
        self._goes_along = True
        self._announced = ""

    @property
    def selected_key(self) -> str:
        """Key of the stage under the cursor; empty without stages."""
        return self._cursor.key

    def show(self, stages: Sequence[StageLine]) -> None:
        """Take the stages as they are; equal ones cost nothing."""
        new = tuple(stages)
        if new == self._stages:
            return
        if len(new) != len(self._stages):
            self.refresh(layout=True)
        self._stages = new
        self._cursor.follow([stage.key for stage in new])
        if self._goes_along:
            self._cursor.place(_working(new))
        self._tell()

    def select(self, key: str) -> bool:
        """Put the cursor on a stage; `False` if there is none of that key."""
        found = self._cursor.seek(key)
        self._goes_along = self._goes_along and not found
        self._tell()
        return found

    def step(self, lines: int) -> None:
        """Move the cursor, and leave it there."""
        self._goes_along = False
        self._cursor.place(self._cursor.index + lines)
        self._tell()

    def jump(self, *, to_end: bool) -> None:
        """To the first stage, or to the one at work, to go along with it."""
        self._goes_along = to_end
        self._cursor.place(_working(self._stages) if to_end else 0)
        self._tell()

    def action_choose(self) -> None:
        """Say that the stage under the cursor was chosen."""
        if self._cursor.key:
            self.post_message(self.Selected(self, self._cursor.key))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a stage; twice: choose it."""
        at = event.get_content_offset(self)
        if at is not None and (index := self._cursor.top + at.y) < len(self._stages):
            self.step(index - self._cursor.index)
            if event.chain > 1:
                self.action_choose()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as there are stages, where the style sheet says `height: auto`."""
        return len(self._stages)

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._cursor.resize(self.size.height)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One stage."""
        width, index = self.size.width, self._cursor.top + y
        if index >= len(self._stages):
            return Strip.blank(width, self.resolved_styles.base)
        base = self.resolved_styles.parts["rail--cursor"] if index == self._cursor.index else self.resolved_styles.base
        line = self.paint(self._cells(self._stages[index], width - 1), width - 1, base)
        scrollbar = self.rail_segment(y, top=self._cursor.top, count=len(self._stages), height=self._cursor.height)
        return Strip([*line, scrollbar], width)

    def _cells(self, stage: StageLine, width: int) -> Cells:
        glyph = GLYPHS[stage.look]
        elapsed = "" if stage.elapsed_seconds is None else duration(stage.elapsed_seconds)
        title_width = min(TITLE_WIDTH, max((width_of(line.title) for line in self._stages), default=0))
        tone = Tone.MUTED if glyph.tone is Tone.MUTED else Tone.PLAIN
        cells: list[Span] = [Span(f" {glyph.sign} ", glyph.tone)]
        cells += fit(Span(stage.title, tone), min(title_width, max(8, width - 12)))
        cells += fit(Span(f" {elapsed}", Tone.PLAIN), 8, align_right=True)
        if width >= NARROW:
            cells += self._against_expectation(stage)
        if width - width_of(tuple(cells)) >= LEAST_NOTE:
            cells.append(Span(f"  {stage.note or _word(stage)}", Tone.WARN if stage.is_warning else glyph.tone))
        return fit(tuple(cells), width)

    def _against_expectation(self, stage: StageLine) -> Cells:
        share, expected = stage.share, stage.expected_seconds
        words = f"of {duration_range(*expected)}" if expected else ""
        is_moving = stage.look in (StageLook.RUNNING, StageLook.UNDOING)
        if share is None or not is_moving:
            return (Span(" " * (BAR_WIDTH + 2)), *fit(Span(words, Tone.MUTED), 12))
        filled = bar(share, BAR_WIDTH)
        tone = Tone.WARN if share > 1 else Tone.BUSY
        rest = "·" * (BAR_WIDTH - len(filled))
        return (Span("  "), Span(filled, tone), Span(rest, Tone.MUTED), *fit(Span(f" {words}", Tone.MUTED), 12))

    def _tell(self) -> None:
        self.refresh()
        if self._cursor.key != self._announced:
            self._announced = self._cursor.key
            self.post_message(self.Highlighted(self, self._announced))


def _word(stage: StageLine) -> str:
    """What is said of a stage that says nothing itself."""
    if stage.share is not None and stage.share > 1 and stage.look is StageLook.RUNNING:
        return "longer than expected"
    return "" if stage.look is StageLook.PENDING else stage.look.value


def _working(stages: Sequence[StageLine]) -> int:
    """Index of the stage to look at: the one at work, else the last that did anything."""
    at_work = next((index for index, stage in enumerate(stages) if stage.look in _CURRENT), None)
    if at_work is not None:
        return at_work
    idle = (StageLook.PENDING, StageLook.SKIPPED)
    begun = [index for index, stage in enumerate(stages) if stage.look not in idle]
    return begun[-1] if begun else 0
