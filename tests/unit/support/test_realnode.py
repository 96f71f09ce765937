"""Clusters of real nodes side by side on one machine."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.realnode.harness import namespaces


def test_of_two_clusters_the_last_one_sets_the_huge_pages_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages, watchers, parent = (tmp_path / name for name in ("pages", "watchers", "parent"))
    pages.write_text("7")
    watchers.write_text("128")
    parent.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    for name, path in (("_HUGE_PAGES", pages), ("_WATCHERS", watchers), ("CGROUPS", tmp_path / "cgroups")):
        monkeypatch.setattr(namespaces, name, path)
    with ExitStack() as second:
        with ExitStack() as first:
            first.enter_context(namespaces._own_folder())
            second.enter_context(namespaces._own_folder())
        assert pages.read_text() == str(namespaces.HUGE_PAGES)
    assert pages.read_text() == "7"
    assert not list(parent.iterdir())
