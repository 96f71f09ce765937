"""Processes that kill themselves around a record of a run's journal.

As a module it is the runner of one run (`python -m tests.support.crashing FOLDER`), the product's own but for the crash
points; `crash_around_records` gives the same points to any other process of a test.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from actions.run.journal.journal_file import RecordRow
from actions.run.journal.store import Journal
from actions.run.state.records import Body, JournalRecord

CRASH_VARIABLE = "EKSML_TEST_CRASH_AT"
"""`SEQ:before` or `SEQ:after`: the record around which the process ends. Unset or empty, it does not."""
RUNNER_MODULE = "tests.support.crashing"

Point = Callable[[int, str], bool]
"""Return whether to end at `(seq, "before" | "after")`."""


def crash_around_records(is_point: Point) -> None:
    """Make this process end by SIGKILL at a point around a record.

    `before` is when the lock is held and the fence has been checked, `after` when the record is on disk.
    """
    append, write = Journal.append, Journal.write

    def at(seq: int, side: str) -> None:
        if is_point(seq, side):
            os.kill(os.getpid(), signal.SIGKILL)

    def writing(journal: Journal, rows: Sequence[RecordRow]) -> None:
        at(rows[0].seq, "before")
        write(journal, rows)

    def crashing(journal: Journal, body: Body, *, stage: str = "", attempt: int = 0) -> JournalRecord:
        record = append(journal, body, stage=stage, attempt=attempt)
        at(record.seq, "after")
        return record

    Journal.write = writing  # type: ignore[method-assign, assignment]
    Journal.append = crashing  # type: ignore[method-assign, assignment]  # in this process, which is a test's


def is_named_point(seq: int, side: str) -> bool:
    """Return whether `CRASH_VARIABLE` names the point; read each time, as a service's variables are read late."""
    return os.environ.get(CRASH_VARIABLE, "") == f"{seq}:{side}"


if __name__ == "__main__":
    from actions.run.__main__ import run  # all clients: the pretend world's runner has none

    crash_around_records(is_named_point)
    sys.exit(run(sys.argv[1:]))
