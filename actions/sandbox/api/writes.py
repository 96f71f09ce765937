"""Creating and changing objects: everything between a decoded body and the store."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from actions.base.clock import Clock, format_rfc3339
from actions.sandbox.api import definitions, schema, status
from actions.sandbox.api.apply import apply_object
from actions.sandbox.api.codec import Object, clone, dig, encode, metadata_of
from actions.sandbox.api.defaulting import default_builtin
from actions.sandbox.api.options import WriteOptions
from actions.sandbox.api.ownership import APPLY, UPDATE, Manager, track_update
from actions.sandbox.api.resources import GroupResource, Registry, ResourceType
from actions.sandbox.api.shapes import shape_of
from actions.sandbox.api.status import Cause
from actions.sandbox.api.store import Store, Stored
from actions.sandbox.api.validation import immutable_causes, metadata_causes, object_causes

NAMESPACES = GroupResource("", "namespaces")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_KEEPS_STATUS_ON_CREATE = frozenset({GroupResource("", "nodes")})
_COUNTED_GROUPS = frozenset({"apps", "batch", "policy", "networking.k8s.io", "apiextensions.k8s.io", "autoscaling"})
_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
_SERVER_OWNED = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "name")


class Writer:
    """The write path of the server. A call either stores a complete object or raises and changes nothing."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    def now(self) -> str:
        """The wall time as objects carry it."""
        return format_rfc3339(self._clock.now())

    def find(self, resource: ResourceType, namespace: str, name: str) -> Stored:
        """The stored object.

        Raises:
            ApiFault: 404.
        """
        stored = self._store.get(resource.key, namespace, name)
        if stored is None:
            raise status.not_found(resource, name)
        return stored

    def create(self, resource: ResourceType, namespace: str, body: Object, options: WriteOptions) -> Stored:
        """Store a new object.

        Raises:
            ApiFault: 400, 403, 404 (its namespace), 409, 422.
        """
        self._prepare_new(resource, namespace, body)
        manager = Manager(options.manager, UPDATE, resource.api_version)
        return self._store_new(resource, namespace, body, options, manager)

    def replace(self, resource: ResourceType, namespace: str, name: str, body: Object, options: WriteOptions) -> Stored:
        """Store a new version of an object.

        Raises:
            ApiFault: 400, 404, 409 (it was changed since), 422.
        """
        before = self.find(resource, namespace, name)
        check_type(resource, body)
        return self._store_change(resource, before, body, options)

    def change(
        self, resource: ResourceType, namespace: str, name: str, edit: Callable[[Object], Object], options: WriteOptions
    ) -> Stored:
        """Store what `edit` makes of a copy of an object.

        Raises:
            ApiFault: as `replace`, and what `edit` raises.
        """
        before = self.find(resource, namespace, name)
        after = edit(clone(before.body))
        if not isinstance(after.get("metadata"), dict):
            raise status.bad_request("the patch removed the object's metadata")
        return self._store_change(resource, before, after, options)

    def rewrite(self, stored: Stored, edit: Callable[[Object], Object]) -> Stored:
        """Store what `edit` makes of an object, past all rules: for what the server itself decides."""
        return self._store.put(stored.key, stored.namespace, stored.name, edit(clone(stored.body)))

    def apply(
        self, resource: ResourceType, namespace: str, name: str, wanted: Object, options: WriteOptions
    ) -> tuple[Stored, bool]:
        """Server-side apply; the second value tells whether the object was created.

        Raises:
            ApiFault: as `create` and `replace`; 409 with causes where others own fields.
        """
        check_type(resource, wanted)
        metadata_of(wanted).setdefault("name", name)
        if wanted["metadata"].get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
        self._check_unknown(resource, wanted, options)
        before = self._store.get(resource.key, namespace, name)
        manager = Manager(options.manager, APPLY, resource.api_version, options.subresource)
        shape, own_part = shape_of(resource), _writable_part(resource, wanted, options.subresource)
        if before is None:
            if options.subresource:
                raise status.not_found(resource, name)
            self._prepare_new(resource, namespace, wanted)
            empty: Object = {"metadata": {}}
            body = apply_object(empty, own_part, shape, manager, resource=resource, force=True, now=self.now())
            body = {**body, "apiVersion": resource.api_version, "kind": resource.kind}
            body["metadata"] = {**wanted["metadata"], **body["metadata"]}
            return self._store_new(resource, namespace, body, options, None), True
        live = clone(before.body)
        body = apply_object(live, own_part, shape, manager, resource=resource, force=options.force, now=self.now())
        return self._store_change(resource, before, body, options, is_tracked=True), False

    def _prepare_new(self, resource: ResourceType, namespace: str, body: Object) -> None:
        check_type(resource, body)
        metadata = metadata_of(body)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(_SUFFIX_ALPHABET, k=5))
        _check_namespace(resource, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            self._require_namespace(resource, namespace, metadata.get("name", ""))
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        if _has_generation(resource):
            metadata["generation"] = 1
        if resource.has_status and resource.key not in _KEEPS_STATUS_ON_CREATE:
            body.pop("status", None)

    def _require_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        home = self._store.get(NAMESPACES, "", namespace)
        if home is None:
            spaces = self._registry.any_version(NAMESPACES)
            raise status.not_found(spaces or resource, namespace)
        if home.body["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
            raise status.forbidden(resource, name, why, causes=[cause])

    def _store_new(
        self, resource: ResourceType, namespace: str, body: Object, options: WriteOptions, manager: Manager | None
    ) -> Stored:
        name = str(body["metadata"].get("name", ""))
        if name and self._store.get(resource.key, namespace, name) is not None:
            raise status.already_exists(resource, name)
        self._check_unknown(resource, body, options)
        self._complete(resource, body)
        self._check(resource, body, None)
        if manager is not None:
            track_update(None, body, shape_of(resource), manager, now=self.now())
        return self._put(resource, namespace, name, body, options)

    def _store_change(
        self, resource: ResourceType, before: Stored, body: Object, options: WriteOptions, *, is_tracked: bool = False
    ) -> Stored:
        _check_namespace(resource, before.namespace, body["metadata"])
        asked = str(body["metadata"].get("resourceVersion") or before.version)
        if asked != str(before.version) or body["metadata"].get("uid", before.uid) != before.uid:
            raise status.stale(resource, before.name)
        if not is_tracked:
            self._check_unknown(resource, body, options)
        body = _with_protected_parts(resource, before.body, body, options.subresource)
        self._complete(resource, body)
        _keep_terminating(before.body, body)
        self._check(resource, body, before.body if not options.subresource else None)
        if _is_same(before.body, body):
            return before
        if _has_generation(resource) and _counted_part(before.body, resource) != _counted_part(body, resource):
            body["metadata"]["generation"] = before.body["metadata"].get("generation", 0) + 1
        if not is_tracked:
            manager = Manager(options.manager, UPDATE, resource.api_version, options.subresource)
            track_update(before.body, body, shape_of(resource), manager, now=self.now())
        return self._put(resource, before.namespace, before.name, body, options)

    def _check_unknown(self, resource: ResourceType, body: Object, options: WriteOptions) -> None:
        unknown = schema.prune_resource(body, resource.schema) if resource.is_custom else []
        if not unknown or options.strictness == "Ignore":
            return
        texts = [f'unknown field "{path}"' for path in unknown]
        if options.strictness == "Strict":
            head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise status.bad_request(f"{head}: strict decoding error: {', '.join(texts)}")
        options.warnings.extend(texts)

    def _complete(self, resource: ResourceType, body: Object) -> None:
        for name in _OMITTED_IF_EMPTY:
            if name in body["metadata"] and not body["metadata"][name]:
                del body["metadata"][name]
        if resource.is_custom:
            schema.with_defaults(body, resource.schema)
        else:
            default_builtin(resource.key, body)

    def _check(self, resource: ResourceType, body: Object, before: Object | None) -> None:
        causes = list(metadata_causes(resource, body))
        if not causes and resource.is_custom:
            causes = list(schema.violations(body, resource.schema))
        elif not causes:
            causes = object_causes(resource.key, body)
        if not causes and before is not None and not resource.is_custom:
            causes = immutable_causes(resource.key, before, body)
        if causes:
            raise status.invalid(resource, str(body["metadata"].get("name", "")), causes)

    def _put(self, resource: ResourceType, namespace: str, name: str, body: Object, options: WriteOptions) -> Stored:
        if resource.key == definitions.CRD_KEY:
            definitions.complete(body, now=self.now())
        if options.is_dry_run:
            return Stored(resource.key, namespace, name, self._store.version, body, encode(body))
        stored = self._store.put(resource.key, namespace, name, body)
        if resource.key == definitions.CRD_KEY and not body["metadata"].get("deletionTimestamp"):
            definitions.register(self._registry, body)
        if body["metadata"].get("deletionTimestamp") and _is_released(body):
            return self._store.remove(stored)
        return stored


def check_type(resource: ResourceType, body: Any) -> None:
    """Refuse a body that says it is something else than the path; a body that does not say gets told.

    Raises:
        ApiFault: 400.
    """
    if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
        raise status.bad_request("the request's body is no object")
    found = (body.setdefault("apiVersion", resource.api_version), body.setdefault("kind", resource.kind))
    if found != (resource.api_version, resource.kind):
        raise status.bad_request(
            f"the API version and kind in the data ({found[0]}, {found[1]}) do not match the expected ones "
            f"({resource.api_version}, {resource.kind})"
        )
    body["metadata"] = body.get("metadata") or {}


def _check_namespace(resource: ResourceType, namespace: str, metadata: Object) -> None:
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", namespace) != namespace:
        raise status.bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request: "
            f"{metadata['namespace']}, {namespace}"
        )


def _writable_part(resource: ResourceType, wanted: Object, subresource: str) -> Object:
    """What an applier may own through this path: status through its subresource only, and nothing else there."""
    if subresource == "status":
        return {name: wanted[name] for name in ("apiVersion", "kind", "metadata", "status") if name in wanted}
    return {name: value for name, value in wanted.items() if name != "status" or not resource.has_status}


def _with_protected_parts(resource: ResourceType, before: Object, after: Object, subresource: str) -> Object:
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


def _keep_terminating(before: Object, after: Object) -> None:
    """An object that is being deleted may lose finalizers, but gain none."""
    if not before["metadata"].get("deletionTimestamp"):
        return
    allowed = before["metadata"].get("finalizers") or []
    kept = [name for name in after["metadata"].get("finalizers") or [] if name in allowed]
    if kept:
        after["metadata"]["finalizers"] = kept
    else:
        after["metadata"].pop("finalizers", None)


def _is_released(body: Object) -> bool:
    """Whether nothing holds a terminating object back: no finalizer, no kubelet with containers to end."""
    if body["metadata"].get("finalizers"):
        return False
    if body["kind"] == "Namespace" and body["apiVersion"] == "v1":
        return not dig(body, "spec", "finalizers")
    return not body["metadata"].get("deletionGracePeriodSeconds")


def _has_generation(resource: ResourceType) -> bool:
    return resource.is_custom or resource.group in _COUNTED_GROUPS or resource.key == ("", "pods")


def _counted_part(body: Object, resource: ResourceType) -> Object:
    left_out = ("metadata", "status") if resource.has_status else ("metadata",)
    return {name: value for name, value in body.items() if name not in left_out}


def _is_same(before: Object, after: Object) -> bool:
    """Whether nothing changed but the times of ownership."""
    return _comparable(before) == _comparable(after)


def _comparable(body: Object) -> Object:
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    metadata["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    return {**body, "metadata": metadata}
