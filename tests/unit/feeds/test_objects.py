"""The rows of one kind over HTTP: listed, watched, refused, listed again, left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from actions.cluster.objects.catalogue import ServedKind
from tests.support.polling import until
from tests.unit.cluster.clocks import HandClock
from tests.unit.cluster.servers import session_to
from tests.unit.feeds.serving import Connected, WatchServer
from tui.feeds.cluster import ClusterFeed
from tui.feeds.objects import ObjectsFeed, ObjectsScope
from tui.feeds.supervisor import FeedState

WATCHED = ServedKind("apps", "v1", "deployments", "Deployment", verbs=("get", "list", "watch"))
LISTED = ServedKind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", is_namespaced=False, verbs=("get", "list"))
COLUMNS = [{"name": "Name", "type": "string", "format": "name"}, {"name": "Ready", "type": "string"}]


def a_table(*rows: tuple[str, str], version: str = "5") -> dict[str, Any]:
    return {
        "kind": "Table",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": COLUMNS,
        "rows": [
            {"cells": [name, ready], "object": {"metadata": {"name": name, "namespace": "work", "uid": f"u-{name}"}}}
            for name, ready in rows
        ],
    }


@dataclass
class Tables(WatchServer):
    """A server of tables."""

    rows: list[tuple[str, str]] = field(default_factory=lambda: [("web", "1/2")])
    is_forbidden: bool = False

    def listed(self) -> dict[str, Any]:
        return a_table(*self.rows)

    def refusal(self, request: web.Request) -> str:
        assert "as=Table" in request.headers["Accept"]
        return (
            'deployments.apps is forbidden: User "me" cannot list resource "deployments"' if self.is_forbidden else ""
        )


@asynccontextmanager
async def following(
    tables: Tables, scope: ObjectsScope, folder: Path, clock: HandClock | None = None
) -> AsyncIterator[ObjectsFeed]:
    async with session_to(tables, folder) as session:
        cluster = cast("ClusterFeed", Connected(session))
        feed = ObjectsFeed(lambda: cluster, clock=clock or HandClock(), changed=lambda: None)
        feed.show(scope)
        running = asyncio.create_task(feed.run(lambda: None))
        try:
            yield feed
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def texts(feed: ObjectsFeed) -> list[str]:
    return [" ".join(map(str, row.cells)) for row in feed.rows.values()]


async def test_a_kind_is_listed_with_its_selectors_and_then_watched(tmp_path: Path) -> None:
    tables = Tables()
    async with following(tables, ObjectsScope(WATCHED, "work", labels="app=web", fields="a=b"), tmp_path) as feed:
        await until(lambda: feed.health().state is FeedState.LIVE and texts(feed) == ["web 1/2"], "the list")
        assert [column.name for column in feed.columns] == ["Name", "Ready"]
        assert feed.take_changes() == (True, frozenset())
        tables.events.put_nowait({"type": "MODIFIED", "object": a_table(("web", "2/2")) | {"columnDefinitions": []}})
        await until(lambda: texts(feed) == ["web 2/2"], "the change")
        assert feed.take_changes() == (False, frozenset({"work/web u-web"}))
        tables.events.put_nowait({"type": "DELETED", "object": a_table(("web", "2/2"))})
        await until(lambda: not feed.rows, "the deletion")
    listed, watched = tables.asked[:2]
    assert listed["path"] == "/apis/apps/v1/namespaces/work/deployments"
    assert (listed["labelSelector"], listed["fieldSelector"]) == ("app=web", "a=b")
    assert (watched["watch"], watched["resourceVersion"], watched["labelSelector"]) == ("true", "5", "app=web")


async def test_a_refusal_names_verb_and_resource(tmp_path: Path) -> None:
    async with following(Tables(is_forbidden=True), ObjectsScope(WATCHED), tmp_path) as feed:
        await until(lambda: feed.health().state is FeedState.REFUSED, "the refusal")
        assert feed.health().detail == "you may not list deployments"


async def test_what_cannot_be_watched_is_listed_now_and_then(tmp_path: Path) -> None:
    tables = Tables()
    async with following(tables, ObjectsScope(LISTED), tmp_path) as feed:
        await until(lambda: texts(feed) == ["web 1/2"], "the list")
        assert feed.health().detail == "listed every 10 s"
    assert not any("watch" in asked for asked in tables.asked)


async def test_a_table_that_is_not_looked_at_is_no_longer_watched(tmp_path: Path) -> None:
    tables, clock = Tables(), HandClock()
    async with following(tables, ObjectsScope(WATCHED), tmp_path, clock) as feed:
        await until(lambda: texts(feed) == ["web 1/2"], "the list")
        feed.take_changes()
        tables.events.put_nowait({"type": "MODIFIED", "object": a_table(("web", "2/2"))})
        await until(lambda: texts(feed) == ["web 2/2"], "the change")
        clock.pass_by(61)
        tables.events.put_nowait({"type": "MODIFIED", "object": a_table(("web", "0/2"))})
        await until(lambda: feed.is_suspended, "the watch ends")
        assert feed.resume()
        assert (texts(feed), feed.is_suspended, feed.resume()) == ([], False, False)
