"""The order in which tests are dealt out, and the record that it follows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.scheduling import FILE, DurationRecorder, start_order, unit_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/unit/base/test_files.py::test_one[a::b]", "tests/unit/base/test_files.py"),
        ("tests/contract/test_words.py::test_one", "tests/contract/"),
        ("tests/contract/test_wheel.py::test_one", "tests/contract/test_wheel.py"),
    ],
)
def test_a_unit_is_a_module_or_the_rules_about_the_code(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_the_longest_start_first_and_the_others_keep_their_order() -> None:
    recorded = {"b.py": 7.0, "d.py": 70.0}
    nodes = ["a.py::x", "b.py::x", "b.py::y", "c.py::x", "d.py::y", "d.py::x"]
    ordered = sorted(nodes, key=lambda node: start_order(node, recorded))
    assert ordered == ["d.py::y", "d.py::x", "b.py::x", "b.py::y", "a.py::x", "c.py::x"]


def test_durations_are_added_by_unit_and_short_units_left_out(tmp_path: Path) -> None:
    recorder = DurationRecorder(tmp_path / "durations.json")
    told = [
        ("a.py::x", 2.0),
        ("b.py::x", 30.4),
        ("a.py::x", 4.0),
        ("c.py::x", 4.9),
        ("tests/contract/test_a.py::x", 5.0),
    ]
    for nodeid, duration in told:
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, duration=duration))
    recorder.pytest_sessionfinish()
    written = json.loads((tmp_path / "durations.json").read_text())
    assert list(written.items()) == [("b.py", 30), ("a.py", 6), ("tests/contract/", 5)]


def test_the_record_names_units_that_there_are() -> None:
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    assert [unit for unit in recorded if not (ROOT / unit).exists() or unit_of(f"{unit}::") != unit] == []
