"""How the lists of an object merge: as a whole, as sets, or item by item under a key.

Built-in types are told by field names, which mean the same wherever they occur in the types served here; custom
resources tell by `x-kubernetes-list-type` and its kin in their schema.

Source: the `patchMergeKey` and `listMapKey` markers of k8s.io/api 1.34.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.resources import ResourceType


class ListShape(NamedTuple):
    """Neither keys nor a set: the list is atomic."""

    keys: tuple[str, ...] = ()
    is_set: bool = False


ATOMIC = ListShape()
SET = ListShape(is_set=True)


class Shape(Protocol):
    """What is known about one place in an object."""

    def child(self, name: str) -> Shape:
        """The place one field further."""
        ...

    def items(self) -> Shape:
        """The place of each item, if this is a list."""
        ...

    def list_shape(self) -> ListShape:
        """How this merges, if it is a list."""
        ...

    def is_atomic_map(self) -> bool:
        """Whether this map is owned as a whole."""
        ...

    def default_of(self, key: str) -> object:
        """The value that a missing list key stands for, or `None`."""
        ...


_NAME = ListShape(("name",))
_BY_FIELD: dict[str, ListShape] = {
    "containers": _NAME,
    "initContainers": _NAME,
    "ephemeralContainers": _NAME,
    "volumes": _NAME,
    "env": _NAME,
    "imagePullSecrets": _NAME,
    "secrets": _NAME,
    "resourceClaims": _NAME,
    "volumeMounts": ListShape(("mountPath",)),
    "volumeDevices": ListShape(("devicePath",)),
    "conditions": ListShape(("type",)),
    "addresses": ListShape(("type",)),
    "hostAliases": ListShape(("ip",)),
    "ownerReferences": ListShape(("uid",)),
    "podIPs": ListShape(("ip",)),
    "hostIPs": ListShape(("ip",)),
    "webhooks": _NAME,
    "topologySpreadConstraints": ListShape(("topologyKey", "whenUnsatisfiable")),
    "finalizers": SET,
    "podCIDRs": SET,
}
_ATOMIC_MAP_FIELDS = frozenset({"nodeSelector", "valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef"})


class BuiltinShape:
    """A place in a built-in type, known by the names on the way to it.

    Args:
        name: The field's own name.
        parent: The name of the field that holds it; tells container ports from service ports.
    """

    def __init__(self, name: str = "", parent: str = "") -> None:
        self._name = name
        self._parent = parent

    def child(self, name: str) -> BuiltinShape:
        return BuiltinShape(name, self._name)

    def items(self) -> BuiltinShape:
        return self

    def list_shape(self) -> ListShape:
        if self._name == "ports":
            return ListShape(("containerPort", "protocol") if "ontainers" in self._parent else ("port", "protocol"))
        if self._name == "conditions" and self._parent not in ("", "status"):
            return ATOMIC
        return _BY_FIELD.get(self._name, ATOMIC)

    def is_atomic_map(self) -> bool:
        return self._name in _ATOMIC_MAP_FIELDS

    def default_of(self, key: str) -> object:
        return "TCP" if key == "protocol" else None


class SchemaShape:
    """A place in a custom resource, known by its schema. Metadata merges as in every built-in type.

    Args:
        schema: The `openAPIV3Schema` of this place; empty where nothing is declared.
    """

    def __init__(self, schema: Object) -> None:
        self._schema = schema

    def child(self, name: str) -> SchemaShape:
        inner = (self._schema.get("properties") or {}).get(name)
        if inner is None:
            inner = self._schema.get("additionalProperties")
        return SchemaShape(inner if isinstance(inner, dict) else {})

    def items(self) -> SchemaShape:
        return SchemaShape(self._schema.get("items") or {})

    def list_shape(self) -> ListShape:
        match self._schema.get("x-kubernetes-list-type"):
            case "set":
                return SET
            case "map":
                return ListShape(tuple(self._schema.get("x-kubernetes-list-map-keys") or ()))
        return ATOMIC

    def is_atomic_map(self) -> bool:
        return self._schema.get("x-kubernetes-map-type") == "atomic"

    def default_of(self, key: str) -> object:
        default: object = ((self._schema.get("properties") or {}).get(key) or {}).get("default")
        return default


class CustomRoot:
    """The root of a custom resource: its schema, with the metadata that every type has."""

    def __init__(self, schema: Object) -> None:
        self._declared = SchemaShape(schema)

    def child(self, name: str) -> Shape:
        return BuiltinShape("metadata") if name == "metadata" else self._declared.child(name)

    def items(self) -> Shape:
        return self._declared.items()

    def list_shape(self) -> ListShape:
        return ATOMIC

    def is_atomic_map(self) -> bool:
        return False

    def default_of(self, key: str) -> object:
        return self._declared.default_of(key)


def shape_of(resource: ResourceType) -> Shape:
    """The root of a type."""
    return CustomRoot(resource.schema) if resource.is_custom else BuiltinShape()
