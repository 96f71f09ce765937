"""Recordings of real operators, played moment by moment: the cluster as it was after each change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Document = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "operators"
_VERSIONS = {
    "Pod": "v1",
    "Job": "batch/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayJob": "ray.io/v1",
    "RayCluster": "ray.io/v1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
}
_PARTS = {"labels": "labels", "annotations": "annotations", "owners": "ownerReferences"}


@dataclass
class World:
    """All that there is at one moment."""

    objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    events: list[Document] = field(default_factory=list)
    changed: tuple[str, str] | None = None
    """The object that the last change was of, unless it is gone or the change was an event."""

    def documents(self) -> list[Document]:
        """Everything, as kubectl would list it."""
        return [*self.objects.values(), *self.events]

    def change(self, change: Document) -> None:
        """Take in one line of a recording."""
        kind = change["kind"]
        self.changed = None
        if kind == "Event":
            self.events.append(_event(change["event"]))
        elif change["type"] == "DELETED":
            self.objects.pop((kind, change["name"]), None)
        else:
            self._object(kind, change["name"], change)

    def _object(self, kind: str, full_name: str, change: Document) -> None:
        namespace, _, name = full_name.rpartition("/")
        blank = {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind, "spec": {}, "status": {}}
        self.changed = (kind, full_name)
        found = self.objects.setdefault(self.changed, blank | {"metadata": {"name": name, "namespace": namespace}})
        for part in ("spec", "status"):
            if part in change:
                found[part] = change[part] or {}
        for part, key in _PARTS.items():
            if part in change:
                found["metadata"][key] = change[part] or ([] if part == "owners" else {})


def _event(event: Document) -> Document:
    kind, _, name = event["involvedObject"].partition(" ")
    about = {"kind": kind, "name": name.rpartition("/")[2], "namespace": "default"}
    return {
        "kind": "Event",
        **{key: event[key] for key in ("type", "reason", "message", "count")},
        "involvedObject": about,
    }


def recordings() -> list[Path]:
    """Every recording."""
    return sorted(FOLDER.glob("*/*.jsonl"))


def changes(path: Path) -> Iterator[Document]:
    """Every change of an object, and every event."""
    for line in path.read_text(encoding="utf-8").splitlines():
        change: Document = json.loads(line)
        if change["type"] not in ("ACTION", "NOTE"):
            yield change
