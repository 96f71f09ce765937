"""Curves as a picture."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from actions.base.errors import ConfigError
from tui.present.charts.curves import Curve, Mark, MarkKind, TimeAxis
from tui.widgets.plot_picture import HEIGHT, WIDTH, png_of, svg_of
from tui.widgets.plot_renderer import PlotOptions

SVG = "{http://www.w3.org/2000/svg}"


def parts_of(*curves: Curve, options: PlotOptions = PlotOptions(), marks: tuple[Mark, ...] = ()) -> ET.Element:  # noqa: B008
    return ET.fromstring(svg_of(curves, title="a <run>", x_label="step", options=options, marks=marks))


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def test_a_gap_cuts_a_curve_and_names_are_escaped() -> None:
    curve = Curve("<loss>", [0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 4.0, math.nan, 3.0, 2.0])
    picture = parts_of(curve)
    assert len(picture.findall(f"{SVG}polyline")) == 2
    assert {"a <run>", "<loss> 2", "step"} <= set(texts(picture))


def test_a_dense_curve_has_its_measured_values_beside_their_average() -> None:
    xs = [float(x) for x in range(100)]
    lines = parts_of(Curve("loss", xs, [100 - x for x in xs])).findall(f"{SVG}polyline")
    assert [line.get("stroke-opacity") for line in lines] == ["0.35", None]


def test_marks_and_times_are_drawn() -> None:
    curve = Curve("loss", [0.0, 10.0], [2.0, 1.0], times=[0.0, 3600.0])
    marks = (Mark(MarkKind.RESTART, 5.0, 1800.0), Mark(MarkKind.EPOCH, 50.0))
    titles = [element.text for element in parts_of(curve, marks=marks).iter(f"{SVG}title")]
    assert titles == ["restart"], "an epoch beyond the axis is not drawn"
    assert "01:00" in texts(parts_of(curve, options=PlotOptions(time=TimeAxis.CLOCK)))


def test_no_data_is_a_picture_too() -> None:
    assert "no data yet" in texts(parts_of(Curve("loss", [], [])))


def image_of(*curves: Curve, marks: tuple[Mark, ...] = (), **more: Callable[[str], str]) -> Image.Image:
    data = png_of(curves, title="a run", x_label="step", options=PlotOptions(), marks=marks, **more)
    return Image.open(BytesIO(data)).convert("RGB")


def is_drawn(image: Image.Image, color: tuple[int, int, int], box: tuple[int, int, int, int]) -> bool:
    """Return whether a colour is in a part of the picture, in units of it."""
    left, top, right, bottom = box
    part = image.crop((2 * left, 2 * top, 2 * right, 2 * bottom))
    return any(found == color for _, found in part.getcolors(maxcolors=1 << 20) or ())


BLUE, ORANGE = (0x1F, 0x77, 0xB4), (0xD9, 0x5F, 0x02)
PLOT = (80, 60, 940, 480)


def test_a_png_has_the_curves_where_the_svg_has_them() -> None:
    falling = Curve("loss", [0.0, 1.0, 2.0], [9.0, 5.0, 1.0])
    image = image_of(falling, Curve("val", [0.0, 2.0], [1.0, 9.0]), marks=(Mark(MarkKind.ALARM, 1.0),))
    assert image.size == (2 * WIDTH, 2 * HEIGHT)
    assert is_drawn(image, BLUE, (80, 60, 300, 200)), "it begins at the top"
    assert not is_drawn(image, BLUE, (80, 300, 300, 480))
    assert is_drawn(image, BLUE, (700, 350, 940, 480)), "and ends at the bottom"
    assert is_drawn(image, ORANGE, (700, 60, 940, 200))
    assert is_drawn(image, (0xD6, 0x27, 0x28), (500, 60, 520, 480)), "an alarm in the middle"
    assert is_drawn(image, BLUE, (80, 30, 100, 50)), "a piece of its line before its name"
    empty = image_of(Curve("loss", [], []))
    assert not is_drawn(empty, BLUE, PLOT)


def test_texts_of_a_png_are_cleaned() -> None:
    seen: list[str] = []

    def clean(text: str) -> str:
        seen.append(text)
        return ""

    image = image_of(Curve("loss", [0.0, 1.0], [2.0, 1.0]), clean=clean)
    assert {"a run", "loss 1", "step"} <= set(seen)
    assert not is_drawn(image, (0, 0, 0), (0, 0, WIDTH, 30))


def test_without_pillow_a_png_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigError, match="needs Pillow") as refused:
        png_of([], title="", x_label="", options=PlotOptions())
    assert "eksml-tui[png]" in (refused.value.hint or "")


def test_long_names_of_a_legend_do_not_cover_each_other() -> None:
    names = [f"bionemo-esm1nv-1126-{place}iesfxtvfbree" for place in range(6)]
    curves = [Curve(name, [0.0, 1.0], [place + 2.0, 1.0]) for place, name in enumerate(names)]
    picture = parts_of(*curves)
    places: dict[float, list[tuple[float, float]]] = {}
    for element in picture.iter("{http://www.w3.org/2000/svg}text"):
        text = element.text or ""
        if "bionemo" in text:
            left = float(element.attrib["x"])
            places.setdefault(float(element.attrib["y"]), []).append((left, left + len(text) * 7.5))
    assert sum(map(len, places.values())) == 6
    assert len(places) > 1
    for row in places.values():
        assert all(one[1] < other[0] for one, other in pairwise(sorted(row)))
        assert max(right for _, right in row) <= WIDTH
    (frame,) = [each for each in picture.iter() if each.attrib.get("stroke") == "#888888"]
    assert max(places) < float(frame.attrib["d"].split(",")[1].split()[0]), "the legend ends above the plot"
