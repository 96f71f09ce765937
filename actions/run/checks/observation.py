"""What a check has seen."""

from __future__ import annotations

import msgspec

from actions.run.state.records import CheckResult


class Observation(msgspec.Struct, frozen=True):
    """A result with the words for it."""

    result: CheckResult
    detail: str


def passed(detail: str) -> Observation:
    """It is as it should be."""
    return Observation(CheckResult.PASSED, detail)


def failed(detail: str) -> Observation:
    """It is not."""
    return Observation(CheckResult.FAILED, detail)


def unknown(detail: str) -> Observation:
    """Nobody could say."""
    return Observation(CheckResult.UNKNOWN, detail)
