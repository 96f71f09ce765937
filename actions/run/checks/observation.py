"""The result of a check, with its detail."""

from __future__ import annotations

import msgspec

from actions.run.state.records import CheckResult


class Observation(msgspec.Struct, frozen=True):
    """The result of one check."""

    result: CheckResult
    detail: str


def passed(detail: str) -> Observation:
    """Return a result of a check that passed."""
    return Observation(CheckResult.PASSED, detail)


def failed(detail: str) -> Observation:
    """Return a result of a check that failed."""
    return Observation(CheckResult.FAILED, detail)


def unknown(detail: str) -> Observation:
    """Return a result of a check that could not be made."""
    return Observation(CheckResult.UNKNOWN, detail)
