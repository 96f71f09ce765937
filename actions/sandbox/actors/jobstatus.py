"""The status of a job while an operator of Kubeflow's works it out, with the events that go with its changes."""

from __future__ import annotations

import msgspec

from actions.sandbox.actors.conditions import condition, moved_to_end
from actions.sandbox.actors.kinds import Document


class Told(msgspec.Struct, frozen=True):
    """One event about the job."""

    reason: str
    message: str
    is_warning: bool = False


class JobStatus(msgspec.Struct):
    """What all operators' statuses have; each operator says what a condition does to the others."""

    job: Document
    now: str
    conditions: list[Document] = msgspec.field(default_factory=list)
    events: list[Told] = msgspec.field(default_factory=list)

    def tell(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Note an event to record once the status is written."""
        self.events.append(Told(reason, message, is_warning))

    def put(self, name: str, reason: str, message: str, *, status: bool) -> bool:
        """Put a condition at the end, unless there is one of the same status and reason. Returns whether it did."""
        made = condition(name, status, reason, message, self.now) | {"lastUpdateTime": self.now}
        before = self.conditions
        self.conditions = moved_to_end(before, made)
        return self.conditions is not before
