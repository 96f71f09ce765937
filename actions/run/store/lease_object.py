"""A run's lease as a `coordination.k8s.io/v1` Lease of its cluster: name, labels, and what a reader takes from it.

`spec.leaseTransitions` is the epoch, `holderIdentity` the owner and machine, `renewTime` the heartbeat; the document is
JSON in an annotation. Whoever may write Leases in the namespace can write one of these: it is limited in size and
filtered, and nothing is done by it but to show it, and to end a runner whose run another machine has taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actions.base.clock import stamp_seconds
from actions.base.errors import FormatError
from actions.base.names import is_label, is_subdomain
from actions.base.untrusted import one_line, redact
from actions.blueprint.render import MANAGED_BY, MANAGER
from actions.run.store.objects import StoreLease, lease_document

NAMESPACE = "eksml-tui"
"""The namespace of stores, where the user may have one of its own."""
EVERYWHERE = "/apis/coordination.k8s.io/v1/leases"
STORE_LABEL = "eksml.dev/store"
"""Not the label of a run's objects, by which the audit of a teardown searches."""
LABELS = {MANAGED_BY: MANAGER, STORE_LABEL: "run"}
SELECTOR = f"{STORE_LABEL}={LABELS[STORE_LABEL]}"
"""Label selector of the Leases of all runs."""
NAME_PREFIX = "eksml-run-"
DOCUMENT = "eksml.dev/lease"
"""The annotation with the document."""
STOPPED_NOTE = "eksml.dev/parked"
"""The annotation with the note of the watchdog, which is a program of its own (`actions.run.watchdog.script.NOTE`)."""
_LONGEST_TEXT = 300
_MOST_ENTRIES = 50


def lease_name(run_id: str) -> str:
    """Return the name of a run's Lease."""
    return f"{NAME_PREFIX}{run_id}"


def leases_path(namespace: str) -> str:
    """Return the path of the API with the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def run_id_of(document: Mapping[str, Any]) -> str:
    """Return the id of the run whose Lease this is; empty for another object."""
    metadata = _mapping(document.get("metadata"))
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    is_ours = _mapping(metadata.get("labels")).get(STORE_LABEL) == LABELS[STORE_LABEL]
    if not (is_ours and is_label(namespace) and name.startswith(NAME_PREFIX) and is_subdomain(name)):
        return ""
    return name.removeprefix(NAME_PREFIX)


def read_lease_object(document: Mapping[str, Any], *, now: float | None = None) -> StoreLease:
    """Read a Lease.

    Args:
        document: As the API server gave it.
        now: Seconds since the epoch by the API server's clock, for the age; `None` if that is not known.

    Raises:
        FormatError: It is something else.
    """
    run_id = run_id_of(document)
    metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
    text = _mapping(metadata.get("annotations")).get(DOCUMENT)
    if not run_id or not isinstance(text, str):
        raise FormatError(f"Lease {one_line(str(metadata.get('name')))} is not that of a run.")
    found = lease_document(text.encode(), run_id)
    epoch = spec.get("leaseTransitions")
    if epoch != found.epoch:
        raise FormatError(f"Lease {lease_name(run_id)} has epoch {epoch!r}, and {found.epoch} in its document.")
    at = written_at(metadata) or stamp_seconds(spec.get("renewTime"))
    age = max(0.0, now - at) if now is not None else 0.0
    return StoreLease(found, one_line(str(metadata.get("resourceVersion") or "")), at, age)


def stopped_note(document: Mapping[str, Any]) -> str:
    """Return the note of the watchdog on a Lease, on one line; empty without one."""
    note = _mapping(_mapping(document.get("metadata")).get("annotations")).get(STOPPED_NOTE)
    return one_line(redact(note), limit=_LONGEST_TEXT) if isinstance(note, str) else ""


def written_at(metadata: Mapping[str, Any]) -> float:
    """Return the time of this program's last write by the API server's clock, seconds since the epoch; 0 if unknown."""
    managed = metadata.get("managedFields")
    entries = managed[:_MOST_ENTRIES] if isinstance(managed, list) else []
    times = [
        stamp_seconds(entry.get("time"))
        for entry in entries
        if isinstance(entry, dict) and str(entry.get("manager")).startswith(MANAGER)
    ]
    return max(times, default=0.0)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
