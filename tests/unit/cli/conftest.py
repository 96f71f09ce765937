"""A machine on which nobody is logged in, and the sandbox's account for those who ask AWS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.sandboxes import account_of
from tests.unit.sandbox.controllers.server import cloud_alone

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "KUBECONFIG")


@pytest.fixture
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in _CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.fixture
async def account(_nobody: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The account of a sandbox, which the environment names."""
    monkeypatch.setattr("actions.run.capacity_survey._SECONDS", 120.0)  # a busy machine may be slow
    folder = tmp_path / "sandbox"
    folder.mkdir()
    async with cloud_alone(folder):
        for name, value in account_of(folder).items():
            monkeypatch.setenv(name, value)
        yield
