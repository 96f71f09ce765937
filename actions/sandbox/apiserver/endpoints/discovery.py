"""Discovery: the groups, versions and types that are served, in the old and the aggregated form; version, health.

Source: k8s.io/api `apidiscovery/v2`, k8s.io/apimachinery `metav1.APIResourceList`.
"""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.apiserver.endpoints import openapi
from actions.sandbox.apiserver.requests.bodies import json_response
from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.errors import path_not_found
from actions.sandbox.apiserver.storage.resources import Registry, ServedResource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCE_KINDS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    # kind, group, version, verbs; empty: as the parent
    "status": ("", "", "", ("get", "patch", "update")),
    "scale": ("Scale", "autoscaling", "v1", ("get", "patch", "update")),
    "log": ("Pod", "", "v1", ("get",)),
    "exec": ("PodExecOptions", "", "v1", ("create", "get")),
    "portforward": ("PodPortForwardOptions", "", "v1", ("create", "get")),
    "binding": ("Binding", "", "v1", ("create",)),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
}


def is_aggregated(accept: str) -> bool:
    """Return whether the client accepts all groups in one document."""
    first = accept.replace(" ", "").split(",")[0]
    return "as=APIGroupDiscoveryList" in first and "v=v2" in first


def core_versions() -> Object:
    """`GET /api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> Object:
    """`GET /apis`."""
    groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_named(registry: Registry, name: str) -> Object | None:
    """Return `GET /apis/GROUP`, or `None` if there is no such group."""
    versions = registry.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: list[str]) -> Object:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def resource_list(registry: Registry, group_name: str, version: str) -> Object | None:
    """`GET /apis/GROUP/VERSION`, or `None` if it is not served."""
    resources = registry.of(group_name, version)
    if not resources:
        return None
    listed: list[Object] = []
    for resource in resources:
        listed.append(_legacy(resource))
        listed.extend(_legacy_subresource(resource, name) for name in resource.subresources)
    group_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _legacy(resource: ServedResource) -> Object:
    return {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        **_common(resource),
    }


def _common(resource: ServedResource) -> Object:
    """Return what both forms of discovery call the same; empty lists are left out."""
    optional = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {"verbs": list(resource.verbs), **{key: names for key, names in optional.items() if names}}


def _legacy_subresource(resource: ServedResource, name: str) -> Object:
    kind, group_name, version, verbs = _subresource(resource, name)
    listed: Object = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
    if (group_name, version) != (resource.group, resource.version):
        listed |= {"group": group_name, "version": version}
    return listed


def _subresource(resource: ServedResource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    kind, group_name, version, verbs = _SUBRESOURCE_KINDS[name]
    return (kind, group_name, version, verbs) if kind else (resource.kind, resource.group, resource.version, verbs)


def aggregated(registry: Registry, *, core: bool) -> Object:
    """`GET /api` or `GET /apis` as one `APIGroupDiscoveryList`."""
    items = [
        {"metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
         "versions": [_aggregated_version(registry, name, version) for version in versions]}
        for name, versions in registry.groups().items()
        if (name == "") is core
    ]  # fmt: skip
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_version(registry: Registry, group_name: str, version: str) -> Object:
    resources = [_aggregated(resource) for resource in registry.of(group_name, version)]
    return {"version": version, "freshness": "Current", "resources": resources}


def _aggregated(resource: ServedResource) -> Object:
    described: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        **_common(resource),
    }
    if resource.subresources:
        described["subresources"] = [_aggregated_subresource(resource, name) for name in resource.subresources]
    return described


def _aggregated_subresource(resource: ServedResource, name: str) -> Object:
    kind, group_name, version, verbs = _subresource(resource, name)
    return {
        "subresource": name,
        "responseKind": {"group": group_name, "version": version, "kind": kind},
        "verbs": list(verbs),
    }


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


def add_discovery(app: web.Application, registry: Registry) -> None:
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
        """Answer with the paths and hashes: these need every document encoded, once for each state of the registry."""
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
    """Answer `kubectl`, which reads it for types that version 3 lacks, and then reports that there are none."""
    return web.Response(body=_OLD_DOCUMENT, headers={"Content-Type": _OLD_MEDIA_TYPE})


def _found(body: Object | None) -> web.Response:
    if body is None:
        raise path_not_found()
    return json_response(body)
