"""The merge rules of an object's lists: as a whole, as sets, or item by item under a key.

Rules of built-in types go by field names, which mean the same wherever they occur in the types served here; those of
custom resources are in their schema, as `x-kubernetes-list-type` and its kin.

Source: the `patchMergeKey` and `listMapKey` markers of k8s.io/api 1.34.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.resources import ServedResource


class ListMergeRule(NamedTuple):
    """The merge rule of a list. With neither keys nor a set, the list is atomic."""

    keys: tuple[str, ...] = ()
    is_set: bool = False


ATOMIC = ListMergeRule()
SET = ListMergeRule(is_set=True)


class MergeSchema(Protocol):
    """A place in an object, with its merge rule."""

    def child(self, name: str) -> MergeSchema:
        """The place one field further."""
        ...

    def items(self) -> MergeSchema:
        """The place of each item, if this is a list."""
        ...

    def list_rule(self) -> ListMergeRule:
        """Return how this merges, if it is a list."""
        ...

    def is_atomic_map(self) -> bool:
        """Return whether this map is owned as a whole."""
        ...

    def default_of(self, key: str) -> object:
        """The value that a missing list key stands for, or `None`."""
        ...


_NAME = ListMergeRule(("name",))
_BY_FIELD: dict[str, ListMergeRule] = {
    "containers": _NAME,
    "initContainers": _NAME,
    "ephemeralContainers": _NAME,
    "volumes": _NAME,
    "env": _NAME,
    "imagePullSecrets": _NAME,
    "secrets": _NAME,
    "resourceClaims": _NAME,
    "volumeMounts": ListMergeRule(("mountPath",)),
    "volumeDevices": ListMergeRule(("devicePath",)),
    "conditions": ListMergeRule(("type",)),
    "addresses": ListMergeRule(("type",)),
    "hostAliases": ListMergeRule(("ip",)),
    "ownerReferences": ListMergeRule(("uid",)),
    "podIPs": ListMergeRule(("ip",)),
    "hostIPs": ListMergeRule(("ip",)),
    "webhooks": _NAME,
    "topologySpreadConstraints": ListMergeRule(("topologyKey", "whenUnsatisfiable")),
    "finalizers": SET,
    "podCIDRs": SET,
}
_ATOMIC_MAP_FIELDS = frozenset({"nodeSelector", "valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef"})


class BuiltinMergeSchema:
    """A place in a built-in type, known by the field names on the way to it.

    Args:
        name: The field's own name.
        parent: The name of the field that holds it; distinguishes container ports from service ports.
    """

    def __init__(self, name: str = "", parent: str = "") -> None:
        self._name = name
        self._parent = parent

    def child(self, name: str) -> BuiltinMergeSchema:
        return BuiltinMergeSchema(name, self._name)

    def items(self) -> BuiltinMergeSchema:
        return self

    def list_rule(self) -> ListMergeRule:
        if self._name == "ports":
            return ListMergeRule(("containerPort", "protocol") if "ontainers" in self._parent else ("port", "protocol"))
        if self._name == "conditions" and self._parent not in ("", "status"):
            return ATOMIC
        return _BY_FIELD.get(self._name, ATOMIC)

    def is_atomic_map(self) -> bool:
        return self._name in _ATOMIC_MAP_FIELDS

    def default_of(self, key: str) -> object:
        return "TCP" if key == "protocol" else None


class CrdMergeSchema:
    """A place in a custom resource, known by its schema. Metadata merges as in every built-in type.

    Args:
        schema: The `openAPIV3Schema` of this place; empty where nothing is declared.
    """

    def __init__(self, schema: Object) -> None:
        self._schema = schema

    def child(self, name: str) -> CrdMergeSchema:
        inner = (self._schema.get("properties") or {}).get(name)
        if inner is None:
            inner = self._schema.get("additionalProperties")
        return CrdMergeSchema(inner if isinstance(inner, dict) else {})

    def items(self) -> CrdMergeSchema:
        return CrdMergeSchema(self._schema.get("items") or {})

    def list_rule(self) -> ListMergeRule:
        match self._schema.get("x-kubernetes-list-type"):
            case "set":
                return SET
            case "map":
                return ListMergeRule(tuple(self._schema.get("x-kubernetes-list-map-keys") or ()))
        return ATOMIC

    def is_atomic_map(self) -> bool:
        return self._schema.get("x-kubernetes-map-type") == "atomic"

    def default_of(self, key: str) -> object:
        default: object = ((self._schema.get("properties") or {}).get(key) or {}).get("default")
        return default


class CustomResourceMergeSchema:
    """The root of a custom resource: its schema, with the metadata that every type has."""

    def __init__(self, schema: Object) -> None:
        self._declared = CrdMergeSchema(schema)

    def child(self, name: str) -> MergeSchema:
        return BuiltinMergeSchema("metadata") if name == "metadata" else self._declared.child(name)

    def items(self) -> MergeSchema:
        return self._declared.items()

    def list_rule(self) -> ListMergeRule:
        return ATOMIC

    def is_atomic_map(self) -> bool:
        return False

    def default_of(self, key: str) -> object:
        return self._declared.default_of(key)


def merge_schema_of(resource: ServedResource) -> MergeSchema:
    """The root of a type."""
    return CustomResourceMergeSchema(resource.schema) if resource.is_custom else BuiltinMergeSchema()
