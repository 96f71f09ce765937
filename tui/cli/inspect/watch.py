"""`eksml-tui watch`: a job of the cluster in the console, or without a terminal its log until it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from contextlib import suppress

from actions.base.clock import SystemClock, time_of_day
from actions.base.errors import MissingError, UnreachableError
from actions.base.untrusted import plain_text
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import JobPod, JobRef, job_named
from actions.cluster.jobs import JobOutcome, JobWatch
from actions.cluster.kinds import watched_names
from actions.cluster.logs.batch import LogBatch, line_in, marker_of, number_in, tag_in, tagged_lines
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.fleet.facts import JobReport
from tui.cli.streams import places_text
from tui.cli.target import ChosenTarget, chosen_target, require_target
from tui.feeds.logs import SourceNames, TimeOrder
from tui.present.subject import parse_subject

_PRINT_SECONDS = 0.25
_SYNC_SECONDS = 30.0
_ALL_LINES = 1 << 30


def run(options: Namespace) -> int:
    """Watch the job.

    Returns:
        If its log was printed: 0 for a job that has finished, 1 for one that has failed or is gone.
    """
    chosen = chosen_target(options)
    if sys.stdin.isatty() and sys.stdout.isatty() and places_text(os.environ) and not options.plain:
        from tui.cli.console import watch_job

        return watch_job(options, chosen)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    end = asyncio.run(_print_log(chosen, options.job))
    ending = {"finished": "has finished", "failed": "has failed"}.get(end.state, "is gone")
    sys.stderr.write(f"eksml-tui: {options.job} {ending}{f': {end.message}' if end.message else '.'}\n")
    return 0 if end.state == "finished" else 1


async def _print_log(chosen: ChosenTarget, typed: str) -> JobOutcome:
    require_target(chosen.target)
    session = await KubeSession.connect(chosen.target, readonly=True, token_factory=token_factory)
    state = ClusterState(session)
    following = asyncio.create_task(state.run())
    order, names = TimeOrder(), SourceNames()

    def put(member: JobPod, _container: str, batch: LogBatch) -> None:
        order.put(tagged_lines(batch, names.number_of(member.pod.name)))

    def report(told: JobReport) -> None:
        order.put([marker_of(told.words(), names.number_of(typed), int(told.at * 1e9))])

    try:
        job = named_job(typed, session.namespace or "default", await first_snapshot(state, following))
        watch = JobWatch(
            job,
            session=lambda: session,
            look=state.snapshot,
            on_lines=put,
            tail_lines=lambda _: None,
            on_report=report,
            clock=SystemClock(),
        )
        return await _printed(asyncio.create_task(watch.run()), order, names)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await session.aclose()


async def first_snapshot(state: ClusterState, following: asyncio.Task[None]) -> ClusterSnapshot:
    """Return the first complete snapshot.

    Raises:
        UnreachableError: There is none in time.
    """
    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            while not state.snapshot().is_complete:
                if following.done():
                    following.result()
                await asyncio.sleep(_PRINT_SECONDS)
    except TimeoutError:
        raise UnreachableError(
            "The cluster did not list its objects in time.", hint="Check the network and your permissions."
        ) from None
    return state.snapshot()


def named_job(typed: str, namespace: str, snapshot: ClusterSnapshot) -> JobRef:
    """Return the job that an operator has named.

    Raises:
        MissingError: A word without a kind names none.
    """
    subject = parse_subject(typed, default_namespace=namespace)
    if subject.kind != "Pod":
        return JobRef(subject.kind, subject.namespace, subject.name)
    found = job_named(subject.namespace, subject.name, snapshot.workloads)
    if found is None:
        raise MissingError(f"There is no job {typed!r}.", hint=f"Write kind/name, with one of {watched_names()}.")
    return found


async def _printed(watching: asyncio.Task[JobOutcome], order: TimeOrder, names: SourceNames) -> JobOutcome:
    """Print lines in the order of their times until the job has ended."""
    while not watching.done():
        before = order.newest_ns
        await asyncio.wait([watching], timeout=_PRINT_SECONDS)
        _print(order.take(_ALL_LINES, is_quiet=before == order.newest_ns), names)
    _print(order.take(_ALL_LINES, is_quiet=True), names)
    return watching.result()


def _print(records: list[bytes], names: SourceNames) -> None:
    for record in records:
        line, source = line_in(record), names.name_of(number_in(tag_in(record)))
        moment = time_of_day(line.at_ns / 1e9)
        text = line.text if sys.stdout.isatty() else plain_text(line.text.rstrip("\r").rpartition("\r")[2])
        sys.stdout.write(f"{moment} {source} {f'-- {text} --' if line.is_marker else text}\n")
    sys.stdout.flush()
