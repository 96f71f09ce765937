"""The feeds of runs: the journal of the run on screen, the list of all, the blueprints to launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import MissingError, RefusedError
from actions.base.executors import NamedExecutor
from actions.run.journal.run_ids import short_ids
from actions.run.state.view import RunState, RunView, StageState, StageView

if TYPE_CHECKING:
    from actions.blueprint.catalogue import BrokenBlueprint, Catalogue
    from actions.blueprint.model import Blueprint
    from actions.run.journal.reader import RunReader, RunSummary


def waiting_stage(view: RunView, stage_id: str = "") -> StageView:
    """Return the stage that is waiting for approval.

    Raises:
        RefusedError: None is, or not that one.
    """
    for stage in view.stages:
        if stage.state is StageState.AWAITING_APPROVAL and stage_id in ("", stage.id):
            return stage
    what = f"Stage {stage_id}" if stage_id else "No stage"
    raise RefusedError(f"{what} of run {view.id} {'is not waiting' if stage_id else 'is waiting'} for approval.")


POLL_BUSY_SECONDS = 0.25
POLL_IDLE_SECONDS = 1.0
LIST_EVERY_SECONDS = 15.0
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
        self.unreadable: RunSummary | None = None
        """The newest run, if it cannot be read and no run was named: no other one is shown in its place."""
        self.names: Mapping[str, str] = {}
        """Short names of the runs by id: unique prefixes."""
        self._clock = clock
        self._changed = changed
        self._wanted = open_run
        self._reader: RunReader | None = None
        self._listed_at = float("-inf")
        self._listed: tuple[str, RunState] | None = None
        """The run on screen and its state when the list was read."""
        self._disk = NamedExecutor("runs")

    @property
    def folder(self) -> Path | None:
        """The folder of the run on screen."""
        return self._reader.folder if self._reader else None

    @property
    def is_busy(self) -> bool:
        """True if a runner works on the run on screen."""
        return self._reader is not None and self._reader.runner_alive

    @property
    def is_interrupted(self) -> bool:
        """True if the run on screen was started, is unfinished, and has no runner: after a crash or reboot."""
        view = self.view
        is_begun = view is not None and view.state in _UNDER_WAY and view.last_seq > 1 and not view.is_paused
        return is_begun and not self.is_busy

    def choose(self, folder: Path) -> None:
        """Show the run in `folder` from here on.

        Raises:
            JournalError: Its journal cannot be read.
        """
        from actions.run.journal.reader import RunReader

        if self._reader is not None:
            self._reader.close()
        self._reader = self.view = self.unreadable = None
        self._reader = RunReader(folder, clock=self._clock)
        self.catch_up()

    def find(self, run_id: str) -> RunSummary:
        """Return the run with this id, or the one on screen for an empty id.

        Raises:
            MissingError: There is none.
        """
        wanted = run_id or (self.view.id if self.view else "")
        for summary in self.summaries:
            if summary.id == wanted:
                return summary
        if run_id:
            raise MissingError(f"There is no run {run_id!r}.", hint="The runs pane lists all runs.")
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")

    async def refresh_list(self) -> None:
        """Read the list of runs now."""
        self._listed_at = self._clock.monotonic()
        self._listed = None if self.view is None else (self.view.id, self.view.state)
        summaries = tuple(await self._disk.call(_list_runs))
        if summaries != self.summaries:
            self.summaries, self.names = summaries, short_ids([run.id for run in summaries])
            self._tell()
        if self._reader is None:
            self._choose_first()

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
            is_another = self.view is not None and (self.view.id, self.view.state) != self._listed
            if is_another or self._clock.monotonic() - self._listed_at > LIST_EVERY_SECONDS:
                await self.refresh_list()
            await self._clock.sleep(POLL_BUSY_SECONDS if self.is_busy else POLL_IDLE_SECONDS)

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

    def _show(self, reader: RunReader) -> None:
        """Show the view read last, here or in the thread, whose result may still be on its way."""
        if self.view is not reader.newest:
            self.view = reader.newest
            self._tell()
        elif self.is_busy:
            self._changed()  # its spool may have grown, and durations advance

    def _choose_first(self) -> None:
        for summary in self.summaries:
            if self._wanted == summary.id:
                self.choose(summary.folder)
                return
            if self._wanted is None and summary.state is not RunState.TORN_DOWN:
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


def _list_runs() -> Sequence[RunSummary]:
    from actions.run.journal.reader import list_runs  # on the thread that reads them: the first frame needs no journal

    return list_runs()


class BlueprintFeed:
    """The feed of the catalogue of blueprints. Used on the loop only.

    Args:
        folders: Folders of blueprint folders; empty for the usual places.
        changed: Called when the catalogue has been read.
    """

    def __init__(self, folders: tuple[Path, ...], changed: Callable[[], None]) -> None:
        self.found: tuple[Blueprint, ...] = ()
        self.broken: tuple[BrokenBlueprint, ...] = ()
        self._folders = folders
        self._changed = changed
        self._disk = NamedExecutor("blueprints")

    async def run(self) -> None:
        """Read the catalogue."""
        catalogue = await self._disk.call(_catalogue, self._folders)
        self.found, self.broken = await self._disk.call(catalogue.read)
        self._changed()

    async def find(self, blueprint_id: str) -> Blueprint:
        """Return the blueprint with this id, read again.

        Raises:
            MissingError: There is none.
            BlueprintError: It is broken.
        """
        catalogue = await self._disk.call(_catalogue, self._folders)
        return await self._disk.call(catalogue.find, blueprint_id)

    def close(self) -> None:
        """Stop reading."""
        self._disk.close()


def _catalogue(folders: tuple[Path, ...]) -> Catalogue:
    from actions.blueprint.catalogue import Catalogue

    return Catalogue(folders) if folders else Catalogue.usual()
