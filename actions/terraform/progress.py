"""The progress of an operation, from its events; and the resources it may have made that no state knows of. Pure.

Terraform writes the state after each resource (to a remote backend, now and then) and tells both ends of every change.
A process that is killed, or interrupted twice, leaves changes without their end, and made ones that are in no state:
these are the pending operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from actions.terraform.events import EventKind, TerraformEvent

_HEARD = "Interrupt received."
_HEARD_TWICE = "Two interrupts received."
_STATE_ONLY_PREFIXES = ("random_", "time_", "tls_")
_STATE_ONLY = frozenset({"terraform_data", "null_resource"})
"""With the prefixes above: types whose objects exist in the state alone, unless a provisioner ran for them."""


class Step(StrEnum):
    """How far a change has come."""

    PLANNED = "planned"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


class Change(msgspec.Struct):
    """One change of one resource."""

    address: str
    action: str
    """`create`, `update`, `delete`, `replace`, `read`."""
    step: Step
    resource_type: str = ""
    resource_id: str = ""
    has_provisioner: bool = False
    """A provisioner began for it: it may have had effects that no state tells."""
    error: str = ""


class PendingOperation(msgspec.Struct, frozen=True):
    """A change whose outcome nobody knows: what it made may exist outside of the state."""

    address: str
    action: str
    resource_type: str = ""
    resource_id: str = ""
    """The provider's id of it, if it was told: enough to import it."""


class Progress:
    """The state of one operation, event by event.

    Args:
        operation: `plan`, `apply` or `destroy`.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.is_summarised = False
        """It has told its end."""
        self.has_heard = False
        """It has told that it was asked to stop."""
        self.has_heard_twice = False
        self.is_working = False
        """It is past its preparations: from here on it tells at once that it is asked to stop."""
        self.errors: list[TerraformEvent] = []
        self.began_at: float | None = None
        self.worked_at: float | None = None
        self._planned: dict[str, Change] = {}
        self._begun: dict[tuple[str, str], Change] = {}

    @classmethod
    def of(cls, operation: str, events: Iterable[TerraformEvent]) -> Progress:
        """The progress after all of these events."""
        progress = cls(operation)
        for event in events:
            progress.take(event)
        return progress

    def take(self, event: TerraformEvent) -> None:
        """Look at the next event."""
        if event.at is not None and self.began_at is None:
            self.began_at = event.at
        match event.kind:
            case EventKind.LOG:
                self.has_heard_twice = self.has_heard_twice or event.message.startswith(_HEARD_TWICE)
                self.has_heard = self.has_heard or self.has_heard_twice or event.message.startswith(_HEARD)
            case EventKind.DIAGNOSTIC if event.severity == "error":
                self._take_error(event)
            case EventKind.CHANGE_SUMMARY:
                self.is_summarised = self.is_summarised or event.operation == self.operation
            case _ if event.address:
                self._take_change(event)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those that were begun, in order, then those that were only planned. A replacement is begun twice."""
        begun = {address for address, _ in self._begun}
        waiting = (change for address, change in self._planned.items() if address not in begun)
        return (*self._begun.values(), *waiting)

    @property
    def under_way(self) -> tuple[Change, ...]:
        """Those that were begun and whose end was not told."""
        return tuple(change for change in self._begun.values() if change.step is Step.STARTED)

    @property
    def ended_by_itself(self) -> bool:
        """True if it came to an end of its own, at which the state was saved or put aside."""
        return self.is_summarised or (bool(self.errors) and not self.has_heard_twice)

    def pending(self, tracked: Collection[str]) -> tuple[PendingOperation, ...]:
        """List what it may have made that nothing tracks; empty if it ended by itself.

        What was being changed or destroyed is in the state, and the next plan looks at it.

        Args:
            tracked: Addresses in the state, as it is after the end of the process.
        """
        if self.ended_by_itself:
            return ()
        lost = (change for change in self._begun.values() if _may_be_lost(change) and change.address not in tracked)
        return tuple(
            PendingOperation(change.address, change.action, change.resource_type, change.resource_id) for change in lost
        )

    def _take_error(self, event: TerraformEvent) -> None:
        self.errors.append(event)
        for change in self._begun.values():
            if change.address == event.address and not change.error:
                change.error = event.message

    def _take_change(self, event: TerraformEvent) -> None:
        match event.kind:
            case EventKind.PLANNED_CHANGE:
                self._planned[event.address] = _change_of(event, Step.PLANNED)
            case EventKind.APPLY_START:
                self._begun[event.address, event.action] = _change_of(event, Step.STARTED)
            case EventKind.APPLY_COMPLETE:
                self._finish(event, Step.DONE)
            case EventKind.APPLY_ERRORED:
                self._finish(event, Step.FAILED)
            case EventKind.PROVISION_START:
                for change in self._begun.values():
                    change.has_provisioner = change.has_provisioner or change.address == event.address
            case EventKind.REFRESH_START:
                pass
            case _:
                return
        self.is_working = self.is_working or event.kind is not EventKind.PLANNED_CHANGE
        self.worked_at = self.worked_at or event.at

    def _finish(self, event: TerraformEvent, step: Step) -> None:
        change = self._begun.setdefault((event.address, event.action), _change_of(event, step))
        change.step = step
        change.resource_id = event.resource_id or change.resource_id


def _change_of(event: TerraformEvent, step: Step) -> Change:
    return Change(event.address, event.action, step, event.resource_type, event.resource_id)


def _may_be_lost(change: Change) -> bool:
    if change.action != "create":
        return False
    is_state_only = change.resource_type in _STATE_ONLY or change.resource_type.startswith(_STATE_ONLY_PREFIXES)
    return change.has_provisioner or not is_state_only
