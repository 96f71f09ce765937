"""A run that another machine carries out, in words, and noted in its folder here: commands that act on it refuse.

A runner notes it when it learns of it, and ends; of a run without one it is noted by who asks its store.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from actions.base.clock import SystemClock, time_of_day
from actions.base.errors import ConsoleError
from actions.base.executors import at_once, in_thread
from actions.base.untrusted import one_line
from actions.run.journal.folder import ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE, load_environment
from actions.run.journal.reader import RunSummary
from actions.run.journal.watched import WatchedOnly, write_watched
from actions.run.state.records import Operator
from actions.run.state.view import OVER, NoticeKind, RunState
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.s3 import open_store

MOST_ASKED = 20
"""Runs that a store is read for in one round, the newest ones."""


def note_elsewhere(folder: Path, owner: Operator | None, epoch: int, store: str, *, is_copy: bool = False) -> None:
    """Note in a run's folder that another machine carries the run out.

    Args:
        folder: The run's.
        owner: Of that machine; `None` if it has not been named.
        epoch: Its number.
        store: Where that is known from, as `--from` names it; empty if it is not known.
        is_copy: It has the run at the epoch that this machine has, by a copy of its folder.
    """
    watched = WatchedOnly(
        f"It {deed_of(owner, epoch, is_copy=is_copy)}; here it can only be watched.",
        takeover_hint(folder.name, store),
        one_line(str(owner)) if owner else "another machine",
        epoch + is_copy,
        SystemClock().now().timestamp(),
    )
    write_watched(folder, watched)


def watched_copy(run_id: str, place: str, lease: StoreLease | None, now: float) -> WatchedOnly:
    """Return what readers of a copy of a run show.

    Args:
        run_id: The run's id.
        place: The store that it was read from.
        lease: As that has it.
        now: Seconds since the epoch, when it was read.
    """
    who = one_line(str(lease.owner)) if lease else "Another machine"
    hint = takeover_hint(run_id, place)
    if lease is not None and (lease.is_live or lease.status.state in {state.value for state in OVER}):
        text = f"It belongs to {who}; here it can only be watched."
    else:
        heard = f"has not been heard of since {time_of_day(now - lease.age_seconds)} UTC" if lease else ""
        silence = heard if lease and lease.seconds else "has stopped it"
        text = f"{who} {silence}. To act on it, take it over: {takeover_command(run_id, place)}"
    if lease is None:
        return WatchedOnly(text, hint)
    status, writer = lease.status, lease.status.writer if lease.is_live else ""
    return WatchedOnly(text, hint, writer=writer, notes=status.notes, troubles=status.troubles)


def deed_of(owner: Operator | None, epoch: int, *, is_copy: bool) -> str:
    """Return what another machine has done to a run, as the middle of a sentence."""
    who = one_line(str(owner)) if owner else ""
    if is_copy:
        return f"is carried out by another machine{f', {who},' if who else ''} that has a copy of its folder"
    return f"was taken over{f' by {who}' if who else ''} (epoch {epoch})"


def takeover_command(run_id: str, store: str = "") -> str:
    """Return the command that takes a run over; `store` is its store, as far as it is known."""
    return f"eksml-tui runs takeover {run_id}{f' --from {shlex.quote(store)}' if store else ''}"


def takeover_hint(run_id: str, store: str = "") -> str:
    """Return the remedy."""
    return f"Ask them, or take it over: {takeover_command(run_id, store)}"


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
        await in_thread("store", note_elsewhere, run.folder, lease.owner, lease.epoch, run.store)
        found.append(run.id)
