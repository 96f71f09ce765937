"""Lists and watches over HTTP: pages, tables, bookmarks, the lost past."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from actions.sandbox.apiserver.storage.store import Store
from tests.unit.sandbox.apiserver.server import CONFIG_MAPS, PODS, Client, a_pod, an_api, create, patch


async def events(client: Client, path: str, **query: str) -> AsyncGenerator[dict[str, Any], None]:
    async with client.get(path, params={"watch": "1", **query}) as answer:
        async for line in answer.content:
            yield msgspec.json.decode(line)


async def fill(client: Client, *names: str) -> None:
    for name in names:
        await create(client, CONFIG_MAPS, {"metadata": {"name": name, "labels": {"initial": name[0]}}})


async def listed(client: Client, path: str, **query: str) -> dict[str, Any]:
    answer = await client.get(path, params=query)
    body: dict[str, Any] = await answer.json()
    return body


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_a_page_token_from_the_forgotten_past_is_gone() -> None:
    async with an_api(store=Store(kept=2)) as client:
        await fill(client, "a", "b")
        first = await listed(client, CONFIG_MAPS, limit="1")
        await fill(client, "c", "d", "e", "f")
        answer = await client.get(CONFIG_MAPS, params={"limit": "1", "continue": first["metadata"]["continue"]})
        assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_selectors_choose_and_the_future_is_not_served() -> None:
    async with an_api() as client:
        await fill(client, "aa", "ab", "b")
        assert names(await listed(client, CONFIG_MAPS, labelSelector="initial=a")) == ["aa", "ab"]
        assert names(await listed(client, CONFIG_MAPS, fieldSelector="metadata.name=b")) == ["b"]
        future = await listed(client, CONFIG_MAPS, resourceVersion="999999")
    assert (future["code"], future["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_an_object_that_stops_matching_is_deleted_for_the_watch() -> None:
    async with an_api() as client:
        await fill(client, "a")
        version = (await listed(client, CONFIG_MAPS))["metadata"]["resourceVersion"]
        await patch(client, f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"initial": "z"}}})
        for selector, kind in (("initial=a", "DELETED"), ("initial=z", "ADDED"), ("initial", "MODIFIED")):
            watch = events(client, CONFIG_MAPS, resourceVersion=version, labelSelector=selector, timeoutSeconds="1")
            assert (await anext(watch))["type"] == kind
            await watch.aclose()


async def test_a_quiet_watch_sends_bookmarks_with_the_present_version() -> None:
    async with an_api() as client:
        version = (await listed(client, CONFIG_MAPS))["metadata"]["resourceVersion"]
        await create(client, PODS, a_pod())
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "5"}
        watch = events(client, CONFIG_MAPS, **query)
        bookmark = await anext(watch)
        await watch.aclose()
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_watch_from_the_forgotten_past_is_told_so() -> None:
    async with an_api(store=Store(kept=1)) as client:
        await fill(client, "a", "b", "c", "d")
        for version in ("1001", "5"):
            event = await anext(events(client, CONFIG_MAPS, resourceVersion=version))
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_initial_events_need_their_match_rule() -> None:
    async with an_api() as client:
        answer = await client.get(CONFIG_MAPS, params={"watch": "1", "sendInitialEvents": "true"})
        assert answer.status == 422
