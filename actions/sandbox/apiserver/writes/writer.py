"""Creating and changing objects: everything between a decoded body and the store."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence

from actions.base.clock import Clock, format_rfc3339
from actions.sandbox.apiserver.storage.codec import Object, clone, encode, metadata_of
from actions.sandbox.apiserver.storage.errors import (
    Cause,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    stale_version,
    type_mismatch,
)
from actions.sandbox.apiserver.storage.resources import (
    CRD_KEY,
    GroupResource,
    Registry,
    ServedResource,
    complete_definition,
    register_definition,
)
from actions.sandbox.apiserver.storage.store import Store, Stored
from actions.sandbox.apiserver.validation.builtin import immutable_causes, metadata_causes, object_causes
from actions.sandbox.apiserver.validation.builtin_fields import prune_builtin, wrong_type
from actions.sandbox.apiserver.validation.crd_schema import prune_resource, violations, with_defaults
from actions.sandbox.apiserver.validation.defaults import default_builtin
from actions.sandbox.apiserver.writes.admission import BUILT_IN, AdmissionPlugin, AdmissionReview, Operation
from actions.sandbox.apiserver.writes.apply import apply_object
from actions.sandbox.apiserver.writes.managed_fields import APPLY, UPDATE, Manager, track_update
from actions.sandbox.apiserver.writes.merge_keys import merge_schema_of
from actions.sandbox.apiserver.writes.options import WriteOptions
from actions.sandbox.apiserver.writes.protected_fields import (
    check_namespace,
    check_type,
    counted_part,
    has_generation,
    is_released,
    is_same,
    keep_terminating,
    with_protected_parts,
    writable_part,
)

NAMESPACES = GroupResource("", "namespaces")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_KEEPS_STATUS_ON_CREATE = frozenset({GroupResource("", "nodes")})
_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


class Writer:
    """The write path of the server. A call either stores a complete object or raises and changes nothing."""

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, admissions: Sequence[AdmissionPlugin] = BUILT_IN
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._admissions = admissions

    def now(self) -> str:
        """The wall time as objects carry it."""
        return format_rfc3339(self._clock.now())

    def find(self, resource: ServedResource, namespace: str, name: str) -> Stored:
        """The stored object.

        Raises:
            StatusError: 404.
        """
        stored = self._store.get(resource.key, namespace, name)
        if stored is None:
            raise not_found(resource, name)
        return stored

    def create(self, resource: ServedResource, namespace: str, body: Object, options: WriteOptions) -> Stored:
        """Store a new object.

        Raises:
            StatusError: 400, 403, 404 (its namespace), 409, 422.
        """
        self._prepare_new(resource, namespace, body)
        manager = Manager(options.manager, UPDATE, resource.api_version)
        return self._store_new(resource, namespace, body, options, manager)

    def replace(
        self, resource: ServedResource, namespace: str, name: str, body: Object, options: WriteOptions
    ) -> Stored:
        """Store a new version of an object.

        Raises:
            StatusError: 400, 404, 409 (it was changed since), 422.
        """
        before = self.find(resource, namespace, name)
        check_type(resource, body)
        return self._store_change(resource, before, body, options)

    def change(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        edit: Callable[[Object], Object],
        options: WriteOptions,
    ) -> Stored:
        """Store what `edit` makes of a copy of an object.

        Raises:
            StatusError: as `replace`, and what `edit` raises.
        """
        before = self.find(resource, namespace, name)
        after = edit(clone(before.body))
        if not isinstance(after.get("metadata"), dict):
            raise bad_request("the patch removed the object's metadata")
        return self._store_change(resource, before, after, options)

    def rewrite(self, stored: Stored, edit: Callable[[Object], Object]) -> Stored:
        """Store what `edit` makes of an object, past all rules: for what the server itself decides."""
        return self._store.put(stored.key, stored.namespace, stored.name, edit(clone(stored.body)))

    def apply(
        self, resource: ServedResource, namespace: str, name: str, wanted: Object, options: WriteOptions
    ) -> tuple[Stored, bool]:
        """Apply on the server's side; the second value is true if the object was created.

        Raises:
            StatusError: as `create` and `replace`; 409 with causes where others own fields.
        """
        check_type(resource, wanted)
        metadata_of(wanted).setdefault("name", name)
        if wanted["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        self._check_typed(resource, namespace, name, wanted)
        before = self._store.get(resource.key, namespace, name)
        manager = Manager(options.manager, APPLY, resource.api_version, options.subresource)
        merge_schema, own_part = merge_schema_of(resource), writable_part(resource, wanted, options.subresource)
        if before is None:
            if options.subresource:
                raise not_found(resource, name)
            self._prepare_new(resource, namespace, wanted)
            empty: Object = {"metadata": {}}
            body = apply_object(empty, own_part, merge_schema, manager, resource=resource, force=True, now=self.now())
            body = {**body, "apiVersion": resource.api_version, "kind": resource.kind}
            body["metadata"] = {**wanted["metadata"], **body["metadata"]}
            return self._store_new(resource, namespace, body, options, None), True
        live = clone(before.body)
        body = apply_object(
            live, own_part, merge_schema, manager, resource=resource, force=options.force, now=self.now()
        )
        return self._store_change(resource, before, body, options, is_tracked=True), False

    def _prepare_new(self, resource: ServedResource, namespace: str, body: Object) -> None:
        check_type(resource, body)
        metadata = metadata_of(body)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(_SUFFIX_ALPHABET, k=5))
        check_namespace(resource, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            self._require_namespace(resource, namespace, metadata.get("name", ""))
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        if has_generation(resource):
            metadata["generation"] = 1
        if resource.has_status and resource.key not in _KEEPS_STATUS_ON_CREATE:
            body.pop("status", None)

    def _require_namespace(self, resource: ServedResource, namespace: str, name: str) -> None:
        home = self._store.get(NAMESPACES, "", namespace)
        if home is None:
            spaces = self._registry.any_version(NAMESPACES)
            raise not_found(spaces or resource, namespace)
        if home.body["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
            raise forbidden(resource, name, why, causes=[cause])

    def _store_new(
        self, resource: ServedResource, namespace: str, body: Object, options: WriteOptions, manager: Manager | None
    ) -> Stored:
        name = str(body["metadata"].get("name", ""))
        if name and self._store.get(resource.key, namespace, name) is not None:
            raise already_exists(resource, name)
        self._check_unknown(resource, body, options)
        self._complete(resource, body)
        self._admit(Operation.CREATE, resource, namespace, body)
        self._check(resource, body, None)
        if manager is not None:
            track_update(None, body, merge_schema_of(resource), manager, now=self.now())
        return self._put(resource, namespace, name, body, options)

    def _store_change(
        self, resource: ServedResource, before: Stored, body: Object, options: WriteOptions, *, is_tracked: bool = False
    ) -> Stored:
        check_namespace(resource, before.namespace, body["metadata"])
        asked = str(body["metadata"].get("resourceVersion") or before.version)
        if asked != str(before.version) or body["metadata"].get("uid", before.uid) != before.uid:
            raise stale_version(resource, before.name)
        if not is_tracked:
            self._check_unknown(resource, body, options)
        body = with_protected_parts(resource, before.body, body, options.subresource)
        self._complete(resource, body)
        keep_terminating(before.body, body)
        if not options.subresource:
            self._admit(Operation.UPDATE, resource, before.namespace, body)
        self._check(resource, body, before.body if not options.subresource else None)
        if is_same(before.body, body):
            return before
        if has_generation(resource) and counted_part(before.body, resource) != counted_part(body, resource):
            body["metadata"]["generation"] = before.body["metadata"].get("generation", 0) + 1
        if not is_tracked:
            manager = Manager(options.manager, UPDATE, resource.api_version, options.subresource)
            track_update(before.body, body, merge_schema_of(resource), manager, now=self.now())
        return self._put(resource, before.namespace, before.name, body, options)

    def _check_typed(self, resource: ServedResource, namespace: str, name: str, wanted: Object) -> None:
        """Refuse an applied object with a field that its kind does not have, whatever validation the client chose."""
        wrong = None if resource.is_custom else wrong_type(resource, wanted)
        if wrong is not None:
            mistakes = [f".{wrong.path}: expected {wrong.expected}, got {wrong.found}"]
        else:
            mistakes = [f".{path}: field not declared in schema" for path in _unknown_in(resource, wanted)]
        if mistakes:
            raise type_mismatch(resource, namespace, name, mistakes)

    def _check_unknown(self, resource: ServedResource, body: Object, options: WriteOptions) -> None:
        head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        wrong = None if resource.is_custom else wrong_type(resource, body)
        if wrong is not None:
            what = f"cannot unmarshal {wrong.found} into a field of type {wrong.expected}"
            raise bad_request(f"{head}: json: {what}: {wrong.path}")
        unknown = _unknown_in(resource, body)
        if not unknown or options.strictness == "Ignore":
            return
        texts = [f'unknown field "{path}"' for path in unknown]
        if options.strictness == "Strict":
            raise bad_request(f"{head}: strict decoding error: {', '.join(texts)}")
        options.warnings.extend(texts)

    def _admit(self, operation: Operation, resource: ServedResource, namespace: str, body: Object) -> None:
        review = AdmissionReview(operation, resource.key, namespace, str(body["metadata"].get("name", "")), body)
        for admission in self._admissions:
            admission.admit(review, self._store)

    def _complete(self, resource: ServedResource, body: Object) -> None:
        for name in _OMITTED_IF_EMPTY:
            if name in body["metadata"] and not body["metadata"][name]:
                del body["metadata"][name]
        if resource.is_custom:
            with_defaults(body, resource.schema)
        else:
            default_builtin(resource.key, body)

    def _check(self, resource: ServedResource, body: Object, before: Object | None) -> None:
        causes = list(metadata_causes(resource, body))
        if not causes and resource.is_custom:
            causes = list(violations(body, resource.schema))
        elif not causes:
            causes = object_causes(resource.key, body)
        if not causes and before is not None and not resource.is_custom:
            causes = immutable_causes(resource.key, before, body)
        if causes:
            raise invalid(resource, str(body["metadata"].get("name", "")), causes)

    def _put(self, resource: ServedResource, namespace: str, name: str, body: Object, options: WriteOptions) -> Stored:
        if resource.key == CRD_KEY:
            complete_definition(body, now=self.now())
        if options.is_dry_run:
            return Stored(resource.key, namespace, name, self._store.version, body, encode(body))
        stored = self._store.put(resource.key, namespace, name, body)
        if resource.key == CRD_KEY and not body["metadata"].get("deletionTimestamp"):
            register_definition(self._registry, body)
        if body["metadata"].get("deletionTimestamp") and is_released(body):
            return self._store.remove(stored)
        return stored


def _unknown_in(resource: ServedResource, body: Object) -> list[str]:
    """Remove the fields that the kind does not have, and return their paths."""
    return prune_resource(body, resource.schema) if resource.is_custom else prune_builtin(resource, body)
