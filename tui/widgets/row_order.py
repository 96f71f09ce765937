"""The rows of a table: which are shown, in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Generic

import msgspec

from tui.widgets.columns import Column, RowT


class Changes(msgspec.Struct, frozen=True):
    """What new rows changed."""

    updated: frozenset[str]
    """Keys of rows that were there and look different."""
    has_moved: bool
    """Whether keys came or went."""
    is_disordered: bool = False
    """Whether a row may stand elsewhere after a sort, or pass the filter otherwise."""

    def __bool__(self) -> bool:
        return self.has_moved or bool(self.updated)


class RowOrder(Generic[RowT]):
    """Rows by key, and the keys of those that pass the filter, sorted.

    Rows are values: a changed row is a new object under the same key. Nothing here is formatted but what the filter
    looks at. Taking a few changed rows (`amend`) does not cost a pass over all.

    Args:
        key: The identity of a row, stable for its life.
        search: The text that a filter looks at; matching ignores case.
    """

    def __init__(self, *, key: Callable[[RowT], str], search: Callable[[RowT], str]) -> None:
        self.rows: dict[str, RowT] = {}
        self.keys: list[str] = []
        """Keys of the rows shown, in order."""
        self.column: Column[RowT] | None = None
        self.is_reversed = False
        self.needle = ""
        self._key = key
        self._search = search
        self._texts: dict[str, tuple[RowT, str]] = {}
        self._sorted_keys: list[str] = []
        """All keys, sorted; old ones and unsorted new ones among them until `arrange`."""
        self._is_sorted = True

    def replace(self, rows: Iterable[RowT]) -> Changes:
        """Take `rows` as the whole truth. The order stays as it is until `arrange`."""
        key = self._key
        new = {key(row): row for row in rows}
        old, self.rows = self.rows, new
        has_moved = new.keys() != old.keys()
        differing = ((k, was, row) for k, row in new.items() if (was := old.get(k)) is not row and was is not None)
        updated, is_disordered = self._compared(differing)
        if has_moved:
            self._texts = {k: text for k, text in self._texts.items() if k in new}
            self._sorted_keys, self._is_sorted = list(new), False
        return Changes(updated, has_moved, is_disordered or has_moved)

    def amend(self, rows: Iterable[RowT], gone: Collection[str] = ()) -> Changes:
        """Take rows that are new or changed, and keys of rows that are gone; all others stay as they are."""
        came: list[str] = []
        differing: list[tuple[str, RowT, RowT]] = []
        for row in rows:
            k = self._key(row)
            was = self.rows.get(k)
            self.rows[k] = row
            if was is None:
                came.append(k)
            elif was is not row:
                differing.append((k, was, row))
        went = [k for k in gone if self.rows.pop(k, None) is not None]
        for k in went:
            self._texts.pop(k, None)
        updated, is_disordered = self._compared(differing)
        if came or went:
            self._sorted_keys += came
            self._is_sorted = False
        return Changes(updated, bool(came or went), is_disordered or bool(came or went))

    def sort_on(self, column: Column[RowT] | None, *, reverse: bool = False) -> None:
        """Name what `arrange` sorts by; `None` is the key."""
        self.column = column
        self.is_reversed = reverse

    def arrange(self) -> None:
        """Filter and sort anew: 5,000 rows in a few milliseconds."""
        column, rows = self.column, self.rows
        if not self._is_sorted:
            # a key that went and came again stands there twice
            self._sorted_keys = sorted({k: None for k in self._sorted_keys if k in rows})
            self._is_sorted = True
        words = self.needle.lower().split()
        shown = [k for k in self._sorted_keys if self._passes(k, rows[k], words)] if words else self._sorted_keys[:]
        if self.is_reversed and column is None:
            shown.reverse()
        elif column is not None:
            shown.sort(key=lambda k: column.key_of(rows[k]), reverse=self.is_reversed)
        self.keys = shown

    def drop_missing(self) -> None:
        """Take the keys of rows that are gone out of the order, and leave the rest as it is."""
        rows = self.rows
        self.keys = [k for k in self.keys if k in rows]

    def _compared(self, differing: Iterable[tuple[str, RowT, RowT]]) -> tuple[frozenset[str], bool]:
        """Keys of the rows that are not equal, and whether one of them stands or passes otherwise."""
        updated: list[str] = []
        is_disordered = False
        for k, was, row in differing:
            if was != row:
                updated.append(k)
                is_disordered = is_disordered or self._stands_elsewhere(was, row)
        return frozenset(updated), is_disordered

    def _stands_elsewhere(self, was: RowT, row: RowT) -> bool:
        column = self.column
        if column is not None and column.key_of(was) != column.key_of(row):
            return True
        return bool(self.needle) and self._search(was) != self._search(row)

    def _passes(self, key: str, row: RowT, words: list[str]) -> bool:
        known = self._texts.get(key)
        if known is None or known[0] is not row:
            known = self._texts[key] = (row, self._search(row).lower())
        text = known[1]
        return all((word[1:] not in text) if word.startswith("!") and len(word) > 1 else word in text for word in words)
