"""A verdict on an object's work, and the reading of statuses that the rules of all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from actions.base.untrusted import one_line

Object = Mapping[str, Any]


class WorkState(Enum):
    """Where a piece of work is. Infrastructure that serves (Deployment, PVC, Node) is *running* when it is ready."""

    FINISHED = "finished"
    FAILED = "failed"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True):
    """A state with the API's own reason and message, cleaned; both may be empty."""

    state: WorkState
    reason: str = ""
    message: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the object will not change its state by itself any more."""
        return self.state in (WorkState.FINISHED, WorkState.FAILED)


Rule = Callable[[Object], Verdict]
"""Reads the objects of one kind."""
Rules = Mapping[tuple[str, str], Rule]
"""By API group and kind."""


def condition_of(document: Object, kind: str) -> Object | None:
    """The condition of that type, true or not, or `None`."""
    found = (entry for entry in status_of(document).get("conditions") or () if entry.get("type") == kind)
    return next(found, None)


def status_of(document: Object) -> Object:
    """Its status; empty where there is none."""
    return document.get("status") or {}


def spec_of(document: Object) -> Object:
    """Its spec; empty where there is none."""
    return document.get("spec") or {}


def verdict(state: WorkState, source: Object | None = None, *, reason: str = "", message: str = "") -> Verdict:
    """A verdict with the reason and message of a condition or status; with these where it has none."""
    source = source or {}
    return Verdict(
        state,
        one_line(str(source.get("reason") or reason)),
        one_line(str(source.get("message") or message), limit=1000),
    )


def is_observed(document: Object) -> bool:
    """Whether the status is about the present spec."""
    observed = status_of(document).get("observedGeneration")
    generation = (document.get("metadata") or {}).get("generation")
    return observed is None or generation is None or int(observed) >= int(generation)


def first_true(document: Object, steps: Sequence[tuple[str, WorkState]]) -> Verdict | None:
    """The verdict of the first condition that is true, in the order of `steps`; `None` if none is."""
    for kind, state in steps:
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "True":
            return verdict(state, condition, reason=kind)
    return None
