"""The reflector against a server that does everything a server can do wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import AccessError
from actions.cluster.watch.health import Health, SourceHealth
from tests.support.virtual import virtually
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import Reply, Script, bookmark, event, page, refusal, stream, text, thing, trouble
from tests.unit.cluster.reflecting import Mirror, reflecting, reflector_of
from tests.unit.cluster.servers import session_to


async def test_it_lists_then_watches_from_the_lists_version(tmp_path: Path) -> None:
    changes = stream(event("ADDED", thing("b", 11)), event("DELETED", thing("a", 12)), then="hang")
    async with reflecting(tmp_path, page([thing("a", 5)], 10), changes) as it:
        await it.mirror.until(lambda: list(it.mirror.values) == ["b"])
        assert it.script.kinds == ["list", "watch"]
        assert it.script.queries[1]["resourceVersion"] == "10"
        assert it.script.queries[1]["allowWatchBookmarks"] == "true"
        assert it.mirror.states[-1].state is Health.LIVE


async def test_pages_are_published_together(tmp_path: Path) -> None:
    pages = (page([thing("a", 1)], 10, following="next"), page([thing("b", 2)], 10))
    async with reflecting(tmp_path, *pages, stream(then="hang")) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert it.mirror.replaced == [["a", "b"]]
        assert it.script.queries[1]["continue"] == "next"


async def test_a_streamed_list_may_come_in_any_order(tmp_path: Path) -> None:
    start = stream(
        event("ADDED", thing("b", 9)),
        event("ADDED", thing("a", 3)),
        event("MODIFIED", thing("a", 12, value="new")),
        event("DELETED", thing("b", 13)),
        bookmark(20, ends_initial=True),
        event("ADDED", thing("c", 21)),
        then="end",
    )
    async with reflecting(tmp_path, start, stream(then="hang"), streamed=True) as it:
        await it.until_requests(2)
        assert it.mirror.replaced == [["a"]]
        assert it.mirror.values == {"a": "new", "c": ""}
        assert it.script.kinds == ["stream", "watch"]
        assert it.script.queries[1]["resourceVersion"] == "21"


async def test_a_list_is_read_without_rests_and_changes_with_one_after_each_batch(tmp_path: Path) -> None:
    start = stream(event("ADDED", thing("a", 1)), event("ADDED", thing("b", 2)), bookmark(10, ends_initial=True))
    change = stream(event("MODIFIED", thing("a", 11, value="new")), then="hang")
    async with reflecting(tmp_path, start, change, streamed=True, rest_seconds=0.25) as it:
        await it.mirror.until(lambda: it.mirror.values == {"a": "new", "b": ""})
        await it.until_slept(2)
        assert it.clock.slept == [0.25, 0.25]


async def test_a_server_without_streamed_lists_is_listed(tmp_path: Path) -> None:
    replies = (refusal(422, "Invalid", "sendInitialEvents is forbidden"), page([thing("a", 1)], 4), stream(then="hang"))
    async with reflecting(tmp_path, *replies, streamed=True) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert it.script.kinds[:2] == ["stream", "list"]
        assert it.clock.slept == []


async def test_a_streamed_list_cut_before_its_end_publishes_nothing(tmp_path: Path) -> None:
    torn = stream(event("ADDED", thing("a", 1)), then="cut")
    whole = stream(event("ADDED", thing("b", 1)), bookmark(2, ends_initial=True), then="hang")
    async with reflecting(tmp_path, torn, whole, streamed=True) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert it.mirror.replaced == [["b"]]
        assert it.mirror.saw(Health.RECONNECTING)


async def test_a_410_event_lists_again_and_drops_what_is_gone(tmp_path: Path) -> None:
    replies = (
        page([thing("a", 1), thing("b", 2)], 10),
        stream(trouble(410, "Expired", "too old resource version")),
        page([thing("b", 2)], 30),
        stream(then="hang"),
    )
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(4)
        assert list(it.mirror.values) == ["b"]
        assert it.script.queries[3]["resourceVersion"] == "30"


async def test_a_410_status_lists_again(tmp_path: Path) -> None:
    replies = (page([thing("a", 1)], 10), refusal(410, "Gone"), page([], 30), stream(then="hang"))
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(4)
        assert it.mirror.values == {}


async def test_a_410_on_a_continue_token_begins_the_list_anew(tmp_path: Path) -> None:
    replies = (
        page([thing("a", 1)], 10, following="next"),
        refusal(410, "Expired"),
        page([thing("b", 2)], 20),
        stream(then="hang"),
    )
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(4)
        assert it.mirror.replaced == [["b"]]
        assert "continue" not in it.script.queries[2]


async def test_a_410_for_ever_does_not_become_a_hot_loop(tmp_path: Path) -> None:
    endless = [reply for _ in range(10) for reply in (page([], 10), refusal(410, "Expired"))]
    async with reflecting(tmp_path, *endless) as it:
        await it.until_requests(20)
        assert len(it.clock.slept) >= 8
        assert sum(it.clock.slept) > 60


async def test_a_version_too_large_lists_again(tmp_path: Path) -> None:
    replies = (
        page([], 10),
        refusal(504, "Timeout", "Too large resource version: 10, current: 3"),
        page([thing("a", 1)], 3),
        stream(then="hang"),
    )
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(4)
        assert it.script.queries[3]["resourceVersion"] == "3"


async def test_a_server_that_ends_every_watch_at_once_is_asked_slowly(tmp_path: Path) -> None:
    async with reflecting(tmp_path, page([], 10), *([stream()] * 3), *([page([], 10), stream()] * 10)) as it:
        await it.until_requests(15)
        assert sum(it.clock.slept) / len(it.script.queries) > 1.0


async def test_a_server_that_ends_every_watch_after_one_event_is_asked_slowly(tmp_path: Path) -> None:
    async with reflecting(tmp_path, page([], 10), stream(event("ADDED", thing("a", 11)))) as it:
        await it.until_requests(10)
        assert it.script.kinds == ["list"] + ["watch"] * (len(it.script.queries) - 1)
        assert sum(it.clock.slept) > 30


async def test_a_watch_resumes_from_the_last_bookmark(tmp_path: Path) -> None:
    first = stream(event("ADDED", thing("a", 11)), bookmark(40))
    async with reflecting(tmp_path, page([], 10), first, stream(then="hang")) as it:
        await it.until_requests(3)
        assert it.script.queries[2]["resourceVersion"] == "40"


@virtually
async def test_a_silent_stream_is_given_up_without_listing_again(tmp_path: Path) -> None:
    silent = stream(event("ADDED", thing("a", 11)), then="hang")
    async with reflecting(tmp_path, page([], 10), silent, idle_seconds=0.2) as it:
        await it.until_requests(3)
        assert it.script.kinds == ["list", "watch", "watch"]
        assert it.script.queries[2]["resourceVersion"] == "11"


async def test_events_may_be_cut_at_every_byte(tmp_path: Path) -> None:
    whole = event("ADDED", thing("a", 11, value="größe ✓")) + event("MODIFIED", thing("a", 12, value="日本"))
    chunks = [whole[index : index + 1] for index in range(len(whole))]
    async with reflecting(tmp_path, page([], 10), stream(*chunks, then="hang")) as it:
        await it.mirror.until(lambda: it.mirror.values == {"a": "日本"})
        assert it.mirror.states[-1].skipped == 0


async def test_an_event_cut_off_in_the_middle_is_asked_for_again(tmp_path: Path) -> None:
    half = event("ADDED", thing("b", 12))
    torn = stream(event("ADDED", thing("a", 11)), half[: len(half) // 2], then="cut")
    async with reflecting(tmp_path, page([], 10), torn, stream(half, then="hang")) as it:
        await it.mirror.until(lambda: set(it.mirror.values) == {"a", "b"})
        assert it.script.queries[2]["resourceVersion"] == "11"
        assert it.script.kinds == ["list", "watch", "watch"]


async def test_a_429_waits_as_long_as_the_server_wishes(tmp_path: Path) -> None:
    throttled = text(429, "slow down", content_type="text/plain", headers={"Retry-After": "23"})
    async with reflecting(tmp_path, page([], 10), throttled, stream(then="hang")) as it:
        await it.until_requests(3)
        assert it.clock.slept[0] >= 23
        assert it.mirror.saw(Health.THROTTLED)
        assert it.script.queries[2]["resourceVersion"] == "10"


async def test_html_of_a_proxy_during_the_list_is_survived(tmp_path: Path) -> None:
    bad = text(502, "<html>Bad Gateway</html>")
    async with reflecting(tmp_path, bad, page([thing("a", 1)], 10), stream(then="hang")) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert "Bad Gateway" in next(entry.detail for entry in it.mirror.states if entry.state is Health.RECONNECTING)


@pytest.mark.parametrize(("code", "state"), [(403, Health.FORBIDDEN), (401, Health.UNAUTHORIZED)])
async def test_refusals_are_shown_and_tried_again_slowly(tmp_path: Path, code: int, state: Health) -> None:
    async with reflecting(tmp_path, refusal(code, "No"), refusal(code, "No"), page([], 9), stream(then="hang")) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert it.mirror.saw(state)
        assert sum(it.clock.slept) > 2


async def test_a_missing_right_is_asked_for_seldom_and_other_credentials_soon(tmp_path: Path) -> None:
    for code, least, most in ((403, 600.0, 1200.0), (401, 30.0, 60.0)):
        refused = [refusal(code, "No")] * 12
        async with reflecting(tmp_path, *refused, page([], 9), stream(then="hang")) as it:
            await it.mirror.until(lambda it=it: it.mirror.saw(Health.LIVE))  # type: ignore[misc]
            assert it.clock.slept[0] < 2
            assert least <= max(it.clock.slept) <= most


async def test_a_kind_that_is_not_there_is_asked_for_slowly_and_by_no_stream(tmp_path: Path) -> None:
    missing, look = refusal(404, "NotFound"), page([], 8)
    changes = stream(event("ADDED", thing("a", 9)), bookmark(10, ends_initial=True), then="hang")
    async with reflecting(tmp_path, missing, missing, look, changes, streamed=True) as it:
        await it.mirror.until(lambda: it.mirror.saw(Health.LIVE))
        assert it.mirror.saw(Health.MISSING)
        assert set(it.mirror.values) == {"a"}
        assert sum(it.clock.slept) > 5
        assert it.script.kinds == ["stream", "list", "list", "stream"]


async def test_a_kind_that_is_removed_empties_the_sink(tmp_path: Path) -> None:
    replies = (page([thing("a", 1)], 10), refusal(404, "NotFound"), refusal(404, "NotFound"))
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(3)
        await it.mirror.until(lambda: it.mirror.values == {})
        assert it.mirror.states[-1].state is Health.MISSING


async def test_an_unreadable_object_is_skipped_and_counted(tmp_path: Path) -> None:
    items = [thing("a", 1), thing("bad", 2, value="unreadable")]
    changes = stream(
        event("ADDED", thing("worse", 11, value="unreadable")), event("ADDED", thing("c", 12)), then="hang"
    )
    async with reflecting(tmp_path, page(items, 10), changes) as it:
        await it.mirror.until(lambda: set(it.mirror.values) == {"a", "c"})
        assert it.mirror.states[-1] == SourceHealth(Health.LIVE, "", it.mirror.states[-1].since, 2)


async def test_the_same_name_with_another_uid_is_another_object(tmp_path: Path) -> None:
    changes = stream(
        event("ADDED", thing("a", 11, uid="new", value="second")),
        event("DELETED", thing("a", 12, uid="old")),
        event("ADDED", thing("end", 13)),
        then="hang",
    )
    async with reflecting(tmp_path, page([thing("a", 1, uid="old")], 10), changes) as it:
        await it.mirror.until(lambda: "end" in it.mirror.values)
        assert it.mirror.uids["a"] == "new"


async def test_an_error_event_that_says_nothing_lists_again(tmp_path: Path) -> None:
    replies = (page([thing("a", 1)], 10), stream(event("ERROR", {})), page([], 20), stream(then="hang"))
    async with reflecting(tmp_path, *replies) as it:
        await it.until_requests(4)
        assert it.script.kinds == ["list", "watch", "list", "watch"]


async def test_an_object_of_many_megabytes_is_read(tmp_path: Path) -> None:
    big = thing("big", 11, value="x" * (6 << 20))
    async with reflecting(tmp_path, page([], 10), stream(event("ADDED", big), then="hang")) as it:
        await it.mirror.until(lambda: "big" in it.mirror.values)
        assert len(it.mirror.values["big"]) == 6 << 20


async def test_cancelling_closes_the_connection(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def notice(request: Any) -> Any:
        try:
            return await stream(then="hang")(request)
        finally:
            closed.set()

    async with reflecting(tmp_path, page([], 10), notice) as it:
        await it.until_requests(2)
        it.task.cancel()
        await asyncio.wait_for(closed.wait(), 60)


_WHOLE = stream(event("ADDED", thing("a", 1)), bookmark(2, ends_initial=True), then="hang")
_PAGE = page([thing("a", 1)], 2)


@pytest.mark.parametrize(
    ("replies", "kinds"),
    [
        ((_WHOLE,), ["stream"]),
        ((refusal(422, "Invalid"), _PAGE), ["stream", "list"]),
        ((refusal(403, "Forbidden", "may list, may not watch"), _PAGE), ["stream", "list"]),
        ((stream(event("ADDED", thing("b", 1)), then="cut"), _PAGE), ["stream", "list"]),
    ],
    ids=["streamed", "not-served", "no-watch", "cut"],
)
async def test_one_list_is_streamed_or_else_read_in_pages(
    tmp_path: Path, replies: tuple[Reply, ...], kinds: list[str]
) -> None:
    script, mirror = Script(*replies), Mirror()
    async with session_to(script, tmp_path) as session:
        assert await reflector_of(session, mirror, HastyClock(), prefers_watch_list=True).run_once() == 0
    assert (mirror.replaced, script.kinds) == ([["a"]], kinds)


async def test_one_list_that_is_refused_raises(tmp_path: Path) -> None:
    script = Script(refusal(403, "Forbidden", "may not"))
    async with session_to(script, tmp_path) as session:
        with pytest.raises(AccessError, match="may not"):
            await reflector_of(session, Mirror(), HastyClock(), prefers_watch_list=True).run_once()
    assert script.kinds == ["stream", "list"]
