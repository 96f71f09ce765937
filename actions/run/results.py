"""What a run has made: listed where it lies, copied to S3 by a Job."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConfigError, MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.blueprint.render import labels_of
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.loglines import LogLine
from actions.cluster.logs import LogFollower, LogSource
from actions.cluster.objects import ObjectRef, create, delete, fetch, list_objects
from actions.run.access import Connection
from actions.run.exporting import EXPORT_STAGE, export_job
from actions.run.onvolume import Volume, below, run_on_volume
from actions.run.reader import load_run
from actions.run.site import Site
from actions.run.work import StageWork

MAX_FILES = 5000

_TARGET = re.compile(r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?$")
_LOOK_SECONDS = 1.0
_START_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file."""

    path: str
    """Below the folder of the results."""
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a run's folder of results."""

    folder: str
    claim: str
    files: tuple[ResultFile, ...]
    """By path."""
    is_complete: bool
    """Whether these are all; otherwise there are more than `MAX_FILES`."""

    @property
    def size_bytes(self) -> int:
        """Of all files that are listed."""
        return sum(file.size_bytes for file in self.files)


async def list_results(folder: Path, clock: Clock) -> Listing:
    """Look where the run's results lie: in a pod of the run, or in a short Job.

    Args:
        folder: The run's.
        clock: For waiting.

    Raises:
        MissingError: The blueprint names no results, or the run has no cluster yet.
        ConsoleError: The cluster cannot be asked.
    """
    async with _Opened(folder, clock) as opened:
        place, volume = opened.place, opened.volume
        mounts: list[str] = []

        def script(mount: str) -> str:
            mounts.append(mount)
            return _listing_script(below(place, volume.mount, mount))

        connection = await opened.work.connect()
        text = await run_on_volume(connection, volume, script, run_id=opened.work.view.id, clock=clock)
    seen_from = below(place, volume.mount, mounts[-1])
    files = [file for line in text.splitlines() if (file := _file_of(line, seen_from)) is not None]
    files.sort(key=lambda file: file.path)
    return Listing(place, volume.claim, tuple(files[:MAX_FILES]), is_complete=len(files) <= MAX_FILES)


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
    async with _Opened(folder, clock) as opened:
        connection, labels = await opened.work.connect(), labels_of(opened.work.view.id, EXPORT_STAGE)
        name = f"eksml-export-{secrets.token_hex(4)}"
        manifest = export_job(
            name,
            opened.volume,
            source=opened.place,
            target=target,
            region=opened.work.view.cluster.region,
            labels=labels,
            service_account=service_account,
        )
        await create(connection.session, connection.discovery, manifest)
        ref = ObjectRef("batch/v1", "Job", opened.volume.namespace, name)
        try:
            return await _followed(connection, ref, target, clock, on_line)
        finally:
            await delete(connection.session, connection.discovery, ref)


class _Opened:
    """A run with its results and a way into its cluster, closed at the end."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._site = Site(folder, clock)
        view = load_run(folder)
        self.work: StageWork = self._site.looking(view)
        results = self.work.blueprint.results
        if results is None:
            raise MissingError(f"{view.blueprint_id} does not say where its results lie.")
        self.place = self.work.text(results.folder)
        self.volume = Volume(self.work.namespace, results.claim, results.mount)

    async def __aenter__(self) -> _Opened:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._site.aclose()


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
        pods = await list_objects(
            connection.session,
            connection.discovery,
            "v1",
            "Pod",
            namespace=ref.namespace,
            label_selector=f"batch.kubernetes.io/job-name={ref.name}",
        )
        for pod in pods:
            if (pod.get("status") or {}).get("phase") != "Pending":
                return LogSource(ref.namespace, pod["metadata"]["name"], "export", pod["metadata"]["uid"])
            verdict = verdict_of(pod)
            words = f"{verdict.reason} {verdict.message}".strip()
        await clock.sleep(_LOOK_SECONDS)
    raise RefusedError(f"{ref.describe()} did not start within {_START_SECONDS:.0f} s: {words}.")


def _listing_script(place: str) -> str:
    return f"find {shlex.quote(place)} -type f -exec stat -c '%s %Y %n' {{}} + 2>/dev/null | head -n {MAX_FILES + 1}"


def _file_of(line: str, folder: str) -> ResultFile | None:
    fields = line.split(" ", 2)
    if len(fields) != 3 or not fields[0].isdigit() or not fields[1].isdigit():
        return None
    path = fields[2].removeprefix(folder).lstrip("/")
    return ResultFile(one_line(path), int(fields[0]), datetime.fromtimestamp(int(fields[1]), UTC))
