"""The guard of a run's limits: a task beside the runner, which requests a park or teardown when a limit is reached.

The record of the limit is written first, then the request. A runner that dies in between leaves the first alone; the
next one writes the request. Both take the space on disk that is reserved for the end of a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from actions.base.clock import Clock
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.limits.idle import IdleMeter, PodLoad
from actions.run.limits.rules import LimitName, is_due_again, reached_limit, reached_text
from actions.run.state.records import EndsKnown, LimitAction, LimitReached, Limits, RequestKind, RunRequest
from actions.run.state.view import Goal, RunView

LOOK_SECONDS = 15.0
"""Pause between two looks at the limits."""
ENDS_SECONDS = 300.0
"""Pause between two looks at the ends of credentials and capacity block."""

FindUsers = Callable[[RunView], Awaitable[Sequence[str]]]
"""Returns others who use what a teardown of the run removes, a clause each."""
FetchEnds = Callable[[RunView], Awaitable[EndsKnown]]
"""Returns the ends that the limits of a run refer to; see `actions.run.limits.ends`."""


ReadLoads = Callable[[RunView], Awaitable[Mapping[str, PodLoad]]]
"""Returns the newest load of each pod of the stages at work, by its name."""


class LimitGuard:
    """The companion that watches the limits of a run.

    Args:
        journal: Of the run.
        fetch_ends: Fetches the ends that limits refer to.
        find_users: Finds others, before a teardown: with any, the run is parked instead.
        clock: The machine's; the times of limits are those of its wall.
        read_loads: Reads the samples of the run's accelerators; asked only while there is an idle limit.
    """

    name = "limits"

    def __init__(
        self,
        journal: RunnerJournal,
        fetch_ends: FetchEnds,
        clock: Clock,
        *,
        find_users: FindUsers | None = None,
        read_loads: ReadLoads | None = None,
    ) -> None:
        self._journal = journal
        self._fetch_ends = fetch_ends
        self._find_users = find_users
        self._read_loads = read_loads
        self._meter = IdleMeter()
        self._clock = clock
        self._fetched: tuple[Limits, float] | None = None
        """The limits for which ends were fetched, and the monotonic second."""

    async def accompany(self) -> None:
        """Look at the limits until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def finish(self, view: RunView) -> None:
        """Do nothing: what a limit asks for is in the journal."""

    async def look(self) -> None:
        """Look at the limits once, and act on the first that is reached."""
        view = await self._journal.view()
        if view.limit_due is not None:
            await self._request(view)
            return
        view = await self._with_ends(view)
        if not view.limits.is_set:
            return
        view = await self._with_idle(view)
        now = self._clock.now().timestamp()
        reached = reached_limit(view, now)
        if reached is not None:
            text = reached_text(reached, view, now)
            await self._journal.write_at_limit(LimitReached(limit=reached.name.value, text=text))
            await self._request(await self._journal.view())
        elif is_due_again(view, now):
            await self._journal.write_at_limit(RunRequest(_REQUESTS[view.limits.action]))

    async def _with_ends(self, view: RunView) -> RunView:
        """Return the run with the ends of its account's credentials and of what its limits refer to, if old fetched."""
        if view.account is None and not (view.limits.credentials_end or view.limits.capacity_end):
            return view
        now = self._clock.monotonic()
        if self._fetched is not None and self._fetched[0] == view.limits and now - self._fetched[1] < ENDS_SECONDS:
            return view
        self._fetched = view.limits, now
        ends = await self._fetch_ends(view)
        if ends == view.ends:
            return view
        await self._journal.write(ends)
        return await self._journal.view()

    async def _with_idle(self, view: RunView) -> RunView:
        """Return the run with what the samples of its accelerators say now, if it has an idle limit."""
        if not view.limits.idle_minutes or self._read_loads is None or view.goal is not Goal.FORWARD:
            return view
        found = self._meter.look(view, await self._read_loads(view), self._clock.now().timestamp())
        if found == view.idle:
            return view
        await self._journal.write(found)
        return await self._journal.view()

    async def _request(self, view: RunView) -> None:
        """Write the request that follows a reached limit, unless a person's has come first."""
        if view.limit_due is None or view.goal is Goal.TEARDOWN:
            return
        is_watchdogs = view.limit_due.limit == LimitName.WATCHDOG.value  # that can only park
        kind = RequestKind.PARK if is_watchdogs else _REQUESTS[view.limits.action]
        if kind is RequestKind.TEARDOWN and self._find_users is not None and await self._find_users(view):
            kind = RequestKind.PARK
        await self._journal.write_at_limit(RunRequest(kind))


_REQUESTS = {LimitAction.PARK: RequestKind.PARK, LimitAction.TEARDOWN: RequestKind.TEARDOWN}
