"""What all tests share: a program of their own, and an environment that does not leak in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.known_secrets import KNOWN
from actions.base.readonly import withdraw_readonly
from tests.support.program import Program


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "NO_COLOR", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    KNOWN.forget()
    withdraw_readonly()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The real program; its sandbox and runners end with the test."""
    started = Program(tmp_path)
    yield started
    started.end_all()


@pytest.fixture(scope="module")
def shared_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Like `program`, one for a module."""
    started = Program(tmp_path_factory.mktemp("program"))
    yield started
    started.end_all()
