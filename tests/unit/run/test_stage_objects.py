"""Objects of a stage that are on their way out when it wants to apply them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from actions.cluster.objects.client import Discovery, ObjectRef
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import StageFailedError
from actions.run.objects.writes import settled
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.servers import session_to

_KINDS = {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
_REF = ObjectRef("v1", "ConfigMap", "work", "held")


class Api:
    """One ConfigMap that is being deleted, and is gone after some looks at it."""

    def __init__(self, looks: float) -> None:
        self.looks = looks

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/api/v1":
            return web.json_response(_KINDS)
        self.looks -= 1
        if self.looks < 0:
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        metadata = {
            "name": "held",
            "uid": "u",
            "deletionTimestamp": "2026-11-21T10:00:00Z",
            "finalizers": ["acme.io/slow"],
        }
        return web.Response(text=json.dumps({"metadata": metadata}), content_type="application/json")


async def test_what_is_being_deleted_is_waited_for_before_it_is_applied_anew(tmp_path: Path) -> None:
    notes: list[str] = []
    async with session_to(Api(3), tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        assert await settled(connection, _REF, clock=HastyClock(), note=notes.append) is None
    assert notes == ["ConfigMap work/held is going, held by acme.io/slow."] * 3


class LeapingClock(HastyClock):
    """Every wait is a long one."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(max(seconds, 200.0))


async def test_what_never_goes_is_said_with_what_holds_it(tmp_path: Path) -> None:
    async with session_to(Api(float("inf")), tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        with pytest.raises(StageFailedError, match=r"After 600 s .* is going, held by acme\.io/slow\."):
            await settled(connection, _REF, clock=LeapingClock(), note=lambda _: None)
