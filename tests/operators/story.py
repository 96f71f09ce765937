"""The history of the objects of one scenario, reduced to what does not depend on timing."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
Document = dict[str, Any]
Thing = tuple[str, str]
"""Kind and `namespace/name`; generated suffixes are written `<r1>`, `<r2>`."""
Told = tuple[str, str, str, str, str]
"""An event: type, reason, message, source, and the object that it is about."""
Essence = Callable[[str, Document], object]
"""The part of a status (of a kind) that is followed step by step."""

_LOQUACITY = 25
"""The number of events of one source about one object that a recorder passes on; it drops what comes soon after."""
_PARTS = ("labels", "annotations", "owners", "finalizers", "generateName", "spec")
"""Of an object, in the form of the recordings."""


def copied(value: T) -> T:
    """A deep copy of plain data; `copy.deepcopy` takes five times as long."""
    copy: T = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    return copy


@dataclass(slots=True)
class Life:
    """One object from its creation to its end; another object of the same name is another life."""

    born: Document
    """Its parts when it was made."""
    now: Document
    """Its parts as last seen."""
    is_gone: bool = False


def conditions_of(_kind: str, status: Document) -> object:
    """Type, status, reason and message of each condition, in their order."""
    return [
        (one.get("type"), one.get("status"), one.get("reason", ""), one.get("message", ""))
        for one in status.get("conditions") or ()
    ]


@dataclass(slots=True)
class Story:
    """Folds changes, each in the form of a recording's line.

    Args:
        essence: What of a status makes a step.
        followed: The kinds whose status is followed; of others only their parts are.
        sources: The components whose events count.
    """

    essence: Essence
    followed: frozenset[str]
    sources: frozenset[str]
    lives: dict[Thing, list[Life]] = field(default_factory=dict)
    steps: dict[Thing, list[object]] = field(default_factory=dict)
    """The distinct essences of a status, one after the other."""
    statuses: dict[Thing, Document] = field(default_factory=dict)
    """As last seen; still there when the object is gone."""
    made: dict[str, list[Thing]] = field(default_factory=dict)
    """Owner (`Kind name`) → what was made for it, in order."""
    events: set[Told] = field(default_factory=set)
    tellings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Source and object → how often that source told of that object."""

    def see(self, change: Document) -> None:
        """Take in one change."""
        if "event" in change:
            self._see_event(change["event"])
            return
        thing = (change["kind"], change["name"])
        match change["type"]:
            case "ADDED":
                self._begin(thing, change)
            case "MODIFIED" if self._life(thing) is not None:
                self._change(thing, change)
            case "DELETED":
                self._end(thing)

    def _begin(self, thing: Thing, change: Document) -> None:
        parts = {part: change[part] for part in _PARTS if change.get(part)}
        self.lives.setdefault(thing, []).append(Life(parts, copied(parts)))
        for owner in change.get("owners") or ():
            self.made.setdefault(f"{owner['kind']} {owner['name']}", []).append(thing)
        self._see_status(thing, change.get("status") or {})

    def _change(self, thing: Thing, change: Document) -> None:
        life = self._life(thing)
        assert life is not None
        for part in _PARTS:
            if change.get(part):
                life.now[part] = change[part]
            elif part in change:
                life.now.pop(part, None)
        if "status" in change:
            self._see_status(thing, change["status"] or {})

    def _end(self, thing: Thing) -> None:
        life = self._life(thing)
        if life is not None:
            life.is_gone = True

    def _life(self, thing: Thing) -> Life | None:
        lives = self.lives.get(thing)
        return lives[-1] if lives and not lives[-1].is_gone else None

    def _see_status(self, thing: Thing, status: Document) -> None:
        if thing[0] not in self.followed:
            return
        self.statuses[thing] = status
        step = self.essence(thing[0], status)
        steps = self.steps.setdefault(thing, [])
        if step and (not steps or steps[-1] != step):
            steps.append(step)

    def _see_event(self, event: Document) -> None:
        if event["source"] in self.sources:
            self.tellings[event["source"], event["involvedObject"]] += 1
            self.events.add(
                (event["type"], event["reason"], event["message"], event["source"], event["involvedObject"])
            )

    def present(self) -> dict[Thing, Document]:
        """Return the objects that are there, by their parts as they are at this moment."""
        alive = {thing: self._life(thing) for thing in self.lives}
        return {thing: life.now for thing, life in alive.items() if life is not None}

    def standing(self) -> Document:
        """Return the state of things: what is there, what each status went through, how it is. A copy."""
        return copied({"present": self.present(), "steps": self.steps, "statuses": self.statuses})

    def summary(self) -> Document:
        """The whole story as plain data (copied), for a comparison with another."""
        born = {thing: [life.born for life in lives] for thing, lives in self.lives.items()}
        return self.standing() | copied({"made": self.made, "born": born, "events": self.events})

    def is_complete(self, told: Told) -> bool:
        """Return whether all that the source of an event has reported about its object can be in the story."""
        return self.tellings[told[3], told[4]] < _LOQUACITY
