"""The same troubles in the words of other versions, tools and libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.parse_input import parse_evidence
from tests.unit.diagnose.samples import Document, is_quoted, why

_FILE = Path(__file__).parents[2] / "fixtures" / "diagnose" / "wordings.jsonl"
_TOLD = _FILE.read_text(encoding="utf-8").splitlines()
WORDINGS: list[tuple[str, Document]] = [(told["code"], told["document"]) for told in map(json.loads, _TOLD)]


_LINES = [f"{code} line {number}" for number, (code, _) in enumerate(WORDINGS, 1)]


@pytest.mark.parametrize(("code", "document"), WORDINGS, ids=_LINES)
def test_other_words_have_the_same_code(code: str, document: Document) -> None:
    found = why(document)
    assert [one.code.value for one in found][:1] == [code]
    assert all(is_quoted(quote, document) for one in found for quote in one.evidence)


NAMED = [(told["says"], told["document"]) for told in map(json.loads, _TOLD) if "says" in told]


@pytest.mark.parametrize(("says", "document"), NAMED)
def test_the_headline_names_the_cause(says: str, document: Document) -> None:
    assert says in why(document)[0].headline


def _as_kubectl_prints(document: Document) -> Document | None:
    """The objects of a document as one List; `None` for one that holds more than objects."""
    kinds = {"pods": "Pod", "nodes": "Node", "events": "Event"}
    if not document.keys() <= kinds.keys():
        return None
    items: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": kind, **entry} for part, kind in kinds.items() for entry in document.get(part, [])
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}


LISTS = [(code, printed) for code, document in WORDINGS if (printed := _as_kubectl_prints(document)) is not None]


@pytest.mark.parametrize(("code", "printed"), LISTS)
def test_what_kubectl_prints_of_it_has_the_same_code(code: str, printed: Document) -> None:
    case, _ = parse_evidence(json.dumps(printed).encode())
    assert [one.code.value for one in diagnose(case)][:1] == [code]


@pytest.mark.parametrize(("code", "printed"), [(code, one) for code, one in LISTS if len(one["items"]) == 1])
def test_a_single_object_has_the_same_code(code: str, printed: Document) -> None:
    case, _ = parse_evidence(json.dumps(printed["items"][0]).encode())
    assert [one.code.value for one in diagnose(case)][:1] == [code]


def test_a_job_of_ray_that_fails_is_explained_by_its_program_not_by_those_who_submit_it_again() -> None:
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "data", "namespace": "default"},
        "status": {
            "jobDeploymentStatus": "Failed",
            "jobStatus": "FAILED",
            "reason": "AppFailed",
            "message": "exit code 1",
        },
    }
    logs = (
        "RuntimeError: Dataset scripts are no longer supported, but found wikicorpus.py\n"
        "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed.\n"
        "RuntimeError: Request failed with status code 500: Traceback (most recent call last):\n"
        "    raise RuntimeError(\n"
        "RuntimeError: Request failed with status code 400: Traceback (most recent call last):\n"
        "    raise ValueError(\n"
        "ValueError: Job with submission_id data-abcde already exists. Please use a different submission_id.\n"
    )
    found = why({"jobs": [job], "logs": logs})
    assert found[0].headline.endswith("Dataset scripts are no longer supported, but found wikicorpus.py")


def test_pods_of_a_gang_that_karpenter_does_not_see_are_named() -> None:
    def head(*conditions: Document) -> Document:
        spec = {"schedulerName": "volcano", "containers": [{"name": "ray-head"}]}
        status = {"phase": "Pending", "conditions": list(conditions)}
        return {
            "kind": "Pod",
            "metadata": {"name": "rc-head-x", "namespace": "default"},
            "spec": spec,
            "status": status,
        }

    group: Document = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ray-rc-pg", "namespace": "default"},
        "spec": {"minMember": 3, "queue": "trainq"},
        "status": {"phase": "Pending"},
    }
    missing_queue = why({"items": [group, head()]})
    assert missing_queue[0].code.value == "QUEUE_WAITING"
    assert "Karpenter starts no node for rc-head-x" in missing_queue[0].next_step
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "pod group is not ready",
    }
    seen = why({"items": [group, head(refused)]})
    assert all("Karpenter" not in one.next_step for one in seen)
