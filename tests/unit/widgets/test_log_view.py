"""The log view on a screen."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from tests.support.waiting import wait_for
from tui.textual_private import screen_text
from tui.widgets.log import LogView
from tui.widgets.log_buffer import BufferedLine, LogBuffer
from tui.widgets.log_renderer import AllLines, ScreenRow, moved, rows_before, rows_from

SIZE = (60, 12)
"""Eleven rows of lines over one of status."""


class LogApp(App[None]):
    def __init__(self, buffer: LogBuffer) -> None:
        super().__init__()
        self.buffer = buffer

    def compose(self) -> ComposeResult:
        yield LogView(self.buffer, id="logs")

    @property
    def view(self) -> LogView:
        return self.query_one("#logs", LogView)

    def append(self, *lines: str, source: str = "pod-0") -> None:
        self.buffer.extend(BufferedLine(line, source) for line in lines)
        self.view.refresh_data()


def numbered(count: int, *, first: int = 0) -> list[str]:
    return [f"line {number:05}" for number in range(first, first + count)]


def shown(app: LogApp) -> list[str]:
    return [line.rstrip("│┃ ") for line in screen_text(app).splitlines()]


async def ready(pilot: Pilot[None], app: LogApp) -> None:
    app.view.focus()
    await wait_for(pilot, lambda: app.view.lines.has_focus and app.view.lines.size.height == 11, "the view")


async def test_it_follows_the_end() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100))
        await wait_for(pilot, lambda: shown(app)[10] == "line 00099", "the newest line at the bottom")
        assert shown(app)[0] == "line 00089"
        assert "following" in shown(app)[11]


async def test_scrolled_up_the_same_lines_stay_and_new_ones_are_counted() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100))
        await pilot.press("k")
        await wait_for(pilot, lambda: shown(app)[0] == "line 00088", "one line up")
        app.append(*numbered(250, first=100))
        await wait_for(pilot, lambda: "+250 new lines" in shown(app)[11], "the count of new lines")
        assert shown(app)[0] == "line 00088"
        await pilot.press("G")
        await wait_for(pilot, lambda: shown(app)[10] == "line 00349", "the end again")
        assert app.view.lines.is_following


async def test_moving_to_the_end_by_steps_follows_again() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(30))
        await pilot.press("k", "k", "j", "j")
        await wait_for(pilot, lambda: app.view.lines.is_following, "following")


async def test_forgotten_lines_do_not_move_the_view_until_its_own_are_gone() -> None:
    app = LogApp(LogBuffer(max_lines=4_000))
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        filler = " " + "x" * 120
        app.append(*(line + filler for line in numbered(4_500)))
        await pilot.press("k")
        await wait_for(pilot, lambda: not app.view.lines.is_following, "paused")
        top = app.view.lines.top_line
        app.append(*(line + filler for line in numbered(5_000, first=4_500)))
        assert app.buffer.start > 0
        assert app.view.lines.top_line == top
        app.append(*(line + filler for line in numbered(30_000, first=9_500)))
        await wait_for(pilot, lambda: app.view.lines.top_line == app.buffer.start, "the oldest line that is left")
        assert " older" in shown(app)[11]


async def test_a_search_goes_to_the_last_match_and_n_goes_round() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*("hit" if number in (5, 50, 95) else f"line {number}" for number in range(200)))
        app.view.search("HIT".lower())
        await wait_for(pilot, lambda: "/hit 3/3" in shown(app)[11], "the last match")
        assert "hit" in shown(app)
        await pilot.press("n")
        await wait_for(pilot, lambda: "/hit 1/3" in shown(app)[11], "the first match, after the last")
        assert "line 6" in shown(app)
        await pilot.press("N")
        await wait_for(pilot, lambda: "/hit 3/3" in shown(app)[11], "the last match, before the first")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "/hit" not in shown(app)[11], "no search")


async def test_the_prompt_takes_a_pattern_and_gives_the_focus_back() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100))
        await pilot.press("slash")
        await wait_for(pilot, lambda: app.focused is not None and app.focused is not app.view.lines, "the prompt")
        for key in "00042":
            await pilot.press(key)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "/00042 1/1" in shown(app)[11], "the match")
        assert app.view.lines.has_focus
        assert "line 00042" in shown(app)


async def test_a_filter_shows_only_what_matches_also_of_new_lines() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append("error one", *numbered(50), "error two")
        app.view.filter("error")
        await wait_for(pilot, lambda: shown(app)[:2] == ["error one", "error two"], "the two lines")
        app.append("fine", "error three")
        await wait_for(pilot, lambda: shown(app)[:3] == ["error one", "error two", "error three"], "the third line")
        app.view.filter("!line")
        await wait_for(pilot, lambda: shown(app)[:4] == ["error one", "error two", "fine", "error three"], "the others")


async def test_sources_are_named_when_there_are_several() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append("alone", source="esm1nv-pretraining-master-0")
        await wait_for(pilot, lambda: shown(app)[0] == "alone", "no name for a single source")
        app.append("second", source="esm1nv-pretraining-worker-1")
        await wait_for(pilot, lambda: shown(app)[:2] == ["master-0 alone", "worker-1 second"], "short names")
        await pilot.press("P")
        await wait_for(pilot, lambda: shown(app)[:2] == ["alone", "second"], "no names")


async def test_long_lines_wrap_on_request_and_follow_still_shows_the_end() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(20), "a" * 59 + "b" * 59 + "c")
        await wait_for(pilot, lambda: shown(app)[10] == "a" * 59, "the first part only")
        await pilot.press("W")
        await wait_for(pilot, lambda: shown(app)[8:11] == ["a" * 59, "b" * 59, "c"], "the whole line in three rows")
        await pilot.press("k")
        await wait_for(pilot, lambda: shown(app)[10] == "b" * 59, "one row up, not one line")


async def test_hostile_lines_show_their_text_and_nothing_else() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append("rank [0/8] [rank0]: [/x] \x1b]52;c;ZXZpbA==\x07ok\x1b[2J", " 10%|#\r 99%|##")
        await wait_for(pilot, lambda: shown(app)[:2] == ["rank [0/8] [rank0]: [/x] ok", " 99%|##"], "clean text")


async def test_times_are_shown_on_request() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.buffer.extend([BufferedLine("step", at_ns=3_723_004_000_000), BufferedLine("gap 3 s", is_marker=True)])
        app.view.refresh_data()
        await pilot.press("T")
        await wait_for(pilot, lambda: shown(app)[0] == "01:02:03.004 step", "the time")
        assert shown(app)[1].strip() == "── gap 3 s ──"


@pytest.mark.parametrize("count", [0, 1, 3, 10, 40])
def test_rows_above_and_below_an_anchor_are_each_others_mirror(count: int) -> None:
    buffer = LogBuffer()
    buffer.extend(BufferedLine(str(number)) for number in range(count))
    window, every = AllLines(buffer), [ScreenRow(line, part) for line in range(count) for part in range(line % 3 + 1)]
    for index, anchor in enumerate(every):
        assert rows_from(window, lambda line: line % 3 + 1, anchor, 7) == every[index : index + 7]
        assert rows_before(window, lambda line: line % 3 + 1, anchor, 7) == every[max(0, index - 7) : index]
        assert moved(window, lambda line: line % 3 + 1, anchor, 4) == every[min(index + 4, len(every) - 1)]
        assert moved(window, lambda line: line % 3 + 1, anchor, -4) == every[max(0, index - 4)]
