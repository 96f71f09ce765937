"""Objects put straight into the store of a real API server: 50,000 of them in seconds, and events at any rate.

The server reads what it would have written itself, as JSON (`--storage-media-type`); a put is one watch event.

Source: etcd's JSON gateway (`/v3/kv/txn`), k8s.io/apiserver `storage/etcd3` for the keys.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from itertools import islice

import aiohttp
import msgspec

from tests.bench.fleet import Document

_PUTS_A_TRANSACTION = 200


class Store:
    """The store behind an API server.

    Args:
        address: URL of etcd.
        http: Sends the requests.
    """

    def __init__(self, address: str, http: aiohttp.ClientSession) -> None:
        self._url = f"{address}/v3/kv/txn"
        self._http = http

    async def fill(self, documents: Iterable[Document]) -> None:
        """Put many, some hundred at once."""
        remaining = iter(documents)
        while batch := list(islice(remaining, _PUTS_A_TRANSACTION)):
            await self.put(batch)

    async def put(self, documents: Sequence[Document]) -> None:
        """Put some in one transaction, new or in place of what is there.

        Raises:
            aiohttp.ClientResponseError: etcd refused.
        """
        puts = [{"requestPut": {"key": _encoded(_key(one)), "value": _encoded(_value(one))}} for one in documents]
        async with self._http.post(self._url, data=msgspec.json.encode({"success": puts})) as response:
            await response.read()
            response.raise_for_status()


def _key(document: Document) -> bytes:
    meta = document["metadata"]
    match document["kind"]:
        case "Node":
            return f"/registry/minions/{meta['name']}".encode()
        case "Pod":
            return f"/registry/pods/{meta['namespace']}/{meta['name']}".encode()
        case other:
            raise ValueError(f"{other} is not seeded")


def _value(document: Document) -> bytes:
    """As stored: the version is the store's own."""
    meta = {name: value for name, value in document["metadata"].items() if name != "resourceVersion"}
    return msgspec.json.encode(document | {"metadata": meta})


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
