"""Objects of a store that are written on a condition: that there is none yet, or that it is the one that was read."""

from __future__ import annotations

import msgspec

from actions.base.errors import ConflictError

MOST_OBJECT_BYTES = 32 << 20
"""Limit of one object; what is written here is smaller."""


class StoredObject(msgspec.Struct, frozen=True):
    """The content of an object, and the times of the answer by the store's clock."""

    body: bytes
    etag: str
    """Another one after each write: the condition of the next."""
    modified_at: float
    """Seconds since the epoch: when it was written."""
    asked_at: float
    """Seconds since the epoch: when the store answered."""

    @property
    def age_seconds(self) -> float:
        """Time since it was written, to a second."""
        return max(0.0, self.asked_at - self.modified_at)


class WriteReceipt(msgspec.Struct, frozen=True):
    """The receipt of a write."""

    etag: str
    at: float
    """Seconds since the epoch, by the store's clock."""


class ListedObject(msgspec.Struct, frozen=True):
    """One object in a list."""

    key: str
    etag: str
    size: int
    modified_at: float
    """Seconds since the epoch."""


class PreconditionError(ConflictError):
    """A conditional write was refused: the object is there already, or is not the one that was read.

    Args:
        message: As `ConsoleError`.
        found: The object that is there; `None` if there is none any more.
    """

    def __init__(self, message: str, found: StoredObject | None) -> None:
        super().__init__(message)
        self.found = found
