"""Never more than a handful of requests a second, whatever the server does, for as long as it does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.cluster.faults import Reply, bookmark, event, page, refusal, stream, text, thing, trouble
from tests.unit.cluster.reflecting import reflecting

_REQUESTS = 30
_MOST_A_SECOND = 3.0


async def _cut(request: web.Request) -> web.StreamResponse:
    """The connection is closed before there is an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


FAULTS: dict[str, Reply] = {
    "410 as an answer": refusal(410, "Expired"),
    "410 as an event": stream(trouble(410, "Expired", "too old resource version")),
    "410 after an event": stream(event("ADDED", thing("a", 11)), trouble(410, "Gone")),
    "429": refusal(429, "TooManyRequests"),
    "429 with a wish": refusal(429, "TooManyRequests", headers={"Retry-After": "1"}),
    "429 as an event": stream(trouble(429, "TooManyRequests")),
    "500": refusal(500, "InternalError"),
    "500 as an event": stream(trouble(500, "InternalError")),
    "502 of a proxy": text(502, "<html>Bad Gateway</html>"),
    "503": refusal(503, "ServiceUnavailable"),
    "504 too large": refusal(504, "Timeout", "Too large resource version: 10, current: 3"),
    "400": refusal(400, "BadRequest"),
    "401": refusal(401, "Unauthorized"),
    "403": refusal(403, "Forbidden"),
    "404": refusal(404, "NotFound"),
    "406": refusal(406, "NotAcceptable"),
    "200 of a proxy": text(200, "<html>Log in</html>"),
    "closed": _cut,
    "nothing": stream(),
    "one event": stream(event("ADDED", thing("a", 11))),
    "one bookmark": stream(bookmark(12)),
    "half an event": stream(event("ADDED", thing("a", 11))[:20], then="cut"),
    "a list and no more": stream(event("ADDED", thing("a", 5)), bookmark(10, ends_initial=True)),
    "an error without a word": stream(event("ERROR", {"kind": "Status"})),
    "no event": stream(b'{"hello": 1}\n'),
    "not JSON": stream(b"hello\n"),
}


@pytest.mark.parametrize("begins_well", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_that_stays_is_met_with_few_requests(
    tmp_path: Path, fault: str, streamed: bool, begins_well: bool
) -> None:
    good = stream(event("ADDED", thing("a", 5)), bookmark(10, ends_initial=True)) if streamed else page([], 10)
    replies = [good, FAULTS[fault]] if begins_well else [FAULTS[fault]]
    async with reflecting(tmp_path, *replies, streamed=streamed) as it:
        await it.until_requests(_REQUESTS)
        assert sum(it.clock.slept) >= _REQUESTS / _MOST_A_SECOND


_HALF_LISTS: dict[str, Reply] = {
    "410 as an answer": FAULTS["410 as an answer"],
    "410 as an event": stream(event("ADDED", thing("old", 4)), trouble(410, "Expired")),
    "a cache that is behind": stream(trouble(504, "Timeout", "Too large resource version: 481, current: 402")),
}


@pytest.mark.parametrize("fault", _HALF_LISTS)
async def test_a_streamed_list_that_fails_is_begun_anew_at_once_and_nothing_of_the_first_is_shown(
    tmp_path: Path, fault: str
) -> None:
    first = _HALF_LISTS[fault]
    whole = stream(event("ADDED", thing("new", 5)), bookmark(10, ends_initial=True), then="hang")
    async with reflecting(tmp_path, first, whole, streamed=True) as it:
        await it.mirror.until(lambda: it.mirror.values)
        assert it.mirror.replaced == [["new"]]
        assert [query.get("sendInitialEvents") for query in it.script.queries] == ["true", "true"]
        assert it.clock.slept == []
