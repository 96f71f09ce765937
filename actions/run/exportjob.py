"""The Job that copies a run's results to S3."""

from __future__ import annotations

from actions.run.volumejob import Errand

EXPORT_STAGE = "errand.export"
"""Stands in the stage label of what belongs to no stage; no stage can have a dot in its id."""
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
