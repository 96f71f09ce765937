"""The control of the fault panel over HTTP: `/sandbox/faults`, which is not part of the Kubernetes API.

`GET` lists the faults that are on, `POST` turns one on (a `Fault` in JSON), or a named scenario (`{"scenario": NAME}`),
`DELETE` turns all off, or with `/NAME` that one.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from actions.base.decoding import json_decoder
from actions.base.errors import InputError
from actions.sandbox.apiserver.storage.codec import Object, encode
from actions.sandbox.faults.fault import SCENARIOS, Fault
from actions.sandbox.faults.middleware import FaultMiddleware
from actions.sandbox.faults.panel import ActiveFault

PATH = "/sandbox/faults"
_decoder = json_decoder(Fault)


class _Scenario(msgspec.Struct, forbid_unknown_fields=True):
    scenario: str


_scenarios = json_decoder(_Scenario)


def add_fault_routes(app: web.Application, fault_middleware: FaultMiddleware) -> None:
    """Add the routes."""

    async def listing(_: web.Request) -> web.Response:
        return _answer([_shown(active) for active in fault_middleware.panel.active()])

    async def add(request: web.Request) -> web.Response:
        try:
            added = [fault_middleware.add(fault) for fault in _wanted(await request.read())]
        except (msgspec.MsgspecError, InputError) as error:
            return _answer({"error": str(error)}, code=400)
        return _answer([_shown(active) for active in added], code=201)

    async def clear(_: web.Request) -> web.Response:
        fault_middleware.panel.clear()
        return _answer([])

    async def lift(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if not fault_middleware.panel.lift(name):
            return _answer({"error": f"there is no fault {name}"}, code=404)
        return _answer([_shown(active) for active in fault_middleware.panel.active()])

    app.router.add_get(PATH, listing)
    app.router.add_post(PATH, add)
    app.router.add_delete(PATH, clear)
    app.router.add_delete(PATH + "/{name}", lift)


def _wanted(body: bytes) -> tuple[Fault, ...]:
    try:
        name = _scenarios.decode(body).scenario
    except msgspec.ValidationError:
        return (_decoder.decode(body),)
    if name not in SCENARIOS:
        raise InputError(f"There is no scenario {name}; there are {', '.join(sorted(SCENARIOS))}.")
    return SCENARIOS[name]


def _shown(active: ActiveFault) -> Object:
    shown: Object = msgspec.to_builtins(active.fault)
    return {**shown, "hits": active.hits}


def _answer(body: object, *, code: int = 200) -> web.Response:
    return web.Response(body=encode(body), status=code, content_type="application/json")
