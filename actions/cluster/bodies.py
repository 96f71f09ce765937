"""Bodies of answers, read whole and within limits, unpacked while they come: a small one may unpack to a huge one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Protocol

from actions.base.errors import UnreachableError
from actions.base.linux import give_back
from actions.cluster.limits import (
    BODY_BYTES,
    MIB,
    PACKED_BYTES,
    PACKED_RATIO,
    REFUSAL_BYTES,
    SHARED_BODY_BYTES,
    OversizeError,
    shown,
)

ACCEPT_ENCODING = "gzip"
"""The encoding to ask for. API servers have nothing else, and use it for what is longer than 128 KiB."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
_METHOD, _DEFLATE = 0x0F, 8
_PIECE_BYTES = 1 << 18


class _Content(Protocol):
    def iter_any(self) -> AsyncIterator[bytes]: ...


class Answer(Protocol):
    """The parts of an answer that are read: aiohttp's `ClientResponse`, not unpacked by it."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> _Content: ...


class Bodies:
    """Reads the bodies of one server's answers. One that is long is read while no other long one is."""

    def __init__(self) -> None:
        self._long = asyncio.Lock()

    async def whole(self, answer: Answer, *, asked: str, limit: int = BODY_BYTES) -> bytes:
        """The body, unpacked.

        Args:
            answer: The answer.
            asked: Method and path, for the sentence.
            limit: In bytes, unpacked.

        Raises:
            OversizeError: It is longer, or unpacks to far more than such a body can.
            UnreachableError: It is packed in a way that was not asked for, or damaged.
        """
        parts: list[bytes] = []
        try:
            await self._gather(parts, answer, asked, limit)
        except OversizeError:
            parts.clear()  # before the error's frames keep them
            give_back()
            raise
        return b"".join(parts)

    async def _gather(self, parts: list[bytes], answer: Answer, asked: str, limit: int) -> None:
        size = 0
        async with AsyncExitStack() as stack:
            async for part in _unpacked(answer, asked):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise OversizeError(f"The answer to {asked} has more than {shown(limit)}, which is the limit.")
                if size > SHARED_BODY_BYTES >= size - len(part):
                    await stack.enter_async_context(self._long)

    async def refusal(self, answer: Answer, *, asked: str) -> bytes:
        """The beginning of a body that says why something was refused; what can be read of it."""
        parts: list[bytes] = []
        try:
            async for part in _unpacked(answer, asked):
                parts.append(part)
                if sum(map(len, parts)) >= REFUSAL_BYTES:
                    break
        except UnreachableError:
            pass  # the code alone has to do
        return b"".join(parts)


async def _unpacked(answer: Answer, asked: str) -> AsyncIterator[bytes]:
    """The body in pieces; the loop is handed back between those of a megabyte."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        async for chunk in answer.content.iter_any():
            yield chunk
        return
    if encoding not in ("gzip", "deflate"):
        raise UnreachableError(f"The answer to {asked} is packed as {encoding!r:.40}, which was not asked for.")
    unpacker = Unpacker(is_gzip=encoding == "gzip", asked=asked)
    since = 0
    async for chunk in answer.content.iter_any():
        for piece in unpacker.feed(chunk):
            yield piece
            since += len(piece)
            if since >= MIB:
                since = 0
                await asyncio.sleep(0)
    unpacker.finish()


class Unpacker:
    """Unpacks gzip (all members) or deflate (with zlib's head or without), a bounded piece at a time.

    Args:
        is_gzip: Else it is deflate.
        asked: Method and path, for the sentence.
    """

    def __init__(self, *, is_gzip: bool, asked: str) -> None:
        self._is_gzip = is_gzip
        self._asked = asked
        self._packer: zlib._Decompress | None = None
        self._taken = self._given = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack `chunk`.

        Raises:
            OversizeError: It is far more than such a body can unpack to.
            UnreachableError: It is damaged.
        """
        self._taken += len(chunk)
        while chunk:
            if self._packer is None or self._packer.eof:
                self._packer = zlib.decompressobj(wbits=self._window(chunk))
            try:
                piece = self._packer.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise UnreachableError(f"The answer to {self._asked} is packed, and damaged: {error}.") from error
            chunk = self._packer.unconsumed_tail or self._packer.unused_data
            self._given += len(piece)
            if self._given > max(PACKED_BYTES, self._taken * PACKED_RATIO):
                raise OversizeError(
                    f"The answer to {self._asked} unpacks to more than {PACKED_RATIO} times its size, "
                    "which no list of objects does."
                )
            if piece:
                yield piece

    def finish(self) -> None:
        """Call behind the last chunk.

        Raises:
            UnreachableError: Something is missing.
        """
        if self._packer is not None and not self._packer.eof:
            raise UnreachableError(f"The answer to {self._asked} is packed, and ends too early.")

    def _window(self, chunk: bytes) -> int:
        if self._is_gzip:
            return _GZIP
        return _ZLIB if chunk[0] & _METHOD == _DEFLATE else _RAW
