"""Runs of other machines on the command line: in lists of their stores, shown from a copy, left alone, taken over."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, MissingError, RefusedError, UsageError
from actions.base.untrusted import plain_text
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.run.client import list_runs
from actions.run.journal.reader import load_run
from actions.run.report import run_json, run_table
from actions.run.state.view import RunView
from actions.run.store.copy import copied_from
from actions.run.store.elsewhere import note_taken
from actions.run.store.kubernetes import open_cluster_store
from actions.run.store.listing import ClusterRuns, find_cluster_run, list_cluster_runs, list_store
from actions.run.store.objects import RunStore
from actions.run.store.remote import RemoteRun, job_on_screen, newest_runs, refusal_of, remote_view
from actions.run.store.report import FIELDS, known_runs, known_runs_json, known_runs_table
from actions.run.store.s3 import open_store
from tui.cli.tables.output import print_table
from tui.cli.target import aws_environment, chosen_target, require_target

T = TypeVar("T")

_LOOK_SECONDS = 10.0
"""Time for the cluster, and for the store, to answer whether they know a run that this machine does not."""
_STORE_SECONDS = 3.0
"""Time for the store of a run to answer before a request is made to that run."""


def print_known_runs(options: Namespace) -> int:
    """Print the runs of this machine and those of the cluster (`--cluster`) or of a store (`--store`), a row each.

    Raises:
        ConsoleError: The cluster or store does not answer, or none is set.
    """
    found = ClusterRuns()
    if options.cluster:
        found = asyncio.run(_asked(options, list_cluster_runs))
    stored = asyncio.run(_listed(options)) if options.of_store is not None else []
    runs = known_runs(list_runs() if options.cluster else (), newest_runs([*found.runs, *stored]))
    now = SystemClock().now().timestamp() if found.at is None else found.at
    print_table(
        options.output,
        table=lambda: known_runs_table(runs, now=now, note=found.note, is_short=sys.stdout.isatty()),
        document=lambda: known_runs_json(runs, now=now),
        fields=FIELDS,
    )
    if found.note and options.output != "table":
        sys.stderr.write(f"eksml-tui: {found.note}\n")
    return 0


def copied(options: Namespace, run: str) -> Path:
    """Return the folder with a copy of a run, as it is in the store now.

    Args:
        options: Name the store.
        run: An id, the beginning of one, or `latest`.

    Raises:
        MissingError: The store has no such run, or several.
        ConsoleError: There is no store, or it does not answer.
    """

    async def copy() -> Path:
        async with _opened(options) as store:
            return await copied_from(store, await _id_in(store, run))

    return asyncio.run(copy())


def note_if_taken(folder: Path, environment: Mapping[str, str]) -> None:
    """Note in a run's folder if its store names another machine, so that what acts on the run is refused.

    Args:
        folder: The run's.
        environment: Profile and region, for boto3.
    """
    os.environ.update(environment)
    asyncio.run(note_taken([run for run in list_runs() if run.folder == folder], at_most_seconds=_STORE_SECONDS))


def show_or_refuse(options: Namespace, missing: MissingError) -> int:
    """Show a run that this machine does not have, as its store has it; refuse all that would act on it.

    Args:
        options: With `run` and `verb`.
        missing: The error, if neither the cluster nor the store of the settings has it, or answers soon.

    Raises:
        RefusedError: It is of another machine: with its owner, and the command that takes it over.
        MissingError: `missing`.
    """
    run, view = _found(options, missing, with_copy=options.verb in ("show", "logs"))
    if options.verb == "show":
        now = SystemClock().now().timestamp()
        shown = remote_view(run, view, is_silent=run.is_silent(now))
        print_table(
            options.output,
            table=lambda: run_table(shown, now=now),
            document=lambda: run_json(shown, now=now),
            rows="stages",
        )
        return 0
    job = job_on_screen(view, getattr(options, "stage", "") or "") if view is not None else None
    if options.verb == "logs" and job is not None:
        raise RefusedError(
            f"The log of run {run.id} is on the machine of {run.owner}; its pods still have their latest lines.",
            hint=f"Follow them: eksml-tui watch {job.kind.lower()}/{job.namespace}/{job.name}",
        )
    raise refusal_of(run)


def take_over(options: Namespace) -> int:
    """Take a run over from its store.

    Raises:
        ConsoleError: It cannot be taken over, or was not confirmed; see `take_over_run`.
    """
    from actions.run.takeover.origin import source_for, take_over_from
    from actions.run.takeover.takeover import CLUSTER

    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    source = source_for(options.run, options.source or "", options.store or "")
    if source == CLUSTER:
        require_target(chosen.target)
    taking = take_over_from(
        source,
        options.run,
        chosen.target,
        SystemClock(),
        is_chosen=bool(options.context or options.demo or options.kubeconfig),
        confirm=options.confirm,
        is_machine_gone=options.machine_is_gone,
        environment=chosen.environment,
        say=_say,
    )
    done = asyncio.run(taking)
    left_out = ("Left alone:", *(f"  {line}" for line in done.left_out)) if done.left_out else ()
    for line in (*left_out, *done.sentences):
        _say(line)
    before = f", which {done.previous} had" if done.previous else ""
    sys.stdout.write(f"This machine carries out {done.folder.name}{before} (epoch {done.epoch}).\n")
    return 0


def _say(text: str) -> None:
    """Print to stderr: stdout has the result alone."""
    sys.stderr.write(f"{plain_text(text)}\n")


def run_elsewhere(options: Namespace, missing: MissingError) -> RemoteRun:
    """Return the run of another machine that `options.run` names.

    Raises:
        MissingError: `missing`, if neither the cluster nor the store of the settings knows it, or answers soon.
    """
    return _found(options, missing, with_copy=False)[0]


def _found(options: Namespace, missing: MissingError, *, with_copy: bool) -> tuple[RemoteRun, RunView | None]:
    """Return a run of another machine, by the cluster or by the store of the settings, with its copied journal."""

    async def in_cluster(session: KubeSession) -> tuple[RemoteRun, RunView | None]:
        run = await find_cluster_run(session, options.run)
        if not with_copy or run.about.store or run.lease is None:
            return run, None
        store = await open_cluster_store(session, run.namespace)
        return run, load_run(await copied_from(store, run.id))

    async def in_store() -> tuple[RemoteRun, RunView | None]:
        async with _opened(options) as store:
            run_id = await _id_in(store, options.run)
            lease = await store.lease(run_id)
            if lease is None:
                raise missing
            copy = load_run(await copied_from(store, run_id)) if with_copy else None
            return RemoteRun(run_id, lease, str(store.address)), copy

    asked: list[Callable[[], Awaitable[tuple[RemoteRun, RunView | None]]]] = [
        lambda: _asked(options, in_cluster, may_ask=False),
        *([in_store] if options.store else []),
    ]
    for ask in asked:
        try:
            return asyncio.run(_soon(ask))
        except (ConsoleError, TimeoutError):
            continue
    raise missing


async def _soon(ask: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(_LOOK_SECONDS):
        return await ask()


async def _listed(options: Namespace) -> list[RemoteRun]:
    async with _opened(options) as store:
        return await list_store(store)


async def _id_in(store: RunStore, run: str) -> str:
    """Return the one id of a store that begins so; `latest` is the newest run."""
    if run == "latest":
        found = [one.id for one in await list_store(store)][:1]
    else:
        ids = await store.run_ids()
        found = [run] if run in ids else [one for one in ids if run and one.startswith(run)]
    if len(found) != 1:
        count = f"{len(found)} runs begin" if found else "No run begins"
        raise MissingError(
            f"{count} with {run!r} in {store.address}.",
            hint=f"List them: eksml-tui runs list --store {store.address}",
        )
    return found[0]


@asynccontextmanager
async def _opened(options: Namespace) -> AsyncIterator[RunStore]:
    """Open the store that the options name.

    Raises:
        UsageError: They name none.
    """
    url = getattr(options, "of_store", None) or options.store
    if not url:
        raise UsageError("No store is set.", hint="Write --store s3://BUCKET/PREFIX, or store: in config.yaml.")
    os.environ.update(aws_environment(options))  # for boto3
    store = open_store(url, region=options.region)
    try:
        yield store
    finally:
        store.close()


async def _asked(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]], *, may_ask: bool = True) -> T:
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    require_target(chosen.target, may_ask=may_ask)
    session = await KubeSession.connect(chosen.target, readonly=True, token_factory=token_factory)
    try:
        return await ask(session)
    finally:
        await session.aclose()
