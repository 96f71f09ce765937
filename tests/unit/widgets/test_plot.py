"""Charts: cleaning, thinning, drawing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.strip import Strip

from tests.support.waiting import wait_for
from tui import defects
from tui.present.ansi import visible_text
from tui.present.charts.curves import (
    Curve,
    clean_name,
    figures_of,
    heights_of,
    round_ticks,
    short_number,
    stepped,
    thinned,
    tick_labels,
)
from tui.textual_private import RedactingApp, screen_text
from tui.widgets import plot
from tui.widgets.base import LineWidget
from tui.widgets.plot import PlotView
from tui.widgets.plot_renderer import (
    SPARSE_POINTS,
    Pen,
    PlotOptions,
    Smoothing,
    _x_axis,
    _y_axis,
    is_smoothed,
    picture_of,
    x_range,
)

PEN = Pen((90, 90, 90), (0, 200, 255))


def a_curve(*ys: float, name: str = "loss") -> Curve:
    return Curve(name, [float(x) for x in range(len(ys))], ys)


def drawn(*curves: Curve, options: PlotOptions = PlotOptions(), width: int = 60, height: int = 12) -> list[str]:  # noqa: B008
    lines = picture_of(curves, [PEN] * len(curves), width=width, height=height, options=options)
    return [visible_text(line) for line in lines]


def test_a_spike_and_a_gap_survive_thinning() -> None:
    heights: list[float | None] = [1.0] * 10_000
    heights[4_321] = 99.0
    heights[6_000:6_200] = [None] * 200
    line = thinned([float(x) for x in range(10_000)], heights, 100)
    assert len(line.xs) <= 200
    assert 99.0 in line.ys
    assert None in line.ys


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=400), st.integers(1, 50))
def test_thinning_keeps_extremes_and_order(heights: list[float | None], buckets: int) -> None:
    line = thinned([float(x) for x in range(len(heights))], heights, buckets)
    assert list(line.xs) == sorted(line.xs)
    finite = [height for height in heights if height is not None]
    kept = [height for height in line.ys if height is not None]
    assert (min(finite), max(finite)) == (min(kept), max(kept)) if finite else not kept


@pytest.mark.parametrize(
    ("smoothing", "count", "expected"),
    [
        (Smoothing.DENSE, SPARSE_POINTS - 1, False),
        (Smoothing.DENSE, SPARSE_POINTS, True),
        (Smoothing.ON, 2, True),
        (Smoothing.OFF, 5_000, False),
    ],
)
def test_a_sparse_curve_is_not_smoothed_by_itself(smoothing: Smoothing, count: int, expected: bool) -> None:
    curve = a_curve(*[1.0] * count)
    assert is_smoothed(curve, PlotOptions(smoothing=smoothing)) is expected
    assert not is_smoothed(curve, PlotOptions(is_by_size=True, smoothing=smoothing))


def test_measured_values_stay_visible_under_their_average() -> None:
    spike = [1.0] * 300
    spike[150] = 9.0
    strokes = picture_of([a_curve(*spike)], [PEN], width=60, height=12, options=PlotOptions())
    assert any("38;2;90;90;90" in line for line in strokes[:3])


def test_what_is_not_finite_is_counted_and_not_drawn() -> None:
    curve = a_curve(3.0, math.nan, math.inf, 2.0, -math.inf)
    assert heights_of(curve, is_log=False) == [3.0, None, None, 2.0, None]
    figures = figures_of(curve, is_log=False)
    assert (figures.last, figures.low, figures.high, figures.unshown) == (2.0, 2.0, 3.0, 3)


def test_a_logarithmic_axis_masks_what_is_not_positive() -> None:
    assert heights_of(a_curve(100.0, 0.0, -5.0), is_log=True) == [2.0, None, None]


@pytest.mark.parametrize(
    ("heights", "is_log", "reason"),
    [
        ([], False, "no data yet"),
        ([math.nan, math.inf], False, "no number to draw: all 2 values are NaN or infinite"),
        ([-1.0, 0.0], True, "no value above 0 for a log axis"),
    ],
)
def test_a_chart_without_a_line_says_why(heights: list[float], is_log: bool, reason: str) -> None:
    options = PlotOptions(is_log=is_log)
    assert picture_of([a_curve(*heights)], [PEN], width=60, height=12, options=options) == [reason]


def test_a_curve_without_a_finite_value_has_no_figures() -> None:
    figures = figures_of(a_curve(math.nan), is_log=False)
    assert math.isnan(figures.last)
    assert short_number(figures.last) == "?"


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 20))
def test_ticks_are_few_and_within_the_range(low: float, span: float, most: int) -> None:
    ticks = round_ticks(low, low + span, most)
    assert 1 <= len(ticks) <= most
    assert all(low - span * 0.01 <= tick <= low + span * 1.01 for tick in ticks)


@given(st.floats(-1e7, 1e7), st.floats(1e-6, 1e6), st.integers(2, 20))
def test_no_two_ticks_of_an_axis_have_one_label(low: float, span: float, most: int) -> None:
    ticks = round_ticks(low, low + span, most)
    assert len(set(tick_labels(ticks))) == len(set(ticks))


def test_ticks_that_differ_behind_the_fourth_digit_say_so() -> None:
    assert tick_labels([1552.0, 1552.25, 1552.5, 1552.75]) == ["1552", "1552.2", "1552.5", "1552.8"]
    assert tick_labels([0.5, 1.0, 1.5]) == ["0.5", "1", "1.5"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.03125, "0.03125"), (12.5, "12.5"), (12_345, "12.35k"), (3.4e6, "3.4M"), (2e-7, "2e-07")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short_number(value) == text


def test_names_from_outside_are_harmless_in_a_legend() -> None:
    assert clean_name("loss\x1b[31m\n" + "x" * 50) == "loss[31m" + "x" * 15 + "…"


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    "ys",
    [
        (1.0,),
        (5.0, 5.0, 5.0),
        (math.nan, 1.0, math.inf, 2.0),
        (1e-300, 1e300),
        (-1.0, 0.0, 1.0),
        tuple(float(y) for y in range(5_000)),
    ],
)
def test_every_shape_of_data_is_drawn_to_size(ys: tuple[float, ...], is_log: bool) -> None:
    lines = drawn(a_curve(*ys), options=PlotOptions(is_log=is_log))
    assert len(lines) == 12
    assert all(len(line) == 60 for line in lines)


def test_nothing_to_draw_says_so() -> None:
    assert drawn(a_curve()) == ["no data yet"]
    assert drawn(a_curve(-1.0), options=PlotOptions(is_log=True)) == ["no value above 0 for a log axis"]
    assert drawn(a_curve(1.0), width=10) == ["too small for a chart"]


@pytest.mark.parametrize(
    ("cursor", "count", "x"), [(None, -1, 5.0), (3.0, 1, 5.0), (3.0, -1, 1.0), (4.0, 1, 5.0), (4.0, -1, 3.0), (9, 1, 5)]
)
def test_a_cursor_between_points_goes_to_the_next_one(cursor: float | None, count: int, x: float) -> None:
    assert stepped([Curve("loss", [1, 3, 5], [1, 1, 1])], cursor, count, None) == x


class PlotApp(App[None]):
    def __init__(self, view: PlotView) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view


class DrawingCounter:
    """Replaces `picture_of`: counts drawings, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, problem: str = "") -> None:
        self.problem = problem
        self.count = 0
        self.pens: Sequence[Pen] = ()
        """Those of the last drawing."""
        monkeypatch.setattr(plot, "picture_of", self.draw)

    def draw(self, _curves: object, pens: Sequence[Pen], *, height: int, **_options: object) -> list[str]:
        self.count += 1
        self.pens = pens
        if self.problem:
            raise ValueError(self.problem)
        return ["drawn" for _ in range(height)]


