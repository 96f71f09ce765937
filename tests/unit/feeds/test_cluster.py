"""The account of the credentials comes from STS; having none is an answer that is shown, not a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from tests.unit.cloud.fake_aws import FakeAws, fake_aws
from tui.feeds.cluster import CredentialsFeed


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
