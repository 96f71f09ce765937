"""The runs of this machine that another one has taken over, by their stores; noted in their folders.

A runner learns of it by itself. Of a run without one, as it is parked or its machine was off, the folder stays as it
was, and the list shows an old state until an operator acts on it.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence

from actions.base.errors import ConsoleError
from actions.base.executors import at_once, in_thread
from actions.run.journal.elsewhere import note_elsewhere
from actions.run.journal.folder import ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE, load_environment
from actions.run.journal.reader import RunSummary
from actions.run.state.view import NoticeKind, RunState
from actions.run.store.drivers import open_store
from actions.run.store.objects import RunStore

MOST_ASKED = 20
"""Runs that a store is read for in one round, the newest ones."""


async def note_taken(runs: Sequence[RunSummary], *, at_most_seconds: float) -> tuple[str, ...]:
    """Ask the stores of runs that no runner carries out here who does, and note other machines.

    A store that does not answer in time means nothing: the next round reads it again.

    Args:
        runs: The newest first.
        at_most_seconds: Limit of all questions together.

    Returns:
        The ids of those that were taken over.
    """
    by_store: dict[str, list[RunSummary]] = defaultdict(list)
    for run in (await in_thread("store", lambda: list(filter(_is_asked, runs))))[:MOST_ASKED]:
        by_store[run.store].append(run)
    found: list[str] = []

    async def ask(url: str) -> None:
        try:
            store = open_store(url)
        except ConsoleError:
            return
        try:
            await at_once(by_store[url], lambda run: _note(store, run, found))
        finally:
            store.close()

    try:
        async with asyncio.timeout(at_most_seconds):
            await asyncio.gather(*map(ask, by_store))
    except TimeoutError:
        pass
    return tuple(found)


def _is_asked(run: RunSummary) -> bool:
    """Return whether a store can have more of a run than this machine, and is reached by this process' endpoints."""
    kinds = {notice.kind for notice in run.notices}
    is_told = NoticeKind.ELSEWHERE in kinds
    is_at_work = run.has_runner and NoticeKind.STALLED not in kinds  # it learns of it by itself
    if not run.store or run.error or is_at_work or is_told or run.state is RunState.TORN_DOWN:
        return False
    try:
        known = load_environment(run.folder)
    except ConsoleError:
        return False
    names = (ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE)
    return all(known.get(name, "") == os.environ.get(name, "") for name in names)


async def _note(store: RunStore, run: RunSummary, found: list[str]) -> None:
    try:
        lease = await store.lease(run.id)
    except ConsoleError:
        return
    if lease is not None and lease.epoch > run.epoch:
        await in_thread("store", note_elsewhere, run.folder, lease.owner, lease.epoch)
        found.append(run.id)
