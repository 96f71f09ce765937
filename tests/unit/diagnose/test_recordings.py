"""Every moment of every recording of a real operator: what would the operator be told, and is it true?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actions.cluster.diagnose.codes import Code, Finding, Severity
from actions.cluster.diagnose.engine import diagnose_each
from actions.cluster.diagnose.evidence import clean_json
from actions.cluster.diagnose.parse_input import evidence_of
from actions.cluster.diagnose.select import drop_events_of_deleted_objects
from actions.cluster.objects.status_rules import ObjectStatus, WorkState, object_status
from tests.unit.diagnose.recordings import World, changes, recordings
from tests.unit.diagnose.samples import unquoted

_OPERATORS = ("PyTorchJob", "MPIJob")
_ROOTS = (*_OPERATORS, "RayJob", "RayCluster")
_ENDS = {"Succeeded": WorkState.FINISHED, "Failed": WorkState.FAILED}


def _told(clean: World) -> list[Finding]:
    return diagnose_each(drop_events_of_deleted_objects(evidence_of(clean.documents())))


def _is_true(document: dict[str, Any], kind: str) -> bool:
    conditions = document["status"].get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _check_verdict(document: dict[str, Any], verdict: ObjectStatus) -> None:
    """An end is told exactly when the operator has recorded it."""
    if document["kind"] in _OPERATORS:
        ended = next((state for kind, state in _ENDS.items() if _is_true(document, kind)), None)
        assert (verdict.state if verdict.is_final else None) == ended
        if _is_true(document, "Running") and ended is None:
            assert verdict.state is WorkState.RUNNING
    if document["kind"] == "RayJob":
        deployment = document["status"].get("jobDeploymentStatus")
        assert verdict.is_final == (deployment in ("Complete", "Failed"))


def _check_findings(world: World, verdicts: dict[tuple[str, str], ObjectStatus], told: list[Finding]) -> None:
    roots = [verdict.state for (kind, _), verdict in verdicts.items() if kind in _ROOTS]
    pods = [document for (kind, _), document in world.objects.items() if kind == "Pod"]
    is_fine = all(document["status"].get("phase") in ("Running", "Succeeded") for document in pods)
    has_failed = any(verdict.state is WorkState.FAILED for verdict in verdicts.values())
    if roots and pods and is_fine and not has_failed and not _has_restarts(pods):
        assert [one for one in told if one.severity is not Severity.INFO] == []
    if any(one.code in (Code.JOB_FAILED, Code.JOB_DEADLINE) for one in told):
        assert has_failed or any("alidation" in quote for one in told for quote in one.evidence)
    quotes = {quote for one in told for quote in one.evidence}
    assert not quotes or unquoted(quotes, world.documents()) == []


def _has_restarts(pods: list[dict[str, Any]]) -> bool:
    return any(one.get("restartCount") for pod in pods for one in pod["status"].get("containerStatuses") or ())


@pytest.mark.parametrize("path", recordings(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_moment_of_a_recording_is_misread(path: Path) -> None:
    world, clean = World(), World()
    verdicts: dict[tuple[str, str], ObjectStatus] = {}
    for change in changes(path):
        world.change(change)
        clean.change(clean_json(change))  # the same as the cleaned world, cleaned once
        if world.changed is not None:
            verdicts[world.changed] = object_status(world.objects[world.changed])
            _check_verdict(world.objects[world.changed], verdicts[world.changed])
        verdicts = {key: verdict for key, verdict in verdicts.items() if key in world.objects}
        _check_findings(world, verdicts, _told(clean))
    assert clean.documents() == clean_json(world.documents())


def test_a_job_that_has_failed_is_always_told() -> None:
    silent = []
    for path in recordings():
        last, clean = World(), World()
        for change in changes(path):
            last.change(change)
            clean.change(clean_json(change))
        verdicts = {key: object_status(document) for key, document in last.objects.items()}
        if any(v.state is WorkState.FAILED for (kind, _), v in verdicts.items() if kind in _ROOTS) and not _told(clean):
            silent.append(path.stem)
    assert silent == []
