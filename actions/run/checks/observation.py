"""The result of a check, with its detail."""

from __future__ import annotations

import msgspec

from actions.run.state.records import CheckResult


class Observation(msgspec.Struct, frozen=True):
    """The result of one check."""

    result: CheckResult
    detail: str
    remedy: str = ""
    """For this very finding; empty for the remedy of the check."""


def passed(detail: str) -> Observation:
    """Return a result of a check that passed."""
    return Observation(CheckResult.PASSED, detail)


def failed(detail: str, *, remedy: str = "") -> Observation:
    """Return a result of a check that failed, with the remedy if it is another than the check's."""
    return Observation(CheckResult.FAILED, detail, remedy)


def unknown(detail: str, *, remedy: str = "") -> Observation:
    """Return a result of a check that could not be made, with the way to an answer if it has its own."""
    return Observation(CheckResult.UNKNOWN, detail, remedy)
