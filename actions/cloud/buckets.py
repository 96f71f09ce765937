"""The region of an S3 bucket, which names it in every answer, also in a refusal and from another region.

Source: S3 API Reference, HeadBucket: `x-amz-bucket-region`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from actions.base.errors import ConsoleError, FormatError, MissingError
from actions.base.names import is_segment
from actions.cloud.aws_session import AwsSession, aws_error_of

_HEADER = "x-amz-bucket-region"
_ACTION = "s3:HeadBucket"


def bucket_region(bucket: str) -> str:
    """Return the region of a bucket. Blocks; call it on a thread.

    Raises:
        MissingError: There is no such bucket.
        AccessError: There are no valid credentials.
        UnreachableError: S3 does not answer.
        FormatError: The answer names no region.
    """
    session = AwsSession(threads=1)
    try:
        found = _header_of(session, bucket)
    finally:
        session.close()
    if not found or not is_segment(found):
        raise FormatError(f"S3 does not name the region of the bucket {bucket}.", hint="Check AWS_ENDPOINT_URL.")
    return found


def _header_of(session: AwsSession, bucket: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        raw = session.raw()
        answer = raw.client("s3", region_name=raw.region_name or "us-east-1").head_bucket(Bucket=bucket)
    except ClientError as error:
        named = _header(error.response)
        if named:
            return named
        raise _explained(error, bucket) from error
    except BotoCoreError as error:
        raise _explained(error, bucket) from error
    return _header(answer)


def _header(answer: Mapping[str, Any]) -> str:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get(_HEADER, ""))


def _explained(error: Exception, bucket: str) -> ConsoleError:
    found = aws_error_of(error, action=_ACTION, profile=os.environ.get("AWS_PROFILE", ""))
    if isinstance(found, MissingError):
        return MissingError(f"There is no bucket {bucket}.", hint="Make it, or choose another home.")
    return found
