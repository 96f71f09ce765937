"""A capture that is whole at its end, however late its thread comes to write it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the thread as long as a loaded machine makes it take, not for a second only."""
    monkeypatch.setattr("actions.capture.writer._JOIN_SECONDS", 60.0)
