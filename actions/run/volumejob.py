"""A Job of our own that mounts a volume of the run's, read-only, and does one thing with it.

It removes itself a few minutes after its end, should nobody be left to delete it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import Document, ObjectRef
from actions.run.access import Connection

API_VERSION = "batch/v1"


class Volume(msgspec.Struct, frozen=True):
    """A claim, as the pods of a run see it."""

    namespace: str
    claim: str
    mount: str


class Errand(msgspec.Struct, frozen=True):
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


def volume_job(name: str, volume: Volume, errand: Errand, labels: Mapping[str, str]) -> Document:
    """The Job. `labels` are those of the Job and of its pod."""
    container = {
        "name": errand.container,
        "image": errand.image,
        "command": list(errand.command),
        "volumeMounts": [{"name": "data", "mountPath": volume.mount, "readOnly": True}],
        "resources": {"requests": dict(errand.requests), "limits": {"memory": errand.memory_limit}},
    }
    pod: Document = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": volume.claim}}],
    }
    spec: Document = {
        "backoffLimit": errand.retries,
        "ttlSecondsAfterFinished": errand.kept_seconds,
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    if errand.service_account:
        pod["serviceAccountName"] = errand.service_account
    if errand.deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = errand.deadline_seconds
    metadata = {"name": name, "namespace": volume.namespace, "labels": dict(labels)}
    return {"apiVersion": API_VERSION, "kind": "Job", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def made(connection: Connection, job: Document) -> AsyncIterator[ObjectRef]:
    """Make the Job; it is deleted at the end of the block."""
    await connection.create(job)
    ref = ObjectRef(API_VERSION, "Job", job["metadata"]["namespace"], job["metadata"]["name"])
    try:
        yield ref
    finally:
        await connection.delete(ref)


async def pods_of(connection: Connection, job: ObjectRef) -> list[Document]:
    """The pods that a Job has, or had and keeps."""
    return await connection.pods(namespace=job.namespace, label_selector=f"batch.kubernetes.io/job-name={job.name}")


def has_ended(job: Mapping[str, Any]) -> bool:
    """Whether the Job will not go on, well or badly."""
    return verdict_of(job).state in (WorkState.FINISHED, WorkState.FAILED)
