"""The fleet asked once: pages of pods as protobuf or as JSON, counted alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import UnreachableError
from actions.cluster.state.listing import fetch_nodes
from actions.cluster.watch.protobuf_format import CONTENT_TYPE
from actions.fleet.facts import NodeUsage
from tests.unit.cluster import protobytes
from tests.unit.cluster.faults import refusal
from tests.unit.cluster.samples import NODE, POD, a_pod
from tests.unit.cluster.servers import session_to


class Fleet:
    """Two pages of one pod each; `speaks_protobuf` where it is asked for."""

    def __init__(self, *, speaks_protobuf: bool) -> None:
        self.asked: list[str] = []
        self._speaks_protobuf = speaks_protobuf
        self._pods = [POD, a_pod("other")]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/nodes"):
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [NODE]})
        if not request.path.endswith("/pods"):
            return await refusal(404, "NotFound")(request)
        self.asked.append(request.headers["Accept"])
        place = int(request.query.get("continue", "0"))
        following = str(place + 1) if place + 1 < len(self._pods) else ""
        pod = self._pods[place]
        if self._speaks_protobuf:
            body = protobytes.list_of([protobytes.pod_bytes(pod)], "7", following=following)
            return web.Response(body=body, content_type=CONTENT_TYPE)
        return web.json_response({"metadata": {"resourceVersion": "7", "continue": following}, "items": [pod]})


async def _usage(folder: Path, fleet: Fleet) -> dict[str, NodeUsage]:
    async with session_to(fleet, folder) as session:
        return dict((await fetch_nodes(session)).usage)


@pytest.mark.parametrize("speaks_protobuf", [False, True])
async def test_all_pages_are_counted_in_either_form(tmp_path: Path, speaks_protobuf: bool) -> None:
    fleet = Fleet(speaks_protobuf=speaks_protobuf)
    usage = await _usage(tmp_path, fleet)
    assert [use.pods for use in usage.values()] == [2]
    assert all(CONTENT_TYPE in accept for accept in fleet.asked)


async def test_both_forms_say_the_same(tmp_path: Path) -> None:
    assert await _usage(tmp_path, Fleet(speaks_protobuf=True)) == await _usage(tmp_path, Fleet(speaks_protobuf=False))


async def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    async def odd(request: web.Request) -> web.StreamResponse:
        items = [NODE, None, {}, {"metadata": None}, 5] if request.path.endswith("/nodes") else [{"spec": 1}, POD]
        return web.json_response({"metadata": {}, "items": items})

    async with session_to(odd, tmp_path) as session:
        listed = await fetch_nodes(session)
    assert [node.name for node in listed.nodes] == [NODE["metadata"]["name"]]
    assert [use.pods for use in listed.usage.values()] == [1]


async def test_what_is_no_list_is_said_to_be_none(tmp_path: Path) -> None:
    async def empty(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({})

    async with session_to(empty, tmp_path) as session:
        with pytest.raises(UnreachableError, match="/api/v1/nodes did not answer with a list"):
            await fetch_nodes(session)
