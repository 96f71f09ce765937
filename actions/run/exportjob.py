"""The Job that copies a run's results to S3."""

from __future__ import annotations

from actions.base.errors import ConsoleError
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL
from actions.cluster.objects import ObjectRef, delete, list_objects
from actions.run.volumejob import API_VERSION, Errand, has_ended
from actions.run.work import StageWork

EXPORT_STAGE = "export"
"""Stands in the stage label of what belongs to no stage."""
CONTAINER = "export"
IMAGE = "public.ecr.aws/aws-cli/aws-cli:2.22.35"

_KEPT_SECONDS = 600
_RETRIES = 2


def copying(source: str, target: str, *, region: str, service_account: str = "") -> Errand:
    """Copy a folder. What is in S3 already, of the same size and age, is not copied again.

    Args:
        source: Folder on the volume.
        target: `s3://BUCKET/PREFIX`.
        region: AWS region.
        service_account: Empty for the namespace's default.
    """
    return Errand(
        container=CONTAINER,
        image=IMAGE,
        command=("aws", "s3", "sync", source, target, "--no-progress", "--region", region),
        requests={"cpu": "1", "memory": "1Gi"},
        memory_limit="2Gi",
        kept_seconds=_KEPT_SECONDS,
        retries=_RETRIES,
        service_account=service_account,
    )


async def remove_ended_exports(work: StageWork) -> None:
    """Remove copies that have ended and that nobody was left to remove. One that still runs is a leftover."""
    if not work.access.is_possible:
        return
    try:
        connection = await work.connect()
        jobs = await list_objects(
            connection.session,
            connection.discovery,
            API_VERSION,
            "Job",
            namespace=work.namespace,
            label_selector=f"{RUN_LABEL}={work.view.id},{STAGE_LABEL}={EXPORT_STAGE}",
        )
        for job in jobs:
            if has_ended(job):
                ref = ObjectRef(API_VERSION, "Job", work.namespace, job["metadata"]["name"])
                await delete(connection.session, connection.discovery, ref)
    except ConsoleError:
        return  # the audit that follows says what cannot be asked
