"""The feed of runs: the journal of the run on screen, and the list of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import MissingError, RefusedError
from actions.base.executors import NamedExecutor
from actions.run.journal.run_ids import short_ids
from actions.run.state.view import Notice, RunState, RunView, StageState, StageView, is_watched_only

if TYPE_CHECKING:
    from actions.run.journal.reader import RunReader, RunSummary
    from actions.run.store.remote import RemoteRun
    from actions.run.summaries import RunListing
    from tui.feeds.remote_runs import RemoteRunFeed


def waiting_stage(view: RunView, stage_id: str = "") -> StageView:
    """Return the stage that is waiting for approval.

    Raises:
        RefusedError: None is, or not that one.
    """
    for stage in view.stages:
        if stage.state is StageState.AWAITING_APPROVAL and stage_id in ("", stage.id):
            return stage
    if stage_id and all(stage.id != stage_id for stage in view.stages):
        raise RefusedError(f"Run {view.id} has no stage {stage_id}.", hint="Another run is named by run=ID.")
    what = f"Stage {stage_id}" if stage_id else "No stage"
    raise RefusedError(f"{what} of run {view.id} {'is not waiting' if stage_id else 'is waiting'} for approval.")


POLL_BUSY_SECONDS = 0.25
POLL_IDLE_SECONDS = 1.0
LIST_EVERY_SECONDS = 15.0
_PIECE_SECONDS = 0.1
"""The time that the first list reads before it shows what it has."""
_UNDER_WAY = (
    RunState.WAITING,
    RunState.RUNNING,
    RunState.AWAITING_APPROVAL,
    RunState.UNKNOWN,
    RunState.STALLED,
    RunState.TEARING_DOWN,
)


class RunFeed:
    """The feed of the run on screen and of the list of all runs.

    `run` is endless work for the supervisor: it polls the journal four times a second while a runner is at work,
    else once a second, and lists the runs every few seconds. Used on the loop only.

    Args:
        clock: Time.
        changed: Called when the run or the list changed.
        open_run: Id of the run to show first; `None` for the newest one that is not torn down, empty for none.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None], *, open_run: str | None = None) -> None:
        self.view: RunView | None = None
        """The run on screen; `None` before the first one, and if there is none."""
        self.revision = 0
        """Number of changes of `view` and `summaries`."""
        self.summaries: tuple[RunSummary, ...] = ()
        self.is_listed = False
        """True once all runs were read."""
        self.unread: frozenset[str] = frozenset()
        """Names of the runs that the first list has not read yet; `summaries` has the newer ones."""
        self.unreadable: RunSummary | None = None
        """The newest run, if it cannot be read and no run was named: no other one is shown in its place."""
        self.names: Mapping[str, str] = {}
        """Short names of the runs by id: unique prefixes."""
        self.others: RemoteRunFeed | None = None
        """The runs of other machines, by their records in the connected cluster."""
        self.remote: RemoteRun | None = None
        """The run on screen, if another machine carries it out: it can only be watched."""
        self.pods: Callable[[str], Mapping[str, str]] = lambda _: {}
        """Returns the verdict on the pods of a run by its id, by stage, as the connected cluster shows them."""
        self._pods: Mapping[str, str] = {}
        """The one that is shown with the run of another machine."""
        self.is_record_gone = False
        """The cluster has no record of it any more."""
        self.remote_stage = ""
        """Of that run, the stage whose log and curves are wanted; empty for the one at work."""
        self.store_trouble: Notice | None = None
        """Of that run, the reason that nothing can be read of its store here."""
        self.is_starting = False
        """A runner is about to start for the run on screen: a request for it was written just now."""
        self.has_died = True
        """If the run on screen is without a runner: its last one ended in the middle of its work."""
        self._clock = clock
        self._changed = changed
        self._wanted = open_run
        self._reader: RunReader | None = None
        self._newest: RunView | None = None
        """The view that was read last."""
        self._listed_at = float("-inf")
        self._listed: tuple[object, ...] | None = None
        """The run on screen, its state, notices and stages when the list was read."""
        self._here = 0
        """The folder that the run on screen, of another machine, had here when the list was read."""
        self._disk = NamedExecutor("runs")

    @property
    def folder(self) -> Path | None:
        """The folder of the run on screen."""
        return self._reader.folder if self._reader else None

    @property
    def is_copy(self) -> bool:
        """True if the run on screen is another machine's, read from a copy of its store: that has no lines of logs."""
        return self.remote is not None and self._reader is not None

    @property
    def is_busy(self) -> bool:
        """True if a runner works on the run on screen, here or elsewhere."""
        if self.remote is not None:
            return not (self.remote.is_over or self.is_record_gone or _is_silent(self.others, self.remote))
        return self._reader is not None and self._reader.runner_alive

    @property
    def is_interrupted(self) -> bool:
        """True if the run on screen was started, is unfinished, and has no runner: after a crash or reboot."""
        view = self.view
        if view is None or self.remote is not None or self.is_busy:
            return False
        return (
            not is_watched_only(view.notices)
            and not self.is_starting
            and view.state in _UNDER_WAY
            and view.last_seq > 1
            and not view.is_paused
        )

    def choose(self, folder: Path) -> None:
        """Show the run in `folder` from here on.

        Raises:
            JournalError: Its journal cannot be read.
        """
        from actions.run.journal.reader import RunReader

        self._leave()
        self.remote = None
        self._reader = RunReader(folder, clock=self._clock)
        self.catch_up()

    def open(self, run_id: str) -> bool:
        """Show a run, of this machine or of another one. Return whether it is of another one.

        Raises:
            MissingError: There is none with this id.
            JournalError: Its journal cannot be read.
        """
        remote = self._elsewhere(run_id)
        if remote is None:
            self.choose(self.find(run_id).folder)
            return False
        self._leave()
        self.remote, self.remote_stage, self.is_record_gone, self.store_trouble = remote, "", False, None
        self._show_remote()
        return True

    def _leave(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._newest = self.view = self.unreadable = None
        self.is_starting = False

    def use_copy(self, folder: Path) -> None:
        """Read the run on screen, which another machine carries out, from a copy of its folder.

        Raises:
            JournalError: Its journal cannot be read.
        """
        from actions.run.journal.reader import RunReader

        if self.folder != folder:
            self._reader = RunReader(folder, clock=self._clock)
            self.catch_up()

    def take_others(self) -> None:
        """Take over what the feed of other machines' runs has now."""
        if self.remote is not None and self.others is not None:
            found, before = self.others.find(self.remote.id), self.remote.epoch
            self.remote, self.is_record_gone = found or self.remote, found is None
            if self.remote.epoch != before:
                self._listed_at = float("-inf")  # this machine may be the one that has taken it over
            self._show_remote()
        else:
            self._tell()

    def listed_elsewhere(self) -> tuple[RemoteRun, ...]:
        """Return the runs that other machines carry out, newest first; with those that were taken over from here."""
        others = self.others.elsewhere(self.summaries) if self.others is not None else ()
        return tuple(run for run in others if run.id not in self.unread) if self.unread else others

    def require_here(self, run_id: str) -> None:
        """Refuse to act on a run that another machine carries out.

        Args:
            run_id: Empty for the one on screen.

        Raises:
            RefusedError: With its owner, and the command that takes it over.
        """
        remote = self._elsewhere(run_id or (self.view.id if self.view else ""))
        if remote is not None:
            from actions.run.store.remote import refusal_of

            raise refusal_of(remote)

    def _elsewhere(self, run_id: str) -> RemoteRun | None:
        wanted = whole_id(self, run_id)
        return next((run for run in self.listed_elsewhere() if run.id == wanted), None)

    def _show_remote(self) -> None:
        from actions.run.store.remote import remote_view

        if self.remote is not None:
            is_silent, self._pods = _is_silent(self.others, self.remote), self.pods(self.remote.id)
            self.view = remote_view(
                self.remote,
                self._newest,
                is_silent=is_silent,
                is_gone=self.is_record_gone,
                troubles=(self.store_trouble,) if self.store_trouble is not None else (),
                pods=self._pods,
            )
            self._tell()

    def find(self, run_id: str) -> RunSummary:
        """Return the run with this id, or its beginning; the one on screen for an empty id.

        Raises:
            MissingError: There is none, or several.
            RefusedError: It is on another machine.
        """
        wanted = whole_id(self, run_id) or (self.view.id if self.view else "")
        for summary in self.summaries:
            if summary.id == wanted:
                return summary
        self.require_here(wanted)
        if wanted in self.unread:
            raise MissingError(f"The run {wanted} is not read yet.", hint="Try again in a second.")
        if run_id:
            raise MissingError(f"There is no run {run_id!r}.", hint="The runs pane lists all runs.")
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")

    async def refresh_list(self) -> None:
        """Read the list of runs now."""
        self._listed_at = self._clock.monotonic()
        self._listed = self._to_list
        self._here = await self._disk.call(_folder_number, self.remote)
        listings = await self._disk.call(_listings, self._clock.now().timestamp())
        while True:
            listing = await self._disk.call(next, listings)
            if self.is_listed and listing.unread:
                continue  # until all is read, the list before is on screen
            runs, unread = tuple(listing.runs), frozenset(listing.unread)
            self.is_listed = not unread
            if (runs, unread) != (self.summaries, self.unread):
                if [run.id for run in runs] != [run.id for run in self.summaries]:
                    self.names = short_ids([*(run.id for run in runs), *unread])
                self.summaries, self.unread = runs, unread
                self._tell()
            if self._reader is None and self.remote is None:
                self._choose_first()
            elif self.remote is not None:
                here = _taken_home(self.remote.id, self.summaries, self.listed_elsewhere())
                if here is not None:
                    self.choose(here)
            if self.is_listed:
                return

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the runs until cancelled.

        Args:
            live: Called when the first list has been read.

        Raises:
            JournalError: The journal of the run on screen is damaged.
        """
        await self.refresh_list()
        live()
        while True:
            await self._follow()
            is_another = self.view is not None and self._to_list != self._listed
            has_come = self.remote is not None and await self._disk.call(_folder_number, self.remote) != self._here
            if is_another or has_come or self._clock.monotonic() - self._listed_at > LIST_EVERY_SECONDS:
                await self.refresh_list()
            await self._clock.sleep(POLL_BUSY_SECONDS if self.is_busy else POLL_IDLE_SECONDS)

    @property
    def _to_list(self) -> tuple[object, ...] | None:
        view = self.view
        return None if view is None else (view.id, view.state, view.notices, *(one.state for one in view.stages))

    def close(self) -> None:
        """Close the journal."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._disk.close()

    def catch_up(self) -> None:
        """Read what has been written to the run on screen since the last time."""
        if self._reader is None:
            return
        self._reader.poll()
        self._show(self._reader)

    async def _follow(self) -> None:
        """Do `catch_up` in a thread: a disk may be slow."""
        reader = self._reader
        if reader is not None:
            await self._disk.call(reader.poll)
            if reader is self._reader:  # another run may have been chosen meanwhile
                self._show(reader)
        elif self.is_busy:
            self._changed()  # durations advance
        if self.remote is not None and self._pods != self.pods(self.remote.id):
            self._show_remote()

    def _show(self, reader: RunReader) -> None:
        """Show the view read last, here or in the thread, whose result may still be on its way."""
        self.is_starting, self.has_died = reader.is_starting, reader.has_died
        if self._newest is not reader.newest:
            self.view = self._newest = reader.newest
            if self.remote is not None:
                self._show_remote()
            else:
                self._tell()
        elif self.is_busy:
            self._changed()  # its output may have grown, and durations advance

    def _choose_first(self) -> None:
        for summary in self.summaries:
            if self._wanted == summary.id:
                self.choose(summary.folder)
                return
            if self._wanted is None and summary.state is not RunState.TORN_DOWN and not summary.is_copy:
                if not summary.error:
                    self.choose(summary.folder)
                elif self.unreadable != summary:
                    self.unreadable = summary
                    self._tell()
                return
        self.unreadable = None

    def _tell(self) -> None:
        self.revision += 1
        self._changed()


def whole_id(runs: RunFeed, run_id: str) -> str:
    """Return the id of a run by its beginning, as screens show it; a text that begins none as it is.

    Raises:
        MissingError: It is the beginning of several.
    """
    known = {run.id for run in (runs.others.runs if runs.others else ())} | runs.unread
    known |= {run.id for run in runs.summaries}
    begun = [one for one in known if one.startswith(run_id)] if run_id and run_id not in known else []
    copies = {run.id for run in runs.summaries if run.is_copy} if len(begun) > 1 else set[str]()
    found = [one for one in begun if one not in copies] or begun
    if len(found) > 1:
        raise MissingError(f"{run_id!r} is a prefix of {len(found)} run ids.", hint="Write more of the id.")
    return found[0] if found else run_id


def is_list_complete(runs: RunFeed) -> bool:
    """Return whether the runs were listed, and the one on screen, which may have been launched since, is among them."""
    here = runs.view if runs.remote is None else None
    return runs.is_listed and (here is None or any(run.id == here.id for run in runs.summaries))


def _taken_home(run_id: str, here: Sequence[RunSummary], elsewhere: Sequence[RemoteRun]) -> Path | None:
    """Return the folder of a run that this machine has taken over; `None` if another one carries it out."""
    if any(run.id == run_id for run in elsewhere):
        return None
    return next((run.folder for run in here if run.id == run_id and not run.error), None)


def _folder_number(run: RemoteRun | None) -> int:
    """Return the inode of the folder that a run has on this machine; 0 if it has none."""
    from actions.run.journal.folder import runs_folder

    try:
        return (runs_folder() / run.id).stat().st_ino if run is not None else 0
    except OSError:
        return 0


def _listings(now: float) -> Iterator[RunListing]:
    from actions.run.journal.folder import runs_folder  # on the thread that reads: the first frame needs no journal
    from actions.run.summaries import summaries_in

    return summaries_in(runs_folder()).listings(now, piece_seconds=_PIECE_SECONDS)


def _is_silent(others: RemoteRunFeed | None, run: RemoteRun) -> bool:
    """Return whether the heartbeats of another machine's run are missing."""
    return others is not None and others.is_silent(run)
