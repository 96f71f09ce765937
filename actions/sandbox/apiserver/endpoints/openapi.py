"""OpenAPI v3, as much as `kubectl apply`, `kubectl create` and `kubectl explain` read of it.

`kubectl` checks whether `PATCH` of a kind takes `fieldValidation`; if so it leaves validation to the server.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache

from actions.sandbox.apiserver.storage.codec import Object, encode
from actions.sandbox.apiserver.storage.resources import Registry, ServedResource
from actions.sandbox.apiserver.validation.builtin_fields import fields_of, root_of
from actions.sandbox.apiserver.writes.merge_keys import BuiltinMergeSchema

REFERENCE = "#/components/schemas/"
_CONTAINERS = frozenset({"V1Container", "V1EphemeralContainer"})
_VERSIONED = re.compile(r"^(\w*?V\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)$")
_ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}


def builtin_schema(kind: str) -> Object:
    """The schema of a kind; an open object if its fields are not known."""
    root = root_of(kind)
    return _object(root) if root else {"type": "object", **_ANYTHING}


def used_schemas(kinds: list[str]) -> Object:
    """Every type below these kinds, by name."""
    found: Object = {}
    waiting = [root for kind in kinds if (root := root_of(kind))]
    while waiting:
        for code in fields_of(waiting.pop()).values():
            name = code.replace("[]", "").replace("{}", "")
            if fields_of(name) and schema_name(name) not in found:
                found[schema_name(name)] = _object(name)
                waiting.append(name)
    return found


def schema_name(type_name: str) -> str:
    """`v1.PodSpec` for `V1PodSpec`: `kubectl explain` shows what follows the last dot."""
    match = _VERSIONED.match(type_name)
    return f"{match[1].lower()}.{match[2]}" if match else type_name


@cache
def _object(type_name: str) -> Object:
    properties = {name: _property(type_name, name, code) for name, code in fields_of(type_name).items()}
    return {"type": "object", "properties": properties}


def _property(type_name: str, field: str, code: str) -> Object:
    schema = _schema_of_code(code)
    merge_schema = BuiltinMergeSchema(field, "containers" if type_name in _CONTAINERS else "").list_rule()
    if code.startswith("[]") and (merge_schema.keys or merge_schema.is_set):
        schema["x-kubernetes-patch-strategy"] = "merge"
        if merge_schema.keys:
            schema["x-kubernetes-patch-merge-key"] = merge_schema.keys[0]
    return schema


def _schema_of_code(code: str) -> Object:
    if code.startswith("[]"):
        return {"type": "array", "items": _schema_of_code(code[2:])}
    if code.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema_of_code(code[2:])}
    if fields_of(code):
        return {"allOf": [{"$ref": REFERENCE + schema_name(code)}]}
    return dict(_ANYTHING) if code == "any" else {"type": code if code != "datetime" else "string"}


_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(registry: Registry) -> Object:
    """`GET /openapi/v3`: where the document of every group version is; the hash changes with its content."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            prefix = _prefix(group, version)
            digest = hashlib.sha256(encode(document(registry, group, version))).hexdigest()[:32].upper()
            paths[prefix] = {"serverRelativeURL": f"/openapi/v3/{prefix}?hash={digest}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str) -> Object:
    """`GET /openapi/v3/apis/GROUP/VERSION`; without paths if it is not served."""
    resources = registry.of(group, version)
    paths: Object = {}
    for resource in resources:
        paths |= _paths(resource)
    kinds = [resource.kind for resource in resources if not resource.is_custom]
    schemas = used_schemas(kinds) | {_schema_name(resource): _schema(resource) for resource in resources}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.32.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _paths(resource: ServedResource) -> Object:
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    collection = f"/{_prefix(resource.group, resource.version)}/{scope}{resource.plural}"
    return {
        collection: {"get": _operation(resource, "list"), "post": _operation(resource, "post")},
        f"{collection}/{{name}}": {
            method: _operation(resource, method) for method in ("get", "put", "patch", "delete")
        },
    }


def _operation(resource: ServedResource, action: str) -> Object:
    return {
        "operationId": f"{action}{resource.kind}",
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _QUERY_PARAMETERS
        ],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": _reference(resource)}}}},
    }


def _reference(resource: ServedResource) -> Object:
    return {"$ref": REFERENCE + _schema_name(resource)}


def _schema_name(resource: ServedResource) -> str:
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "io.k8s.api.core"
    return f"{group}.{resource.version}.{resource.kind}"


def _schema(resource: ServedResource) -> Object:
    base = resource.schema if resource.is_custom else builtin_schema(resource.kind)
    return {**(base or {"type": "object"}), "x-kubernetes-group-version-kind": [_kind(resource)]}


def _kind(resource: ServedResource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
