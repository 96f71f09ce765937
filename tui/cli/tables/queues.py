"""`eksml-tui queues`: quota, what has it, and what waits for it in order, of Kueue and Volcano."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

import msgspec

from actions.base.clock import SystemClock, parse_rfc3339
from actions.base.decoding import json_document
from actions.base.errors import MissingError
from actions.base.wording import aligned_text, rough_duration
from actions.cluster.auth.session import KubeSession
from actions.cluster.queues import OF_NAMESPACE, QueuedWork, QueueList, WorkQueue, fetch_queues
from tui.cli.tables.output import print_table
from tui.cli.target import ask_cluster
from tui.present.subject import parse_subject

_QUEUE_HEADS = ("QUEUE", "OF", "PARENT", "FLAVOR", "RESOURCE", "QUOTA", "USED", "BORROWED", "ADMITTED", "WAIT", "STATE")
_WORK_HEADS = ("QUEUE", "PLACE", "WORKLOAD", "JOB", "PRIORITY", "AGE", "STATE", "WHY")
WORK_FIELDS = (
    "queue", "local_queue", "namespace", "name", "job_kind", "job_name", "state", "reason", "priority", "created_at",
    "position", "ahead",
)  # fmt: skip


def print_queues(options: Namespace) -> int:
    """Print all queues, or the places of one job; what is not installed or refused goes to stderr.

    Raises:
        MissingError: The job is in no queue.
    """

    async def ask(session: KubeSession) -> QueueList:
        options.namespace = session.namespace
        return await fetch_queues(session, session.namespace)

    found = ask_cluster(options, ask)
    for remark in found.remarks:
        sys.stderr.write(f"eksml-tui: {remark}\n")
    if options.job:
        print_table(
            options.output,
            table=lambda: _places_text(found, _places(found, options)),
            document=lambda: json_document(_places(found, options)),
            fields=WORK_FIELDS,
        )
        return 0
    print_table(
        options.output,
        table=lambda: _queues_text(found),
        document=lambda: json_document(msgspec.to_builtins(found)),
        rows="queues",
    )
    return 0


def _places(found: QueueList, options: Namespace) -> list[QueuedWork]:
    subject = parse_subject(options.job, default_namespace=options.namespace)
    places = found.places_of(subject.kind, subject.namespace, subject.name)
    if not places:
        hint = "Queues and what is in them: eksml-tui queues."
        raise MissingError(f"{subject.title()} is in no queue that may be seen.", hint=hint)
    return places


def _places_text(found: QueueList, places: Sequence[QueuedWork]) -> str:
    """Return a sentence for each place, with what is before it."""
    parts = {queue.name for queue in found.queues if queue.order == OF_NAMESPACE}
    lines: list[str] = []
    for one in places:
        queue = one.queue or one.local_queue or "?"
        if not one.position:
            lines.append(f"{one.key} is {one.state} in queue {queue}.")
        else:
            part = ", of what may be seen" if one.queue in parts else ""
            lines.append(f"{one.key} is number {one.position} in queue {queue}{part}.")
        unseen = max(0, one.position - 1 - len(one.ahead))
        lines += [f"  {one.reason}"] if one.reason else []
        lines += [f"  {'-' if unseen else f'{place}.'} {key}" for place, key in enumerate(one.ahead, 1)]
        lines += [f"  - {unseen} more that may not be seen"] if unseen else []
    return "".join(f"{line}\n" for line in lines)


def _queues_text(found: QueueList) -> str:
    if not found.queues:
        return "" if found.remarks else "No queues.\n"
    now = SystemClock().now().timestamp()
    text = aligned_text([_QUEUE_HEADS, *(row for queue in found.queues for row in _quota_rows(queue))])
    work = [_work_row(one, now) for queue in found.queues for one in queue.work]
    orders = {f"{queue.program} {queue.name}: {queue.order}" for queue in found.queues if queue.pending}
    told = "".join(f"In order, {order}.\n" for order in sorted(orders))
    return text + (f"\n{aligned_text([_WORK_HEADS, *work])}{told}" if work else "")


def _quota_rows(queue: WorkQueue) -> list[tuple[str, ...]]:
    counts = (*(str(sum(one.state == state for one in queue.work)) for state in ("admitted", "pending")), queue.state)
    names = (queue.name or "?", queue.program, queue.parent or "-")
    shares = [(one.flavor, one.resource, one.quota, one.used, one.borrowed) for one in queue.shares]
    return [(*names, *(cell or "-" for cell in share), *counts) for share in shares or [("",) * 5]]


def _work_row(work: QueuedWork, now: float) -> tuple[str, ...]:
    job = f"{work.job_kind}/{work.job_name}" if work.job_name else "-"
    made = parse_rfc3339(work.created_at) if work.created_at else None
    age = rough_duration(now - made.timestamp()) if made is not None else "?"
    place = str(work.position or "-")
    cells = (work.key, job, str(work.priority), age, work.state, work.reason or "-")
    return (work.queue or work.local_queue or "?", place, *cells)
