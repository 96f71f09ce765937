"""The log view on a screen."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from tests.support.waiting import wait_for
from tui.textual_private import screen_strips, screen_text
from tui.widgets.log import LogView
from tui.widgets.log_buffer import BufferedLine, LineMarks, LogBuffer
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


async def test_a_log_that_has_ended_is_not_followed() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.view.has_ended = True
        app.append(*numbered(100))
        await wait_for(pilot, lambda: "at the end" in shown(app)[11], "the end")
        assert "following" not in shown(app)[11]
        await pilot.press("k")
        await wait_for(pilot, lambda: "above the end" in shown(app)[11], "one line up")


async def test_scrolled_up_the_same_lines_stay_and_new_ones_are_counted() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100))
        await pilot.press("k")
        await wait_for(pilot, lambda: shown(app)[0] == "line 00088", "one line up")
        app.append(*numbered(1, first=100))
        await wait_for(pilot, lambda: "+1 new line (G)" in shown(app)[11], "one new line")
        app.append(*numbered(249, first=101))
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
        await pilot.press("k", "k")
        await wait_for(pilot, lambda: not app.view.lines.is_following, "two lines above the end")
        await pilot.press("j", "j")
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
        await pilot.press("S")
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
        gap = BufferedLine("-- gap 3 s --", is_marker=True)
        app.buffer.extend([BufferedLine("step", at_ns=3_723_004_000_000), gap])
        app.view.refresh_data()
        await pilot.press("t")
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


TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/opt/train.py", line 12, in main',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB on a GPU of 22 GiB",
]


async def test_errors_are_reached_by_a_key_and_round_at_the_ends() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*("ERROR: lost" if number in (5, 50, 95) else f"line {number}" for number in range(200)))
        await pilot.press("b")
        await wait_for(pilot, lambda: "✘ error 3/3" in shown(app)[11], "the last error, as the end was followed")
        assert "ERROR: lost" in shown(app)
        assert not app.view.lines.is_following
        await pilot.press("b")
        await wait_for(pilot, lambda: "✘ error 1/3" in shown(app)[11], "the first error, after the last")
        await pilot.press("B", "B")
        await wait_for(pilot, lambda: "✘ error 2/3" in shown(app)[11], "the error before the last")
        assert app.view.lines_to_copy() == [50]
        await pilot.press("escape")
        await wait_for(pilot, lambda: "✘ error" not in shown(app)[11], "no errors counted any more")


async def test_only_errors_that_pass_the_filter_are_reached() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*(f"ERROR: {'kept' if number % 40 == 1 else 'other'} {number}" for number in range(200)))
        app.view.filter("kept")
        await pilot.press("b", "B")
        await wait_for(pilot, lambda: app.view.lines_to_copy() == [121], "the last but one that is shown")


async def test_tracebacks_are_wrapped_and_other_lines_cut_until_asked() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append("x" * 90, *TRACEBACK)
        await wait_for(pilot, lambda: any("22 GiB" in row for row in shown(app)), "the end of the exception")
        assert sum("x" * 10 in row for row in shown(app)) == 1
        await pilot.press("W")
        await wait_for(pilot, lambda: sum("x" * 10 in row for row in shown(app)) == 2, "all lines wrapped")
        assert "wrap" in shown(app)[11]
        await pilot.press("W")
        await wait_for(pilot, lambda: not any("22 GiB" in row for row in shown(app)), "all lines cut")
        assert "cut" in shown(app)[11]


async def test_an_error_has_another_colour_than_a_plain_line() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append("plain", "ERROR: lost", "WARNING: slow", "DEBUG: detail")
        await wait_for(pilot, lambda: "ERROR: lost" in shown(app), "the lines")
        colours = {
            segment.text.strip(): segment.style.color
            for strip in screen_strips(app)
            for segment in strip
            if segment.style is not None
        }
        named = [colours[text] for text in ("plain", "ERROR: lost", "WARNING: slow", "DEBUG: detail")]
        assert len(set(named)) == 4


async def test_a_time_is_reached() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.buffer.extend(BufferedLine(f"line {n}", "pod-0", n * 1_000_000_000) for n in range(1, 200))
        app.view.refresh_data()
        assert app.buffer.line_at(60 * 1_000_000_000) == 59
        assert app.buffer.line_at(10**18) == app.buffer.end
        app.view.go_to(app.buffer.line_at(60 * 1_000_000_000))
        await wait_for(pilot, lambda: "line 60" in shown(app), "the line of that second")
        assert app.view.lines_to_copy() == [59]


JSON_LINES = [
    '{"level":"info","ts":1.5,"msg":"started","job":"train"}',
    '{"level":"error","msg":"scrape failed","code":502}',
    '{"loss": NaN, "step": 12}',
]


async def test_lines_of_json_are_laid_out_until_a_key_shows_them_raw() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        app.view.focus()
        app.append("plain {not json}", *JSON_LINES)
        await wait_for(pilot, lambda: "INFO  started job=train ts=1.5" in shown(app), "the lines laid out")
        assert shown(app)[:4] == [
            "plain {not json}",
            "INFO  started job=train ts=1.5",
            "ERROR scrape failed code=502",
            "loss=NaN step=12",
        ]
        await pilot.press("J")
        await wait_for(pilot, lambda: JSON_LINES[0] in shown(app), "the lines as they were printed")
        assert "JSON raw" in shown(app)[11]


async def test_what_is_found_in_raw_json_is_on_screen() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        app.view.focus()
        app.append(*JSON_LINES)
        app.view.search("scrape")
        await wait_for(pilot, lambda: "/scrape 1/1" in shown(app)[11], "the match")
        assert "ERROR scrape failed code=502" in shown(app)
        app.view.search('"level":"error"')
        await wait_for(pilot, lambda: JSON_LINES[1] in shown(app), "the line raw, as the match is between its parts")
        assert "INFO  started job=train ts=1.5" in shown(app)


async def test_lines_from_a_mark_to_the_one_reached_are_copied() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        app.view.focus()
        app.append(*numbered(100))
        app.view.go_to(20)
        await pilot.press("space")
        await wait_for(pilot, lambda: "▌ line 00020" in shown(app), "the sign of the mark")
        assert "  line 00021" in shown(app)
        app.view.go_to(60)
        await wait_for(pilot, lambda: "▌ mark 1/1, 41 lines to copy" in shown(app)[11], "the range in the status row")
        assert app.view.lines_to_copy() == list(range(20, 61))
        app.view.filter("5$")
        await wait_for(pilot, lambda: "8 lines to copy" in shown(app)[11], "to the end of the screen")
        assert app.view.lines_to_copy() == [*range(25, 100, 10)]
        assert 5 in app.view.lines_to_copy(is_range=False)


async def test_marks_are_reached_round_at_the_ends_and_dropped() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        app.view.focus()
        app.append(*numbered(100))
        for line in (70, 10, 40):
            app.view.go_to(line)
            await pilot.press("space")
        await pilot.press("apostrophe")
        await wait_for(pilot, lambda: "mark 3/3" in shown(app)[11], "the next mark")
        assert "▌ line 00070" in shown(app)
        await pilot.press("apostrophe")
        await wait_for(pilot, lambda: "mark 1/3" in shown(app)[11], "the first mark")
        await pilot.press("quotation_mark", "quotation_mark")
        await wait_for(pilot, lambda: "mark 2/3" in shown(app)[11], "the mark before the last")
        await pilot.press("space")
        await wait_for(pilot, lambda: "/2" in shown(app)[11], "one mark dropped")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "mark" not in shown(app)[11], "no mark")
        assert not any(row.startswith(("  line", "▌")) for row in shown(app))


async def test_the_newest_line_is_marked_while_the_end_is_followed() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        app.view.focus()
        app.append(*numbered(100))
        await pilot.press("space")
        app.append(*numbered(30, first=100))
        await wait_for(pilot, lambda: "31 lines to copy" in shown(app)[11], "from there to the newest line")
        assert app.view.lines.is_following


def test_marks_of_evicted_lines_are_dropped() -> None:
    marks = LineMarks()
    for number in (5, 9, 7):
        marks.toggle(number)
    marks.forget_before(8)
    assert (marks.numbers, marks.at) == ([9], 9)
    marks.forget_before(20)
    assert (marks.numbers, marks.at) == ([], None)
    assert marks.reach(3, down=True, is_shown=lambda _: True) is None


def whole(count: int) -> LogBuffer:
    buffer = LogBuffer()
    buffer.extend(BufferedLine(line, "pod-0") for line in numbered(count))
    return buffer


async def test_older_lines_come_above_those_on_screen_which_stay_in_place() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100, first=900))
        await pilot.press("k", "k", "space")
        await wait_for(pilot, lambda: "line 00987" in shown(app)[0], "two lines up")
        before = shown(app)[:11]
        app.view.show(whole(1000), is_longer=True)
        await wait_for(pilot, lambda: "1,000 lines" in shown(app)[11], "all lines")
        assert shown(app)[:11] == before
        assert "mark 1/1" in shown(app)[11]
        assert app.view.lines.marks.numbers == [987]
        await pilot.press("g")
        await wait_for(pilot, lambda: "line 00000" in shown(app)[0], "the oldest line")


async def test_older_lines_are_searched_and_filtered_as_the_newest_were() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100, first=900))
        app.view.filter("7$")
        await wait_for(pilot, lambda: shown(app)[9] == "line 00997", "the filter")
        app.view.search("99")
        await wait_for(pilot, lambda: "/99 10/10" in shown(app)[11], "the search")
        app.view.show(whole(1000), is_longer=True)
        await wait_for(pilot, lambda: "&7$ 100" in shown(app)[11], "the filter of all lines")
        assert "/99 " in shown(app)[11]
        await wait_for(pilot, lambda: "line 00997" in shown(app)[9:11], "the lines that were on screen")


async def test_the_end_is_followed_while_older_lines_come() -> None:
    app = LogApp(LogBuffer())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        app.append(*numbered(100, first=900))
        await wait_for(pilot, lambda: shown(app)[10] == "line 00999", "the end")
        app.buffer = whole(1000)
        app.view.show(app.buffer, is_longer=True)
        app.append(*numbered(5, first=1000))
        await wait_for(pilot, lambda: shown(app)[10] == "line 01004", "the new end")
        assert "following" in shown(app)[11]
