"""Objects, lists and watch events as API servers write them in protobuf, made of the JSON samples."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from actions.cluster.protobuf_schema import CLASSES, Message

Document = dict[str, Any]


def enveloped(inner: bytes) -> bytes:
    """An object in its envelope."""
    return b"k8s\0" + bytes(CLASSES["Unknown"](raw=inner).SerializeToString())


def framed(kind: str, inner: bytes) -> bytes:
    """One frame of a watch."""
    extension = CLASSES["RawExtension"](raw=enveloped(inner))
    event: bytes = CLASSES["WatchEvent"](type=kind, object=extension).SerializeToString()
    return len(event).to_bytes(4, "big") + event


def list_of(items: list[bytes], version: str, *, following: str = "") -> bytes:
    """A list in its envelope."""
    meta = CLASSES["ListMeta"](resource_version=version, following=following)
    return enveloped(CLASSES["List"](metadata=meta, items=items).SerializeToString())


def bookmark_of(version: str, *, ends_initial: bool = False) -> bytes:
    """A bookmark as a frame."""
    annotations = [CLASSES["Text"](key="k8s.io/initial-events-end", value="true")] if ends_initial else []
    meta = CLASSES["HeadMeta"](resource_version=version, annotations=annotations)
    return framed("BOOKMARK", CLASSES["Head"](metadata=meta).SerializeToString())


def status_of(code: int, reason: str, message: str, *, retry_after_seconds: int = 0) -> bytes:
    """A Status, not in an envelope."""
    details = CLASSES["StatusDetails"](retry_after_seconds=retry_after_seconds)
    status: bytes = CLASSES["Status"](code=code, reason=reason, message=message, details=details).SerializeToString()
    return status


def pod_bytes(document: Document) -> bytes:
    """A pod, with its resource version, which our own narrow pod does not hold."""
    pod = CLASSES["Pod"](
        metadata=_meta(document["metadata"]), spec=_spec(document.get("spec") or {}), status=_status(document)
    )
    head = CLASSES["HeadMeta"](resource_version=document["metadata"].get("resourceVersion", ""))
    return bytes(pod.SerializeToString()) + bytes(CLASSES["Head"](metadata=head).SerializeToString())


def _time(text: str | None) -> Message | None:
    return CLASSES["Time"](seconds=int(datetime.fromisoformat(text).timestamp())) if text else None


def _bytes_of(message: Message | None) -> bytes | None:
    return None if message is None else bytes(message.SerializeToString())


def _meta(meta: Document) -> Message:
    labels = [CLASSES["Text"](key=key, value=value) for key, value in (meta.get("labels") or {}).items()]
    owners = [
        CLASSES["Owner"](
            api_version=owner.get("apiVersion"),
            kind=owner["kind"],
            name=owner["name"],
            controller=owner.get("controller"),
        )
        for owner in meta.get("ownerReferences") or ()
    ]
    return CLASSES["Meta"](
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        uid=meta.get("uid", ""),
        created=_bytes_of(_time(meta.get("creationTimestamp"))),
        deleted=_bytes_of(_time(meta.get("deletionTimestamp"))),
        labels=[label.SerializeToString() for label in labels],
        owners=[owner.SerializeToString() for owner in owners],
    )


def _amounts(amounts: dict[str, str] | None) -> list[Message]:
    return [CLASSES["Amount"](key=key, value=CLASSES["Quantity"](text=value)) for key, value in (amounts or {}).items()]


def _spec(spec: Document) -> Message:
    return CLASSES["Spec"](
        node=spec.get("nodeName", ""),
        containers=[_container(entry) for entry in spec.get("containers") or ()],
        init=[_container(entry) for entry in spec.get("initContainers") or ()],
        overhead=_amounts(spec.get("overhead")),
        resources=_resources(spec),
    )


def _container(entry: Document) -> Message:
    return CLASSES["Container"](
        name=entry["name"],
        restart_policy=entry.get("restartPolicy"),
        resources=_resources(entry),
    )


def _resources(entry: Document) -> bytes:
    requests = (entry.get("resources") or {}).get("requests")
    data: bytes = CLASSES["Resources"](requests=_amounts(requests)).SerializeToString()
    return data


def _status(document: Document) -> Message:
    status = document.get("status") or {}
    return CLASSES["PodStatus"](
        phase=status.get("phase", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        conditions=[
            CLASSES["Condition"](**{name: entry.get(name, "") for name in ("type", "status", "reason", "message")})
            for entry in status.get("conditions") or ()
        ],
        containers=[_container_status(entry) for entry in status.get("containerStatuses") or ()],
        init=[_container_status(entry) for entry in status.get("initContainerStatuses") or ()],
    )


def _container_status(entry: Document) -> Message:
    state = entry.get("state") or {}
    parts: dict[str, Message] = {}
    if (waiting := state.get("waiting")) is not None:
        parts["waiting"] = CLASSES["Waiting"](reason=waiting.get("reason", ""), message=waiting.get("message", ""))
    if (running := state.get("running")) is not None:
        parts["running"] = CLASSES["Running"](started=_time(running.get("startedAt")))
    if (ended := state.get("terminated")) is not None:
        parts["terminated"] = CLASSES["Terminated"](
            exit_code=ended.get("exitCode", 0),
            signal=ended.get("signal", 0),
            reason=ended.get("reason", ""),
            message=ended.get("message", ""),
            started=_time(ended.get("startedAt")),
        )
    return CLASSES["ContainerStatus"](
        name=entry["name"],
        ready=entry.get("ready"),
        started=entry.get("started"),
        restarts=entry.get("restartCount", 0),
        state=_bytes_of(CLASSES["State"](**parts)),
    )
