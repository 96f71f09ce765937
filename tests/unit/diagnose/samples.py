"""Captured troubles with their expected readings, from `tests/fixtures/corpus/failures`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actions.cluster.diagnose.codes import Finding
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.parse_input import parse_evidence

_CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
LOGS = _CORPUS / "logs"

Document = dict[str, Any]


def samples() -> list[Path]:
    """Every sample, by name."""
    return sorted(path for path in (_CORPUS / "failures").glob("*.json") if not path.name.endswith(".expected.json"))


def load(path: Path) -> Document:
    """The sample."""
    parsed: Document = json.loads(path.read_text(encoding="utf-8"))
    return parsed


def expected_of(path: Path) -> Document:
    """Return the answer of a perfect reader."""
    return load(path.with_suffix(".expected.json"))


def why(document: object) -> list[Finding]:
    """The findings of a sample."""
    case, _ = parse_evidence(json.dumps(document).encode())
    return diagnose(case)


def codes(document: object) -> list[str]:
    """The codes of a sample's findings."""
    return [one.code.value for one in why(document)]


def texts_of(value: object) -> list[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return [text for entry in value.values() for text in texts_of(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in texts_of(entry)]
    return [value] if isinstance(value, str) else []


def is_quoted(piece: str, document: object) -> bool:
    """Return whether the piece stands in the document, as a text or as JSON."""
    return not unquoted([piece], document)


def unquoted(pieces: Iterable[str], document: object) -> list[str]:
    """The pieces that do not stand in the document."""
    texts, whole = texts_of(document), json.dumps(document)
    return [piece for piece in pieces if piece not in whole and not any(piece in text for text in texts)]


def a_pod(name: str = "train-0", *, phase: str = "Pending", node: str = "", **status: Any) -> Document:
    """A pod."""
    spec = {"nodeName": node} if node else {}
    metadata = {"name": name, "namespace": "ml"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase, **status}}


def a_container(restarts: int = 0, *, ready: bool = False, last: Document | None = None, **state: Any) -> Document:
    """The status of a container."""
    return {
        "name": "main",
        "image": "example.test/train:1",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }


def an_event(
    reason: str, message: str, name: str = "train-0", *, kind: str = "Pod", type_: str = "Warning"
) -> Document:
    """An event."""
    about = {"kind": kind, "name": name, "namespace": "ml"}
    return {"kind": "Event", "type": type_, "reason": reason, "message": message, "involvedObject": about, "count": 3}


def unschedulable(message: str, name: str = "train-0", **spec: Any) -> Document:
    """A pod that no node takes."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = a_pod(name, conditions=[condition])
    pod["spec"] = spec
    return pod


def a_node(name: str, instance_type: str, allocatable: Document | None = None, **ready: Any) -> Document:
    """A node."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", **ready}
    labels = {"node.kubernetes.io/instance-type": instance_type}
    status = {"allocatable": allocatable or {}, "conditions": [condition]}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
