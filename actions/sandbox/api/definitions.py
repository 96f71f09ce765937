"""CustomResourceDefinitions: what types they add, and what the server says about them."""

from __future__ import annotations

from collections.abc import Iterator

from actions.sandbox.api.codec import Object, dig
from actions.sandbox.api.resources import GroupResource, Registry, ResourceType

CRD_KEY = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")


def key_of_definition(crd: Object) -> GroupResource:
    """Where the instances of a CRD are filed."""
    return GroupResource(crd["spec"]["group"], crd["spec"]["names"]["plural"])


def types_of(crd: Object) -> Iterator[ResourceType]:
    """Every version that a CRD serves."""
    spec = crd["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        yield ResourceType(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            spec.get("scope") == "Namespaced",
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            ("status",) if "status" in (version.get("subresources") or {}) else (),
            singular=names.get("singular") or names["kind"].lower(),
            is_custom=True,
            schema=dig(version, "schema", "openAPIV3Schema") or {},
            columns=tuple(version.get("additionalPrinterColumns") or ()),
        )


def register(registry: Registry, crd: Object) -> None:
    """Serve exactly what the CRD asks for."""
    registry.drop(key_of_definition(crd))
    for resource in types_of(crd):
        registry.add(resource)


def complete(crd: Object, *, now: str) -> None:
    """Fill in the names that a CRD may leave out, and its status: accepted and established."""
    names = crd["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")
    crd["spec"].setdefault("conversion", {"strategy": "None"})
    status = crd.setdefault("status", {})
    status["acceptedNames"] = names
    stored = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")]
    status.setdefault("storedVersions", stored)
    if not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
