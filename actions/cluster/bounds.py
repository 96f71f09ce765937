"""The limits on answers and requests of this package, each with its unit and its reason.

A limit that is reached ends one answer with a message; it never ends the program. Bytes are counted after
decompression, as they are kept in memory.
"""

from __future__ import annotations

from typing import Final

from actions.base.clock import Clock, SystemClock
from actions.base.errors import UnreachableError
from actions.base.linux import release_free_memory

MIB: Final = 1 << 20

HEAD_BYTES: Final = 64 << 10
"""Status line and headers of one answer, informational answers (1xx) before it, trailers behind it. Go's HTTP client
allows 1 MiB; API servers send less than 2 KiB."""
INFORMATIONAL_ANSWERS: Final = 8
"""1xx answers before the final one. Go's HTTP client allows 5 before it counts bytes."""

EVENT_BYTES: Final = 16 * MIB
"""One event of a watch, encoded. etcd stores objects of up to 1.5 MiB (`--max-request-bytes`);
ten times as much leaves room for JSON, managed fields and a raised limit of etcd."""
BODY_BYTES: Final = 128 * MIB
"""The body of one answer. A page of 500 pods is 5 to 10 MiB of JSON; single objects of 60 MB have been read."""
TYPED_BYTES: Final = 32 * MIB
"""The body of an answer that becomes typed objects, which take several times as much. ConfigMaps and Secrets, the
largest of them, hold at most 1 MiB each, and lists of them are read in pages."""
SHARED_BODY_BYTES: Final = 4 * MIB
"""Longer bodies are read one at a time, so that all answers together stay near `BODY_BYTES`."""
PACKED_BYTES: Final = 1 * MIB
"""Decompressed bytes that are allowed whatever the ratio."""
PACKED_RATIO: Final = 200
"""Bytes out of one byte of compressed data. Lists of Kubernetes objects reach 10 to 40; deflate cannot exceed 1032."""
REFUSAL_BYTES: Final = 1 * MIB
"""The body of a refusal: a Status object is a few KiB."""
MESSAGE_BYTES: Final = 4 * MIB
"""One websocket message. The kubelet sends at most 32 KiB at a time."""

PAGES: Final = 2_000
"""Pages of one list."""
SHORT_PAGES: Final = 10
"""Pages of one list that are not full although more follow; an API server sends none."""
SHORT_PAGE_SECONDS: Final = 1.0
"""The pause between two more of them."""
FACTS: Final = 400_000
"""Objects that are kept of one kind. Kubernetes is tested with 150,000 pods."""
DOCUMENTS: Final = 50_000
"""Objects of one list of whole objects."""
PAGES_WITHOUT_NEWS: Final = 3
"""Pages in a row without a new object although more follow."""

RETRY_AFTER_SECONDS: Final = 300.0
"""The longest wait by `Retry-After` that is respected."""
LONGEST_WAIT_SECONDS: Final = 60.0
"""The same while a run depends on the answer: a followed log, a stage."""


class OversizeError(UnreachableError):
    """Something is larger than its limit; the same request is not repeated."""


def drop_chunks(chunks: list[bytes]) -> None:
    """Free the chunks of an answer that is not going to be complete.

    The frames of the error that ended it would keep them; and the C library would keep what they took, in pieces
    between what is still used, if it was much.
    """
    size = sum(map(len, chunks))
    chunks.clear()
    if size > SHARED_BODY_BYTES:
        release_free_memory()


class PageCount:
    """Counts the pages of one list, of which the server decides how many there are.

    Args:
        path: Of the list, for the sentence.
        size: Objects requested per page.
        most: Objects that the list may have.
        clock: For waits.
    """

    def __init__(self, path: str, *, size: int, most: int = FACTS, clock: Clock | None = None) -> None:
        self._path = path
        self._size = size
        self._most = most
        self._clock = clock or SystemClock()
        self._pages = self._short = self._stale = self._known = 0
        self._following = ""

    async def next_page(self, following: str, *, held: int, known: int) -> None:
        """Wait until the next page may be requested; call it after every page that another one follows.

        Args:
            following: The server's token of the next page.
            held: Number of objects on the page.
            known: Number of different objects on all pages so far.

        Raises:
            OversizeError: The list does not end.
        """
        self._pages += 1
        self._stale = 0 if known > self._known else self._stale + 1
        if following == self._following or self._stale >= PAGES_WITHOUT_NEWS:
            raise OversizeError(f"The list of {self._path} does not end: its pages repeat themselves.")
        if self._pages >= PAGES or known > self._most:
            raise OversizeError(f"The list of {self._path} does not end: {known:,} objects on {self._pages:,} pages.")
        self._following, self._known = following, known
        self._short += held < self._size
        if self._short > SHORT_PAGES:
            await self._clock.sleep(SHORT_PAGE_SECONDS)
