"""All that the replay needs of an operator."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from actions.sandbox.apiserver.writes.admission import AdmissionPlugin
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import Kind
from tests.operators.story import Document, Essence, Story, conditions_of

if TYPE_CHECKING:
    from tests.operators.world import World

Performer = Callable[["World", re.Match[str]], Awaitable[None]]
"""Does what an ACTION line says; the match is of that line."""

FIXTURES = Path(__file__).parents[1] / "fixtures" / "operators"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ours and the recordings of the real one."""

    version: str
    """The name of the folder with its recordings."""
    resources: tuple[Kind, ...]
    """The custom resources whose status is followed; the first is the one that manifests create."""
    made: tuple[Kind, ...]
    """The kinds that it makes beside pods."""
    definitions: Callable[[], Sequence[Document]]
    """The CRDs to create first."""
    controllers: Callable[[ApiClient, Caches], Sequence[Controller]]
    """The controllers that act, beside the scheduler; they must not wait for its own Deployment."""
    sources: frozenset[str]
    """The components whose events are compared."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Recordings that are not re-enacted, and why."""
    essence: Essence = conditions_of
    """The part of a status that is followed step by step."""
    followed: tuple[Kind, ...] = ()
    """Further kinds whose status is followed."""
    beginnings: tuple[str, ...] = ()
    """The beginnings of generated names that are no object's `generateName`."""
    performers: Mapping[str, Performer] = field(default_factory=dict)
    """Regular expression of an ACTION line → what to do, tried before those of every operator."""
    watched: tuple[Kind, ...] = ()
    """Further kinds that its controllers watch."""
    webhooks: tuple[AdmissionPlugin, ...] = ()
    """Its admission webhooks."""
    settled: Callable[[Document], Document] = lambda standing: standing
    """Takes out of a standing or a summary what depends on timing; applied to the recorded one and to ours."""

    def scenarios(self, folder: Path = FIXTURES) -> list[str]:
        """Every recorded scenario that is re-enacted."""
        there = sorted(path.stem for path in (folder / self.version).glob("*.jsonl"))
        return [name for name in there if name not in self.left_out]

    def story(self) -> Story:
        """An empty story."""
        followed = frozenset(kind.kind for kind in (*self.resources, *self.followed))
        return Story(self.essence, followed, self.sources)


@cache
def definitions_in(manifest: Path) -> list[Document]:
    """The CRDs in a manifest of the mirror; nobody changes them."""
    documents = yaml.load_all(manifest.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [one for one in documents if one and one["kind"] == "CustomResourceDefinition"]
