"""The run of another machine that is on screen: its history from its home, and beside it logs and curves of its pods.

Neither waits for the other: a home that is away or slow delays no log, and a cluster without the job no history.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.run.state.view import Notice, NoticeKind

if TYPE_CHECKING:
    from actions.cluster.job_pods import JobRef
    from actions.run.presence.record import RemoteRun
    from tui.feeds.job import JobFeed
    from tui.feeds.remote_runs import RemoteRunFeed
    from tui.feeds.runs import RunFeed

COPY_SECONDS = 5.0
"""Between two copies of what the home has got."""
OWNER_SECONDS = 1.5
"""Between two looks at the lease in the home: a takeover is there before it is in the cluster."""
AGAIN_SECONDS = 10.0
"""After a home that did not answer, or refused."""
_LOOK_SECONDS = 1.0


class JobsOnScreen(Protocol):
    """The parts that show a job in the log, accelerator and chart panes."""

    watched: JobFeed | None

    async def watch(self, job: JobRef) -> None:
        """Show a job. A `ConsoleError`: there is none, or it cannot be read."""
        ...

    def unwatch(self) -> None:
        """Show the run again."""
        ...


class RemoteOnScreen:
    """One run of another machine, followed while it is on screen. Both methods are work for the supervisor.

    Args:
        runs: Has it on screen; shows the copy.
        records: The runs recorded in the cluster.
        jobs: Shows its job.
        clock: Time.
        home: The operator's, `s3://BUCKET/PREFIX`; empty for none.
    """

    def __init__(self, runs: RunFeed, records: RemoteRunFeed, jobs: JobsOnScreen, clock: Clock, *, home: str) -> None:
        self._runs = runs
        self._records = records
        self._jobs = jobs
        self._clock = clock
        self._home = home
        self._id = runs.remote.id if runs.remote is not None else ""
        self._places = {"home", "pods"}
        self.begun = asyncio.Event()
        """Set once home and pods were asked for the first time, whatever came of it."""

    async def follow_pods(self) -> None:
        """Show the job of the stage that is wanted, until another run is on screen."""
        from actions.run.presence.remote_view import job_on_screen

        shown: tuple[JobRef | None, int] | None = None
        try:
            while (run := self._on_screen()) is not None:
                job = job_on_screen(run, self._runs.remote_stage)
                wanted = job, self._records.revision
                if shown is None or job != shown[0] or (self._jobs.watched is None and wanted != shown):
                    shown = wanted
                    await self._show(job)
                    self._note_asked("pods")
                await self._clock.sleep(_LOOK_SECONDS)
        finally:
            watched = self._jobs.watched
            if watched is not None and shown is not None and shown[0] is not None and watched.title == shown[0].key:
                self._jobs.unwatch()

    async def follow_home(self) -> None:
        """Bring the copy of the run up to date, every few seconds and after a takeover, until another run is on screen.

        A home that does not answer is shown with the run, and asked again.
        """
        from actions.run.presence.remote_view import is_taken_over, open_remote

        copied_at, wait = float("-inf"), OWNER_SECONDS
        while (run := self._on_screen()) is not None:
            try:
                is_due = self._clock.monotonic() - copied_at >= COPY_SECONDS
                if is_due or await in_thread("lease of a run", is_taken_over, run, self._home):
                    copied_at = self._clock.monotonic()
                    folder = await in_thread("home of a run", open_remote, run, self._home)
                    if folder is not None and self._on_screen() is not None:
                        self._runs.use_copy(folder)
                self._runs.note_home(None)
                wait = OWNER_SECONDS
            except ConsoleError as error:
                copied_at, wait = float("-inf"), AGAIN_SECONDS
                if self._on_screen() is not None:
                    self._runs.note_home(self._trouble(error))
            self._note_asked("home")
            await self._clock.sleep(wait)

    def _note_asked(self, place: str) -> None:
        self._places.discard(place)
        if not self._places:
            self.begun.set()

    def _on_screen(self) -> RemoteRun | None:
        run = self._runs.remote
        return run if run is not None and run.id == self._id else None

    async def _show(self, job: JobRef | None) -> None:
        """Show a job; nothing if it does not exist (any more)."""
        self._jobs.unwatch()
        if job is not None:
            with suppress(ConsoleError):
                await self._jobs.watch(job)

    def _trouble(self, error: ConsoleError) -> Notice:
        """Return the notice of a home that fails, since the first failure."""
        is_refused = isinstance(error, AccessError | MissingError | RefusedError)
        kind, does = (
            (NoticeKind.HOME_REFUSED, "refuses this machine")
            if is_refused
            else (NoticeKind.HOME_AWAY, "does not answer here")
        )
        known = self._runs.home_trouble
        since = known.since if known is not None and known.kind is kind else self._clock.now().timestamp()
        text = f"Its home {does}: the run is shown by its cluster, without what only the home has. {error.message}"
        return Notice(kind, text, since)
