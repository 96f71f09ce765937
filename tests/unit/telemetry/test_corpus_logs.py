"""Every captured log is read as a person would read it, however it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actions.telemetry.log_reader import LogStream, read_log
from actions.telemetry.points import Point
from tests.unit.telemetry.corpus import expected_of, false_points, missing_points, samples

LOGS = samples("logs")
SMALL = [path for path in LOGS if path.stat().st_size < 20_000]


def fed(data: bytes, cuts: list[int]) -> list[Point]:
    stream = LogStream()
    findings = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        findings += stream.feed(data[start:end])
    findings += stream.finish()
    return [finding for finding in findings if isinstance(finding, Point)]


@pytest.mark.parametrize("sample", LOGS, ids=lambda path: path.stem)
def test_a_log_gives_exactly_the_points_that_it_prints(sample: Path) -> None:
    expected = expected_of(sample)
    points = read_log(sample.read_bytes())
    assert false_points(points, expected) == []
    if not expected.get("best_effort"):
        assert missing_points(points, expected) == []


@pytest.mark.parametrize("sample", LOGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_pieces_of_any_size_give_the_same_points(sample: Path, size: int) -> None:
    data = sample.read_bytes()
    assert repr(fed(data, list(range(size, len(data), size)))) == repr(read_log(data))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(SMALL), st.data())
def test_cuts_anywhere_give_the_same_points(sample: Path, data: st.DataObject) -> None:
    content = sample.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=30)))
    assert repr(fed(content, cuts)) == repr(read_log(content))
