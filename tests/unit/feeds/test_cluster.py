"""The account of the credentials, which STS names, and costs that follow the snapshot by its changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.fleet.facts import NodeFacts, NodeUsage, Resources
from tests.support.builders import a_node
from tests.unit.cloud.fake_aws import FakeAws, fake_aws
from tui.feeds.cluster import CredentialsFeed, FleetCosts


@pytest.fixture
async def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[FakeAws]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    async with fake_aws() as fake:
        monkeypatch.setenv("AWS_ENDPOINT_URL", fake.url)
        yield fake


async def answered(feed_of: CredentialsFeed, changed: asyncio.Event) -> None:
    """Run the feed until it has an answer."""
    task = asyncio.create_task(feed_of.run(lambda: None))
    try:
        async with asyncio.timeout(60):
            await changed.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def a_feed(changed: asyncio.Event) -> CredentialsFeed:
    return CredentialsFeed(region="us-west-2", clock=SystemClock(), changed=changed.set)


async def test_account_and_expiry_are_known(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2099-11-21T12:00:00Z")
    changed = asyncio.Event()
    feed = a_feed(changed)
    await answered(feed, changed)
    assert len(feed.account) == 12
    assert feed.expires_at == datetime(2099, 11, 21, 12, tzinfo=UTC).timestamp()
    assert feed.trouble == ""


async def test_no_credentials_is_one_sentence(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    changed = asyncio.Event()
    feed = a_feed(changed)
    await answered(feed, changed)
    assert (feed.account, feed.expires_at) == ("", None)
    assert "credentials" in feed.trouble
    assert "\n" not in feed.trouble


MODEL = CostModel.load(region="us-west-2")


def _picture(
    nodes: dict[str, NodeFacts], usage: dict[str, NodeUsage], log: ChangeLog, *, revision: int
) -> ClusterSnapshot:
    return ClusterSnapshot(revision=revision, nodes=dict(nodes), usage=dict(usage), history=log)


def test_following_changes_ends_where_looking_at_all_does() -> None:
    dice, log = random.Random(3), ChangeLog()
    nodes: dict[str, NodeFacts] = {}
    usage: dict[str, NodeUsage] = {}
    view = FleetCosts(MODEL)
    for revision in range(1, 200):
        for _ in range(dice.randint(0, 3)):
            name = f"n{dice.randint(0, 15)}"
            log.node(name)
            match dice.randint(0, 2):
                case 0:
                    nodes.pop(name, None)
                case 1:
                    kind = dice.choice(["g5.12xlarge", "m5.xlarge", "x9.mystery"])
                    nodes[name] = a_node(name, instance_type=kind)
                case _:
                    usage[name] = NodeUsage(Resources(gpu=dice.randint(0, 4)), 1)
        log.close(revision - 1, revision)
        if dice.random() < 0.7:
            picture = _picture(nodes, usage, log, revision=revision)
            assert view.total(picture) == MODEL.fleet_cost(nodes.values(), usage)
            assert view.costs(picture).keys() == nodes.keys()


def test_another_cluster_begins_anew() -> None:
    view = FleetCosts(MODEL)
    view.total(_picture({"a": a_node("a")}, {}, ChangeLog(), revision=1))
    other = _picture({"b": a_node("b")}, {}, ChangeLog(), revision=1)
    assert view.costs(other).keys() == {"b"}
    assert view.total(other).nodes == 1
