"""Deleting objects: at once, gracefully, or when their finalizers are removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from actions.base.clock import Clock, format_rfc3339
from actions.sandbox.apiserver.storage.codec import Object, clone, dig
from actions.sandbox.apiserver.storage.errors import conflict, not_found
from actions.sandbox.apiserver.storage.resources import (
    CRD_KEY,
    GroupResource,
    Registry,
    ServedResource,
    key_of_definition,
)
from actions.sandbox.apiserver.storage.store import Store, Stored
from actions.sandbox.apiserver.writes.admission import AdmissionPlugin, AdmissionReview, Operation
from actions.sandbox.apiserver.writes.options import DeleteOptions

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
PODS = GroupResource("", "pods")
_NAMESPACES = GroupResource("", "namespaces")
_ORPHANING_BY_DEFAULT = GroupResource("batch", "jobs")


class Deleter:
    """The delete path of the server."""

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, admissions: Sequence[AdmissionPlugin] = ()
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._admissions = admissions

    def delete(
        self, resource: ServedResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Delete an object, or begin to.

        Returns:
            Its last state, and whether it is gone (otherwise it is terminating).

        Raises:
            StatusError: 404; 409 if a precondition does not hold; whatever an admission refuses it with.
        """
        stored = self._store.get(resource.key, namespace, name)
        if stored is None:
            raise not_found(resource, name)
        self._check_preconditions(resource, stored, options)
        review = AdmissionReview(Operation.DELETE, resource.key, namespace, name, stored.body)
        for admission in self._admissions:
            admission.admit(review, self._store)
        body = clone(stored.body)
        grace = _grace_seconds(stored, options)
        self._add_finalizers(stored, body, options)
        is_held = bool(body["metadata"].get("finalizers")) or grace > 0 or stored.key == _NAMESPACES
        if options.is_dry_run:
            return stored, not is_held
        if not is_held:
            return self.remove(stored), True
        self._mark(body, grace)
        if body != stored.body:
            stored = self._store.put(stored.key, stored.namespace, stored.name, body)
        return stored, False

    def remove(self, stored: Stored) -> Stored:
        """Take an object out of the store for good, with what it made the server serve."""
        if stored.key == CRD_KEY:
            self._registry.drop(key_of_definition(stored.body))
        return self._store.remove(stored)

    def _check_preconditions(self, resource: ServedResource, stored: Stored, options: DeleteOptions) -> None:
        if options.uid and options.uid != stored.uid:
            why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {stored.uid}"
            raise conflict(resource, stored.name, why)
        if options.version and options.version != str(stored.version):
            why = (
                f"Precondition failed: ResourceVersion in precondition: {options.version}, "
                f"ResourceVersion in object meta: {stored.version}"
            )
            raise conflict(resource, stored.name, why)

    def _add_finalizers(self, stored: Stored, body: Object, options: DeleteOptions) -> None:
        policy = options.propagation or ("Orphan" if stored.key == _ORPHANING_BY_DEFAULT else "Background")
        finalizers = [name for name in body["metadata"].get("finalizers") or () if name not in (FOREGROUND, ORPHAN)]
        if policy == "Foreground" and self._store.dependents(stored.uid):
            finalizers.append(FOREGROUND)
        elif policy == "Orphan" and self._store.dependents(stored.uid):
            finalizers.append(ORPHAN)
        if stored.key == CRD_KEY and CLEANUP not in finalizers and self._has_instances(stored):
            finalizers.append(CLEANUP)
        if finalizers:
            body["metadata"]["finalizers"] = finalizers
        else:
            body["metadata"].pop("finalizers", None)

    def _has_instances(self, crd: Stored) -> bool:
        return bool(self._store.collection(key_of_definition(crd.body)).objects)

    def _mark(self, body: Object, grace: int) -> None:
        metadata = body["metadata"]
        if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = format_rfc3339(self._clock.now() + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
        if body["kind"] == "Namespace":
            body["status"] = {**(body.get("status") or {}), "phase": "Terminating"}


def _grace_seconds(stored: Stored, options: DeleteOptions) -> int:
    """Return the seconds that the containers of a pod have to end; 0 for an object without running ones."""
    if stored.key != PODS:
        return 0
    if not dig(stored.body, "spec", "nodeName") or dig(stored.body, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return max(options.grace_seconds, 0)
    return int(dig(stored.body, "spec", "terminationGracePeriodSeconds") or 0)
