"""Runs of other machines on the command line: in the list of a cluster, shown from their records, and left alone."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.run.client import list_runs
from actions.run.journal.elsewhere import elsewhere_sentence, takeover_hint
from actions.run.presence.listing import find_cluster_run, list_cluster_runs, refusal_of
from actions.run.presence.record import RemoteRun
from actions.run.presence.remote_view import job_on_screen, later_leases, remote_view, with_lease
from actions.run.presence.report import FIELDS, cluster_runs_json, cluster_runs_table, known_runs
from actions.run.report import run_json, run_table
from actions.run.store.drivers import open_store
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.taken import note_taken
from tui.cli.tables.output import print_table
from tui.cli.target import aws_environment, chosen_target, require_target

T = TypeVar("T")

_LOOK_SECONDS = 10.0
"""Time for the cluster, and for the store, to answer whether they know a run that this machine does not."""
_HOME_SECONDS = 3.0
"""Time for the store of a run to answer before a request is made to that run."""
_LOOKING = ("show", "curves")
"""Verbs with the option `--store`."""


def print_cluster_runs(options: Namespace) -> int:
    """Print the runs of this machine and those that the cluster has a record of, one row each."""
    found = asyncio.run(_asked(options, list_cluster_runs))
    runs = known_runs(list_runs(), asyncio.run(named_by_store(found.runs, options.store, options.region)))
    now = SystemClock().now().timestamp() if found.at is None else found.at
    print_table(
        options.output,
        table=lambda: cluster_runs_table(runs, now=now, note=found.note, is_short=sys.stdout.isatty()),
        document=lambda: cluster_runs_json(runs, now=now),
        fields=FIELDS,
    )
    if found.note and options.output != "table":
        sys.stderr.write(f"eksml-tui: {found.note}\n")
    return 0


async def named_by_store(runs: Sequence[RemoteRun], store: str, region: str = "") -> Sequence[RemoteRun]:
    """Return runs of a cluster with the owner that the lease in their store names, where that has the later epoch.

    Args:
        runs: As the cluster records them.
        store: Of the settings; empty for none.
        region: Of the options.
    """
    leases = await later_leases(runs, store, at_most_seconds=_HOME_SECONDS, region=region)
    return [with_lease(run, leases.get(run.id)) for run in runs]


def note_if_taken(folder: Path, environment: Mapping[str, str]) -> None:
    """Note in a run's folder if its store names another machine, so that what acts on the run is refused.

    Args:
        folder: The run's.
        environment: Profile and region, for boto3.
    """
    os.environ.update(environment)
    asyncio.run(note_taken([run for run in list_runs() if run.folder == folder], at_most_seconds=_HOME_SECONDS))


def show_or_refuse(options: Namespace, missing: MissingError) -> int:
    """Show a run that this machine does not have, from its record in the cluster; refuse all that would act on it.

    Args:
        options: With `run` and `verb`.
        missing: The error, if neither the cluster nor the store of the settings has it, or answers soon.

    Raises:
        RefusedError: It is of another machine: with its owner, and the command that takes it over.
        MissingError: `missing`.
    """
    try:
        run = run_elsewhere(options, missing)
    except MissingError:
        _refuse_by_store(options)
        raise
    if options.verb == "show":
        view, now = remote_view(run, is_silent=run.is_silent(SystemClock().now().timestamp())), SystemClock().now()
        print_table(
            options.output,
            table=lambda: run_table(view, now=now.timestamp()),
            document=lambda: run_json(view, now=now.timestamp()),
            rows="stages",
        )
        return 0
    job = job_on_screen(run, getattr(options, "stage", "") or "")
    if options.verb == "logs" and job is not None:
        raise RefusedError(
            f"The log of run {run.id} is on the machine of {run.owner}; its pods still have their latest lines.",
            hint=f"Follow them: eksml-tui watch {job.kind.lower()}/{job.namespace}/{job.name}",
        )
    raise refusal_of(run)


def run_elsewhere(options: Namespace, missing: MissingError) -> RemoteRun:
    """Return the run of another machine that `options.run` names.

    Raises:
        MissingError: `missing`, if the cluster does not know it either, or does not answer soon.
    """
    try:
        return asyncio.run(_soon(options))
    except (ConsoleError, TimeoutError):
        raise missing from None


def _refuse_by_store(options: Namespace) -> None:
    """Refuse what would act on a run that the store of the settings has, and its cluster does not name.

    Raises:
        RefusedError: With its owner, and the command that shows it, or takes it over.
    """
    if not options.store:
        return
    os.environ.update(aws_environment(options))  # for boto3
    store = open_store(options.store, region=options.region)
    try:
        found = asyncio.run(_in_home(store, options.run))
    except (ConsoleError, TimeoutError):
        return
    finally:
        store.close()
    if found is None:
        return
    run_id, lease = found
    hint = takeover_hint(run_id, options.store)
    if options.verb in _LOOKING:
        hint = f"Look at it: eksml-tui runs {options.verb} {run_id} --store {options.store}"
    raise RefusedError(elsewhere_sentence(run_id, str(lease.owner)), hint=hint)


async def _in_home(store: RunStore, run: str) -> tuple[str, StoreLease] | None:
    """Return the one run of a store whose id begins so, with its lease."""
    async with asyncio.timeout(_LOOK_SECONDS):
        ids = await store.run_ids()
        found = [run] if run in ids else [one for one in ids if run and one.startswith(run)]
        lease = await store.lease(found[0]) if len(found) == 1 else None
        return None if lease is None else (found[0], lease)


async def _soon(options: Namespace) -> RemoteRun:
    async with asyncio.timeout(_LOOK_SECONDS):
        return await _asked(options, lambda session: find_cluster_run(session, options.run), may_ask=False)


async def _asked(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]], *, may_ask: bool = True) -> T:
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    require_target(chosen.target, may_ask=may_ask)
    session = await KubeSession.connect(chosen.target, readonly=True, token_factory=token_factory)
    try:
        return await ask(session)
    finally:
        await session.aclose()
