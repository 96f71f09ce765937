"""The feeds of a console that captures, and of one that shows a capture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, JournalError
from actions.base.executors import NamedExecutor
from tui.feeds.alarms import AlarmFeed
from tui.feeds.runs import LIST_EVERY_SECONDS, RunFeed
from tui.feeds.ticker import Ticker

if TYPE_CHECKING:
    from actions.capture.runs import RunsCapture
    from actions.capture.writer import CaptureWriter
    from actions.cloud.account import CallerIdentity
    from actions.cluster.auth.session import KubeSession, Through
    from actions.replay.clock import ReplayClock
    from actions.replay.replay import Replay

_LOOK_SECONDS = 0.25
_MANY = 3_000
"""Changes after which it is quicker to list again than to follow each."""
_FAR_SECONDS = 5.0
"""A source that waits before it asks again waits so long."""
_CATCH_UP_SECONDS = 5.0
_TURN_SECONDS = 0.01
_LAST_LOOK_SECONDS = 0.5
_LEAST_LIST_SECONDS = 1.0


class CaptureFeed:
    """The part of a capture that the console itself hands over: runs, the one on screen, the AWS identity.

    Args:
        writer: The capture.
        clock: Time.
    """

    def __init__(self, writer: CaptureWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._shown = ""
        self._runs: RunsCapture | None = None
        self._disk = NamedExecutor("capture")

    def through(self) -> Through:
        """Return what captures the sessions with clusters."""
        from actions.capture.transport import captured

        return captured(self._writer)

    def identified(self, caller: CallerIdentity | None, trouble: str) -> None:
        """Keep an answer about the AWS identity."""
        from actions.base.untrusted import redact
        from actions.capture.entries import IdentityAnswer

        if caller is None:
            self._writer.put(IdentityAnswer(at=self._writer.at, trouble=redact(trouble)))
            return
        ends = [moment.timestamp() if moment else 0.0 for moment in (caller.expires_at, caller.ends_at)]
        self._writer.put(
            IdentityAnswer(
                at=self._writer.at,
                account=caller.account,
                arn=caller.arn,
                region=caller.region,
                profile=caller.profile,
                expires_at=ends[0],
                ends_at=ends[1],
            )
        )

    def badge(self) -> str:
        """Return the header's badge."""
        return "capture stopped" if self._writer.stopped else "capture"

    async def run(self, runs: RunFeed, alarms: AlarmFeed) -> NoReturn:
        """Copy runs until cancelled.

        Args:
            runs: The run on screen.
            alarms: Shows a sentence when the capture has stopped by itself.
        """
        from actions.capture.entries import RunShown
        from actions.capture.runs import LOOK_SECONDS, RunsCapture

        self._runs = self._runs or RunsCapture(self._writer, self._clock)
        has_complained = False
        while True:
            await self._disk.call(self._runs.look)
            shown = runs.view.id if runs.view else ""
            if shown != self._shown:
                self._shown = shown
                self._writer.put(RunShown(at=self._writer.at, run=self._shown))
            if self._writer.stopped and not has_complained and alarms.complain is not None:
                has_complained = True
                alarms.complain(f"The capture {self._writer.file.name} has stopped: {self._writer.stopped}.")
            await self._clock.sleep(LOOK_SECONDS)

    async def ask_for_kinds(self, session: KubeSession) -> None:
        """Ask a cluster once for what diagnoses and the objects pane ask it later, so that a replay can answer them."""
        from actions.cluster.kinds import EVIDENCE
        from actions.cluster.objects.catalogue import load_catalogue

        versions = dict.fromkeys(kind.api_version for kind in EVIDENCE)
        roots = [f"/apis/{version}" if "/" in version else f"/api/{version}" for version in versions]
        with suppress(ConsoleError):
            await load_catalogue(session)
        for root in roots:
            with suppress(ConsoleError):
                await session.request("GET", root)

    async def aclose(self) -> None:
        """Copy what runs have written last, and stop."""
        if self._runs is not None:
            with suppress(TimeoutError, RuntimeError):
                async with asyncio.timeout(_LAST_LOOK_SECONDS):
                    await self._disk.call(self._runs.look)
        self._disk.close()


def badge_text(clock: ReplayClock) -> str:
    """Return the moment that a replay shows: `replay 14:02:07 ×4`; to the millisecond while it is paused, for steps."""
    moment = datetime.fromtimestamp(clock.began_at + clock.at, UTC)
    if clock.is_paused and not clock.has_ended:
        return f"replay {moment:%H:%M:%S}.{moment.microsecond // 1000:03} paused"
    return f"replay {moment:%H:%M:%S} {'end' if clock.has_ended else f'×{clock.speed:g}'}"


