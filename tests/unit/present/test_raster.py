"""Strokes as characters."""

from __future__ import annotations

import re
from collections.abc import Sequence

import plotext
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.present.ansi import segments_of, visible_text
from tui.present.charts.curves import Line
from tui.present.charts.raster import Axis, Stroke, draw_strokes

RED, BLUE = (255, 0, 0), (0, 0, 255)
X, Y = Axis((0.0, 10.0), ("0", "10"), 0.0, 10.0), Axis((0.0, 1.0), ("0", "1"), 0.0, 1.0)


def body(*strokes: Stroke, width: int = 24, height: int = 8) -> list[str]:
    """The rows between the frame, without it."""
    lines = [visible_text(line) for line in draw_strokes(strokes, X, Y, width=width, height=height)]
    left, right = lines[0].index("┌"), lines[0].index("┐")
    return [line[left + 1 : right] for line in lines[1:-2]]


def a_stroke(*points: tuple[float, float | None], color: tuple[int, int, int] = RED, glyph: str = "") -> Stroke:
    return Stroke(Line(tuple(x for x, _ in points), tuple(y for _, y in points)), color, glyph)


def test_a_line_goes_from_corner_to_corner_inside_a_frame_with_its_ticks() -> None:
    rows = body(a_stroke((0.0, 0.0), (10.0, 1.0)))
    assert [len(row) for row in rows] == [21] * 5
    assert rows[-1][0] != " "
    assert rows[0][-1] != " "
    assert all(row.strip() for row in rows)
    whole = draw_strokes([], X, Y, width=24, height=8)
    assert [line.strip() for line in (whole[1], whole[-1])] == ["1┤" + " " * 21 + "│", "0" + " " * 18 + "10"]


def test_a_steep_line_has_every_dot_of_its_column_and_a_gap_has_none() -> None:
    rows = body(a_stroke((5.0, 0.0), (5.0, 1.0), (5.0, None), (10.0, 0.0)))
    (column,) = {row.index(mark) for row in rows for mark in row if mark in "⡇⢸"}
    assert all(row[column] in "⡇⢸" for row in rows)
    assert [len(row.split()) for row in rows] == [1, 1, 1, 1, 2], "the point behind the gap is not connected"


def test_a_later_stroke_lies_over_an_earlier_one_and_a_blank_needs_no_colour_of_its_own() -> None:
    low, high = a_stroke((0.0, 0.5), (10.0, 0.5)), a_stroke((2.0, 0.5), (8.0, 0.5), color=BLUE, glyph="o")
    middle = draw_strokes([low, high], X, Y, width=24, height=8)[3]
    assert visible_text(middle).count("o") == 2
    colors = [segment.style.color.name for segment in segments_of(middle) if segment.style and segment.style.color]
    assert colors == ["#ff0000", "#0000ff", "#ff0000", "#0000ff", "#ff0000"]
    apart = draw_strokes([a_stroke((2.0, 0.5), (8.0, 0.5), glyph="o")], X, Y, width=24, height=8)[3]
    assert len(re.findall("\x1b\\[38", apart)) == 1


def test_what_is_beyond_the_axes_is_left_out() -> None:
    assert body(a_stroke((-5.0, 0.5), (-1.0, 0.5), (20.0, 0.5), glyph="o")) == body()
    assert body(a_stroke((0.0, -3.0), (10.0, -2.0))) == body()
    assert body(a_stroke((5.0, -3.0), (5.0, 4.0))) == body(a_stroke((5.0, 0.0), (5.0, 1.0)))


def test_an_axis_without_a_width_is_refused_in_a_sentence() -> None:
    point = Axis((0.0,), ("0",), 0.0, 0.0)
    (reason,) = draw_strokes([a_stroke((0.0, 0.0))], point, Y, width=24, height=8)
    assert reason.startswith("the chart could not be drawn: ")


def dots(lines: Sequence[str]) -> set[tuple[int, int]]:
    """The dots of all braille patterns, by column and row."""
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))  # of the bits of a pattern
    return {
        (2 * column + x, 4 * row + y)
        for row, line in enumerate(lines)
        for column, mark in enumerate(line)
        if "\u2800" <= mark <= "\u28ff"
        for bit, (x, y) in enumerate(places)
        if ord(mark) >> bit & 1
    }


def near(all_dots: set[tuple[int, int]]) -> set[tuple[int, int]]:
    reach = (-2, -1, 0, 1, 2)
    return {(x + right, y + down) for x, y in all_dots for right in reach for down in reach}


@pytest.mark.parametrize(("width", "height"), [(24, 8), (70, 20)])
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30))
def test_it_sets_the_dots_that_plotext_sets(width: int, height: int, ys: list[float]) -> None:
    """To half a character: plotext's lines go between points that are not rounded to dots."""
    xs = [10.0 * place / (len(ys) - 1) for place in range(len(ys))]
    ours = dots(
        [
            visible_text(line)
            for line in draw_strokes([a_stroke(*zip(xs, ys, strict=True))], X, Y, width=width, height=height)
        ]
    )
    plotext.terminal.limit(False, False)
    figure = plotext.figure.clear()
    figure.plot_size(width, height)
    figure.ruler("x", "lower").lim(0.0, 10.0).ticks(X.ticks, X.labels).alignment(lim="edge")
    figure.ruler("y", "left").lim(0.0, 1.0).ticks(Y.ticks, Y.labels).alignment(lim="edge")
    figure.draw(figure.signal(xs, ys, marker="braille").lines())
    theirs = dots(figure.build().string(colorless=True).split("\n"))
    figure.clear()
    assert ours <= near(theirs)
    assert theirs <= near(ours)
