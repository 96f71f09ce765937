"""Terraform's JSON event stream, and the progress of an operation computed from it. Pure.

Tolerant by intent: text lines between JSON, unknown types and unknown keys are normal; a half line at the end, a line
of many megabytes, or a line torn by a full disk and joined with the next one is not an error. Only another major
version of the stream is refused.

Terraform writes the state after each resource (to a remote backend, now and then) and reports both ends of every
change. A process that is killed, or interrupted twice, leaves changes without an end, and resources that are in no
state: these are the pending operations.

Source: `terraform plan|apply|destroy -json` of 1.11.4, `ui` version 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from actions.base.errors import FormatError
from actions.base.untrusted import one_line, plain_text, redact

UI_MAJOR = "1"
MESSAGE_LIMIT = 2000


class EventKind(StrEnum):
    """The type of an event, as in the stream; types not listed become OTHER, plain lines TEXT."""

    TEXT = "text"
    OTHER = "other"
    VERSION = "version"
    LOG = "log"
    DIAGNOSTIC = "diagnostic"
    PLANNED_CHANGE = "planned_change"
    RESOURCE_DRIFT = "resource_drift"
    CHANGE_SUMMARY = "change_summary"
    OUTPUTS = "outputs"
    APPLY_START = "apply_start"
    APPLY_PROGRESS = "apply_progress"
    APPLY_COMPLETE = "apply_complete"
    APPLY_ERRORED = "apply_errored"
    PROVISION_START = "provision_start"
    PROVISION_PROGRESS = "provision_progress"
    PROVISION_COMPLETE = "provision_complete"
    PROVISION_ERRORED = "provision_errored"
    REFRESH_START = "refresh_start"
    REFRESH_COMPLETE = "refresh_complete"
    STATE_LOCK_ACQUIRE = "state_lock_acquire"
    STATE_LOCK_RELEASE = "state_lock_release"


_KINDS = {kind.value: kind for kind in EventKind}
_OBJECT_START = b'{"@level":'
"""The beginning of every event, as keys are sorted. Inside of an event's texts its quotes would be escaped."""


class TerraformEvent(msgspec.Struct, frozen=True):
    """One event. All texts are filtered, and secrets in them removed."""

    kind: EventKind
    message: str
    """One line, ready to show."""
    address: str = ""
    """Of its resource."""
    action: str = ""
    """`create`, `update`, `delete`…"""
    elapsed_seconds: float | None = None
    severity: str = ""
    """Of a diagnostic: `error` or `warning`."""
    detail: str = ""
    """Of a diagnostic: the long text, several lines."""
    operation: str = ""
    """Of a change summary: `plan`, `apply` or `destroy`."""
    resource_type: str = ""
    """Type of its resource, as the provider names it: `aws_eks_node_group`."""
    resource_id: str = ""
    """The provider's id of the resource, if the event has it."""
    at: float | None = None
    """Time of writing, in seconds since the epoch; `None` for plain text."""

    @property
    def is_script(self) -> bool:
        """Return whether its message is the text of a script that a `local-exec` is about to run."""
        return self.kind is EventKind.PROVISION_PROGRESS and self.message.startswith("Executing: [")


def read_events(line: bytes) -> Iterator[TerraformEvent]:
    """Read one line of the file, which holds one event, or several if line ends were lost on a full disk.

    Args:
        line: Without the newline; any bytes. The rest of a torn event becomes a text event.

    Raises:
        FormatError: The stream is of another major version.
    """
    if line.find(_OBJECT_START, 1) < 0:
        pieces = [line]
    else:
        first, *rest = line.split(_OBJECT_START)
        pieces = [first, *(_OBJECT_START + piece for piece in rest)]
    for piece in pieces:
        event = read_event(piece)
        if event is not None:
            yield event


def read_event(line: bytes) -> TerraformEvent | None:
    """Read one event.

    Args:
        line: Without the newline; any bytes.

    Returns:
        The event, or `None` for an empty line.

    Raises:
        FormatError: The stream is of another major version.
    """
    text = line.strip()
    if not text:
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _text_event(text)
    if not isinstance(value, dict) or "type" not in value:
        return _text_event(text)
    return _event_of(value)


def _text_event(text: bytes) -> TerraformEvent | None:
    message = _shown(text.decode("utf-8", errors="replace"))
    return TerraformEvent(EventKind.TEXT, message) if message.strip("╷╵│ ") else None


