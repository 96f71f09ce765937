"""The gap that a pod leaves which is gone before its log was read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from actions.base.clock import Clock
from actions.base.errors import AccessError
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import RetryPolicy
from actions.run.context.stage_context import StageContext
from actions.run.spool.followers import FollowerWarnings, PodFollower
from actions.run.spool.writer import SpoolWriter
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer
from tests.unit.cluster.servers import session_to

PLACE = ContainerLog("work", "p", "main", "u1")
STARTED = {"reason": "Started", "involvedObject": {"kind": "Pod", "name": "p", "uid": "u1"}}


class EventsOf:
    """A connection that knows the events of a pod."""

    def __init__(self, session: KubeSession, events: list[dict[str, Any]] | None) -> None:
        self.session = session
        self._events = events

    async def list_objects(self, _version: str, kind: str, **_query: str) -> list[dict[str, Any]]:
        if self._events is None:
            raise AccessError(f"You may not list {kind}s.")
        return self._events


class Stage:
    """A stage whose cluster is that connection."""

    def __init__(self, connection: EventsOf) -> None:
        self.clock: Clock = HastyClock()
        self._connection = connection

    async def connect(self, _policy: RetryPolicy) -> ClusterConnection:
        return cast(ClusterConnection, self._connection)


@pytest.mark.parametrize(
    ("events", "has_started", "loss"),
    [
        ([STARTED], False, "gone before the log was read to its end"),
        ([STARTED], True, "gone before the log was read to its end"),
        ([], True, "gone before the log was read to its end"),
        ([], False, ""),
        ([{**STARTED, "reason": "Scheduled"}], False, ""),
        ([{**STARTED, "involvedObject": {"kind": "Pod", "name": "p", "uid": "of another"}}], False, ""),
        (None, False, "its events may not be read"),
    ],
)
async def test_a_pod_that_ran_and_is_gone_unread_leaves_a_gap(
    tmp_path: Path, events: list[dict[str, Any]] | None, has_started: bool, loss: str
) -> None:
    async with session_to(LogServer(is_gone=True), tmp_path) as session, asyncio.timeout(60):
        context = cast(StageContext, Stage(EventsOf(session, events)))
        writer = SpoolWriter(tmp_path, "train")
        source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
        warnings = FollowerWarnings(lambda _text: None)
        await PodFollower(context, writer, warnings, PLACE, source, has_started=has_started).follow()
    assert source.is_ended
    assert len(writer.losses()) == bool(loss)
    assert loss in "".join(writer.losses())
