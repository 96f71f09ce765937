"""A run's results: the files on its volume, listed as a table or as JSON, and their export to S3."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.decoding import json_document
from actions.base.errors import BlueprintError, ConfigError, ConflictError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.own_images import AWS_CLI, own_image
from actions.base.untrusted import one_line, plain_text
from actions.blueprint.render import labels_of
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerLog, LogFollower
from actions.cluster.objects.client import Document, ObjectRef, ref_of
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.fleet.quantity import size_text
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import ONCE
from actions.run.context.run_account import compare_account, works_in_account
from actions.run.context.stage_context import StageContext
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.reader import load_run
from actions.run.journal.watched import refuse_watched
from actions.run.objects.inventory import is_of_run
from actions.run.objects.ownership import entry_of, group_of
from actions.run.volume.commands import below, run_on_volume
from actions.run.volume.helper_job import (
    API_VERSION,
    EXPORT_PREFIX,
    CreatedJob,
    HelperJob,
    JobRecorder,
    JournalJobRecorder,
    RunVolume,
    create_job,
    delete_job,
    has_ended,
    pods_of,
    volume_job,
)

MAX_FILES = 5000


class ResultFile(msgspec.Struct, frozen=True):
    """One file."""

    path: str
    """Relative to the folder of the results."""
    size_bytes: int
    modified_at: datetime


class Listing(msgspec.Struct, frozen=True):
    """The files in a run's folder of results."""

    folder: str
    claim: str
    files: tuple[ResultFile, ...]
    """Sorted by path."""
    is_complete: bool
    """These are all files; otherwise there are more than `MAX_FILES`."""

    @property
    def size_bytes(self) -> int:
        """Total size of the listed files."""
        return sum(file.size_bytes for file in self.files)


class OpenResults:
    """An open run: its results and its cluster, closed at the end. Create it in a thread: it reads files.

    Args:
        folder: The run's.
        clock: For waiting.

    Raises:
        MissingError: The blueprint names no results.
        ConsoleError: The run cannot be read.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._backend = LiveBackend(folder, clock)
        view = load_run(folder)
        refuse_watched(view)
        self.context: StageContext = self._backend.read_only_context(view)
        results = self.context.blueprint.results
        if results is None:
            raise MissingError(f"The blueprint {view.blueprint_id} names no folder of results.")
        self.place = self.context.text(results.folder)
        self.volume = RunVolume(self.context.namespace, results.claim, results.mount)

    async def __aenter__(self) -> OpenResults:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._backend.aclose()


async def list_results(folder: Path, clock: Clock) -> Listing:
    """List the run's results, in a pod of the run or in a short Job.

    Args:
        folder: The run's.
        clock: For waiting.

    Raises:
        MissingError: The blueprint names no results, or the run has no cluster yet.
        ConsoleError: The cluster cannot be reached.
    """
    async with await in_thread("results", OpenResults, folder, clock) as opened:
        place, volume = opened.place, opened.volume
        mounts: list[str] = []

        def script(mount: str) -> str:
            mounts.append(mount)
            return _listing_script(below(place, volume.mount, mount))

        connection = await opened.context.connect(ONCE)
        recorder = JournalJobRecorder(folder, clock)
        text = await run_on_volume(
            connection, volume, script, run_id=opened.context.view.id, clock=clock, recorder=recorder
        )
    seen_from = below(place, volume.mount, mounts[-1])
    files = [file for line in text.splitlines() if (file := _file_of(line, seen_from)) is not None]
    files.sort(key=lambda file: file.path)
    return Listing(place, volume.claim, tuple(files[:MAX_FILES]), is_complete=len(files) <= MAX_FILES)


def _listing_script(place: str) -> str:
    return f"find {shlex.quote(place)} -type f -exec stat -c '%s %Y %n' {{}} + 2>/dev/null | head -n {MAX_FILES + 1}"


def _file_of(line: str, folder: str) -> ResultFile | None:
    fields = line.split(" ", 2)
    if len(fields) != 3 or not fields[0].isdigit() or not fields[1].isdigit():
        return None
    path = fields[2].removeprefix(folder).lstrip("/")
    return ResultFile(one_line(path), int(fields[0]), datetime.fromtimestamp(int(fields[1]), UTC))


def results_table(listing: Listing) -> str:
    """Return a line for each file, then their total."""
    if not listing.files:
        return f"There are no files in {listing.folder} on {listing.claim} yet.\n"
    rows = [(size_text(file.size_bytes), f"{file.modified_at:%Y-%m-%d %H:%M}", file.path) for file in listing.files]
    width = max(len(size) for size, _, _ in rows)
    lines = [f"{size:>{width}}  {moment}  {path}" for size, moment, path in rows]
    more = "" if listing.is_complete else ", and more that are not listed"
    total = f"{len(rows)} files, {size_text(listing.size_bytes)}, in {listing.folder} on {listing.claim}{more}."
    return "\n".join([*lines, "", total]) + "\n"


def results_json(listing: Listing) -> str:
    """Return the listing as indented JSON."""
    document = {
        "folder": listing.folder,
        "claim": listing.claim,
        "complete": listing.is_complete,
        "size_bytes": listing.size_bytes,
        "files": [
            {"path": file.path, "size_bytes": file.size_bytes, "modified_at": format_rfc3339(file.modified_at)}
            for file in listing.files
        ],
    }
    return json_document(document)


EXPORT_STAGE = "errand.export"
"""The stage label of objects that belong to no stage; a stage's id cannot have a dot."""
CONTAINER = "export"