def _event_of(value: dict[str, Any]) -> TerraformEvent:
    kind = _KINDS.get(str(value["type"]), EventKind.OTHER)
    if kind is EventKind.VERSION:
        _require_version(value)
    hook, change, diagnostic = (_mapping(value, key) for key in ("hook", "change", "diagnostic"))
    resource = _mapping(hook or change, "resource")
    changes = _mapping(value, "changes")
    elapsed = hook.get("elapsed_seconds")
    message = diagnostic.get("summary") or hook.get("output") or value.get("@message") or ""
    return TerraformEvent(
        kind,
        _shown(str(message)),
        address=one_line(str(resource.get("addr") or diagnostic.get("address") or "")),
        action=one_line(str(hook.get("action") or change.get("action") or "")),
        elapsed_seconds=float(elapsed) if isinstance(elapsed, int | float) else None,
        severity=one_line(str(diagnostic.get("severity") or "")),
        detail=redact(plain_text(_without_script(str(diagnostic.get("detail") or ""))))[:MESSAGE_LIMIT],
        operation=one_line(str(changes.get("operation") or "")),
        resource_type=one_line(str(resource.get("resource_type") or "")),
        resource_id=redact(one_line(str(hook.get("id_value") or ""))),
        at=_moment(value.get("@timestamp")),
    )


_RAN = re.compile(r"Error running command '.*': (exit status \d{1,9})\. Output: ", re.DOTALL)
"""The beginning of a failed `local-exec`: the whole script stands before what it has printed."""


def _without_script(detail: str) -> str:
    """Return the detail of a diagnostic; of a failed `local-exec` what it printed, not its script."""
    ran = _RAN.match(detail)
    return f"{ran[1]}: {detail[ran.end() :].strip()}" if ran else detail


