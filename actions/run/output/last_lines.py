"""The last lines of a stage that was stopped: read before its pods are removed, and a gap recorded for the rest.

A stage that ends by itself has its logs read by its collector. One that is cancelled has not, and one whose runner died
may have worked on, to its end, while no runner watched. Of one that another machine has seen succeed, the copy that has
come to this machine may lack something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from actions.base.executors import in_thread
from actions.blueprint.stages import StageWatch
from actions.cluster.logs.follow import container_lifecycle
from actions.run.context.stage_context import StageContext
from actions.run.output.collector import (
    LAST_LINES_SECONDS,
    LONGEST_LAST_LINES_SECONDS,
    Pod,
    StageCollector,
)
from actions.run.output.followers import STOPPED, gap_key, outcome_of
from actions.run.output.segments import StreamReader
from actions.run.output.streams import SOURCES, stream_path
from actions.run.state.view import StageState

CATCH_UP_SECONDS = 2.0
"""Silence of a running container's log after which it is taken as read up to now."""
_HALF_DONE = frozenset({StageState.CANCELLED, StageState.FAILED, StageState.PENDING, StageState.UNKNOWN})
"""A stage that is begun again is pending."""


async def _no_pods() -> bool:
    return False


async def read_last_lines(context: StageContext, *, has_had_pods: Callable[[], Awaitable[bool]] = _no_pods) -> str:
    """Store what the logs of a stopped stage still hold, for a minute at most, and record the gaps.

    Failures do not leave the call: nothing of this may keep what costs.

    Args:
        context: Of the stage, whose pods are about to be removed, by its end or before it is begun again. Nothing else
            collects its logs.
        has_had_pods: Tells of a stage of which no pod and no log is known if there have been some.

    Returns:
        The missing parts, one sentence each; without those that a stop leaves by itself.
    """
    watch = context.declaration.watch
    if watch is None or watch.logs is None or not await _may_lack_lines(context):
        return ""
    last = LastLines(context, watch, has_had_pods)
    try:
        await outcome_of(last.open_output())  # before the time of the logs begins
        with suppress(TimeoutError):  # the gaps are recorded all the same
            async with asyncio.timeout(LONGEST_LAST_LINES_SECONDS + LAST_LINES_SECONDS):
                await last.read()
    finally:
        await outcome_of(last.stop())
    return " ".join(loss for loss in last.losses if STOPPED not in loss)


async def _may_lack_lines(context: StageContext) -> bool:
    stage, view = context.stage, context.view
    if stage.state is not StageState.SUCCEEDED:
        return stage.state in _HALF_DONE and stage.attempt > 0
    return view.epoch > 1 and await in_thread("output", lacks_output, context.folder, stage.id)


def lacks_output(folder: Path, stage: str) -> bool:
    """Return whether nothing of a stage's output has come to this machine. Blocking."""
    try:
        return not StreamReader(stream_path(folder, stage, SOURCES)).end()
    except OSError:
        return False


class LastLines(StageCollector):
    """The collector of logs that end now: of containers that have ended to the end, of others up to the present.

    Args:
        context: The stage.
        watch: The sources to collect.
        has_had_pods: See `read_last_lines`.
    """

    def __init__(self, context: StageContext, watch: StageWatch, has_had_pods: Callable[[], Awaitable[bool]]) -> None:
        super().__init__(context, watch)
        self._has_had_pods = has_had_pods
        self._listed: set[str] | None = None
        """The uids of the pods that are there; `None` if they could not be listed."""

    async def read(self) -> None:
        """Read the logs, as long as lines come, within limits."""
        await self._warned(self._read(), "end")

    @property
    def _has_succeeded(self) -> bool:
        return self._context.stage.state is StageState.SUCCEEDED

    async def _read(self) -> None:
        if self._logs.pods:
            await self._find_last_pods(LONGEST_LAST_LINES_SECONDS)
            if self._listed is not None:
                for source in self._writer.sources():
                    if source.line.uid not in self._listed and not self._has_succeeded:  # which had read all
                        self._tell_vanished(source)
                if not self._listed and not self._writer.sources() and await self._has_had_pods():
                    self._tell_unseen()
            await self._end_followers(LONGEST_LAST_LINES_SECONDS)
        if self._file is not None:
            await self._end_file(self._file)

    def _look_for_unseen(self, *, has_pods: bool) -> None:
        self._listed = set()  # and `_follow` gets each of them

    def _follow(self, pod: Pod) -> None:
        """Follow a container unless it has not begun, goes on behind a gap that is recorded, or outlives its stage."""
        uid, name = pod["metadata"]["uid"], self._logs.container or pod["spec"]["containers"][0]["name"]
        self._listed = {*(self._listed or ()), uid}
        lifecycle = container_lifecycle(pod, name)
        goes_on = lifecycle.has_started and not self._has_succeeded and not self._has_gap(uid, name)
        if lifecycle.end is not None or goes_on:
            super()._follow(pod)

    def _has_gap(self, uid: str, container: str) -> bool:
        return any(
            self._writer.has_gap(gap_key(source))
            for source in self._writer.sources()
            if (source.line.uid, source.line.container) == (uid, container)
        )

    async def _end_followers(self, longest_seconds: float) -> None:
        known, began = -1, self._context.clock.monotonic()
        while open_tasks := [task for _, task in self._followers.values() if not task.done()]:
            self._context.journal.note("Reading the last lines of its logs.")
            has_end = any(place in self._ended for place, (_, task) in self._followers.items() if not task.done())
            count = sum(source.passed_count for source in self._writer.sources())
            left = began + (longest_seconds if has_end else LAST_LINES_SECONDS) - self._context.clock.monotonic()
            if left <= 0 or (count == known and not has_end):
                return
            known = count
            await asyncio.wait(open_tasks, timeout=min(CATCH_UP_SECONDS, left))