_KEPT_SECONDS = 600
_RETRIES = 2


def copying(source: str, target: str, *, region: str, service_account: str = "") -> HelperJob:
    """Return a helper Job that copies a folder to S3. Files there with the same size and age are skipped.

    Args:
        source: Folder on the volume.
        target: `s3://BUCKET/PREFIX`.
        region: AWS region.
        service_account: Empty for the namespace's default.
    """
    return HelperJob(
        container=CONTAINER,
        image=own_image(AWS_CLI),
        command=("aws", "s3", "sync", source, target, "--no-progress", "--region", region),
        requests={"cpu": "1", "memory": "1Gi"},
        memory_limit="2Gi",
        kept_seconds=_KEPT_SECONDS,
        retries=_RETRIES,
        service_account=service_account,
    )


_TARGET = re.compile(r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?$")
_LOOK_SECONDS = 1.0
_START_SECONDS = 1800.0


class ExportTarget(msgspec.Struct, frozen=True):
    """The place of a copy, and the service account whose role may write there."""

    address: str
    """`s3://BUCKET/PREFIX`."""
    service_account: str = ""
    """Empty: the namespace's default, so the pod has the rights of its node."""
    granted: str = ""
    """The address below which the run's own role may write; empty if the copy does not have that role."""

    @property
    def doubt(self) -> str:
        """A sentence on what may be missing; empty if the service account is known."""
        if self.service_account:
            return ""
        return (
            "It has the rights of its node, since the run made no role that may write there: "
            "where those do not suffice, name a service account whose role may."
        )

    @property
    def hint(self) -> str:
        """A sentence on what to look at after a failure."""
        if self.granted:
            return (
                f"The run's role may write below {self.granted}. Check that bucket: its policy, its region and its key."
            )
        if self.service_account:
            return f"Check the role of the service account {self.service_account}: it needs the right to write there."
        return "Name a service account whose role may write there, or launch with results_bucket=BUCKET/PREFIX."


def export_target(context: StageContext, to: str, service_account: str) -> ExportTarget:
    """Return where a copy of a run's results goes and with whose rights, before anything is made for it.

    Args:
        context: Of any stage.
        to: `s3://BUCKET/PREFIX`. Empty: a folder with the run's id, in the place that its role may write to.
        service_account: Of the pod. Empty: the one with the run's own role, if it has one.

    Raises:
        ConfigError: `to` is not an address in S3, is empty and the run has no place of its own, or is not below that
            place.
    """
    _require_address(to)
    results = context.blueprint.results
    export = results.export if results else None
    own, account = (_filled(context, export.to), _filled(context, export.service_account)) if export else ("", "")
    place = f"s3://{own}" if own else ""
    address = to.rstrip("/") or (f"{place}/{context.view.id}" if place else "")
    if not address:
        raise ConfigError(
            "This run has no place in S3 of its own.",
            hint="Name one, s3://BUCKET/PREFIX, or launch with results_bucket=BUCKET/PREFIX.",
        )
    if service_account or not (place and account):
        return ExportTarget(address, service_account)
    if not f"{address}/".startswith(f"{place}/"):
        raise ConfigError(
            f"{address} is not below {place}, where alone the run's role may write.",
            hint="Choose a place below it, or name a service account whose role may write there.",
        )
    return ExportTarget(address, account, granted=place)


def _require_address(to: str) -> None:
    if to and _TARGET.match(to) is None:
        raise ConfigError(f"{to!r} is not an address in S3.", hint="Write s3://BUCKET/PREFIX.")


def _filled(context: StageContext, text: str) -> str:
    """Return a text of the blueprint with its values; empty if the stage that reports one was left out."""
    try:
        return context.text(text)
    except BlueprintError:
        return ""


class Copy(msgspec.Struct, frozen=True):
    """A copy under way: a Job, which continues without this program.

    Args:
        ref: The Job.
        uid: Its UID.
        was_there: It was started by an earlier call.
    """

    ref: ObjectRef
    uid: str
    was_there: bool

    def sentence(self, source: str, target: str) -> str:
        """Return a sentence on what it does and how to stop it."""
        verb = "is still copying" if self.was_there else "copies"
        stop = f"kubectl delete -n {self.ref.namespace} job/{self.ref.name}"
        return f"{self.ref.describe()} {verb} {source} to {target}, also if this program ends; {stop} stops it."


async def export_results(
    folder: Path,
    target: str,
    clock: Clock,
    *,
    on_line: Callable[[str], None],
    on_begin: Callable[[Copy, str], None] | None = None,
    service_account: str = "",
    is_detached: bool = False,
) -> str:
    """Copy the results to S3 by a Job, and wait for its end.

    If cancelled or disconnected, the Job keeps running; the next call follows it, or copies the missing files. It is
    deleted at its end, or deletes itself some minutes later if no caller waits for it.

    Args:
        folder: The run's.
        target: `s3://BUCKET/PREFIX`; empty for the place that the run's role may write to.
        clock: For waiting.
        on_line: Gets what the Job prints.
        on_begin: Gets the copy once it is started, with a sentence about it.
        service_account: Of the pod; empty for the one with the run's role, or without one for the namespace's default.
        is_detached: Do not wait.

    Returns:
        The result in one line; empty if `is_detached`.

    Raises:
        ConfigError: `target` is not an address in S3, or not one that the run's role may write to.
        ConflictError: The credentials are of another account than the run's.
        MissingError: The blueprint names no results, or the run has no cluster yet.
        RefusedError: The Job failed.
        ConsoleError: The cluster cannot be reached.
    """
    _require_address(target)
    async with await in_thread("results", OpenResults, folder, clock) as opened:
        view = opened.context.view
        there = export_target(opened.context, target, service_account)
        await _require_account(opened.context)
        connection, labels = await opened.context.connect(ONCE), labels_of(view.id, EXPORT_STAGE)
        helper_job = copying(
            opened.place, there.address, region=view.cluster.region, service_account=there.service_account
        )
        name = _name_of(view.id, there.address)
        job = await in_thread("results", volume_job, name, opened.volume, helper_job, labels)
        recorder = JournalJobRecorder(folder, clock)
        copy = await _begun(opened.context, connection, job, recorder)
        if on_begin is not None:
            on_begin(copy, " ".join(filter(None, (copy.sentence(opened.place, there.address), there.doubt))))
        if is_detached:
            return ""
        try:
            result = await _followed(connection, copy, there, clock, on_line)
        except RefusedError:
            await delete_job(connection, CreatedJob(copy.ref, copy.uid), recorder, clock)
            raise
        await delete_job(connection, CreatedJob(copy.ref, copy.uid), recorder, clock)
        return result


async def _require_account(context: StageContext) -> None:
    """Require credentials of the run's account: the same name may be another bucket's in another partition.

    Raises:
        ConflictError: They are of another account.
        ConsoleError: There are none, or AWS does not answer.
    """
    begun = [context.blueprint.stage(stage.id) for stage in context.view.stages if stage.attempt]
    if context.view.account is None and not any(works_in_account(context.blueprint, stage) for stage in begun):
        return  # a run in a cluster of the operator's, which may be anywhere
    recorder = JournalJobRecorder(context.folder, context.clock)
    await compare_account(
        context.view, clock=context.clock, note=lambda _: None, identify=recorder.identify, policy=ONCE
    )


def _name_of(run_id: str, target: str) -> str:
    """Return a name that is the same for the same copy, so that it is found again and never made twice."""
    identity = f"{run_id} {target.rstrip('/')}"
    return f"{EXPORT_PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


async def _begun(context: StageContext, connection: ClusterConnection, job: Document, recorder: JobRecorder) -> Copy:
    """Return the copy that is under way already, else start one.

    Raises:
        ConflictError: There is a Job of that name, and the run never recorded making it.
    """
    ref = ref_of(job)
    found = await connection.find(ref)
    if found is None:
        return Copy(ref, (await create_job(connection, job, recorder)).uid, was_there=False)
    entry = entry_of(found, group_of(API_VERSION), "Job")
    if not is_of_run(context, entry, ref):
        raise ConflictError(
            f"{ref.describe()} exists, and the run has no record of making it.",
            hint="Check what it does; a copy deletes itself some minutes after its end.",
        )
    if not has_ended(found):
        return Copy(ref, entry.uid, was_there=True)
    await delete_job(connection, CreatedJob(ref, entry.uid), recorder, context.clock)
    return Copy(ref, (await create_job(connection, job, recorder)).uid, was_there=False)


async def _followed(
    connection: ClusterConnection, copy: Copy, target: ExportTarget, clock: Clock, on_line: Callable[[str], None]
) -> str:
    place, ref = await _started(connection, copy, clock), copy.ref

    last = ""

    def show(lines: LogBatch) -> None:
        nonlocal last
        for line in lines:
            last = line.text.strip() or last
            on_line(line.text)

    await LogFollower(connection.session, place, on_lines=show, clock=clock).run()
    while True:
        verdict = object_status(await connection.fetch(ref))
        if verdict.state is WorkState.FINISHED:
            return f"The results are in {target.address}."
        if verdict.state is WorkState.FAILED:
            why = one_line(plain_text(last)) or verdict.message or verdict.reason
            raise RefusedError(f"The copy to {target.address} failed: {why.rstrip('.')}.", hint=target.hint)
        await clock.sleep(_LOOK_SECONDS)


async def _started(connection: ClusterConnection, copy: Copy, clock: Clock) -> ContainerLog:
    """Wait until a pod of the Job has started, and return its container."""
    ref, end = copy.ref, clock.monotonic() + _START_SECONDS
    words = "it has no pod"
    while clock.monotonic() < end:
        for pod in await pods_of(connection, ref):
            if copy.uid not in {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}:
                continue  # of a copy before this one
            if (pod.get("status") or {}).get("phase") != "Pending":
                return ContainerLog(ref.namespace, pod["metadata"]["name"], CONTAINER, pod["metadata"]["uid"])
            verdict = object_status(pod)
            words = verdict.words()
        await clock.sleep(_LOOK_SECONDS)
    raise RefusedError(f"{ref.describe()} did not start within {_START_SECONDS:.0f} s: {words}.")
