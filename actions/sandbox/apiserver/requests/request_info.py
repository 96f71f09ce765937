"""The meaning of a request's line: verb, resource, namespace, name and subresource.

`RequestInfo` is the form for rights and faults and needs no list of types; `RequestTarget` names a type that is served.

Source: k8s.io/apiserver `request.RequestInfoFactory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from actions.sandbox.apiserver.storage.errors import path_not_found
from actions.sandbox.apiserver.storage.resources import Registry, ServedResource

CONTROLLER_AGENT = "eksml-sandbox"
"""The user agent of the sandbox's own controllers."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_IN_NAMESPACES = frozenset({"status", "finalize"})
"""The path segments after a namespace's name that are its subresources, not resources in it."""
_VERB_LIKE = frozenset({"log", "exec", "attach", "portforward", "eviction", "binding", "scale"})


class RequestInfo(NamedTuple):
    """A request. `verb` is a subresource's name where that is more exact; all but `path` is empty outside the API."""

    path: str
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    group: str = ""
    is_api: bool = False
    is_controller: bool = False


def request_info_of(method: str, path: str, query: Mapping[str, str], *, is_controller: bool = False) -> RequestInfo:
    """Read a request's line."""
    steps = path.strip("/").split("/")
    is_core = steps[0] == "api"
    rest = steps[2:] if is_core else steps[3:]
    if steps[0] not in ("api", "apis") or not rest:
        is_api = steps[0] in ("api", "apis")
        return RequestInfo(
            path, "get" if method == "GET" else method.lower(), is_api=is_api, is_controller=is_controller
        )
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""  # that of a namespace is itself
    if namespace and len(rest) > 2 and rest[2] not in _IN_NAMESPACES:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return RequestInfo(
        path,
        subresource if subresource in _VERB_LIKE else _verb(method, name, query),
        resource,
        namespace,
        name,
        subresource,
        "" if is_core else steps[1],
        is_api=True,
        is_controller=is_controller,
    )


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    match method:
        case "GET" | "HEAD":
            if query.get("watch") in ("true", "1"):
                return "watch"
            return "get" if name else "list"
        case "DELETE":
            return "delete" if name else "deletecollection"
    return _VERBS.get(method, method.lower())


class RequestTarget(msgspec.Struct, frozen=True):
    """A collection (no `name`), an object, or a subresource of one. `namespace` is empty for all of them."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(registry: Registry, path: str) -> RequestTarget:
    """Read `/api/v1/namespaces/a/pods/b/log` and its like.

    Raises:
        StatusError: 404, no such type or subresource is served.
    """
    steps = path.strip("/").split("/")
    if steps[0] == "api":
        group, version, rest = "", steps[1], steps[2:]
    else:
        group, version, rest = steps[1], steps[2], steps[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and registry.find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0]) if rest else None
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise path_not_found()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in resource.subresources:
        raise path_not_found()
    if resource.namespaced and name and not namespace:
        raise path_not_found()
    return RequestTarget(resource, namespace, name, subresource)
