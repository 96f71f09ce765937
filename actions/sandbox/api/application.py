"""The API server as an aiohttp application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock, SystemClock
from actions.sandbox.api.access import Access, User
from actions.sandbox.api.admission import BUILT_IN, Admission
from actions.sandbox.api.browsing import add_browsing
from actions.sandbox.api.builtin import builtin_types
from actions.sandbox.api.deletion import Deleter
from actions.sandbox.api.endpoints import serve
from actions.sandbox.api.garbage import GarbageCollector
from actions.sandbox.api.messages import fault_response
from actions.sandbox.api.resources import Registry
from actions.sandbox.api.services import BOOKMARK_SECONDS, Services
from actions.sandbox.api.status import ApiFault, no_such_path
from actions.sandbox.api.store import Store
from actions.sandbox.api.writes import Writer
from actions.sandbox.faults.seam import NO_FAULTS, Faults
from actions.sandbox.keys import AccessKey
from actions.sandbox.ports import KubeletPort

_LARGEST_BODY_BYTES = 8 << 20
_GUARDED = ("/api", "/openapi")


def create_app(
    store: Store,
    kubelet: KubeletPort,
    faults: Faults = NO_FAULTS,
    *,
    clock: Clock | None = None,
    tokens: Mapping[str, User],
    access_key: AccessKey | None = None,
    bookmark_seconds: float = BOOKMARK_SECONDS,
    webhooks: Sequence[Admission] = (),
) -> web.Application:
    """The API server over a store; garbage is collected while the application runs.

    Args:
        store: Empty, or as another application left it.
        kubelet: Holds the containers that logs and exec ask for.
        faults: What goes wrong on purpose.
        clock: Wall time, for objects; the machine's if not given.
        tokens: Who may come: token → user. Without one of these, everything but health and version is answered with
            401, also paths that are added to the application later.
        access_key: Tokens of EKS that are made with it are the administrator's.
        bookmark_seconds: How long a quiet watch stays silent.
        webhooks: Admission beside the server's own.
    """
    time = clock or SystemClock()
    registry = Registry(builtin_types())
    writer = Writer(store, registry, time, (*BUILT_IN, *webhooks))
    deleter = Deleter(store, registry, time, webhooks)
    access = Access(store, tokens, access_key)
    services = Services(store, registry, time, writer, deleter, kubelet, access, faults, bookmark_seconds)
    app = web.Application(
        middlewares=[_refusals, _authentication(access), _interruptions(faults), _rights(access)],
        client_max_size=_LARGEST_BODY_BYTES,
    )
    app.cleanup_ctx.append(_collecting(GarbageCollector(store, registry, deleter)))
    add_browsing(app, registry)

    async def objects(request: web.Request) -> web.StreamResponse:
        return await serve(services, request)

    app.router.add_route("*", "/api/{version}/{path:.+}", objects)
    app.router.add_route("*", "/apis/{group}/{version}/{path:.+}", objects)
    return app


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiFault as fault:
        return fault_response(fault)
    except web.HTTPNotFound:
        return fault_response(no_such_path())


def _authentication(access: Access) -> Middleware:
    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        access.identify(request)
        return await handler(request)

    return identify


def _interruptions(faults: Faults) -> Middleware:
    @web.middleware
    async def interrupt(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await faults.around(request, handler)

    return interrupt


def _rights(access: Access) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_GUARDED):
            access.check(request)
        return await handler(request)

    return check


def _collecting(collector: GarbageCollector) -> Callable[[web.Application], AsyncIterator[None]]:
    async def running(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(collector.run(), name="garbage collector")
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return running
