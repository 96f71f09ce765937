"""Terraform's machine-readable stream: one line to one event.

Tolerant by intent: text lines between JSON, unknown types and unknown keys are normal; a half line at the end, or a
line of many megabytes, is no error, nor is a line that a full disk has torn and that has the next one glued to it. Only
another major version of the stream is refused.

Source: `terraform plan|apply|destroy -json` of 1.11.4, `ui` version 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from actions.base.errors import FormatError
from actions.base.untrusted import one_line, plain_text, redact

UI_MAJOR = "1"
MESSAGE_LIMIT = 2000


class EventKind(StrEnum):
    """What an event says, in the words of the stream; those not listed become OTHER, plain lines TEXT."""

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
"""How every event begins: the keys are sorted. Inside of an event's texts its quotes would be escaped."""


class TerraformEvent(msgspec.Struct, frozen=True):
    """One event. All texts are cleaned, and secrets in them removed."""

    kind: EventKind
    message: str
    """One line, ready to show."""
    address: str = ""
    """Of the resource that it is about."""
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
    """Of the resource that it is about, as the provider names it: `aws_eks_node_group`."""
    resource_id: str = ""
    """The provider's id of the resource, where the event says it."""
    at: float | None = None
    """When it was written, in seconds since the epoch; `None` for plain text."""


def read_events(line: bytes) -> Iterator[TerraformEvent]:
    """Read one line of the file, which holds one event, or several if line ends were lost on a full disk.

    Args:
        line: Without the newline; any bytes. What is left of a torn event is given as text.

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
        detail=redact(plain_text(str(diagnostic.get("detail") or "")))[:MESSAGE_LIMIT],
        operation=one_line(str(changes.get("operation") or "")),
        resource_type=one_line(str(resource.get("resource_type") or "")),
        resource_id=redact(one_line(str(hook.get("id_value") or ""))),
        at=_moment(value.get("@timestamp")),
    )


def _moment(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _require_version(value: dict[str, Any]) -> None:
    version = str(value.get("ui", ""))
    if version.partition(".")[0] != UI_MAJOR:
        raise FormatError(
            f"This Terraform writes its events in version {one_line(version)}, which is not known.",
            hint="Use Terraform 1.5 to 1.14.",
        )


def _mapping(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _shown(text: str) -> str:
    return redact(one_line(text, limit=MESSAGE_LIMIT))
