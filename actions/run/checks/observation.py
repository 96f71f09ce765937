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
    is_bearable: bool = False
    """This very finding refuses no launch, although others of the check do."""


def passed(detail: str) -> Observation:
    """Return a result of a check that passed."""
    return Observation(CheckResult.PASSED, detail)


def failed(detail: str, *, remedy: str = "", is_bearable: bool = False) -> Observation:
    """Return a result of a check that failed, with the remedy if it is another than the check's."""
    return Observation(CheckResult.FAILED, detail, remedy, is_bearable)


def unknown(detail: str) -> Observation:
    """Return a result of a check that could not be made."""
    return Observation(CheckResult.UNKNOWN, detail)
