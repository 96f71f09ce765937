"""Pods as controllers create and delete them, with the events of it, and the collector of pods whose node is gone."""

from __future__ import annotations

import copy
import random
import string
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from actions.cluster.pod_roles import PodRole
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import NODES, PODS, Document, Kind, key_of, owner_reference, uid_of

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of Kubernetes' name suffixes: no vowels, no letter that is easily taken for another."""


class PodControl:
    """Makes pods of a template for one kind of owner.

    Args:
        client: The API.
        caches: A new pod is put in at once, so that it is counted before the watch brings it.
        kind: Of the owners.
        source: The component that events name.
    """

    def __init__(self, client: ApiClient, caches: Caches, kind: Kind, *, source: str) -> None:
        self._client = client
        self._caches = caches
        self._kind = kind
        self._source = source

    async def create(self, owner: Document, pod: Document, *, reason: str = "SuccessfulCreate") -> bool:
        """Make a pod that `owner` controls. Returns whether it is new."""
        pod["metadata"]["namespace"] = owner["metadata"]["namespace"]
        pod["metadata"]["ownerReferences"] = [owner_reference(owner)]
        made = await self._client.create(PODS, pod)
        if made is None:
            return False
        self._caches[PODS].upsert(made)
        message = f"Created pod: {made['metadata']['name']}"
        await self._client.record_event(owner, self._kind, reason, message, source=self._source)
        return True

    async def delete(self, owner: Document, pod: Document, *, reason: str = "SuccessfulDelete") -> None:
        """Delete a pod, and record the event."""
        if await self._client.delete(PODS, key_of(pod), uid=uid_of(pod)):
            message = f"Deleted pod: {pod['metadata']['name']}"
            await self._client.record_event(owner, self._kind, reason, message, source=self._source)


def pod_of(template: Document, name: str) -> Document:
    """A pod as a template describes it, with a name."""
    metadata = copy.deepcopy(template.get("metadata") or {})
    kept = {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)}
    return {"metadata": {"name": name, "labels": {}} | kept, "spec": copy.deepcopy(template["spec"])}


def pod_of_role(role: PodRole, name: str) -> Document:
    """A pod of a job's role, with a name."""
    return pod_of(dict(role.template), name)


def add_variables(pod: Document, variables: Mapping[str, str], *, are_first: bool = False) -> None:
    """Give all containers of a pod environment variables, behind or before those that they have."""
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        own = container.get("env") or []
        container["env"] = [*added, *own] if are_first else [*own, *added]


def suffix(length: int = 5) -> str:
    """A random name suffix as Kubernetes makes them."""
    return "".join(random.choice(_SUFFIX_LETTERS) for _ in range(length))


def template_hash(template: Document) -> str:
    """A short name for a template that is the same for the same template, whatever is written as empty in it."""

    number = zlib.crc32(msgspec.json.encode(_without_empty(template), order="deterministic"))
    letters = string.digits + "bcdfghjklmnpqrstvwxz"
    digits = ""
    while number and len(digits) < 10:
        number, rest = divmod(number, len(letters))
        digits += letters[rest]
    return digits or "0"


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(inner) for name, inner in value.items() if inner is not None}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def phase_of(pod: Document) -> str:
    """The pod's phase; `Pending` before it has one."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_pod_ready(pod: Document) -> bool:
    """Return whether the pod's Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class PodGarbageCollector(Controller):
    """Deletes pods that are bound to a node which no longer exists."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[NODES].listen(self._on_node)

    def _on_node(self, node: Document) -> None:
        self.wake(node["metadata"]["name"])

    async def reconcile(self, key: str) -> float | None:
        """Delete the pods of a node that is gone."""
        if self._caches[NODES].get(key) is not None:
            return None
        for pod in list(self._caches[PODS].objects.values()):
            if pod["spec"].get("nodeName") == key:
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod), grace_seconds=0)
        return None
