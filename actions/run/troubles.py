"""Troubles of a stage's followers, told beside the stage's note until it heals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actions.base.errors import ConsoleError

T = TypeVar("T")


class Troubles:
    """The troubles of one stage, by topic.

    Args:
        warn: Takes all of them in one line; empty when there are none.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._texts: dict[str, str] = {}

    def set(self, topic: str, text: str) -> None:
        """There is a trouble; a later one of the same topic takes its place."""
        if self._texts.get(topic) != text:
            self._texts[topic] = text
            self._tell()

    def clear(self, topic: str) -> None:
        """It is over, if there was one."""
        if self._texts.pop(topic, None) is not None:
            self._tell()

    def _tell(self) -> None:
        texts = list(dict.fromkeys(self._texts.values()))
        more = f" And {len(texts) - 1} more of the kind." if len(texts) > 1 else ""
        self._warn(f"{texts[0]}{more}" if texts else "")


async def outcome_of(awaitable: Awaitable[T]) -> T | Exception:
    """The result, or the failure, whatever it is. Only a cancellation passes."""
    (found,) = await asyncio.gather(awaitable, return_exceptions=True)
    if isinstance(found, BaseException) and not isinstance(found, Exception):
        raise found
    return found


def sentence_of(error: Exception) -> str:
    """A failure in words."""
    if isinstance(error, ConsoleError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.strerror or error}."
    return f"unexpected {type(error).__name__}: {error}."
