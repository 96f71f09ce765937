"""Nothing that is drawn carries a control to the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.color import Color
from textual.filter import LineFilter
from textual.widgets import Log, Static

from tests.support.waiting import wait_for
from tui.settings.appearance import ControlFilter
from tui.textual_private import screen_strips, screen_text

BLACK = Color(0, 0, 0)


@given(st.lists(st.text()))
def test_no_control_survives_whatever_is_drawn(texts: list[str]) -> None:
    segments = ControlFilter().apply([Segment(text) for text in texts], BLACK)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for text, _, _ in segments for c in text)


def test_clean_lines_pass_untouched() -> None:
    segments = [Segment("über ▏ 進 [rank0]: ok")]
    assert ControlFilter().apply(segments, BLACK) is segments


def test_a_no_break_space_stays() -> None:
    assert ControlFilter().apply([Segment("a\u00a0b")], BLACK)[0].text == "a\u00a0b"


async def test_it_holds_for_widgets_that_know_nothing_of_it() -> None:
    evil = "x\x1b]52;c;ZXZpbA==\x07y\x9b2Jz\u202eend"

    class EvilApp(App[None]):
        barrier = ControlFilter()

        def compose(self) -> ComposeResult:
            yield Static(evil, markup=False)
            yield Log()

        def get_line_filters(self) -> Sequence[LineFilter]:
            return [*super().get_line_filters(), self.barrier]

    app = EvilApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.query_one(Log).write_line(evil)
        await wait_for(pilot, lambda: screen_text(app).count("end") == 2, "both widgets")
        drawn = "".join(segment.text for strip in screen_strips(app) for segment in strip)
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e" for c in drawn)
