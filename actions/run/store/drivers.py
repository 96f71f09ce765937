"""The driver of a store by its address."""

from __future__ import annotations

from actions.cloud.aws_session import AwsSession
from actions.cloud.s3 import S3Bucket
from actions.run.context.store_address import parse_store
from actions.run.store.objects import RunStore
from actions.run.store.s3 import S3Store

_THREADS = 8


def open_store(url: str, *, profile: str = "", region: str = "") -> RunStore:
    """Return the store at an address. No request is made yet; close it afterwards.

    Args:
        url: `s3://BUCKET/PREFIX`.
        profile: Of the AWS configuration; empty for the environment's.
        region: Of the bucket, if known.

    Raises:
        ConfigError: It is not an address of a store.
    """
    place = parse_store(url)
    session = AwsSession(profile=profile, region=region, threads=_THREADS)
    return S3Store(place, S3Bucket(place.bucket, session, region=region))
