"""A run's results, copied to S3."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConfigError, ConflictError, RefusedError
from actions.base.executors import in_thread
from actions.base.untrusted import one_line, plain_text
from actions.blueprint.render import labels_of
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import LogFollower, LogSource
from actions.cluster.objects.client import Document, ObjectRef, ref_of
from actions.cluster.objects.status_rules import WorkState, verdict_of
from actions.run.access import Connection
from actions.run.exportjob import CONTAINER, EXPORT_STAGE, copying
from actions.run.inventory import is_runs
from actions.run.judgement import entry_of, group_of
from actions.run.patience import ONCE
from actions.run.results import OpenResults
from actions.run.volumejob import (
    API_VERSION,
    EXPORT_PREFIX,
    FolderLedger,
    Ledger,
    Made,
    has_ended,
    make,
    pods_of,
    unmake,
    volume_job,
)
from actions.run.work import StageWork

_TARGET = re.compile(r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?$")
_LOOK_SECONDS = 1.0
_START_SECONDS = 1800.0


class Copy(msgspec.Struct, frozen=True):
    """A copy under way: a Job, which goes on whoever watches it.

    Args:
        ref: The Job.
        uid: Its UID.
        was_there: It had been begun before.
    """

    ref: ObjectRef
    uid: str
    was_there: bool

    def sentence(self, source: str, target: str) -> str:
        """What it does, and how to be rid of it."""
        does = "goes on copying" if self.was_there else "copies"
        stop = f"kubectl delete -n {self.ref.namespace} job/{self.ref.name}"
        return f"{self.ref.describe()} {does} {source} to {target}, also if this program ends; {stop} stops it."


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

    Cancelled, or without a connection, it leaves the Job at work; called again, it takes that up, or copies what is
    missing. The Job is removed at its end, by itself after some minutes if nobody waits for it.

    Args:
        folder: The run's.
        target: `s3://BUCKET/PREFIX`. The pod needs the right to write there: of its node, or of its service account.
        clock: For waiting.
        on_line: Gets what the Job prints.
        on_begin: Gets the copy once there is one, with a sentence about it.
        service_account: Of the pod; empty for the namespace's default.
        is_detached: Do not wait.

    Returns:
        What was done, in one line; empty if it was not waited for.

    Raises:
        ConfigError: `target` is no address in S3.
        MissingError: The blueprint names no results, or the run has no cluster yet.
        RefusedError: The Job failed.
        ConsoleError: The cluster cannot be asked.
    """
    if _TARGET.match(target) is None:
        raise ConfigError(f"{target!r} is no address in S3.", hint="Write s3://BUCKET/PREFIX.")
    async with await in_thread("results", OpenResults, folder, clock) as opened:
        connection, labels = await opened.work.connect(ONCE), labels_of(opened.work.view.id, EXPORT_STAGE)
        errand = copying(opened.place, target, region=opened.work.view.cluster.region, service_account=service_account)
        job = volume_job(_name_of(opened.work.view.id, target), opened.volume, errand, labels)
        ledger = FolderLedger(folder, clock)
        copy = await _begun(opened.work, connection, job, ledger)
        if on_begin is not None:
            on_begin(copy, copy.sentence(opened.place, target))
        if is_detached:
            return ""
        try:
            told = await _followed(connection, copy, target, clock, on_line)
        except RefusedError:
            await unmake(connection, Made(copy.ref, copy.uid), ledger, clock)
            raise
        await unmake(connection, Made(copy.ref, copy.uid), ledger, clock)
        return told


def _name_of(run_id: str, target: str) -> str:
    """The same for the same copy, so that it is found again and never made twice."""
    identity = f"{run_id} {target.rstrip('/')}"
    return f"{EXPORT_PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


async def _begun(work: StageWork, connection: Connection, job: Document, ledger: Ledger) -> Copy:
    """The copy that is under way already, else a new one.

    Raises:
        ConflictError: There is a Job of that name, and the run never recorded making it.
    """
    ref = ref_of(job)
    found = await connection.find(ref)
    if found is None:
        return Copy(ref, (await make(connection, job, ledger)).uid, was_there=False)
    entry = entry_of(found, group_of(API_VERSION), "Job")
    if not is_runs(work, entry, ref):
        raise ConflictError(
            f"{ref.describe()} is there, and the run never recorded making it.",
            hint="Look what it does; a copy removes itself some minutes after its end.",
        )
    if not has_ended(found):
        return Copy(ref, entry.uid, was_there=True)
    await unmake(connection, Made(ref, entry.uid), ledger, work.clock)
    return Copy(ref, (await make(connection, job, ledger)).uid, was_there=False)


async def _followed(
    connection: Connection, copy: Copy, target: str, clock: Clock, on_line: Callable[[str], None]
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
        verdict = verdict_of(await connection.fetch(ref))
        if verdict.state is WorkState.FINISHED:
            return f"The results are in {target}."
        if verdict.state is WorkState.FAILED:
            why = one_line(plain_text(last)) or verdict.message or verdict.reason
            raise RefusedError(
                f"The copy to {target} failed: {why.rstrip('.')}.",
                hint="Its pod needs the right to write there, of its node or of a service account.",
            )
        await clock.sleep(_LOOK_SECONDS)


async def _started(connection: Connection, copy: Copy, clock: Clock) -> LogSource:
    """The container of the Job's pod, once it has one that has begun."""
    ref, end = copy.ref, clock.monotonic() + _START_SECONDS
    words = "it has no pod"
    while clock.monotonic() < end:
        for pod in await pods_of(connection, ref):
            if copy.uid not in {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}:
                continue  # of a copy before this one
            if (pod.get("status") or {}).get("phase") != "Pending":
                return LogSource(ref.namespace, pod["metadata"]["name"], CONTAINER, pod["metadata"]["uid"])
            verdict = verdict_of(pod)
            words = f"{verdict.reason} {verdict.message}".strip()
        await clock.sleep(_LOOK_SECONDS)
    raise RefusedError(f"{ref.describe()} did not start within {_START_SECONDS:.0f} s: {words}.")
