"""A helper Job that mounts a run's volume read-only and does one thing with it.

It is recorded in the journal, and Kubernetes deletes it a few minutes after its end. One whose creator was killed is
deleted in the teardown.
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
from actions.run.state.records import Deleted, Identified, Owned, RunAccount
from actions.run.state.view import OwnedObject

API_VERSION = "batch/v1"
LOOK_PREFIX, EXPORT_PREFIX = "eksml-look-", "eksml-export-"
"""Prefixes of the names of helper Jobs."""


class RunVolume(msgspec.Struct, frozen=True):
    """A claim, and where pods of the run mount it."""

    namespace: str
    claim: str
    mount: str


class HelperJob(msgspec.Struct, frozen=True):
    """The container of a helper Job, with its limits."""

    container: str
    image: str
    command: tuple[str, ...]
    requests: Mapping[str, str]
    memory_limit: str
    kept_seconds: int
    """Time that the Job is kept after its end."""
    retries: int = 0
    deadline_seconds: int | None = None
    """Limit of the whole; `None` for no limit."""
    service_account: str = ""
    """Empty for the namespace's default."""


def volume_job(name: str, volume: RunVolume, helper_job: HelperJob, labels: Mapping[str, str]) -> Document:
    """Return the manifest of a helper Job. `labels` are those of the Job and of its pod.

    For a thread: it imports the package `kubernetes`.
    """
    from kubernetes.aio import client

    from actions.cluster.auth.typed import model_document

    container = client.V1Container(
        name=helper_job.container,
        image=helper_job.image,
        command=list(helper_job.command),
        volume_mounts=[client.V1VolumeMount(name="data", mount_path=volume.mount, read_only=True)],
        resources=client.V1ResourceRequirements(
            requests=dict(helper_job.requests), limits={"memory": helper_job.memory_limit}
        ),
    )
    claim = client.V1PersistentVolumeClaimVolumeSource(claim_name=volume.claim)
    pod = client.V1PodSpec(
        restart_policy="Never",
        service_account_name=helper_job.service_account or None,
        containers=[container],
        volumes=[client.V1Volume(name="data", persistent_volume_claim=claim)],
    )
    spec = client.V1JobSpec(
        backoff_limit=helper_job.retries,
        active_deadline_seconds=helper_job.deadline_seconds,
        ttl_seconds_after_finished=helper_job.kept_seconds,
        template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=dict(labels)), spec=pod),
    )
    metadata = client.V1ObjectMeta(name=name, namespace=volume.namespace, labels=dict(labels))
    return model_document(client.V1Job(api_version=API_VERSION, kind="Job", metadata=metadata, spec=spec))


class JobRecorder(Protocol):
    """The recorder of a helper Job, before it is created and after; on disk when a call returns."""

    async def own(self, item: OwnedObject) -> None:
        """Record it: without uid before it is created, with uid after."""
        ...

    async def deleted(self, item: OwnedObject) -> None:
        """Record that it is gone."""
        ...


class JournalJobRecorder:
    """A recorder that writes to the journal of a run from a process that is not its runner.

    Args:
        folder: The run's.
        clock: Stamps the records.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    async def own(self, item: OwnedObject) -> None:
        await self._append(item.announcement())

    async def deleted(self, item: OwnedObject) -> None:
        await self._append(item.deletion())

    async def identify(self, account: RunAccount) -> None:
        """Record the AWS account of a run that has none in its journal."""
        await self._append(Identified(account))

    async def _append(self, body: Owned | Deleted | Identified) -> None:
        deed = f"a Job on the volume of {self._folder.name}"
        await in_thread("ledger", append_record, self._folder, body, deed=deed, clock=self._clock)


class CreatedJob(msgspec.Struct, frozen=True):
    """A helper Job that was created."""

    ref: ObjectRef
    uid: str


async def create_job(connection: ClusterConnection, job: Document, recorder: JobRecorder) -> CreatedJob:
    """Create a Job that does not exist yet, with a record before and after.

    Raises:
        ConflictError: One of that name exists.
        JournalError: It cannot be recorded; then it is not created.
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
    """Delete a helper Job, and no other one of its name.

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
    """Create the Job; it is deleted at the end of the block."""
    created = await create_job(connection, job, recorder)
    try:
        yield created.ref
    finally:
        await delete_job(connection, created, recorder, clock)


async def pods_of(connection: ClusterConnection, job: ObjectRef) -> list[Document]:
    """Return the pods of a Job, ended ones included."""
    return await connection.pods(namespace=job.namespace, label_selector=f"batch.kubernetes.io/job-name={job.name}")


def has_ended(job: Mapping[str, Any]) -> bool:
    """Return whether the Job has finished or failed."""
    return object_status(job).state in (WorkState.FINISHED, WorkState.FAILED)


async def delete_helper_jobs(context: StageContext, policy: RetryPolicy) -> None:
    """Delete listing Jobs, and export Jobs that have ended. A running export stays, as an operator waits for it.

    What cannot be read or deleted is left to the audit, which reports it.

    Args:
        context: Of any stage.
        policy: The retries until the cluster first answers.
    """
    jobs = [item for item in context.view.owned if _is_helper_job(item)]
    if not jobs or not context.access.is_possible:
        return
    try:
        connection = await context.connect(policy)
        for item in jobs:
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
