"""The lines of the doctor, and their report as text or JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import msgspec

from actions.base.errors import ConsoleError
from actions.run.checks.observation import Observation, unknown
from actions.run.state.records import CheckResult

SCHEMA = "eksml-doctor/1"

WORDS = {CheckResult.PASSED: "pass", CheckResult.FAILED: "fail", CheckResult.UNKNOWN: "unknown"}
"""Results as the report prints them."""


class DoctorLine(msgspec.Struct, frozen=True):
    """One check: its subject, its result with a sentence, and the remedy if it has not passed."""

    check: str
    result: CheckResult
    detail: str
    remedy: str = ""


def line_of(check: str, found: Observation, remedy: str) -> DoctorLine:
    """Return the line of an observation; one that has passed needs no remedy."""
    return DoctorLine(check, found.result, found.detail, "" if found.result is CheckResult.PASSED else remedy)


async def examined(check: str, look: Awaitable[Observation], remedy: str) -> DoctorLine:
    """Return the line of a check that may raise: what cannot be asked is unknown, with the remedy of the error."""
    try:
        return line_of(check, await look, remedy)
    except ConsoleError as error:
        return line_of(check, unknown(error.message), error.hint or remedy)


def has_failed(lines: Sequence[DoctorLine]) -> bool:
    """Return whether any line is a failure."""
    return any(line.result is CheckResult.FAILED for line in lines)


def summary(lines: Sequence[DoctorLine]) -> str:
    """Return the counts in one line: `9 pass, 2 fail, 1 unknown`."""
    return ", ".join(f"{sum(line.result is result for line in lines)} {word}" for result, word in WORDS.items())


def doctor_table(lines: Sequence[DoctorLine]) -> str:
    """Return the table: result, check and detail in a line, its remedy in the next. The last line has its newline."""
    width = max((len(line.check) for line in lines), default=0)
    rows = []
    for line in lines:
        rows.append(f"{WORDS[line.result]:<7}  {line.check:<{width}}  {line.detail}".rstrip())
        if line.remedy:
            rows.append(f"{'':<7}  {'':<{width}}  → {line.remedy}")
    return "\n".join([*rows, "", summary(lines)]) + "\n"


def doctor_json(lines: Sequence[DoctorLine], *, blueprint: str) -> str:
    """Return the report as indented JSON.

    Args:
        lines: The checks, in order.
        blueprint: Id of the blueprint; empty for the general report.
    """
    document = {
        "schema": SCHEMA,
        "blueprint": blueprint or None,
        "passed": not has_failed(lines),
        "checks": [
            {"check": line.check, "result": WORDS[line.result], "detail": line.detail, "remedy": line.remedy or None}
            for line in lines
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