def _moment(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _require_version(value: dict[str, Any]) -> None:
    version = str(value.get("ui", ""))
    if version.partition(".")[0] != UI_MAJOR:
        raise FormatError(
            f"This Terraform writes its events in version {one_line(version)}, which is not supported.",
            hint="Use Terraform 1.5 to 1.14.",
        )


def _mapping(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _shown(text: str) -> str:
    return redact(one_line(text, limit=MESSAGE_LIMIT))


_HEARD = "Interrupt received."
_HEARD_TWICE = "Two interrupts received."
_STATE_ONLY_PREFIXES = ("random_", "time_", "tls_")
_STATE_ONLY = frozenset({"terraform_data", "null_resource"})
"""With the prefixes above: types whose objects exist in the state alone, unless a provisioner ran for them."""


class ChangeState(StrEnum):
    """The state of a change."""

    PLANNED = "planned"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


VANISHED = "vanished"
"""The action of a pending operation whose resource a destroy did not find: it is in no state, and was not destroyed."""
UNOBSERVED = "unobserved"
"""The action of one that was planned in an apply of another machine, of whose end nothing is known."""


class ChangeProgress(msgspec.Struct):
    """One change of one resource."""

    address: str
    action: str
    """`create`, `update`, `delete`, `replace`, `read`."""
    step: ChangeState
    resource_type: str = ""
    resource_id: str = ""
    has_provisioner: bool = False
    """A provisioner has started for it, and may have had effects that no state holds."""
    error: str = ""


class PendingOperation(msgspec.Struct, frozen=True):
    """A change with an unknown outcome: its resource may exist outside of the state."""

    address: str
    action: str
    """As in the stream, or `VANISHED`, or `UNOBSERVED`."""
    resource_type: str = ""
    resource_id: str = ""
    """The provider's id of it, if the event has it: enough to import it."""


class OperationProgress:
    """The state of one operation, event by event.

    Args:
        operation: `plan`, `apply` or `destroy`.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.is_summarised = False
        """It has printed its summary."""
        self.has_heard = False
        """It has reported an interrupt."""
        self.has_heard_twice = False
        self.is_working = False
        """It is past its preparations, and from here on reports an interrupt at once."""
        self.errors: list[TerraformEvent] = []
        self.began_at: float | None = None
        self.worked_at: float | None = None
        self.drifted_away: dict[str, str] = {}
        """Types of the resources that the refresh did not find, by address."""
        self._planned: dict[str, ChangeProgress] = {}
        self._begun: dict[tuple[str, str], ChangeProgress] = {}

    @classmethod
    def of(cls, operation: str, events: Iterable[TerraformEvent]) -> OperationProgress:
        """Return the progress after all of these events."""
        progress = cls(operation)
        for event in events:
            progress.take(event)
        return progress

    def take(self, event: TerraformEvent) -> None:
        """Take the next event into account."""
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
    def changes(self) -> tuple[ChangeProgress, ...]:
        """Changes that were begun, in order, then those only planned. A replacement is begun twice."""
        begun = {address for address, _ in self._begun}
        waiting = (change for address, change in self._planned.items() if address not in begun)
        return (*self._begun.values(), *waiting)

    @property
    def under_way(self) -> tuple[ChangeProgress, ...]:
        """Changes that were begun and have no end."""
        return tuple(change for change in self._begun.values() if change.step is ChangeState.STARTED)

    @property
    def deletions(self) -> frozenset[str]:
        """Addresses whose deletion was begun, however it ended."""
        return frozenset(address for address, action in self._begun if action == "delete")

    @property
    def creations(self) -> frozenset[str]:
        """Addresses that were made."""
        done = ChangeState.DONE
        return frozenset(item.address for item in self._begun.values() if item.action == "create" and item.step is done)

    @property
    def ended_by_itself(self) -> bool:
        """True if it ended regularly, so that the state was saved or put aside."""
        return self.is_summarised or (bool(self.errors) and not self.has_heard_twice)

    def pending(self, tracked: Collection[str]) -> tuple[PendingOperation, ...]:
        """List resources that it may have made and the state does not track; empty if it ended regularly.

        Resources that were being changed or destroyed are in the state, where the next plan refreshes them.

        Args:
            tracked: Addresses in the state, as it is after the end of the process.
        """
        if self.ended_by_itself:
            return ()
        lost = (change for change in self._begun.values() if _may_be_lost(change) and change.address not in tracked)
        return tuple(
            PendingOperation(change.address, change.action, change.resource_type, change.resource_id) for change in lost
        )

    def vanished(self, before: Collection[str], begun: Collection[str], tracked: Collection[str]) -> list[str]:
        """List resources that left the state without being destroyed: the refresh did not find them.

        A resource whose deletion was begun earlier is expected to be gone, as AWS goes on where a destroy timed out.

        Args:
            before: Addresses of managed resources in the state before the operation.
            begun: Addresses whose deletion an earlier operation has begun.
            tracked: Addresses in the state after it.
        """
        missing = dict.fromkeys((*before, *self.drifted_away))
        expected = {*tracked, *begun, *self.deletions}
        return [address for address in missing if address not in expected]

    def _take_error(self, event: TerraformEvent) -> None:
        self.errors.append(event)
        for change in self._begun.values():
            if change.address == event.address and not change.error:
                change.error = event.message

    def _take_change(self, event: TerraformEvent) -> None:
        match event.kind:
            case EventKind.RESOURCE_DRIFT:
                if event.action == "delete":
                    self.drifted_away[event.address] = event.resource_type
                return
            case EventKind.PLANNED_CHANGE:
                self._planned[event.address] = _change_of(event, ChangeState.PLANNED)
            case EventKind.APPLY_START:
                self._begun[event.address, event.action] = _change_of(event, ChangeState.STARTED)
            case EventKind.APPLY_COMPLETE:
                self._finish(event, ChangeState.DONE)
            case EventKind.APPLY_ERRORED:
                self._finish(event, ChangeState.FAILED)
            case EventKind.PROVISION_START:
                for change in self._begun.values():
                    change.has_provisioner = change.has_provisioner or change.address == event.address
            case EventKind.REFRESH_START:
                pass
            case _:
                return
        self.is_working = self.is_working or event.kind is not EventKind.PLANNED_CHANGE
        self.worked_at = self.worked_at or event.at

    def _finish(self, event: TerraformEvent, step: ChangeState) -> None:
        change = self._begun.setdefault((event.address, event.action), _change_of(event, step))
        change.step = step
        change.resource_id = event.resource_id or change.resource_id


def _change_of(event: TerraformEvent, step: ChangeState) -> ChangeProgress:
    return ChangeProgress(event.address, event.action, step, event.resource_type, event.resource_id)


def _may_be_lost(change: ChangeProgress) -> bool:
    if change.action != "create":
        return False
    is_state_only = change.resource_type in _STATE_ONLY or change.resource_type.startswith(_STATE_ONLY_PREFIXES)
    return change.has_provisioner or not is_state_only
