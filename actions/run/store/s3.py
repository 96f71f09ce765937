"""The store in S3: objects below one prefix of a bucket; the lease of a run is one of them."""

from __future__ import annotations

from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, StoredObject, WriteReceipt
from actions.cloud.aws_session import AwsSession
from actions.cloud.s3 import S3Bucket
from actions.run.context.store_address import StoreAddress, parse_store
from actions.run.store.objects import LEASE, ObjectStore, RunStore

_THREADS = 8


class S3Store(ObjectStore):
    """See `RunStore`.

    Args:
        place: Bucket and prefix.
        bucket: Closed with this.
    """

    def __init__(self, place: StoreAddress, bucket: S3Bucket) -> None:
        self.address = str(place)
        self._place = place
        self._bucket = bucket

    async def run_ids(self) -> list[str]:
        return await self._bucket.folders(self._place.key("runs/"))

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        return await self._bucket.get(self._place.key(name), limit_bytes=limit_bytes)

    async def _put(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        if etag:
            return await self._bucket.replace(self._place.key(name), data, etag=etag)
        return await self._bucket.put_if_absent(self._place.key(name), data)

    async def objects(self, prefix: str) -> list[ListedObject]:
        begin = len(self._place.key(""))
        found = await self._bucket.objects(self._place.key(prefix))
        listed = [ListedObject(item.key[begin:], item.etag, item.size, item.modified_at) for item in found]
        return [item for item in listed if not item.key.endswith(f"/{LEASE}")]

    async def _delete(self, name: str) -> None:
        await self._bucket.delete(self._place.key(name))

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
