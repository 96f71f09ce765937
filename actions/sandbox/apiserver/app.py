"""The API server as an aiohttp application: its middlewares, and the routes below `/api` and `/apis`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock, SystemClock
from actions.sandbox.apiserver.endpoints.changes import (
    serve_binding,
    serve_create,
    serve_delete,
    serve_delete_collection,
    serve_patch,
    serve_replace,
    serve_scale,
)
from actions.sandbox.apiserver.endpoints.discovery import add_discovery
from actions.sandbox.apiserver.endpoints.eviction import serve_eviction
from actions.sandbox.apiserver.endpoints.list_watch import list_objects, serve_watch
from actions.sandbox.apiserver.printing.view import View, form_of
from actions.sandbox.apiserver.remote.exec import serve_exec
from actions.sandbox.apiserver.remote.logs import serve_log
from actions.sandbox.apiserver.remote.port_forward import serve_forward
from actions.sandbox.apiserver.requests.access import AccessControl, User, serve_review
from actions.sandbox.apiserver.requests.bodies import error_response, raw_json
from actions.sandbox.apiserver.requests.context import BOOKMARK_SECONDS, ServerContext
from actions.sandbox.apiserver.requests.fault_hook import NO_FAULTS, FaultHook
from actions.sandbox.apiserver.requests.request_info import RequestTarget, target_of
from actions.sandbox.apiserver.storage.errors import StatusError, method_not_allowed, path_not_found
from actions.sandbox.apiserver.storage.resources import Registry, builtin_types
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.apiserver.writes.admission import BUILT_IN, AdmissionPlugin
from actions.sandbox.apiserver.writes.deletion import Deleter
from actions.sandbox.apiserver.writes.garbage import GarbageCollector
from actions.sandbox.apiserver.writes.writer import Writer
from actions.sandbox.model.keys import AccessKey
from actions.sandbox.model.kubelet_api import KubeletApi


async def serve_objects(context: ServerContext, request: web.Request) -> web.StreamResponse:
    """Answer a request for objects.

    Raises:
        StatusError: It is refused.
    """
    target = target_of(context.registry, request.path)
    resource = target.resource
    if "list" not in resource.verbs:
        if request.method != "POST" or target.name:
            raise method_not_allowed()
        return await serve_review(context.access, request, target)
    if target.subresource and target.subresource != "status":
        return await _serve_subresource(context, request, target)
    form = form_of(request.headers.get("Accept", ""))
    view = View(resource, form, context.clock, include=request.query.get("includeObject", "Metadata"))
    if target.name:
        return await _serve_object(context, request, target, view)
    return await _serve_collection(context, request, target, view)


async def _serve_object(
    context: ServerContext, request: web.Request, target: RequestTarget, view: View
) -> web.StreamResponse:
    match request.method:
        case "GET":
            return raw_json(view.one(context.writer.find(target.resource, target.namespace, target.name)))
        case "PUT":
            return await serve_replace(context, request, target, view)
        case "PATCH":
            return await serve_patch(context, request, target, view)
        case "DELETE" if not target.subresource:
            return await serve_delete(context, request, target, view)
    raise method_not_allowed()


async def _serve_collection(
    context: ServerContext, request: web.Request, target: RequestTarget, view: View
) -> web.StreamResponse:
    match request.method:
        case "GET" if _is_watch(request.query):
            return await serve_watch(context, request, target, view)
        case "GET":
            return raw_json(view.many(*list_objects(context.store, target, request.query)))
        case "POST" if target.namespace or not target.resource.namespaced:
            return await serve_create(context, request, target, view)
        case "DELETE" if target.namespace or not target.resource.namespaced:
            return await serve_delete_collection(context, request, target, view)
    raise method_not_allowed()


async def _serve_subresource(context: ServerContext, request: web.Request, target: RequestTarget) -> web.StreamResponse:
    match target.subresource, request.method:
        case "log", "GET":
            return await serve_log(context, request, target)
        case "exec", "GET" | "POST":
            return await serve_exec(context, request, target)
        case "portforward", "GET" | "POST":
            return await serve_forward(context, request, target)
        case "binding", "POST":
            return await serve_binding(context, request, target)
        case "eviction", "POST":
            return await serve_eviction(context, request, target)
        case "scale", "GET" | "PUT" | "PATCH":
            return await serve_scale(context, request, target)
    raise method_not_allowed()


def _is_watch(query: Mapping[str, str]) -> bool:
    return query.get("watch") in ("true", "1")


_LARGEST_BODY_BYTES = 8 << 20
_GUARDED = ("/api", "/openapi")


def create_app(
    store: Store,
    kubelet: KubeletApi,
    faults: FaultHook = NO_FAULTS,
    *,
    clock: Clock | None = None,
    tokens: Mapping[str, User],
    access_key: AccessKey | None = None,
    bookmark_seconds: float = BOOKMARK_SECONDS,
    webhooks: Sequence[AdmissionPlugin] = (),
) -> web.Application:
    """Make the API server over a store; garbage is collected while the application runs.

    Args:
        store: Empty, or as another application left it.
        kubelet: Serves logs, exec and forwarded ports of containers.
        faults: Where faults are let in.
        clock: Wall time, for objects; the machine's if not given.
        tokens: Token → its user. Without one of these, everything but health and version is answered with
            401, also paths that are added to the application later.
        access_key: Tokens of EKS that are made with it are the administrator's.
        bookmark_seconds: How long a quiet watch stays silent.
        webhooks: Admission beside the server's own.
    """
    time = clock or SystemClock()
    registry = Registry(builtin_types())
    writer = Writer(store, registry, time, (*BUILT_IN, *webhooks))
    deleter = Deleter(store, registry, time, webhooks)
    access = AccessControl(store, tokens, access_key)
    context = ServerContext(store, registry, time, writer, deleter, kubelet, access, faults, bookmark_seconds)
    app = web.Application(
        middlewares=[_errors_as_status, _authentication(access), _fault_injection(faults), _authorization(access)],
        client_max_size=_LARGEST_BODY_BYTES,
    )
    app.cleanup_ctx.append(_garbage_collection(GarbageCollector(store, registry, deleter)))
    add_discovery(app, registry)

    async def objects(request: web.Request) -> web.StreamResponse:
        return await serve_objects(context, request)

    app.router.add_route("*", "/api/{version}/{path:.+}", objects)
    app.router.add_route("*", "/apis/{group}/{version}/{path:.+}", objects)
    return app


@web.middleware
async def _errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except StatusError as error:
        return error_response(error)
    except web.HTTPNotFound:
        return error_response(path_not_found())


def _authentication(access: AccessControl) -> Middleware:
    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        access.identify(request)
        return await handler(request)

    return identify


def _fault_injection(faults: FaultHook) -> Middleware:
    @web.middleware
    async def interrupt(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await faults.wrap_request(request, handler)

    return interrupt


def _authorization(access: AccessControl) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_GUARDED):
            access.check(request)
        return await handler(request)

    return check


def _garbage_collection(collector: GarbageCollector) -> Callable[[web.Application], AsyncIterator[None]]:
    async def running(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(collector.run(), name="garbage collector")
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return running
