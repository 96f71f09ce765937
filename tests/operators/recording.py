"""A recording of a real operator: the manifests, what its driver did, and how things stood before each act."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.operators.normalise import comparable
from tests.operators.story import Document, Story

_TIMED = ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
"""Fields after which something happens by itself: acts must then keep their distance."""


@dataclass(frozen=True, slots=True)
class Act:
    """An act of the driver after the manifests were created.

    `standing` is how things stood just before, `at_seconds` when, since the creation.
    """

    text: str
    at_seconds: float
    standing: Document


@dataclass(frozen=True, slots=True)
class Recording:
    """One scenario. `story` is the whole of it, `lasted_seconds` from the creation to the last line."""

    manifests: list[Document]
    acts: list[Act]
    story: Story
    lasted_seconds: float
    keeps_time: bool
    """True if something in it depends on the time that passes."""


def load(folder: Path, scenario: str, story: Story) -> Recording:
    """Read a recorded scenario into an empty story."""
    text = (folder / f"{scenario}.yaml").read_text(encoding="utf-8")
    manifests = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    acts: list[Act] = []
    begun = last = 0.0
    for change in _changes(folder / f"{scenario}.jsonl"):
        last = change["t"]
        if change["type"] == "NOTE":
            continue
        if change["type"] == "ACTION":
            begun = begun or last
            acts.append(Act(change["text"], last - begun, story.standing()))
            continue
        story.see(comparable(change))
    return Recording(manifests, acts[1:], story, last - begun, any(name in text for name in _TIMED))


def _changes(path: Path) -> Iterator[Document]:
    for line in path.read_text(encoding="utf-8").splitlines():
        change: Document = json.loads(line)
        yield change
