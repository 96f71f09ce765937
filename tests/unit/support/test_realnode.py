"""Clusters of real nodes side by side on one machine, and the histories that are compared."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.realnode.harness import namespaces
from tests.realnode.history import Seen, history_of


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


def _told(reason: str, message: str) -> Seen:
    event = {
        "kind": "Event",
        "metadata": {"name": f"js.{reason}", "resourceVersion": "1"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "JobSet", "name": "js"},
        "reportingComponent": "jobset",
    }
    return Seen(event, is_there=True)


def test_what_an_operator_makes_a_second_time_is_no_part_of_a_history() -> None:
    """JobSet 0.12.0 reconciled before its cache had the Jobs that it had made."""
    twice = [f'job "js-node-{i}" creation failed with error: jobs.batch "js-node-{i}" already exists' for i in (0, 1)]
    assert history_of([_told("JobCreationFailed", "\n".join(twice))]) == {}
    other = 'job "js-node-0" creation failed with error: jobs.batch "js-node-0" is forbidden: exceeded quota'
    assert history_of([_told("JobCreationFailed", f"{other}\n{twice[1]}")]) != {}
