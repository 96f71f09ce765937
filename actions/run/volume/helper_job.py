"""A helper Job that mounts a run's volume read-only and does one thing with it.

It is recorded in the journal and deletes itself a few minutes after its end. One whose maker was killed is deleted in
the teardown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread
from actions.cluster.objects.client import Document, ObjectRef, ref_of
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import RetryPolicy
from actions.run.context.stage_context import StageContext
from actions.run.journal.store import append_record
from actions.run.objects.inventory import ref_of_owned
from actions.run.objects.ownership import doubt_about
from actions.run.objects.writes import request_removal, seen
from actions.run.state.records import Deleted, Owned
from actions.run.state.view import OwnedObject

API_VERSION = "batch/v1"
LOOK_PREFIX, EXPORT_PREFIX = "eksml-look-", "eksml-export-"
"""With which the names of our own Jobs begin."""


class RunVolume(msgspec.Struct, frozen=True):
    """A claim, as the pods of a run see it."""

    namespace: str
    claim: str
    mount: str


class HelperJob(msgspec.Struct, frozen=True):
    """What the Job does."""

    container: str
    image: str
    command: tuple[str, ...]
    requests: Mapping[str, str]
    memory_limit: str
    kept_seconds: int
    """How long it stays after its end."""
    retries: int = 0
    deadline_seconds: int | None = None
    """For all of it; `None` for as long as it takes."""
    service_account: str = ""
    """Empty for the namespace's default."""


def volume_job(name: str, volume: RunVolume, helper_job: HelperJob, labels: Mapping[str, str]) -> Document:
    """The Job. `labels` are those of the Job and of its pod."""
    container = {
        "name": helper_job.container,
        "image": helper_job.image,
        "command": list(helper_job.command),
        "volumeMounts": [{"name": "data", "mountPath": volume.mount, "readOnly": True}],
        "resources": {"requests": dict(helper_job.requests), "limits": {"memory": helper_job.memory_limit}},
    }
    pod: Document = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": volume.claim}}],
    }
    spec: Document = {
        "backoffLimit": helper_job.retries,
        "ttlSecondsAfterFinished": helper_job.kept_seconds,
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    if helper_job.service_account:
        pod["serviceAccountName"] = helper_job.service_account
    if helper_job.deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = helper_job.deadline_seconds
    metadata = {"name": name, "namespace": volume.namespace, "labels": dict(labels)}
    return {"apiVersion": API_VERSION, "kind": "Job", "metadata": metadata, "spec": spec}


class JobRecorder(Protocol):
    """Where a Job of our own is recorded, before it is made and after; on disk when a call returns."""

    async def own(self, item: OwnedObject) -> None:
        """Record it: without uid before it is made, with uid after."""
        ...

    async def deleted(self, item: OwnedObject) -> None:
        """Record that it is gone."""
        ...


class JournalJobRecorder:
    """The journal of a run as those write to it who are not its runner.

    Args:
        folder: The run's.
        clock: Stamps the records.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    async def own(self, item: OwnedObject) -> None:
        await self._append(
            Owned(
                api_version=item.api_version,
                object_kind=item.kind,
                namespace=item.namespace,
                name=item.name,
                uid=item.uid,
                was_absent=item.was_absent,
            )
        )

    async def deleted(self, item: OwnedObject) -> None:
        await self._append(
            Deleted(api_version=item.api_version, object_kind=item.kind, namespace=item.namespace, name=item.name)
        )

    async def _append(self, body: Owned | Deleted) -> None:
        deed = f"a Job on the volume of {self._folder.name}"
        await in_thread("ledger", append_record, self._folder, body, deed=deed, clock=self._clock)


class CreatedJob(msgspec.Struct, frozen=True):
    """A Job that was made."""

    ref: ObjectRef
    uid: str


async def create_job(connection: ClusterConnection, job: Document, recorder: JobRecorder) -> CreatedJob:
    """Make a Job that is not there yet, with a record before and after.

    Raises:
        ConflictError: There is one of that name.
        JournalError: It cannot be recorded; then it is not made.
    """
    ref = ref_of(job)
    item = OwnedObject(
        "", ref.api_version, ref.kind, ref.namespace, ref.name, "", existed=False, is_deleted=False, was_absent=True
    )
    await recorder.own(item)
    uid = str((await connection.create(job))["metadata"]["uid"])
    await recorder.own(replace(item, uid=uid))
    return CreatedJob(ref, uid)


async def delete_job(
    connection: ClusterConnection, created_job: CreatedJob, recorder: JobRecorder, clock: Clock
) -> None:
    """Delete a Job of ours, and no other one of its name.

    Raises:
        ConsoleError: It may not be deleted.
    """
    await request_removal(connection, created_job.ref, created_job.uid, clock=clock)
    ref = created_job.ref
    await recorder.deleted(
        OwnedObject(
            "", ref.api_version, ref.kind, ref.namespace, ref.name, created_job.uid, existed=False, is_deleted=True
        )
    )


@asynccontextmanager
async def created_job(
    connection: ClusterConnection, job: Document, recorder: JobRecorder, clock: Clock
) -> AsyncIterator[ObjectRef]:
    """Make the Job; it is deleted at the end of the block."""
    one = await create_job(connection, job, recorder)
    try:
        yield one.ref
    finally:
        await delete_job(connection, one, recorder, clock)


async def pods_of(connection: ClusterConnection, job: ObjectRef) -> list[Document]:
    """The pods that a Job has, or had and keeps."""
    return await connection.pods(namespace=job.namespace, label_selector=f"batch.kubernetes.io/job-name={job.name}")


def has_ended(job: Mapping[str, Any]) -> bool:
    """Whether the Job will not go on, well or badly."""
    return object_status(job).state in (WorkState.FINISHED, WorkState.FAILED)


async def delete_helper_jobs(context: StageContext, policy: RetryPolicy) -> None:
    """Remove looks, and copies that have ended. A copy that still runs stays: somebody waits for it.

    What cannot be asked or removed is left to the audit, which says so.

    Args:
        context: Of any stage.
        policy: How long the cluster's first answer is waited for.
    """
    errands = [item for item in context.view.owned if _is_helper_job(item)]
    if not errands or not context.access.is_possible:
        return
    try:
        connection = await context.connect(policy)
        for item in errands:
            await _remove(context, connection, item)
    except ConsoleError:
        return


async def _remove(context: StageContext, connection: ClusterConnection, item: OwnedObject) -> None:
    ref = ref_of_owned(item)
    found = await seen(connection, ref)
    if found is not None and (found.uid == item.uid or not doubt_about(found, item, context.view.id)):
        if item.name.startswith(EXPORT_PREFIX) and not has_ended(await connection.fetch(ref)):
            return
        await request_removal(connection, ref, found.uid, clock=context.clock)
    await context.journal.deleted(replace(item, is_deleted=True))


def _is_helper_job(item: OwnedObject) -> bool:
    is_job = (item.api_version, item.kind) == (API_VERSION, "Job")
    return is_job and not item.is_deleted and item.name.startswith((LOOK_PREFIX, EXPORT_PREFIX))
