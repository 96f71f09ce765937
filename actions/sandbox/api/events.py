"""An event in the words of `events.k8s.io/v1`; it is stored in those of the core group.

Source: k8s.io/kubernetes `pkg/apis/events/v1/conversion.go`.
"""

from __future__ import annotations

from actions.sandbox.api.codec import Object

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}


def as_new_event(event: Object) -> Object:
    """The same event under its other names."""
    return {_RENAMED.get(name, name): value for name, value in event.items()} | {"apiVersion": "events.k8s.io/v1"}
