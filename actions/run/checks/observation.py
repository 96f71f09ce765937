"""What a check has seen."""

from __future__ import annotations

import msgspec

from actions.run.state.records import CheckResult


class Seen(msgspec.Struct, frozen=True):
    """A result with the words for it."""

    result: CheckResult
    detail: str


def passed(detail: str) -> Seen:
    """It is as it should be."""
    return Seen(CheckResult.PASSED, detail)


def failed(detail: str) -> Seen:
    """It is not."""
    return Seen(CheckResult.FAILED, detail)


def unknown(detail: str) -> Seen:
    """Nobody could say."""
    return Seen(CheckResult.UNKNOWN, detail)
