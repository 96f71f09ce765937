"""Objects that are made before a pod, by the kinds that do not make pods alone."""

from __future__ import annotations

import msgspec

from actions.sandbox.clientkit.kinds import Document, Kind


class Made(msgspec.Struct, frozen=True):
    """An object that goes with a pod.

    Args:
        kind: Its kind.
        document: The object, without namespace and owner.
        pod: The pod that owns it; empty for the job.
        told: Reason and message of the event that it has been made; `None` for none.
        ends: It goes once the job has ended.
    """

    kind: Kind
    document: Document
    pod: str = ""
    told: tuple[str, str] | None = None
    ends: bool = False


def empty_set(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Document:
    """A StatefulSet without pods of its own."""
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "pod", "image": "pod"}]}}
    spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    about = {"annotations": annotations} if annotations else {}
    return {"metadata": {"name": name, "labels": labels} | about, "spec": spec}
