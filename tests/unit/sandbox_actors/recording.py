"""A recording of the real training operator: what it made, in which conditions its job was, what it told."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
Conditions = tuple[tuple[str, str, str, str], ...]
"""Type, status, reason and message of each condition, in order."""

FOLDER = Path(__file__).parents[2] / "fixtures" / "operators" / "training-operator-1.8.1"
_PARTS = ("labels", "annotations", "owners")


@dataclass(slots=True)
class Moment:
    """What the driver of the recording did, and how the job stood just before."""

    text: str
    conditions: list[Conditions]
    """All that the job had been in by then."""
    counts: Document


@dataclass(slots=True)
class Story:
    """What happened, reduced to what does not depend on timing."""

    conditions: list[Conditions] = field(default_factory=list)
    objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    events: set[tuple[str, str, str]] = field(default_factory=set)
    present: set[tuple[str, str]] = field(default_factory=set)
    """Kind and name of what the operator made that is there in the end."""
    counts: Document = field(default_factory=dict)
    """`replicaStatuses` as last seen, without selectors."""

    def see_status(self, status: Document) -> None:
        """Take in a status of the job."""
        seen = tuple(
            (one["type"], one["status"], one["reason"], one["message"]) for one in status.get("conditions") or ()
        )
        if seen and (not self.conditions or self.conditions[-1] != seen):
            self.conditions.append(seen)
        self.counts = {
            role: {name: amount for name, amount in amounts.items() if name != "selector"}
            for role, amounts in (status.get("replicaStatuses") or {}).items()
        }

    def see_object(self, kind: str, name: str, parts: Document) -> None:
        """Take in an object that the operator made; the first of its name counts."""
        self.objects.setdefault((kind, name), parts)
        self.present.add((kind, name))

    def see_end(self, kind: str, name: str) -> None:
        """An object is gone."""
        self.present.discard((kind, name))


@dataclass(slots=True)
class Recording:
    """One scenario."""

    manifest: Document
    moments: list[Moment]
    story: Story


def load(scenario: str) -> Recording:
    """Read a recorded scenario."""
    manifest = yaml.safe_load((FOLDER / f"{scenario}.yaml").read_text(encoding="utf-8"))
    story, moments = Story(), []
    for line in (FOLDER / f"{scenario}.jsonl").read_text(encoding="utf-8").splitlines():
        change = json.loads(line)
        if change["type"] == "ACTION":
            moments.append(Moment(change["text"], list(story.conditions), story.counts))
        elif change.get("kind") == "Event":
            _see_event(story, change["event"])
        elif change.get("kind") == "PyTorchJob":
            story.see_status(change.get("status") or {})
        elif change["type"] == "DELETED":
            story.see_end(change["kind"], change["name"])
        elif change["type"] == "ADDED":
            story.see_object(change["kind"], change["name"], _recorded_parts(change))
    return Recording(manifest, moments[1:], story)


def _see_event(story: Story, event: Document) -> None:
    if event["source"] == "pytorchjob-controller":
        story.events.add((event["type"], event["reason"], event["message"]))


def _recorded_parts(change: Document) -> Document:
    spec = change["spec"]
    kept = {name: change[name] for name in _PARTS if change.get(name)}
    if change["kind"] == "Pod":
        return kept | {
            "restartPolicy": spec["restartPolicy"],
            "env": [tuple(pair) for pair in spec["containers"][0]["env"]],
            "ports": spec["containers"][0]["ports"],
            "init": [
                (one["name"], one["image"], one["command"], one["resources"])
                for one in spec.get("initContainers") or ()
            ],
        }
    return kept | {"spec": {name: value for name, value in spec.items() if name not in ("sessionAffinity", "type")}}


def made_parts(document: Document) -> Document:
    """The same parts of an object that our operator made."""
    metadata, spec = document["metadata"], document["spec"]
    owners = [
        {name: owner[name] for name in ("kind", "name", "controller", "blockOwnerDeletion")}
        for owner in metadata.get("ownerReferences") or ()
    ]
    found = {"labels": metadata.get("labels"), "annotations": metadata.get("annotations"), "owners": owners}
    kept = {name: value for name, value in found.items() if value}
    if document["kind"] == "Pod":
        first = spec["containers"][0]
        return kept | {
            "restartPolicy": spec["restartPolicy"],
            "env": [(one["name"], one["value"]) for one in first["env"]],
            "ports": first["ports"],
            "init": [
                (one["name"], one["image"], one["command"], one["resources"])
                for one in spec.get("initContainers") or ()
            ],
        }
    known = ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "clusterIP", "selector", "ports")
    return kept | {"spec": {name: value for name, value in spec.items() if name in known}}


def pod_change(text: str) -> tuple[str, Document] | None:
    """What an action did to a pod: its name and status; `None` for another action."""
    ended = re.match(
        r"pod (\S+): status subresource patched to phase (\w+), containers terminated with exit code (\d+)", text
    )
    if ended:
        state = {"terminated": {"exitCode": int(ended[3]), "reason": "Error" if int(ended[3]) else "Completed"}}
        return ended[1], _status(ended[2], state, 0)
    evicted = re.match(r"pod (\S+): status subresource patched to phase Failed, reason Evicted", text)
    if evicted:
        return evicted[1], {"phase": "Failed", "reason": "Evicted", "containerStatuses": []}
    restarted = re.match(r"pod (\S+): kubelet-like in-place restart, restartCount (\d+)", text)
    if restarted:
        return restarted[1], _status("Running", {"running": {}}, int(restarted[2]))
    return None


def job_patch(text: str) -> Document | None:
    """What an action merged into the job; `None` for another action."""
    found = re.match(r"PATCH PyTorchJob pj \(merge\) (.*)", text)
    return json.loads(found[1]) if found else None


def running() -> Document:
    """The status that the recording's kubelet gave every pod."""
    return _status("Running", {"running": {}}, 0)


def _status(phase: str, state: Document, restarts: int) -> Document:
    container = {"name": "pytorch", "image": "", "imageID": "", "ready": phase == "Running", "restartCount": restarts}
    return {"phase": phase, "containerStatuses": [container | {"state": state}]}
