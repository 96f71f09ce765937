"""The queues pane: quota, what has it, and what waits for it in order, of Kueue and Volcano."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tui.feeds.services import ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import queues
from tui.present.queues import QueueRow
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.cluster.queues import QueueList

_WORK = "queues"
ASK_EVERY_SECONDS = 5.0
COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("queue", "QUEUE", queues.queue_cell, width=12, flex=1, limit=28, sort_key=lambda row: row.place),
    Column("what", "QUOTA OR JOB", queues.what_cell, width=18, flex=3, limit=50, keeps_ends=True),
    Column("place", "PLACE", queues.place_cell, width=7, sort_key=lambda row: row.place),
    Column("quota", "QUOTA", partial(queues.share_cell, name="quota"), width=6, align="right", drop=1),
    Column("used", "USED", partial(queues.share_cell, name="used"), width=6, align="right", drop=1),
    Column("borrowed", "BORROWED", partial(queues.share_cell, name="borrowed"), width=8, align="right", drop=3),
    Column("priority", "PRIORITY", queues.priority_cell, width=8, align="right", drop=4),
    Column("state", "STATE", queues.state_cell, width=8, flex=1, limit=24),
    Column("why", "WHY", queues.why_cell, width=16, flex=4, drop=2),
)


class QueuesPane(TablePane[QueueRow]):
    """All queues that may be seen, each with its work, asked for while the pane is visible."""

    ONLY = "only"
    CONTEXT = KeyContext.QUEUES
    BINDINGS: ClassVar = bindings_of(KeyContext.QUEUES)
    NOUN = "rows"
    SORT = "queue"
    EMPTY = "Reading the queues."
    READING = "Reading the queues."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda row: row.key, search=queues.search_text)
        self._found: QueueList | None = None
        self._shown: QueueList | None = None
        self._wanted: Subject | None = None

    def on_show(self) -> None:
        """Start to ask."""
        supervisor = self.services.supervisor
        supervisor.keep(_WORK, lambda: self._follow(lambda: supervisor.mark_live(_WORK)))

    def on_hide(self) -> None:
        """Stop asking."""
        self.services.supervisor.drop(_WORK)

    async def _follow(self, live: Callable[[], None]) -> None:
        from actions.cluster.queues import fetch_queues

        await self.services.cluster.wait_connected()
        while True:
            session = self.services.cluster.session
            self.take(await fetch_queues(session, self.services.namespace or session.namespace))
            live()
            await self.services.clock.sleep(ASK_EVERY_SECONDS)

    def take(self, found: QueueList) -> None:
        """Take an answer."""
        self._found = found
        self.services.ticker.request_paint()

    def refresh_data(self) -> None:
        """Show the newest answer."""
        self.show_health(self.services.supervisor.health(_WORK))
        found = self._found
        if found is None or found is self._shown:
            return
        self._shown = found
        self.table.empty = " ".join(found.remarks) or "No queues."
        self.retitle(f"queues ({' '.join(found.remarks)})" if found.remarks and found.queues else "queues")
        self.show_rows(queues.queue_rows(found))
        self._go()

    def show_target(self, of: str) -> None:
        """Put the cursor on the place of a job, `Kind/namespace/name`, once it is known; empty: nowhere."""
        words = of.split("/")
        self._wanted = Subject(words[0], words[2], words[1]) if len(words) == 3 else None
        self._shown = None
        self.refresh_data()

    def _go(self) -> None:
        """Put the cursor on the place of the wanted job; without one the title states that."""
        wanted, self._wanted = self._wanted, None
        if wanted is None or self._found is None:
            return
        places = self._found.places_of(wanted.kind, wanted.namespace, wanted.name)
        row = next((row for row in queues.queue_rows(self._found) if row.work is not None and row.work in places), None)
        if row is None:
            self.retitle(f"queues: {wanted.title()} is in none that may be seen")
        else:
            self.table.select(row.key)

    def line_of(self, row: QueueRow) -> str:
        """Open the pods of the job."""
        return f"open pods of={row.work.job}" if row.work is not None and row.work.job else ""

    def subject(self) -> Subject | None:
        """Return the job of the row under the cursor, without one its workload; of quota the queue."""
        row = self.table.selected_row
        if row is None:
            return None
        if row.work is None:
            return Subject("ClusterQueue" if row.queue.program == "Kueue" else "Queue", row.queue.name)
        work = row.work
        if work.job_name:
            return Subject(work.job_kind, work.job_name, work.namespace)
        return Subject("Workload" if row.queue.program == "Kueue" else "PodGroup", work.name, work.namespace)
