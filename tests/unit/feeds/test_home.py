"""The feeds of the home pane: what is computed, when, and that nothing is computed twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.blueprint.catalogue import Catalogue
from actions.cluster.auth.kubeconfig import ClusterTarget
from tests.unit.feeds.waits import Turning, Waits, until
from tui.feeds.home import HomeFeed

_BLUEPRINTS = Path(__file__).parents[3] / "blueprints"


def a_feed(clock: Turning) -> tuple[HomeFeed, Waits]:
    waits = Waits()
    return HomeFeed(clock, waits.changed.set), waits


async def test_each_blueprint_gets_the_cost_of_its_launch_once() -> None:
    found = tuple(Catalogue((_BLUEPRINTS,)).read()[0])
    feed, waits = a_feed(Turning())
    feed.plan(found, lambda _: "")
    await until(waits, lambda: len(feed.costs) == len(found))
    revision = feed.revision
    feed.plan(found, lambda _: "")
    real = feed.costs["nemo-gpt3-5b"]
    feed.plan((*found,), lambda known: "rehearsal" if "rehearsal" in known else "")
    await until(waits, lambda: feed.costs["nemo-gpt3-5b"].is_simulated)

    assert real.accelerators == "16 A100"
    assert real.usd_per_hour == feed.costs["nemo-gpt3-5b"].usd_per_hour
    assert real.usd_high is not None
    assert not real.is_simulated
    assert revision == len(found)
    feed.close()


async def test_contexts_come_from_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none") if name == "HOME" else "")
    file = tmp_path / "config"
    file.write_text("contexts: [{name: b, context: {cluster: c2}}, {name: a, context: {cluster: c1}}]\n")
    feed, waits = a_feed(Turning())
    target = ClusterTarget(file)
    feed.read_contexts(target, target)
    await until(waits, lambda: feed.contexts is not None)
    assert list(feed.contexts or ()) == [("a", "c1"), ("b", "c2")]
    feed.read_contexts(ClusterTarget(), ClusterTarget())
    await until(waits, lambda: bool(feed.contexts_error))

    assert list(feed.contexts or ()) == []
    feed.close()
