"""`eksml-tui runs list --store` and `runs show --store`: the runs of a team, wherever they are carried out."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from actions.base.clock import format_rfc3339
from actions.base.decoding import json_document
from actions.base.errors import MissingError, UsageError
from actions.base.wording import aligned_text, duration
from actions.run.journal.run_ids import short_ids
from actions.run.store.copy import fetch_run, mirror_path
from actions.run.store.drivers import open_store
from actions.run.store.listing import StoredRun, list_store
from tui.cli.tables.output import print_table
from tui.cli.target import aws_environment

if TYPE_CHECKING:
    from actions.run.store.objects import RunStore

T = TypeVar("T")

HOME_FIELDS = (
    "id", "state", "live", "owner", "host", "heartbeat_seconds", "stage", "blueprint", "title", "cluster", "region",
    "account", "created_at", "epoch", "spent_usd", "usd_per_hour", "error",
)  # fmt: skip
_COLUMNS = ("RUN", "STATE", "OWNER", "HOST", "HEARTBEAT", "STAGE", "BLUEPRINT", "CLUSTER", "CREATED")


def print_store(options: Namespace) -> int:
    """Carry out `runs list --store`.

    Raises:
        ConsoleError: There is no store, or it does not answer.
    """
    runs = _asked(options, list_store)
    is_short = sys.stdout.isatty()
    print_table(
        options.output,
        table=lambda: store_table(runs, is_short=is_short),
        document=lambda: store_json(runs),
        fields=HOME_FIELDS,
    )
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

    async def fetch(store: RunStore) -> Path:
        ids = [run.id for run in await list_store(store)]
        found = [one for one in ids if one.startswith(run)] if run != "latest" else ids[:1]
        chosen = run if run in ids else found[0] if len(found) == 1 else ""
        if not chosen:
            count = f"{len(found)} runs begin" if found else "No run begins"
            raise MissingError(
                f"{count} with {run!r} in {store.address}.",
                hint=f"List them: eksml-tui runs list --store {store.address}",
            )
        folder = mirror_path(chosen)
        await fetch_run(store, chosen, folder)
        return folder

    return _asked(options, fetch)


def _asked(options: Namespace, ask: Callable[[RunStore], Coroutine[Any, Any, T]]) -> T:
    url = options.of_store or options.store
    if not url:
        raise UsageError("No store is set.", hint="Write --store s3://BUCKET/PREFIX, or store: in config.yaml.")
    os.environ.update(aws_environment(options))  # for boto3
    store = open_store(url, region=options.region)
    try:
        return asyncio.run(ask(store))
    finally:
        store.close()


def store_table(runs: Sequence[StoredRun], *, is_short: bool = False) -> str:
    """Return a table with a heading and one line for each run.

    Args:
        runs: Newest first.
        is_short: Shorten ids to unambiguous prefixes, for a terminal.
    """
    if not runs:
        return "There are no runs in this store.\n"
    ids = [run.id for run in runs]
    names = short_ids(ids) if is_short else dict(zip(ids, ids, strict=True))
    rows = [
        (
            names[run.id],
            "unreadable" if run.error else run.state or "not begun",
            run.owner.user if run.owner else "",
            run.owner.host if run.owner else "",
            _heartbeat(run),
            run.lease.status.stage if run.lease else "",
            run.blueprint_id,
            run.cluster,
            f"{datetime.fromtimestamp(run.created_at, UTC):%Y-%m-%d %H:%M}" if run.created_at else "",
        )
        for run in runs
    ]
    return aligned_text([_COLUMNS, *rows]) + "".join(f"{names[run.id]}: {run.error}\n" for run in runs if run.error)


def _heartbeat(run: StoredRun) -> str:
    """Return the age of the last heartbeat; of a run whose runner has ended in order there is none."""
    if run.lease is None or not run.lease.seconds:
        return "no runner"
    return f"{duration(run.lease.age_seconds)} ago{'' if run.lease.is_live else ', lost'}"


def store_json(runs: Sequence[StoredRun]) -> str:
    """Return a list of objects with `HOME_FIELDS`; times are RFC 3339, `null` where unknown."""
    rows = [
        {
            "id": run.id,
            "state": run.state,
            "live": bool(run.lease and run.lease.is_live),
            "owner": run.owner.user if run.owner else "",
            "host": run.owner.host if run.owner else "",
            "heartbeat_seconds": run.lease.age_seconds if run.lease else None,
            "stage": run.lease.status.stage if run.lease else "",
            "blueprint": run.blueprint_id,
            "title": run.title,
            "cluster": run.cluster,
            "region": run.region,
            "account": run.account,
            "created_at": format_rfc3339(datetime.fromtimestamp(run.created_at, UTC)) if run.created_at else None,
            "epoch": run.lease.epoch if run.lease else None,
            "spent_usd": run.lease.status.spent_usd if run.lease else "",
            "usd_per_hour": run.lease.status.usd_per_hour if run.lease else "",
            "error": run.error,
        }
        for run in runs
    ]
    return json_document(rows)
