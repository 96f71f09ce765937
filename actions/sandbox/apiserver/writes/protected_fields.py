"""The parts of an object that a writer does not decide: its type and place, and those that its path does not reach."""

from __future__ import annotations

from typing import Any

from actions.sandbox.apiserver.storage.codec import Object, clone, dig
from actions.sandbox.apiserver.storage.errors import bad_request
from actions.sandbox.apiserver.storage.resources import ServedResource

_COUNTED_GROUPS = frozenset({"apps", "batch", "policy", "networking.k8s.io", "apiextensions.k8s.io", "autoscaling"})
_SERVER_OWNED = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "name")


def check_type(resource: ServedResource, body: Any) -> None:
    """Refuse a body of another type than the path's; fill in the type of one that names none.

    Raises:
        StatusError: 400.
    """
    if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
        raise bad_request("the request's body is not an object")
    found = (body.setdefault("apiVersion", resource.api_version), body.setdefault("kind", resource.kind))
    if found != (resource.api_version, resource.kind):
        raise bad_request(
            f"the API version and kind in the data ({found[0]}, {found[1]}) do not match the expected ones "
            f"({resource.api_version}, {resource.kind})"
        )
    body["metadata"] = body.get("metadata") or {}


def check_namespace(resource: ServedResource, namespace: str, metadata: Object) -> None:
    """Put an object into the namespace of its path.

    Raises:
        StatusError: 400, it names another one.
    """
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request: "
            f"{metadata['namespace']}, {namespace}"
        )


def writable_part(resource: ServedResource, wanted: Object, subresource: str) -> Object:
    """Return the part that an applier may own through this path: status only through its subresource."""
    if subresource == "status":
        return {name: wanted[name] for name in ("apiVersion", "kind", "metadata", "status") if name in wanted}
    return {name: value for name, value in wanted.items() if name != "status" or not resource.has_status}


def with_protected_parts(resource: ServedResource, before: Object, after: Object, subresource: str) -> Object:
    """`after` with everything put back that this path may not change."""
    if subresource == "status":
        kept = {**before, "metadata": {**before["metadata"]}}
        if "managedFields" in after["metadata"]:
            kept["metadata"]["managedFields"] = after["metadata"]["managedFields"]
        kept.pop("status", None)
        body = clone(kept)
        if "status" in after:
            body["status"] = after["status"]
        return body
    if resource.has_status:
        after.pop("status", None)
        if "status" in before:
            after["status"] = clone({"status": before["status"]})["status"]
    for name in _SERVER_OWNED:
        after["metadata"].pop(name, None)
        if name in before["metadata"]:
            after["metadata"][name] = before["metadata"][name]
    after["metadata"].setdefault("managedFields", before["metadata"].get("managedFields", []))
    return after


def keep_terminating(before: Object, after: Object) -> None:
    """Keep an object that is being deleted from gaining finalizers; it may lose them."""
    if not before["metadata"].get("deletionTimestamp"):
        return
    allowed = before["metadata"].get("finalizers") or []
    kept = [name for name in after["metadata"].get("finalizers") or [] if name in allowed]
    if kept:
        after["metadata"]["finalizers"] = kept
    else:
        after["metadata"].pop("finalizers", None)


def is_released(body: Object) -> bool:
    """Return whether a terminating object can go: no finalizer, no kubelet with containers to end."""
    if body["metadata"].get("finalizers"):
        return False
    if body["kind"] == "Namespace" and body["apiVersion"] == "v1":
        return not dig(body, "spec", "finalizers")
    return not body["metadata"].get("deletionGracePeriodSeconds")


def has_generation(resource: ServedResource) -> bool:
    """Return whether changes of the spec are counted."""
    return resource.is_custom or resource.group in _COUNTED_GROUPS or resource.key == ("", "pods")


def counted_part(body: Object, resource: ServedResource) -> Object:
    """The part of an object whose changes are counted."""
    left_out = ("metadata", "status") if resource.has_status else ("metadata",)
    return {name: value for name, value in body.items() if name not in left_out}


def is_same(before: Object, after: Object) -> bool:
    """Return whether only the times of ownership differ."""
    return _comparable(before) == _comparable(after)


def _comparable(body: Object) -> Object:
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    metadata["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    return {**body, "metadata": metadata}
