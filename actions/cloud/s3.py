"""Objects of one S3 bucket, written only on a condition: that there is none yet, or that it is the one that was read.

A write whose answer was lost may have been carried out, and botocore repeats it: the repetition is then refused
(412) by the object that it wrote itself. So whatever refuses a write is read back and compared with it. All ages are
differences of two times of the store's own clock (`Date` and `Last-Modified` of one answer), so the clock of this
machine does not count.

Source: Amazon S3 User Guide, "How to prevent object overwrites with conditional writes" (412, 409, 404); S3 API
Reference, "Common error responses" (SlowDown). Both as of botocore 1.44's service model.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from actions.base.errors import FormatError, MissingError, UnreachableError
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.process import user_agent
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession

MOST_LISTED = 100_000
"""Limit of the names in one answer of `objects`."""
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
"""With these set the store may be another one, which as a rule has no host names of its own for buckets."""
_CONNECT_SECONDS = 4
_READ_SECONDS = 10
_ATTEMPTS = 2
_TRIES = 3
"""Writes in a row that may meet another writer of the same object (409) before that counts as busy."""
_TAKEN = frozenset({"PreconditionFailed", "412"})
_CONCURRENT = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_NO_OBJECT = frozenset({"NoSuchKey", "404"})

T = TypeVar("T")


class S3Bucket:
    """The objects of one bucket. Every call may raise these, each for another remedy:

    `UnreachableError` (no answer, a timeout, 503 SlowDown: try again later), `AccessError` (expired or missing
    credentials, no permission), `MissingError` (there is no such bucket), `RefusedError` (any other refusal, or this
    process is read-only), `ConfigError` (profile or region).

    Args:
        bucket: Its name.
        session: The credentials; closed with this.
        region: Of the bucket, if known; S3 redirects to the right one.
    """

    def __init__(self, bucket: str, session: AwsSession, *, region: str = "") -> None:
        self.bucket = bucket
        self._session = session
        self._region = region
        self._lock = threading.Lock()
        self._made: Any = None

    async def get(self, key: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        """Return an object; `None` if there is none.

        Raises:
            FormatError: It is larger than `limit_bytes`.
        """
        return await self._offload(lambda: self._read(key, limit_bytes), "s3:GetObject")

    async def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        """Create an object. Success, too, if there is one of the same bytes: an earlier write that took.

        Raises:
            PreconditionError: There is another one.
        """
        return await self._offload(lambda: self._write(key, data, {"IfNoneMatch": "*"}), "s3:PutObject")

    async def replace(self, key: str, data: bytes, *, etag: str) -> WriteReceipt:
        """Replace the object that has this etag. Success, too, if its bytes are these already.

        Raises:
            PreconditionError: It is another one by now, or gone.
        """
        return await self._offload(lambda: self._write(key, data, {"IfMatch": etag}), "s3:PutObject")

    async def objects(self, prefix: str) -> list[ListedObject]:
        """Return the objects whose keys begin with `prefix`, in the order of their keys.

        Args:
            prefix: Of the keys.

        Raises:
            FormatError: There are more than `MOST_LISTED`.
        """
        return await self._offload(lambda: list(self._listed(prefix)), "s3:ListBucket")

    async def folders(self, prefix: str) -> list[str]:
        """Return the names that follow `prefix` up to a slash, sorted.

        Args:
            prefix: Of the keys; ends with a slash.
        """
        return await self._offload(lambda: list(self._folders(prefix)), "s3:ListBucket")

    async def delete(self, key: str) -> None:
        """Delete an object; one that does not exist is deleted."""
        refuse_if_readonly("s3:DeleteObject")
        await self._offload(lambda: self._client().delete_object(Bucket=self.bucket, Key=key), "s3:DeleteObject")

    def close(self) -> None:
        """Take no more calls."""
        self._session.close()

    async def _offload(self, work: Callable[[], T], action: str) -> T:
        try:
            return await self._session.offload(work, action=action)
        except MissingError as error:  # of an object that is missing there is no error here
            raise MissingError(f"There is no bucket {self.bucket}.", hint="Create it, or name another one.") from error

    def _client(self) -> Any:
        session = self._session.raw()
        with self._lock:
            if self._made is None:
                self._made = session.client("s3", region_name=self._region or session.region_name, config=_config())
            return self._made

    def _read(self, key: str, limit_bytes: int) -> StoredObject | None:
        from botocore.exceptions import ClientError

        try:
            answer = self._client().get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if _code_of(error) in _NO_OBJECT:
                return None
            raise
        with answer["Body"] as stream:
            try:
                body: bytes = stream.read(limit_bytes + 1)
            except OSError as error:
                raise UnreachableError(f"{key} could not be read to its end: {one_line(str(error))}.") from error
        if len(body) > limit_bytes:
            raise FormatError(f"s3://{self.bucket}/{key} has more than {limit_bytes} bytes.")
        return StoredObject(body, str(answer["ETag"]), answer["LastModified"].timestamp(), _date_of(answer))

    def _write(self, key: str, data: bytes, condition: dict[str, str]) -> WriteReceipt:
        from botocore.exceptions import ClientError

        refuse_if_readonly("s3:PutObject")
        for _ in range(_TRIES):
            try:
                answer = self._client().put_object(Bucket=self.bucket, Key=key, Body=data, **condition)
            except ClientError as error:
                code = _code_of(error)
                if code not in _TAKEN and code not in _CONCURRENT and code not in _NO_OBJECT:
                    raise
                found = self._read(key, MOST_OBJECT_BYTES)
                if found is not None and found.body == data:
                    return WriteReceipt(found.etag, found.modified_at)
                if code not in _CONCURRENT:
                    raise PreconditionError(f"s3://{self.bucket}/{key} was written by another.", found) from error
            else:
                return WriteReceipt(str(answer["ETag"]), _date_of(answer))
        raise UnreachableError(f"AWS is busy with s3:PutObject: others write s3://{self.bucket}/{key}.")

    def _listed(self, prefix: str) -> Iterator[ListedObject]:
        count = 0
        for page in self._pages(Prefix=prefix):
            for item in page.get("Contents", ()):
                count += 1
                if count > MOST_LISTED:
                    raise FormatError(f"s3://{self.bucket}/{prefix} has more than {MOST_LISTED} objects.")
                yield ListedObject(
                    str(item["Key"]), str(item["ETag"]), int(item["Size"]), item["LastModified"].timestamp()
                )

    def _folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(Prefix=prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", ()):
                yield str(item["Prefix"])[len(prefix) :].rstrip("/")

    def _pages(self, **parameters: str) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._client().list_objects_v2(Bucket=self.bucket, **parameters, **token)
            yield page
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}


def _code_of(error: Exception) -> str:
    details = getattr(error, "response", {}).get("Error", {})
    return str(details.get("Code", ""))


def _date_of(answer: dict[str, Any]) -> float:
    """Return the time of an answer by the store's clock.

    Raises:
        FormatError: It names none.
    """
    text = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError) as error:
        raise FormatError("An answer of S3 has no date.", hint="Check AWS_ENDPOINT_URL and the proxy.") from error


def _config() -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        request_checksum_calculation="when_required",
        s3={"addressing_style": "path" if any(map(os.environ.get, _ENDPOINTS)) else "auto"},
        user_agent_extra=user_agent("eksml-tui"),
    )
