"""AWS for these tests: the fake one, whatever the machine is logged in to."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.cloud.fake_aws import FakeAws, fake_aws


@pytest.fixture(autouse=True)
def no_real_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Static credentials, empty configuration, an endpoint that nobody answers."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # Of a search with all its clients the first call may take a minute where the machine is slow and busy.
    monkeypatch.setattr("actions.cloud.aws_session._DEADLINE_SECONDS", 600.0)


@pytest.fixture
async def aws(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeAws]:
    """The fake, as the endpoint of every service."""
    async with fake_aws() as fake:
        monkeypatch.setenv("AWS_ENDPOINT_URL", fake.url)
        yield fake
