"""What a request asks for, in the words in which rights and faults are given: verb, resource, namespace.

Source: k8s.io/apiserver `request.RequestInfoFactory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ACTOR_AGENT = "eksml-sandbox"
"""The user agent of the sandbox's own controllers."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_IN_NAMESPACES = frozenset({"status", "finalize"})
"""What may follow a namespace's name without being a resource in it."""
_VERB_LIKE = frozenset({"log", "exec", "attach", "portforward", "eviction", "binding", "scale"})


class Question(NamedTuple):
    """One request. `verb` is a subresource's name where that says more; all but `path` is empty outside the API."""

    path: str
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    group: str = ""
    is_api: bool = False
    is_actor: bool = False


def question_of(method: str, path: str, query: Mapping[str, str], *, is_actor: bool = False) -> Question:
    """Read a request's line."""
    steps = path.strip("/").split("/")
    is_core = steps[0] == "api"
    rest = steps[2:] if is_core else steps[3:]
    if steps[0] not in ("api", "apis") or not rest:
        is_api = steps[0] in ("api", "apis")
        return Question(path, "get" if method == "GET" else method.lower(), is_api=is_api, is_actor=is_actor)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _IN_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return Question(
        path,
        subresource if subresource in _VERB_LIKE else _verb(method, name, query),
        resource,
        namespace,
        name,
        subresource,
        "" if is_core else steps[1],
        is_api=True,
        is_actor=is_actor,
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
