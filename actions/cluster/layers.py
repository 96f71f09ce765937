"""Immutable pictures of a large mapping that cost what has changed, not what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST_CHANGES = 2_000
_SHARE = 20
"""A picture over more than this part of the mapping is as dear to read as a copy is to make."""


class Layered(Mapping[str, T]):
    """A large mapping with a few changes laid over it. Neither changes while this is alive."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: Mapping[str, T], changes: Mapping[str, T | None], length: int) -> None:
        self._base = base
        self._changes = changes
        self._length = length

    def __getitem__(self, key: str) -> T:
        if key not in self._changes:
            return self._base[key]
        found = self._changes[key]
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.pairs())

    def values(self) -> ValuesView[T]:
        """Its values; reading them all looks nothing up twice."""
        return _Values(self)

    def pairs(self) -> Iterator[tuple[str, T]]:
        """Keys with their values."""
        changes, base = self._changes, self._base
        for key, value in base.items():
            if key not in changes:
                yield key, value
            elif (changed := changes[key]) is not None:
                yield key, changed
        for key, came in changes.items():
            if came is not None and key not in base:
                yield key, came

    def __len__(self) -> int:
        return self._length


class _Values(ValuesView[T]):
    _mapping: Layered[T]

    def __iter__(self) -> Iterator[T]:
        return (value for _, value in self._mapping.pairs())


class Pictures(Generic[T]):
    """Takes pictures of a mapping that somebody else changes.

    Args:
        live: The mapping; every change of it has to be told.
    """

    def __init__(self, live: Mapping[str, T]) -> None:
        self._live = live
        self._base: dict[str, T] = {}
        self._changes: dict[str, T | None] = {}

    def changed(self, key: str, value: T | None) -> None:
        """`key` has another value, or is gone."""
        self._changes[key] = value

    def take(self) -> Mapping[str, T]:
        """The mapping as it is at this moment."""
        if len(self._changes) > max(_MOST_CHANGES, len(self._base) // _SHARE):
            self._base, self._changes = dict(self._live), {}
        if not self._changes:
            return self._base
        return Layered(self._base, dict(self._changes), len(self._live))
