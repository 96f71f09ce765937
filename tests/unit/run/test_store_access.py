"""The namespace of a run's store in its cluster, as its first runner chooses it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, FormatError
from actions.run.client import load_run
from actions.run.state.records import ClusterName
from actions.run.store import access
from actions.run.store.access import chosen_cluster_store, known_store
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.lease_object import NAMESPACE
from actions.run.store.objects import DamagedError, StoreLease
from tests.unit.run.world import creation, make_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cluster = ClusterName("pretend", "us-west-2", context="anna-ctx", namespace="team")
    return make_run(tmp_path, SystemClock(), created=replace(creation(), cluster=cluster))


def answers(monkeypatch: pytest.MonkeyPatch, answer: ConsoleError) -> None:
    """Let the run's own namespace answer so; this program's has nothing, and would be chosen."""

    async def lease(store: KubernetesStore, _: str) -> StoreLease | None:
        if store.address.endswith(f" {NAMESPACE}"):
            return None
        raise answer

    async def choose(*_: object) -> str:
        return NAMESPACE

    monkeypatch.setattr(KubernetesStore, "lease", lease)
    monkeypatch.setattr(access, "choose_namespace", choose)


async def test_a_damaged_lease_is_a_lease(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, DamagedError("It is damaged.", "1"))
    await chosen_cluster_store(cast(Any, SimpleNamespace(session=None)), folder, load_run(folder))
    assert known_store(folder).namespace == "team"


async def test_an_answer_that_cannot_be_read_chooses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, FormatError("That was no answer of a cluster."))
    with pytest.raises(FormatError):
        await chosen_cluster_store(cast(Any, SimpleNamespace(session=None)), folder, load_run(folder))
    assert not known_store(folder).namespace
