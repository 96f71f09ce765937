"""Clusters of real nodes side by side on one machine, and the histories that are compared."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.realnode.harness import namespaces
from tests.realnode.history import Document, Seen, history_of


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


_TWICE = '"js-node-0" creation failed with error: jobs.batch "js-node-0" already exists'
_CONFLICT = 'Operation cannot be fulfilled on jobsets.jobset.x-k8s.io "js": the object has been modified; please apply'
_UNREACHED = (
    'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: connection refused'
)
_REFUSED = 'job "js-node-1" creation failed with error: jobs.batch "js-node-1" is forbidden: exceeded quota'


@pytest.mark.parametrize(
    ("message", "is_told"),
    [
        (f"job {_TWICE}\njob {_TWICE}", False),  # JobSet 0.12.0 reconciled before its cache had the Jobs it had made
        ('launcher pod created failed: jobs.batch "mj-launcher" already exists', False),
        ('services "js" already exists', False),
        (f"Error creating: {_UNREACHED}", False),
        (f"TrainJob resources reconciliation failed: {_CONFLICT}", False),
        (_REFUSED, True),
        (f"{_REFUSED}\njob {_TWICE}", True),
        ('Resource "mj" of Kind "Service" already exists and is not managed by MPIJob', True),
    ],
)
def test_what_fails_in_passing_is_no_part_of_a_history(message: str, is_told: bool) -> None:
    assert bool(history_of([_told("CreationFailed", message)])) is is_told


def test_jobs_of_volcano_and_of_kubernetes_with_one_name_have_histories_of_their_own() -> None:
    metadata = {"name": "same", "resourceVersion": "1"}
    theirs: Document = {"apiVersion": "batch.volcano.sh/v1alpha1", "status": {"state": {"phase": "Running"}}}
    ours: Document = {"apiVersion": "batch/v1", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    shown: Document = {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {}}}}
    told = history_of(Seen(shown | one, is_there=True) for one in (theirs, ours))
    assert told["Job.batch.volcano.sh same: steps"] == ["Running"]
    assert told["Job same: steps"] == [[["Complete", "True", "", ""]]]
