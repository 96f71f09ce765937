"""One subject, one file name: in feeds, present functions, panes, and their tests."""

from __future__ import annotations

from typing import get_args

from actions.command.arguments import PaneName
from tests.support.sources import ROOT

LAYERS = ("feeds", "present", "panes")
ELSEWHERE = {
    "tui/feeds/nodes": "tui/feeds/cluster.py: nodes, pods and events are of one snapshot",
    "tui/feeds/pods": "tui/feeds/cluster.py: nodes, pods and events are of one snapshot",
    "tui/feeds/events": "tui/feeds/cluster.py: nodes, pods and events are of one snapshot",
    "tui/feeds/run": "tui/feeds/runs.py: the run on screen is one of the list",
    "tui/feeds/charts": "tui/feeds/output.py: points are read from the output whose lines are shown, too",
    "tui/feeds/cost": "tui/feeds/home.py: its sums are on Home, too",
    "tui/feeds/queues": "tui/panes/queues.py: one pane asks while it is visible",
    "tui/present/logs": "tui/widgets/log_renderer.py: lines are drawn from bytes, not from cells",
    "tests/unit/panes/test_logs": "tests/unit/screens/test_reading.py: it is read by commands of the whole screen",
}
"""By the path of a file that there is not: where its content is, and why."""


def modules_of(layer: str) -> set[str]:
    """Return the names of all modules and packages of a package of `tui`."""
    folder = ROOT / "tui" / layer
    return {path.stem for path in folder.rglob("*") if path.suffix == ".py" or path.is_dir()}


def is_there(path: str) -> bool:
    return (ROOT / f"{path}.py").exists() or (ROOT / path / "__init__.py").exists()


def test_a_pane_its_feed_its_rows_and_its_test_have_one_name() -> None:
    expected = {
        *(f"tui/{layer}/{pane}" for layer in LAYERS for pane in get_args(PaneName)),
        *(f"tests/unit/panes/test_{pane}" for pane in get_args(PaneName)),
    }
    without = {path for path in expected if not is_there(path)}
    assert without == set(ELSEWHERE), "give the files these names, or write into ELSEWHERE where that is, and why"


def test_what_is_elsewhere_is_there() -> None:
    places = {reason.partition(": ")[0] for reason in ELSEWHERE.values()}
    assert {place for place in places if not (ROOT / place).exists()} == set()


def test_a_test_has_the_name_of_its_module() -> None:
    strange = {
        str(path.relative_to(ROOT))
        for layer in LAYERS
        for path in (ROOT / "tests" / "unit" / layer).glob("test_*.py")
        if path.stem.removeprefix("test_") not in modules_of(layer)
    }
    assert strange == set(), "what concerns several panes is in tests/unit/screens"
