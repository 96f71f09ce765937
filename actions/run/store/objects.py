"""The store behind a store: the protocol of its objects, the store in S3, and the names of the journal's segments."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConflictError, FormatError
from actions.base.guard import require_guard
from actions.cloud.aws_session import AwsSession
from actions.cloud.s3 import MOST_OBJECT_BYTES, S3Bucket, S3Listed, S3Object, S3Written
from actions.run.context.store_address import StoreAddress, parse_store
from actions.run.state.records import Operator

_THREADS = 8
_SEQ_DIGITS = 12

T = TypeVar("T")


class TakenError(ConflictError):
    """Another machine carries the run out, by its store.

    Args:
        message: One sentence.
        epoch: Of that machine.
        owner: Its operator; `None` if the place that names the machine does not name one.
        hint: See `ConsoleError`.
    """

    def __init__(self, message: str, *, epoch: int, owner: Operator | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.epoch = epoch
        self.owner = owner


class RunStore(Protocol):
    """The objects of a store. Names are keys below the store's prefix; errors are those of `S3Bucket`."""

    @property
    def address(self) -> StoreAddress:
        """The store's."""
        ...

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> S3Object | None:
        """Return an object; `None` if there is none."""
        ...

    async def put_if_absent(self, name: str, data: bytes) -> S3Written:
        """Create an object, or find one of the same bytes. `PreconditionError`: there is another one."""
        ...

    async def replace(self, name: str, data: bytes, *, etag: str) -> S3Written:
        """Replace the object that has this etag. `PreconditionError`: it is another one, or gone."""
        ...

    async def objects(self, prefix: str, *, after: str = "") -> list[S3Listed]:
        """Return the objects whose names begin with `prefix`, sorted, behind the name `after`."""
        ...

    async def folders(self, prefix: str) -> list[str]:
        """Return what follows `prefix`, which ends with a slash, up to the next slash."""
        ...

    async def delete(self, name: str) -> None:
        """Delete an object; one that does not exist is deleted."""
        ...

    def close(self) -> None:
        """Take no more calls."""
        ...


class S3Store:
    """A store in S3: an `RunStore` with the names of one prefix.

    Args:
        address: The store's.
        bucket: Closed with this.
    """

    def __init__(self, address: StoreAddress, bucket: S3Bucket) -> None:
        self.address = address
        self._bucket = bucket

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> S3Object | None:
        return await self._bucket.get(self.address.key(name), limit_bytes=limit_bytes)

    async def put_if_absent(self, name: str, data: bytes) -> S3Written:
        return await self._bucket.put_if_absent(self.address.key(name), data)

    async def replace(self, name: str, data: bytes, *, etag: str) -> S3Written:
        return await self._bucket.replace(self.address.key(name), data, etag=etag)

    async def objects(self, prefix: str, *, after: str = "") -> list[S3Listed]:
        begin = len(self.address.key(""))
        found = await self._bucket.objects(self.address.key(prefix), after=self.address.key(after) if after else "")
        return [S3Listed(item.key[begin:], item.etag, item.size, item.modified_at) for item in found]

    async def folders(self, prefix: str) -> list[str]:
        return await self._bucket.folders(self.address.key(prefix))

    async def delete(self, name: str) -> None:
        await self._bucket.delete(self.address.key(name))

    def close(self) -> None:
        self._bucket.close()


class GuardedStore:
    """A store whose objects are written only while this process may change something of its run.

    Each write consults the guard (`actions.base.guard`). A lease is written past it: its conditions are the fence.

    Args:
        store: The store; not closed with this.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store

    @property
    def address(self) -> StoreAddress:
        return self._store.address

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> S3Object | None:
        return await self._store.get(name, limit_bytes=limit_bytes)

    async def put_if_absent(self, name: str, data: bytes) -> S3Written:
        await require_guard(f"PUT {name}", in_store=True)
        return await self._store.put_if_absent(name, data)

    async def replace(self, name: str, data: bytes, *, etag: str) -> S3Written:
        await require_guard(f"PUT {name}", in_store=True)
        return await self._store.replace(name, data, etag=etag)

    async def objects(self, prefix: str, *, after: str = "") -> list[S3Listed]:
        return await self._store.objects(prefix, after=after)

    async def folders(self, prefix: str) -> list[str]:
        return await self._store.folders(prefix)

    async def delete(self, name: str) -> None:
        await require_guard(f"DELETE {name}", in_store=True)
        await self._store.delete(name)

    def close(self) -> None:
        return


def open_store(url: str, *, profile: str = "", region: str = "") -> RunStore:
    """Return the store at an address. No request is made yet; close it afterwards.

    Args:
        url: `s3://BUCKET/PREFIX`.
        profile: Of the AWS configuration; empty for the environment's.
        region: Of the bucket, if known.

    Raises:
        ConfigError: It is not an address of a store.
    """
    address = parse_store(url)
    session = AwsSession(profile=profile, region=region, threads=_THREADS)
    return S3Store(address, S3Bucket(address.bucket, session, region=region))


def segment_name(seq: int) -> str:
    """Return the name of the journal's segment that begins with this record."""
    return f"journal/{seq:0{_SEQ_DIGITS}}.jsonl"


def segment_seq(name: str) -> int:
    """Return the number of the first record in a segment; 0 if this is not a segment's name."""
    digits = name.rpartition("/")[2].removesuffix(".jsonl")
    is_number = len(digits) == _SEQ_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else 0


def decoded(data: bytes, kind: type[T], name: str) -> T:
    """Return the content of a JSON object of a store, which is foreign text.

    Raises:
        FormatError: It is something else.
    """
    try:
        return decode_json(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{name} in the store is damaged: {error}.") from error
