"""How much a server may send, and how often it is asked: every limit of this room, with its unit and its reason.

A limit that is reached ends one answer with a sentence; it never ends the program. What is counted is what is kept in
memory: bytes after decompression.
"""

from __future__ import annotations

from typing import Final

from actions.base.errors import UnreachableError

MIB: Final = 1 << 20

HEAD_BYTES: Final = 64 << 10
"""Status line and headers of one answer, informational answers (1xx) before it, trailers behind it. Go's HTTP client
allows 1 MiB; API servers send less than 2 KiB."""
INFORMATIONAL_ANSWERS: Final = 8
"""1xx answers before the one that was asked for. Go's HTTP client allows 5 before it counts bytes."""

EVENT_BYTES: Final = 16 * MIB
"""One event of a watch, in the form in which it comes. etcd stores objects of up to 1.5 MiB (`--max-request-bytes`);
ten times as much leaves room for JSON, managed fields and a raised limit of etcd."""
BODY_BYTES: Final = 128 * MIB
"""The body of one answer. A page of 500 pods is 5 to 10 MiB of JSON; single objects of 60 MB have been read."""
SHARED_BODY_BYTES: Final = 4 * MIB
"""A longer body is read while no other long one is, so that all answers together stay near `BODY_BYTES`."""
PACKED_BYTES: Final = 1 * MIB
"""So much may come out of compressed data, whatever its ratio."""
PACKED_RATIO: Final = 200
"""Bytes out of one byte of compressed data. Lists of Kubernetes objects reach 10 to 40; deflate cannot exceed 1032."""
REFUSAL_BYTES: Final = 1 * MIB
"""The body of a refusal: a Status object is a few KiB."""
MESSAGE_BYTES: Final = 4 * MIB
"""One websocket message. The kubelet sends at most 32 KiB at a time."""

PAGES: Final = 2_000
"""Pages of one list."""
SHORT_PAGES: Final = 10
"""Pages of one list that say that there is more and are not full, as no page of an API server is."""
SHORT_PAGE_SECONDS: Final = 1.0
"""Between two more of them."""
FACTS: Final = 400_000
"""Objects that are kept of one kind. Kubernetes is tested with 150,000 pods."""
DOCUMENTS: Final = 50_000
"""Objects that are listed whole, for one question."""
PAGES_WITHOUT_NEWS: Final = 3
"""Pages in a row that bring no object that was not on a page before, and still say that there is more."""

RETRY_AFTER_SECONDS: Final = 300.0
"""The longest wait that a server may ask for by `Retry-After`. Then it is asked again."""
LONGEST_WAIT_SECONDS: Final = 60.0
"""The same where something of a run waits for the answer: a log that is followed, a stage."""


class OversizeError(UnreachableError):
    """Something is larger than its limit: it is not asked for again in the same way."""


def size_text(count: int) -> str:
    """An amount of bytes for a sentence: `16 MiB`, `64 KiB`."""
    return f"{count // MIB} MiB" if count >= MIB else f"{count >> 10} KiB"