async def test_the_legend_tells_last_least_and_greatest() -> None:
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        app.view.show([a_curve(9.5, math.nan, 2.25, name="train_loss")], version=1)
        await wait_for(pilot, lambda: "train_loss 2.25" in screen_text(app), "the legend")
        assert "min 2.25 · max 9.5 · 1 point not shown · over step" in screen_text(app)


@pytest.mark.parametrize(
    ("width", "told"),
    [(70, "  train_loss 8.25  val_loss 2.75 (nearest)"), (44, "  train_loss 8.25  val_loss ~2.75")],
)
async def test_a_value_of_the_nearest_point_is_told_as_such_on_a_narrow_chart_too(width: int, told: str) -> None:
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(width, 16)) as pilot:
        curves = [a_curve(9.5, 8.25, name="train_loss"), Curve("val_loss", [0.0], [2.75])]
        app.view.show(curves, version=1)
        app.view.place_cursor(1.0)
        await wait_for(pilot, lambda: told in screen_text(app), "the values at the cursor")


async def test_the_same_version_is_drawn_once_however_often_it_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = DrawingCounter(monkeypatch)
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        for _ in range(5):
            app.view.show([a_curve(1.0, 2.0)], version=7)
            app.view.refresh()
        await wait_for(pilot, lambda: "drawn" in screen_text(app), "the chart")
        app.view.focus()
        await wait_for(pilot, lambda: app.view.has_focus, "focus")
        assert drawings.count == 1
        app.view.show([a_curve(1.0, 3.0)], version=8)
        await wait_for(pilot, lambda: drawings.count == 2, "the second drawing")


