"""Which call answers which verb on which path below `/api` and `/apis`."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from actions.sandbox.api.changing import create, delete, delete_collection, patch, replace
from actions.sandbox.api.execute import serve_attach, serve_exec
from actions.sandbox.api.forward import serve_forward
from actions.sandbox.api.lists import list_objects
from actions.sandbox.api.logs import serve_log
from actions.sandbox.api.messages import raw_json
from actions.sandbox.api.reviews import review
from actions.sandbox.api.services import Services
from actions.sandbox.api.status import method_not_allowed
from actions.sandbox.api.subresources import bind, evict, scale
from actions.sandbox.api.target import Target, target_of
from actions.sandbox.api.view import View, form_of
from actions.sandbox.api.watching import serve_watch


async def serve(services: Services, request: web.Request) -> web.StreamResponse:
    """Answer a request for objects.

    Raises:
        ApiFault: It is refused.
    """
    target = target_of(services.registry, request.path)
    resource = target.resource
    if "list" not in resource.verbs:
        if request.method != "POST" or target.name:
            raise method_not_allowed()
        return await review(services.access, request, target)
    if target.subresource and target.subresource != "status":
        return await _serve_subresource(services, request, target)
    form = form_of(request.headers.get("Accept", ""))
    view = View(resource, form, services.clock, include=request.query.get("includeObject", "Metadata"))
    if target.name:
        return await _serve_object(services, request, target, view)
    return await _serve_collection(services, request, target, view)


async def _serve_object(services: Services, request: web.Request, target: Target, view: View) -> web.StreamResponse:
    match request.method:
        case "GET":
            return raw_json(view.one(services.writer.find(target.resource, target.namespace, target.name)))
        case "PUT":
            return await replace(services, request, target, view)
        case "PATCH":
            return await patch(services, request, target, view)
        case "DELETE" if not target.subresource:
            return await delete(services, request, target, view)
    raise method_not_allowed()


async def _serve_collection(services: Services, request: web.Request, target: Target, view: View) -> web.StreamResponse:
    match request.method:
        case "GET" if _is_watch(request.query):
            return await serve_watch(services, request, target, view)
        case "GET":
            return raw_json(view.many(*list_objects(services.store, target, request.query)))
        case "POST" if target.namespace or not target.resource.namespaced:
            return await create(services, request, target, view)
        case "DELETE" if target.namespace or not target.resource.namespaced:
            return await delete_collection(services, request, target, view)
    raise method_not_allowed()


async def _serve_subresource(services: Services, request: web.Request, target: Target) -> web.StreamResponse:
    match target.subresource, request.method:
        case "log", "GET":
            return await serve_log(services, request, target)
        case "exec", "GET" | "POST":
            return await serve_exec(services, request, target)
        case "attach", "GET" | "POST":
            return await serve_attach(services, request, target)
        case "portforward", "GET" | "POST":
            return await serve_forward(services, request, target)
        case "binding", "POST":
            return await bind(services, request, target)
        case "eviction", "POST":
            return await evict(services, request, target)
        case "scale", "GET" | "PUT" | "PATCH":
            return await scale(services, request, target)
    raise method_not_allowed()


def _is_watch(query: Mapping[str, str]) -> bool:
    return query.get("watch") in ("true", "1")
