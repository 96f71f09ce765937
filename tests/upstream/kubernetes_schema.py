"""Objects against Kubernetes' own schema, as the client of the project carries it: names and types of all fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubernetes import client

_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "datetime": (str,),
}
_QUANTITIES = ("limits", "requests", "capacity")
"""Fields whose values may be numbers too, although the client takes texts only."""
_MODELS = {
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Namespace"): "V1Namespace",
    ("v1", "PersistentVolume"): "V1PersistentVolume",
    ("v1", "PersistentVolumeClaim"): "V1PersistentVolumeClaim",
    ("v1", "Secret"): "V1Secret",
    ("v1", "ServiceAccount"): "V1ServiceAccount",
    ("batch/v1", "CronJob"): "V1CronJob",
    ("batch/v1", "Job"): "V1Job",
    ("rbac.authorization.k8s.io/v1", "Role"): "V1Role",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "V1RoleBinding",
}


def is_builtin(manifest: dict[str, Any]) -> bool:
    """Return whether the object is of one of the kinds that are held against the client's models."""
    return (manifest["apiVersion"], manifest["kind"]) in _MODELS


def object_complaints(manifest: dict[str, Any]) -> list[str]:
    """Return every field of a built-in object that Kubernetes does not know, or that has another type."""
    return list(_complaints(manifest, _MODELS[manifest["apiVersion"], manifest["kind"]], manifest["kind"]))


def template_complaints(template: dict[str, Any]) -> list[str]:
    """Return the same for a pod template: those of custom resources are Kubernetes' own."""
    return list(_complaints(template, "V1PodTemplateSpec", "template"))


def _complaints(value: Any, kind: str, path: str) -> Iterator[str]:
    if nested := re.fullmatch(r"List\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{path} is no list"
            return
        for index, item in enumerate(value):
            yield from _complaints(item, nested[1], f"{path}[{index}]")
    elif nested := re.fullmatch(r"Dict\[str, (.+)\]", kind):
        if not isinstance(value, dict):
            yield f"{path} is no mapping"
            return
        for key, item in value.items():
            is_quantity = path.rpartition(".")[2] in _QUANTITIES and isinstance(item, int)
            yield from [] if is_quantity else _complaints(item, nested[1], f"{path}[{key}]")
    elif kind in _SCALARS:
        if not isinstance(value, _SCALARS[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{path} is {value!r}, not {kind}"
    elif kind != "object":
        yield from _field_complaints(value, kind, path)


def _field_complaints(value: Any, kind: str, path: str) -> Iterator[str]:
    model = getattr(client, kind)
    if not isinstance(value, dict):
        yield f"{path} is no {kind}"
        return
    names = {key: name for name, key in model.attribute_map.items()}
    for key, item in value.items():
        if key in names:
            yield from _complaints(item, model.openapi_types[names[key]], f"{path}.{key}")
        else:
            yield f"{path}.{key} is no field of {kind}"
    required = {model.attribute_map[name] for name, field in model.model_fields.items() if field.is_required()}
    yield from (f"{path}.{key} is missing" for key in sorted(required - set(value)))
