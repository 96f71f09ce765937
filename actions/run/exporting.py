"""The Job that copies a run's results to S3, and its removal when the run is torn down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actions.base.errors import ConsoleError
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import ObjectRef, delete, list_objects
from actions.run.onvolume import Volume
from actions.run.work import StageWork

EXPORT_STAGE = "export"
"""Stands in the stage label of what belongs to no stage."""
IMAGE = "public.ecr.aws/aws-cli/aws-cli:2.22.35"

_KEPT_SECONDS = 600
_RETRIES = 2
_ENDED = (WorkState.FINISHED, WorkState.FAILED)


def export_job(
    name: str,
    volume: Volume,
    *,
    source: str,
    target: str,
    region: str,
    labels: Mapping[str, str],
    service_account: str = "",
) -> dict[str, Any]:
    """The Job. What is in S3 already, of the same size and age, is not copied again.

    Args:
        name: Of the Job.
        volume: With the results.
        source: Folder on it.
        target: `s3://BUCKET/PREFIX`.
        region: AWS region.
        labels: Of the Job and its pod.
        service_account: Empty for the namespace's default.
    """
    container = {
        "name": "export",
        "image": IMAGE,
        "command": ["aws", "s3", "sync", source, target, "--no-progress", "--region", region],
        "volumeMounts": [{"name": "data", "mountPath": volume.mount, "readOnly": True}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": volume.claim}}],
        **({"serviceAccountName": service_account} if service_account else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": volume.namespace, "labels": dict(labels)},
        "spec": {
            "backoffLimit": _RETRIES,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


async def remove_ended_exports(work: StageWork) -> None:
    """Remove copies that have ended and that nobody was left to remove. One that still runs is a leftover."""
    if not work.access.is_possible:
        return
    try:
        connection = await work.connect()
        jobs = await list_objects(
            connection.session,
            connection.discovery,
            "batch/v1",
            "Job",
            namespace=work.namespace,
            label_selector=f"{RUN_LABEL}={work.view.id},{STAGE_LABEL}={EXPORT_STAGE}",
        )
        for job in jobs:
            if verdict_of(job).state in _ENDED:
                ref = ObjectRef("batch/v1", "Job", work.namespace, job["metadata"]["name"])
                await delete(connection.session, connection.discovery, ref)
    except ConsoleError:
        return  # the audit that follows says what cannot be asked
