"""Every pane in every state of its data, as text: one file for a pane and a size, reviewed as those of the screens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support import fixed_runs
from tests.support.builders import a_node, a_pod, a_snapshot
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import MONOTONIC, Scene, a_fixed_console
from tests.support.snapshots import difference, is_updating, rows, without_tabs
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.screens.workspace import PANES

FILES = Path(__file__).parent / "states"
SMALL, MIDDLE, LARGE, NARROW = (80, 24), (120, 36), (200, 50), (40, 12)
ORDER = ("blueprints", *(pane for pane in PANES if pane != "blueprints"))
_BORDER = "╭─"
"""A pane that is just opened has none yet."""
_MANY = 400
_ADDRESS = "https://4F2A77.gr7.us-west-2.eks.amazonaws.com"

Make = Callable[[Path], Scene]


def empty(_: Path) -> Scene:
    """A cluster without nodes, pods and runs."""
    return Scene(a_snapshot())


def loading(_: Path) -> Scene:
    """A cluster that has not answered yet."""
    return Scene(health=FeedHealth(FeedState.STARTING, since=MONOTONIC))


def error(_: Path) -> Scene:
    """A cluster that never answered."""
    detail = f"{_ADDRESS} cannot be reached: timed out. Check the network and VPN."
    return Scene(health=FeedHealth(FeedState.WAITING, detail, MONOTONIC - 42))


def forbidden(_: Path) -> Scene:
    """A cluster that refuses to list anything."""
    detail = 'nodes is forbidden: User "ada" cannot list resource "nodes" in API group "" at the cluster scope'
    return Scene(health=FeedHealth(FeedState.REFUSED, detail, MONOTONIC - 42))


def one(folder: Path) -> Scene:
    """One node, one pod, one run."""
    node = a_node("ip-10-1-32-7")
    pod = a_pod("train-0", node="ip-10-1-32-7")
    view = fixed_runs.a_training_run()
    return Scene(a_snapshot([node], [pod]), view=view, folder=folder, summaries=fixed_runs.summaries(folder)[:1])


def many(folder: Path) -> Scene:
    """A run that trains, among hundreds of pods."""
    fixed_runs.store_training(folder / RUN)
    known = picture()
    crowd = [a_pod(f"eval-{number}", namespace="batch", node="", phase="Pending", gpu=1) for number in range(_MANY)]
    snapshot = replace(known, pods={**known.pods, **{pod.key: pod for pod in crowd}})
    view, summaries = fixed_runs.a_training_run(), fixed_runs.summaries(folder)
    return Scene(snapshot, view=view, folder=folder / RUN, summaries=summaries)


def stale(folder: Path) -> Scene:
    """The cluster has answered, and does so no more."""
    scene = many(folder)
    scene.health = FeedHealth(FeedState.WAITING, f"{_ADDRESS} cannot be reached: timed out.", MONOTONIC - 42)
    return scene


STATES = (empty, loading, error, forbidden, one, many, stale)
SHOTS = {SMALL: STATES, MIDDLE: STATES, LARGE: (many,), NARROW: (many,)}
"""The widest screen has room for whatever the others say of a cluster that is empty, silent or refuses."""


def file_of(pane: str, size: tuple[int, int]) -> Path:
    """The file of a pane."""
    return FILES / f"{pane}-{size[0]}x{size[1]}.txt"


@pytest.mark.parametrize("size", SHOTS, ids=str)
async def test_every_pane_in_every_state(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    lines: dict[str, list[str]] = {pane: [] for pane in ORDER}
    for make in SHOTS[size]:
        folder = tmp_path / make.__name__
        folder.mkdir()
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, str(folder / "home"))
        async with a_fixed_console(make(folder), monkeypatch, size=size) as console:
            for pane in ORDER:
                await console.line(f"open {pane}")
                await console.calm(_BORDER)
                lines[pane] += [f"==== {make.__name__} ====", *rows(without_tabs(console.app, console.drawn))]
    told = "\n\n".join(filter(None, (difference(file_of(pane, size), lines[pane], tmp_path) for pane in ORDER)))
    assert not told, f"{told}\n\nIf this is how it shall be: make snapshots, and look at the files before the commit."


def test_every_file_is_of_a_pane() -> None:
    unknown = set(FILES.glob("*")) - {file_of(pane, size) for pane in ORDER for size in SHOTS}
    for file in unknown if is_updating() else ():
        file.unlink()
    assert is_updating() or not unknown, f"no test takes {sorted(file.name for file in unknown)}"
