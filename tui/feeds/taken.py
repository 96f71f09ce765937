"""The feed that asks stores which runs of this machine another machine has taken over.

A run without a runner here may be at work there; nothing but its store knows that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actions.base.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from actions.run.journal.reader import RunSummary

ASKED_AFTER_SECONDS = 5.0
ASKED_EVERY_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
"""Limit of one round of questions to stores."""


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
        from actions.run.store.elsewhere import note_taken

        if await note_taken(runs, at_most_seconds=_ANSWER_SECONDS):
            await self._refresh()
