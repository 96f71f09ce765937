"""Limits on a list in pages, of which the server decides how many there are."""

from __future__ import annotations

from actions.base.clock import Clock, SystemClock
from actions.cluster.bounds import (
    FACTS,
    PAGES,
    PAGES_WITHOUT_NEWS,
    SHORT_PAGE_SECONDS,
    SHORT_PAGES,
    OversizeError,
)


class PageCount:
    """Counts the pages of one list.

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
