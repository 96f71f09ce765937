"""A run's results, copied to S3."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConfigError, RefusedError
from actions.blueprint.render import labels_of
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.loglines import LogLine
from actions.cluster.logs import LogFollower, LogSource
from actions.cluster.objects import ObjectRef, fetch
from actions.run.access import Connection
from actions.run.exportjob import CONTAINER, EXPORT_STAGE, copying
from actions.run.results import OpenResults
from actions.run.volumejob import made, pods_of, volume_job

_TARGET = re.compile(r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?$")
_LOOK_SECONDS = 1.0
_START_SECONDS = 1800.0


async def export_results(
    folder: Path, target: str, clock: Clock, *, on_line: Callable[[str], None], service_account: str = ""
) -> str:
    """Copy the results to S3 by a Job, and wait for its end. A copy that was cut short goes on where it was.

    Args:
        folder: The run's.
        target: `s3://BUCKET/PREFIX`. The pod needs the right to write there: of its node, or of its service account.
        clock: For waiting.
        on_line: Gets what the Job prints.
        service_account: Of the pod; empty for the namespace's default.

    Returns:
        What was done, in one line.

    Raises:
        ConfigError: `target` is no address in S3.
        MissingError: The blueprint names no results, or the run has no cluster yet.
        RefusedError: The Job failed.
        ConsoleError: The cluster cannot be asked.
    """
    if _TARGET.match(target) is None:
        raise ConfigError(f"{target!r} is no address in S3.", hint="Write s3://BUCKET/PREFIX.")
    async with OpenResults(folder, clock) as opened:
        connection, labels = await opened.work.connect(), labels_of(opened.work.view.id, EXPORT_STAGE)
        errand = copying(opened.place, target, region=opened.work.view.cluster.region, service_account=service_account)
        job = volume_job(f"eksml-export-{secrets.token_hex(4)}", opened.volume, errand, labels)
        async with made(connection, job) as ref:
            return await _followed(connection, ref, target, clock, on_line)


async def _followed(
    connection: Connection, ref: ObjectRef, target: str, clock: Clock, on_line: Callable[[str], None]
) -> str:
    place = await _started(connection, ref, clock)

    def show(lines: list[LogLine]) -> None:
        for line in lines:
            on_line(line.text)

    await LogFollower(connection.session, place, on_lines=show, clock=clock).run()
    while True:
        verdict = verdict_of(await fetch(connection.session, connection.discovery, ref))
        if verdict.state is WorkState.FINISHED:
            return f"The results are in {target}."
        if verdict.state is WorkState.FAILED:
            raise RefusedError(
                f"The copy to {target} failed: {verdict.message or verdict.reason}.",
                hint="Its last lines say why; the pod needs the right to write there.",
            )
        await clock.sleep(_LOOK_SECONDS)


async def _started(connection: Connection, ref: ObjectRef, clock: Clock) -> LogSource:
    """The container of the Job's pod, once it has one that has begun."""
    end = clock.monotonic() + _START_SECONDS
    words = "it has no pod"
    while clock.monotonic() < end:
        for pod in await pods_of(connection, ref):
            if (pod.get("status") or {}).get("phase") != "Pending":
                return LogSource(ref.namespace, pod["metadata"]["name"], CONTAINER, pod["metadata"]["uid"])
            verdict = verdict_of(pod)
            words = f"{verdict.reason} {verdict.message}".strip()
        await clock.sleep(_LOOK_SECONDS)
    raise RefusedError(f"{ref.describe()} did not start within {_START_SECONDS:.0f} s: {words}.")
