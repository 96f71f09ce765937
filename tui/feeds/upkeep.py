"""The upkeep of runs on this machine: old ones are compacted, a bound that is passed is shown, and stores tell
which of them another machine has taken over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import NamedExecutor
from tui.settings.settings import DiskSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from actions.run.journal.reader import RunSummary
    from actions.run.storage.disk_use import Upkeep

FIRST_AFTER_SECONDS = 20.0
"""The console shows everything first."""
EVERY_SECONDS = 3600.0
ASKED_AFTER_SECONDS = 5.0
ASKED_EVERY_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
"""Limit of one round of questions to stores."""


class UpkeepFeed:
    """The feed of what runs take on disk. Used on the loop only; the work is done in a thread.

    A console that ends in the middle of a compaction leaves each file in one of its two forms.

    Args:
        settings: When runs are compacted, and the bound.
        clock: For waiting.
        changed: Called when `warning` has changed.
        is_readonly: Compact nothing.
    """

    def __init__(
        self, settings: DiskSettings, clock: Clock, changed: Callable[[], None], *, is_readonly: bool = False
    ) -> None:
        self.warning = ""
        """A sentence while runs take more than the bound; else empty."""
        self.label = ""
        """The same for a border: `23.1GiB of 20GiB`."""
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._is_readonly = is_readonly
        self._disk = NamedExecutor("upkeep")

    async def run(self, live: Callable[[], None]) -> None:
        """Keep up until cancelled.

        Args:
            live: Called after each round.
        """
        await self._clock.sleep(FIRST_AFTER_SECONDS)
        while True:
            await self.keep_up()
            live()
            await self._clock.sleep(EVERY_SECONDS)

    async def keep_up(self) -> None:
        """Compact what is old, and look at the bound, once."""
        before = self.warning
        try:
            self.warning, self.label = await self._disk.call(self._work)
        except ConsoleError:
            return  # the runs cannot be listed: their own feed shows the reason
        if self.warning != before:
            self._changed()

    def close(self) -> None:
        """Start nothing more."""
        self._disk.close()

    def _work(self) -> tuple[str, str]:
        from actions.fleet.quantity import size_text

        use = self._kept_up().use
        label = f"{size_text(use.total)} of {size_text(use.bound)}" if use.is_over else ""
        return use.warning(), label

    def _kept_up(self) -> Upkeep:
        from actions.run.storage.disk_use import keep_up

        chosen = self._settings
        return keep_up(
            self._clock,
            after_days=chosen.compact_after_days,
            bound=chosen.max_bytes,
            compacts=not self._is_readonly,
        )


class TakenFeed:
    """Asks the stores of runs without a runner who carries them out. Used on the loop only.

    Nothing is read, and nothing imported, while no run here has a store. What the connected cluster knows is in
    the feed of other machines' runs.

    Args:
        clock: For waiting.
        listed: Returns the runs of this machine.
        refresh: Reads their list again.
    """

    def __init__(
        self, clock: Clock, listed: Callable[[], Sequence[RunSummary]], refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._listed = listed
        self._refresh = refresh

    async def run(self, live: Callable[[], None]) -> None:
        """Ask until cancelled.

        Args:
            live: Called after each round.
        """
        await self._clock.sleep(ASKED_AFTER_SECONDS)
        while True:
            await self.look()
            live()
            await self._clock.sleep(ASKED_EVERY_SECONDS)

    async def look(self) -> None:
        """Ask once."""
        runs = [run for run in self._listed() if run.store]
        if not runs:
            return
        from actions.run.store.taken import note_taken

        if await note_taken(runs, at_most_seconds=_ANSWER_SECONDS):
            await self._refresh()
