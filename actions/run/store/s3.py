"""The store in S3: objects below one prefix of a bucket; the lease of a run is one of them."""

from __future__ import annotations

from collections.abc import Mapping

from actions.base.errors import ConfigError, FormatError
from actions.base.executors import at_once
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession
from actions.cloud.s3 import S3Bucket
from actions.run.context.store_address import StoreAddress, parse_store, run_key
from actions.run.store.objects import (
    LEASE,
    MOST_LEASE_BYTES,
    LeaseConflictError,
    LeaseDocument,
    RunStore,
    StoreLease,
    lease_bytes,
    lease_document,
    lease_in,
    remove_objects,
)

_THREADS = 8


class S3Store:
    """See `RunStore`.

    Args:
        place: Bucket and prefix.
        bucket: Closed with this.
    """

    takes_output = True
    most_bytes = MOST_OBJECT_BYTES

    def __init__(self, place: StoreAddress, bucket: S3Bucket) -> None:
        self.address = str(place)
        self._place = place
        self._bucket = bucket

    async def run_ids(self) -> list[str]:
        return await self._bucket.folders(self._place.key("runs/"))

    async def lease(self, run_id: str) -> StoreLease | None:
        found = await self.get(run_key(run_id, LEASE), limit_bytes=MOST_LEASE_BYTES)
        return None if found is None else lease_in(found, run_id)

    async def leases(self) -> tuple[list[StoreLease], Mapping[str, str]]:
        found: list[StoreLease] = []
        unread: dict[str, str] = {}

        async def read(run_id: str) -> None:
            try:
                lease = await self.lease(run_id)
            except (FormatError, ConfigError) as error:
                unread[one_line(run_id)] = one_line(error.message)
                return
            if lease is None:
                unread[run_id] = f"{self.address} has objects of {run_id}, and no lease of it."
            else:
                found.append(lease)

        await at_once(await self.run_ids(), read)
        return sorted(found, key=lambda lease: lease.run_id), unread

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        name, data = run_key(run_id, LEASE), lease_bytes(document)
        try:
            if after is None:
                receipt = await self.put_if_absent(name, data)
            else:
                receipt = await self.replace(name, data, etag=after.tag)
        except PreconditionError as error:
            found = None if error.found is None else lease_in(error.found, run_id)
            raise LeaseConflictError(f"The lease of {run_id} in {self.address} is another one.", found) from error
        return StoreLease(lease_document(data, run_id), receipt.etag, receipt.at)

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        return await self._bucket.get(self._place.key(name), limit_bytes=limit_bytes)

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        return await self._bucket.put_if_absent(self._place.key(name), data)

    async def replace(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        return await self._bucket.replace(self._place.key(name), data, etag=etag)

    async def objects(self, prefix: str) -> list[ListedObject]:
        begin = len(self._place.key(""))
        found = await self._bucket.objects(self._place.key(prefix))
        listed = [ListedObject(item.key[begin:], item.etag, item.size, item.modified_at) for item in found]
        return [item for item in listed if not item.key.endswith(f"/{LEASE}")]

    async def delete(self, name: str) -> None:
        await self._bucket.delete(self._place.key(name))

    async def remove_run(self, run_id: str) -> None:
        await remove_objects(self, run_id)
        await self.delete(run_key(run_id, LEASE))

    def close(self) -> None:
        self._bucket.close()


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
