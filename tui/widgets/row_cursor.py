"""The cursor of a table: a row's key, its place in the order, and the window that shows it."""

from __future__ import annotations

from collections.abc import Sequence


class RowCursor:
    """Keeps a cursor on its key while the order around it changes.

    `key` is the truth; `index` follows it. When the key is gone the cursor stays at its place and takes the key that
    is there. The window `[top, top + height)` always holds the cursor, but for `scroll`, which takes it along.
    """

    def __init__(self) -> None:
        self.key = ""
        """Empty when there are no rows."""
        self.index = 0
        self.top = 0
        self.height = 1
        """Visible rows."""
        self._keys: Sequence[str] = ()

    def follow(self, keys: Sequence[str]) -> None:
        """Take a new order."""
        self._keys = keys
        if not (self.index < len(keys) and keys[self.index] == self.key):
            try:
                self.index = keys.index(self.key)
            except ValueError:
                self.index = max(0, min(self.index, len(keys) - 1))
        self.key = keys[self.index] if keys else ""
        self._clamp()

    def place(self, index: int) -> None:
        """Put the cursor on a row, or on the nearest that exists."""
        self.index = max(0, min(index, len(self._keys) - 1))
        self.key = self._keys[self.index] if self._keys else ""
        self._clamp()

    def seek(self, key: str) -> bool:
        """Put the cursor on a key; `False` if it is not in the order."""
        try:
            self.place(self._keys.index(key))
        except ValueError:
            return False
        return True

    def scroll(self, lines: int) -> None:
        """Move the window, and the cursor only as far as it must to stay in it."""
        self.top = max(0, min(self.top + lines, len(self._keys) - self.height))
        self.place(max(self.top, min(self.index, self.top + self.height - 1)))

    def resize(self, height: int) -> None:
        """Show `height` rows."""
        self.height = max(1, height)
        self._clamp()

    def visible(self) -> Sequence[str]:
        """Keys in the window, from the top."""
        return self._keys[self.top : self.top + self.height]

    def _clamp(self) -> None:
        top = max(self.index - self.height + 1, min(self.top, self.index))
        self.top = max(0, min(top, len(self._keys) - self.height))
