"""Moving lines from a feed to whoever keeps them, a few milliseconds at a time: keys come in between."""

from __future__ import annotations

from collections.abc import Callable

from actions.base.clock import Clock
from tui.live.log_feeds import LogFeed

PAUSE_SECONDS = 0.005
"""How long the loop is left to others between two slices."""
_SLICE_SECONDS = 0.004
"""When no further piece is begun; a piece takes about as long."""
_PIECE_LINES = 1_000

Keep = Callable[[list[bytes], Callable[[int], str]], None]


class LogIntake:
    """Takes what one feed has.

    Args:
        feed: Where lines come from.
        keep: Gets records, and what says who says them.
        clock: Time.
    """

    def __init__(self, feed: LogFeed, keep: Keep, *, clock: Clock) -> None:
        self.feed = feed
        self._keep = keep
        self._clock = clock

    def move(self) -> bool:
        """Take one slice. Returns whether another one should follow soon.

        Raises:
            JournalError: The feed's source cannot be read.
        """
        stop = self._clock.monotonic() + _SLICE_SECONDS
        while True:
            self._keep(self.feed.take(_PIECE_LINES), self.feed.source_of)
            if not self.feed.has_more:
                return False
            if self._clock.monotonic() >= stop:
                return True
