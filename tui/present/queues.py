"""Queues as rows of a table: the quota of each, then what has it, then what waits in order."""

from __future__ import annotations

import msgspec

from actions.cluster.queues import QueuedWork, QueueList, QueueShare, WorkQueue
from tui.present.cells import CellValue, Span, Tone

_ABSENT = Span("-", Tone.MUTED)
_GOOD = ("Active", "Open")
_TONES = {"admitted": Tone.GOOD, "checked": Tone.WARN, "pending": Tone.WARN, "inactive": Tone.MUTED}


class QueueRow(msgspec.Struct, frozen=True):
    """A row about a queue: its quota in one resource, or work that is in it."""

    place: int
    """Its place in the table, which is the order of the queue."""
    queue: WorkQueue
    share: QueueShare | None = None
    work: QueuedWork | None = None

    @property
    def key(self) -> str:
        """The key of the row."""
        of = (
            self.work.key
            if self.work is not None
            else f"{self.share.flavor}/{self.share.resource}"
            if self.share
            else ""
        )
        return f"{self.queue.program}/{self.queue.name}/{of}"


def queue_rows(found: QueueList) -> list[QueueRow]:
    """Return the rows, queue by queue."""
    rows: list[QueueRow] = []
    for queue in found.queues:
        rows += [QueueRow(0, queue, share) for share in queue.shares] or [QueueRow(0, queue)]
        rows += [QueueRow(0, queue, work=work) for work in queue.work]
    return [msgspec.structs.replace(row, place=place) for place, row in enumerate(rows)]


def search_text(row: QueueRow) -> str:
    """Return the text that a filter matches."""
    return f"{row.key} {row.work.job if row.work is not None else row.queue.parent}"


def queue_cell(row: QueueRow) -> CellValue:
    """The queue, on the rows of its quota."""
    return Span(row.queue.name or "?", Tone.MUTED if row.work is not None else Tone.STRONG)


def what_cell(row: QueueRow) -> CellValue:
    """Resource and flavour, or the job, without one the workload."""
    if row.work is None:
        return " of ".join(filter(None, (row.share.resource, row.share.flavor))) if row.share is not None else _ABSENT
    return row.work.job or row.work.key


def place_cell(row: QueueRow) -> CellValue:
    """The position of what waits, and the number of all that do, if they may be seen."""
    if row.work is None or not row.work.position:
        return _ABSENT
    seen = len(row.queue.pending)
    return f"{row.work.position} of {seen}" if row.work.position <= seen else str(row.work.position)


def share_cell(row: QueueRow, name: str) -> CellValue:
    """A quantity of the quota."""
    return (getattr(row.share, name) if row.share is not None else "") or _ABSENT


def priority_cell(row: QueueRow) -> CellValue:
    """The priority of work."""
    return _ABSENT if row.work is None else str(row.work.priority)


def state_cell(row: QueueRow) -> CellValue:
    """The state of the queue, or of work in it."""
    if row.work is not None:
        return Span(row.work.state, _TONES[row.work.state])
    return Span(row.queue.state, Tone.GOOD if row.queue.state in _GOOD else Tone.WARN)


def why_cell(row: QueueRow) -> CellValue:
    """The reason why work is not admitted; of a queue its cohort or parent, and the source of its order."""
    if row.work is not None:
        return row.work.reason or _ABSENT
    parent = f"in {row.queue.parent}" if row.queue.parent else ""
    return ", ".join(filter(None, (parent, row.queue.order if row.queue.pending else "")))