async def test_a_command_line_that_comes_and_goes_draws_no_chart_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "DRAW_SECONDS", 3600.0)
    drawings = DrawingCounter(monkeypatch)
    view = PlotView("loss")
    view.show([a_curve(1.0, 2.0)], version=1)
    app = PlotApp(view)
    async with app.run_test(size=(70, 16)) as pilot:

        async def resized(height: int) -> None:
            await pilot.resize_terminal(70, height)
            await wait_for(pilot, lambda: view.size.height == height and view._draw_timer is not None, "the size")
            assert "drawn" in screen_text(app), "the old chart stays meanwhile"

        await wait_for(pilot, lambda: drawings.count == 1, "the chart")
        await resized(15)
        await resized(16)
        view._draw()  # as the timer does
        assert drawings.count == 1
        await resized(15)
        view._draw()
        assert drawings.count == 2, "a size that lasts"


async def test_another_theme_draws_in_its_own_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = DrawingCounter(monkeypatch)
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        app.view.show([a_curve(1.0, 2.0)], version=1)
        await wait_for(pilot, lambda: drawings.count == 1, "the chart")
        dark = drawings.pens
        app.theme = "textual-light"
        await wait_for(pilot, lambda: drawings.count == 2, "the chart anew")
        assert drawings.pens != dark


async def test_a_chart_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    DrawingCounter(monkeypatch, problem="no room for ticks")
    monkeypatch.setattr(defects, "are_raised", False)
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        app.view.show([a_curve(1.0, 2.0)], version=1)
        await wait_for(pilot, lambda: "cannot be shown" in screen_text(app), "the reason")
    assert "no room for ticks" in defects.defects_path().read_text(), "the traceback is kept"


async def test_the_wheel_zooms_the_axis_in_and_out() -> None:
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        app.view.show([a_curve(*map(float, range(100)))], version=1)
        await wait_for(pilot, lambda: "loss 99" in screen_text(app), "the chart")
        app.view.post_message(events.MouseScrollUp(app.view, 9, 9, 0, -1, 0, shift=False, meta=False, ctrl=False))
        await wait_for(pilot, lambda: app.view.options.window is not None, "a part of the axis")
        app.view.post_message(events.MouseScrollDown(app.view, 9, 9, 0, 1, 0, shift=False, meta=False, ctrl=False))
        await wait_for(pilot, lambda: app.view.options.window is None, "the whole axis")


async def test_the_log_axis_is_switched_by_key() -> None:
    app = PlotApp(PlotView("loss"))
    async with app.run_test(size=(70, 16)) as pilot:
        app.view.show([a_curve(1.0, 10.0, 1000.0)], version=1)
        app.view.focus()
        await wait_for(pilot, lambda: app.view.has_focus, "focus")
        await pilot.press("L")
        await wait_for(pilot, lambda: "(log)" in screen_text(app), "the logarithmic axis")


