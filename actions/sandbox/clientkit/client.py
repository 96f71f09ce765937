"""The client of controllers and kubelet: the few forms in which they read and write the API."""

from __future__ import annotations

from typing import Any

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConflictError, MissingError
from actions.cluster.auth.session import KubeSession, decode_document
from actions.sandbox.clientkit.kinds import EVENTS, Document, Kind, key_of, uid_of

_MERGE = "application/merge-patch+json"
_REMEMBERED_EVENTS = 4096


class ApiClient:
    """A client of the API on one session, which also writes events.

    Args:
        session: The API server's.
        clock: For the times in events.
    """

    def __init__(self, session: KubeSession, clock: Clock) -> None:
        self.session = session
        self.clock = clock
        self._events: dict[tuple[str, str, str], tuple[str, int]] = {}
        """(uid of the object, reason, message) → event's key and count, to count a repetition instead of adding."""

    def timestamp(self) -> str:
        """Now, as Kubernetes writes times."""
        return format_rfc3339(self.clock.now())

    async def create(self, kind: Kind, document: Document) -> Document | None:
        """Make an object; `None` if one of that name is there already."""
        namespace = document["metadata"].get("namespace", "")
        body = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind} | document)
        path = kind.path(namespace=namespace)
        try:
            return decode_document(await self.session.request("POST", path, body=body), source=path)
        except ConflictError:
            return None

    async def read(self, kind: Kind, key: str) -> Document | None:
        """The object as the server has it, `None` if it is gone."""
        try:
            return await self.session.get(kind.path(key))
        except MissingError:
            return None

    async def patch(self, kind: Kind, key: str, change: Document, *, subresource: str = "") -> Document | None:
        """Merge a change into an object; `None` if it is gone."""
        path = kind.path(key) + (f"/{subresource}" if subresource else "")
        try:
            answer = await self.session.request("PATCH", path, body=msgspec.json.encode(change), content_type=_MERGE)
        except MissingError:
            return None
        return decode_document(answer, source=path)

    async def patch_status(self, kind: Kind, document: Document, status: dict[str, Any]) -> Document | None:
        """Merge a change into an object's status; `None` if it, or the object of that uid, is gone.

        Raises:
            ConflictError: Another object has taken the name.
        """
        change = {"metadata": {"uid": uid_of(document)}, "status": status}
        return await self.patch(kind, key_of(document), change, subresource="status")

    async def delete(
        self,
        kind: Kind,
        key: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Request deletion; of dependents too, by default afterwards. Return whether there was such an object."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self.session.request("DELETE", kind.path(key), body=msgspec.json.encode(options))
        except (MissingError, ConflictError):
            return False
        return True

    async def bind(self, pod: Document, node: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": uid_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        await self.session.request("POST", path, body=msgspec.json.encode(body))

    async def record_event(self, about: Document, kind: Kind, reason: str, message: str, *, source: str,
                     is_warning: bool = False) -> None:  # fmt: skip
        """Record an event about an object, or count it once more."""
        signature = (uid_of(about), reason, message)
        known = self._events.get(signature)
        now = self.timestamp()
        if known is not None:
            event_key, count = known[0], known[1] + 1
            self._events[signature] = (event_key, count)
            if await self.patch(EVENTS, event_key, {"count": count, "lastTimestamp": now}) is not None:
                return
        event = _event(about, kind, reason, message, source=source, is_warning=is_warning, now=now)
        event["metadata"]["name"] += f".{abs(hash((*signature, self.clock.monotonic()))):016x}"
        made = await self.create(EVENTS, event)
        if made is not None:
            self._events[signature] = (key_of(made), 1)
            if len(self._events) > _REMEMBERED_EVENTS:
                del self._events[next(iter(self._events))]


def _event(
    about: Document, kind: Kind, reason: str, message: str, *, source: str, is_warning: bool, now: str
) -> Document:
    metadata = about["metadata"]
    return {
        "metadata": {"name": metadata["name"], "namespace": metadata.get("namespace", "default")},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": uid_of(about),
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": "Warning" if is_warning else "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": source},
        "reportingComponent": source,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