class ReplayFeed:
    """The moment of a capture that a console shows: it moves runs and cluster there. Used on the loop only.

    Args:
        replay: The capture.
        runs: The feed that shows its runs.
        ticker: Paints each moment.
        connect: Connects the console to the cluster of the moment.
        read_anew: Reads that cluster again, with everything that follows one of its pods or jobs.
    """

    def __init__(
        self,
        replay: Replay,
        runs: RunFeed,
        ticker: Ticker,
        *,
        connect: Callable[[], None],
        read_anew: Callable[[], Awaitable[None]],
    ) -> None:
        self.replay = replay
        self.epoch = 0
        """Grows when everything on screen is to be read again."""
        self._runs = runs
        self._ticker = ticker
        self._connect = connect
        self._read_anew = read_anew
        self._disk = NamedExecutor("replay")
        self._moving = asyncio.Lock()
        self._shown: str | None = None
        self._known: frozenset[str] = frozenset()
        self._server = ""
        self._listed_at = 0.0
        replay.clock.changed = ticker.request_paint

    def badge(self) -> str:
        """Return the header's badge; see `badge_text`."""
        return badge_text(self.replay.clock)

    def identity(self) -> tuple[CallerIdentity | None, str]:
        """Return the AWS identity of the moment, or the reason why there was none."""
        from actions.cloud.account import CallerIdentity

        found = self.replay.index.identity_at(self.replay.clock.at)
        if found is None or not found.account:
            return None, found.trouble if found else ""
        ends = [datetime.fromtimestamp(at, UTC) if at else None for at in (found.expires_at, found.ends_at)]
        return CallerIdentity(found.account, found.arn, found.region, found.profile, ends[0], ends[1]), ""

    async def run(self, live: Callable[[], None]) -> NoReturn:
        """Show what the capture has, moment by moment, until cancelled."""
        clock = self.replay.clock
        live()
        while True:
            async with self._moving:
                await self._show_runs(lists=self._is_list_old)
                cluster = self.replay.cluster()
                if cluster is not None and cluster.server != self._server:
                    is_other, self._server = bool(self._server), cluster.server
                    if is_other:
                        self._connect()
            if not clock.is_paused:
                self._ticker.request_paint()
            await asyncio.sleep(_LOOK_SECONDS)

    async def go_to(self, at: float) -> None:
        """Show another moment; return when runs and cluster are there."""
        clock = self.replay.clock
        async with self._moving:
            before = clock.at
            after = clock.seek(at)
            if after < before:
                await self._begin_again()
            elif self._is_far(before, after):
                await self._reconnect()
            await self._show_runs(lists=True)
            await self._catch_up()
        self._ticker.paint_now()

    def close(self) -> None:
        """Stop."""
        self._disk.close()

    def _is_far(self, before: float, after: float) -> bool:
        """Return whether it is quicker, or surer, to read the cluster again than to follow what lies between."""
        index = self.replay.index
        if after - before > _FAR_SECONDS:
            return True
        return index.changes_between(before, after) > _MANY or index.has_turned(before, after)

    async def _catch_up(self) -> None:
        """Return when what had come by the moment is in the tables."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                while not self.replay.is_caught_up:  # noqa: ASYNC110 - readers of the streams raise no event
                    await asyncio.sleep(_TURN_SECONDS)

    async def _begin_again(self) -> None:
        self._runs.forget()
        await self._disk.call(self.replay.runs.begin_again)
        self.replay.point_to_runs()
        self._shown, self._known = None, frozenset()
        await self._reconnect()

    async def _reconnect(self) -> None:
        self.epoch += 1
        await self._read_anew()

    @property
    def _is_list_old(self) -> bool:
        """True if a live console would have read its list of runs again by now."""
        wait = max(_LEAST_LIST_SECONDS, LIST_EVERY_SECONDS / self.replay.clock.speed)
        return self.replay.clock.monotonic() - self._listed_at > wait

    async def _show_runs(self, *, lists: bool) -> None:
        replay, runs = self.replay, self._runs
        at = replay.clock.at
        is_new = await self._disk.call(replay.runs.show, at)
        wanted = replay.index.run_at(at)
        known = frozenset(run for run, history in replay.index.runs.items() if history.ats and history.ats[0] <= at)
        if lists or known != self._known or (wanted and wanted != self._shown):
            self._known, self._listed_at = known, replay.clock.monotonic()
            await runs.refresh_list()
        if wanted != self._shown:
            self._shown = wanted
            self._choose(wanted)
        if is_new:
            with suppress(JournalError):  # the pane shows why it cannot be read
                runs.catch_up()

    def _choose(self, run: str) -> None:
        runs = self._runs
        found = next((one for one in runs.summaries if one.id == run), None)
        if found is None:
            self._shown = None if run else ""
            return
        if runs.view is None or runs.view.id != run:
            try:
                runs.choose(found.folder)
            except JournalError:
                self._shown = None
