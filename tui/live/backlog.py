"""What a spool holds already, in the order of time: however far apart its logs arrived, and however much it is."""

from __future__ import annotations

from itertools import compress, count, pairwise
from operator import ne
from typing import NamedTuple

from actions.cluster.logs.batch import stamp_in, tag_in
from actions.run.spool.reader import SpoolReader
from tui.live.time_order import TimeOrder

_SCAN_BYTES = 256 * 1024
_RUN_LINES = 256
_RUNS = 48


class _Run(NamedTuple):
    """Consecutive lines of one log. `place` and `end` are where in the file they stand."""

    first_stamp: bytes
    place: int
    end: int


class Backlog:
    """Looks through the spool once for where which lines stand, then reads them in their order.

    A log is in order by itself. So nothing that comes later in the list of its runs, sorted by their first lines, is
    older than the first line of the next run; only the lines of a few runs are held at a time.

    Args:
        reader: Of the spool.
    """

    def __init__(self, reader: SpoolReader) -> None:
        self.offset = 0
        """Up to where it has been looked through."""
        self._reader = reader
        self._runs: list[_Run] = []
        self._order = TimeOrder()
        self._is_scanned = False

    @property
    def is_taken(self) -> bool:
        """Whether everything up to `offset` has been taken."""
        return self._is_scanned and not self._runs and not len(self._order)

    def take(self, limit: int) -> list[bytes]:
        """The next lines, about `limit` at most; none while it is being looked through.

        Raises:
            JournalError: The disk does not give it.
        """
        if not self._is_scanned:
            self._scan()
            return []
        taken = self._take(limit)
        while not taken and self._runs:
            self._read_on()
            taken = self._take(limit)
        return taken

    def _take(self, limit: int) -> list[bytes]:
        before = self._runs[-1].first_stamp if self._runs else None
        return self._order.take_before(before, limit)

    def _scan(self) -> None:
        """Look through the next piece."""
        records, begins, reached = self._reader.raw_records(self.offset, limit_bytes=_SCAN_BYTES)
        tags = list(map(tag_in, records))
        places = [*begins, reached]
        cuts = [0, *compress(count(1), map(ne, tags, tags[1:])), len(records)]
        for first, behind in pairwise(cuts):
            for begin in range(first, behind, _RUN_LINES):
                end = min(begin + _RUN_LINES, behind)
                self._runs.append(_Run(stamp_in(records[begin]), places[begin], places[end]))
        self._is_scanned = reached - self.offset < _SCAN_BYTES // 2
        self.offset = reached
        if self._is_scanned:
            self._runs.sort(reverse=True)  # the next one is at the end, and of equal ones the first in the file

    def _read_on(self) -> None:
        """Read the runs whose turn it is."""
        runs = [self._runs.pop() for _ in range(min(_RUNS, len(self._runs)))]
        self._order.put(self._reader.records_at((run.place, run.end) for run in runs))
