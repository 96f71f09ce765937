"""What a client asks before it knows what there is: version, health, discovery, OpenAPI."""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.api import openapi
from actions.sandbox.api.codec import Object
from actions.sandbox.api.discovery import (
    AGGREGATED,
    aggregated,
    core_versions,
    group_list,
    group_named,
    is_aggregated,
    resource_list,
)
from actions.sandbox.api.messages import json_response
from actions.sandbox.api.resources import Registry
from actions.sandbox.api.status import no_such_path

VERSION: Object = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.3-eks-473151a",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2025-09-09T00:00:00Z",
    "goVersion": "go1.24.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def add_browsing(app: web.Application, registry: Registry) -> None:
    """Add every route that does not lead to objects; before those that do."""
    app.router.add_get("/version", _version)
    for path in ("/healthz", "/livez", "/readyz"):
        app.router.add_get(path, _healthy)
    _add_discovery(app, registry)
    _add_openapi(app, registry)


async def _version(_: web.Request) -> web.Response:
    return json_response(VERSION)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _add_discovery(app: web.Application, registry: Registry) -> None:
    async def roots(request: web.Request) -> web.Response:
        is_core = request.path.rstrip("/") == "/api"
        if is_aggregated(request.headers.get("Accept", "")):
            response = json_response(aggregated(registry, core=is_core))
            response.headers["Content-Type"] = AGGREGATED
            return response
        return json_response(core_versions() if is_core else group_list(registry))

    async def group(request: web.Request) -> web.Response:
        return _found(group_named(registry, request.match_info["group"]))

    async def types(request: web.Request) -> web.Response:
        where = request.match_info
        return _found(resource_list(registry, where.get("group", ""), where["version"]))

    for path in ("/api", "/apis", "/api/", "/apis/"):
        app.router.add_get(path, roots)
    app.router.add_get("/apis/{group}", group)
    app.router.add_get("/api/{version}", types)
    app.router.add_get("/apis/{group}/{version}", types)


def _add_openapi(app: web.Application, registry: Registry) -> None:
    indexes: dict[int, Object] = {}

    async def index(_: web.Request) -> web.Response:
        """The hashes cost the encoding of every document: once for each state of the registry."""
        if registry.revision not in indexes:
            indexes.clear()
            indexes[registry.revision] = openapi.index(registry)
        return json_response(indexes[registry.revision])

    async def document(request: web.Request) -> web.Response:
        where = request.match_info
        return json_response(openapi.document(registry, where.get("group", ""), where["version"]))

    app.router.add_get("/openapi/v2", _old_document)
    app.router.add_get("/openapi/v3", index)
    app.router.add_get("/openapi/v3/api/{version}", document)
    app.router.add_get("/openapi/v3/apis/{group}/{version}", document)


_OLD_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLD_DOCUMENT = b"\x0a\x032.0"
"""An OpenAPI v2 document without any paths, in protobuf: field 1 is its version."""


async def _old_document(_: web.Request) -> web.Response:
    """For `kubectl`, which asks it about types that version 3 does not know, and says then that there is none."""
    return web.Response(body=_OLD_DOCUMENT, headers={"Content-Type": _OLD_MEDIA_TYPE})


def _found(body: Object | None) -> web.Response:
    if body is None:
        raise no_such_path()
    return json_response(body)