@pytest.mark.parametrize(
    ("xs", "expected"),
    [
        ([1], (0.0, 1.0, 2.0)),
        ([1, 2], (1.0, 2.0)),
        ([0, 9], (0.0, 3.0, 6.0, 9.0)),
        ([0, 61], (0.0, 20.0, 40.0, 60.0)),
        ([0.5, 1.0], (0.6, 0.8, 1.0)),
    ],
)
def test_an_axis_of_steps_has_no_half_steps(xs: list[float], expected: tuple[float, ...]) -> None:
    curve = Curve("loss", xs, [float(place) for place in range(len(xs))])
    ends = x_range([curve], PlotOptions())
    assert ends is not None
    assert _x_axis(*ends, most=4, options=PlotOptions()).ticks == pytest.approx(expected)


@pytest.mark.parametrize("is_log", [False, True])
def test_the_noise_of_a_nearly_constant_curve_is_a_flat_line(is_log: bool) -> None:
    """A throughput of 1552.2 to 1552.4 filled its whole chart, as if it went up and down."""
    options = PlotOptions(is_log=is_log, smoothing=Smoothing.OFF)
    noise = [1552.2 + 0.2 * (place * 7 % 5) / 4 for place in range(200)]

    def rows(*ys: float) -> int:
        lines = drawn(a_curve(*ys), options=options, width=80, height=20)
        return sum(bool(re.search("[\u2801-\u28ff]", line)) for line in lines)

    assert rows(*noise) <= 2
    assert rows(*(1552 + place * 0.2 for place in range(200))) >= 15  # 2.6 % are a course
    low, high = (math.log10(end) if is_log else end for end in (min(noise), max(noise)))
    y_axis = _y_axis(low, high, most=6, is_log=is_log)
    assert y_axis.high - y_axis.low >= (0.0085 if is_log else 31)
    assert all(y_axis.low <= tick <= y_axis.high for tick in y_axis.ticks)
    assert len({*y_axis.labels}) == len(y_axis.ticks) >= 2


EXTREMES = (1e308, -1e308, 1.7e308, 5e-324, -5e-324, 1e-320, 1e100, 1e-100, 0.0, 1.0, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("smoothing", Smoothing)
def test_no_two_numbers_are_too_far_apart_or_too_near_for_an_axis(is_log: bool, smoothing: Smoothing) -> None:
    """Points are bounded where they are made; what is drawn survives any number all the same."""
    options = PlotOptions(is_log=is_log, smoothing=smoothing)
    for low in EXTREMES:
        for high in EXTREMES:
            lines = drawn(a_curve(low, high, low), options=options)
            assert lines


class Broken(LineWidget):
    """A widget that cannot draw, and one that cannot handle a message."""

    is_mended = False

    def render_line(self, y: int) -> Strip:
        if not self.is_mended:
            raise ZeroDivisionError(f"line {y}")
        return self.paint((), self.size.width)

    def on_click(self) -> None:
        raise LookupError("a click")


class BrokenApp(RedactingApp[None]):
    def compose(self) -> ComposeResult:
        yield Broken()


async def test_a_widget_that_cannot_draw_shows_a_sentence_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(defects, "are_raised", False)
    app = BrokenApp()
    async with app.run_test(size=(70, 8)) as pilot:
        await wait_for(pilot, lambda: "This cannot be shown" in screen_text(app), "the sentence")
        widget = app.query_one(Broken)
        widget.post_message(events.Click(widget, 0, 0, 0, 0, 1, False, False, False))
        await wait_for(pilot, lambda: "LookupError" in defects.defects_path().read_text(), "the second defect")
        widget.is_mended = True
        widget.refresh()
        await wait_for(pilot, lambda: "ZeroDivisionError" not in screen_text(app), "a widget that draws again")
        assert app.is_running
    kept = defects.defects_path().read_text()
    assert kept.count("Traceback") == 2, "each place once"


async def test_in_a_test_a_defect_of_a_widget_is_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        async with BrokenApp().run_test(size=(70, 8)) as pilot:
            await pilot.pause()
