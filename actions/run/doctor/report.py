"""The lines of the doctor, and their report as text or JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

from actions.base.decoding import json_document
from actions.base.errors import ConsoleError, RefusedError
from actions.run.checks.observation import Observation, said_once, unknown
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
    is_blocking: bool = False
    """While it fails, a launch cannot succeed: the form refuses, unless the check is waived by its name."""

    @property
    def blocks(self) -> bool:
        """True if it refuses a launch."""
        return self.is_blocking and self.result is CheckResult.FAILED


def line_of(check: str, found: Observation, remedy: str, *, is_blocking: bool = False) -> DoctorLine:
    """Return the line of an observation; one that has passed needs no remedy."""
    needed = "" if found.result is CheckResult.PASSED else remedy
    return DoctorLine(check, found.result, found.detail, needed, is_blocking)


class Question(msgspec.Struct, frozen=True):
    """A check that is still to be made."""

    check: str
    look: Callable[[], Awaitable[Observation]]
    """May raise a `ConsoleError`: what cannot be asked is unknown."""
    remedy: str
    """If it fails."""
    way: str = ""
    """The way to an answer if it is unknown, where the remedy of a failure would mislead; empty for the remedy."""
    is_blocking: bool = False

    async def answer(self) -> DoctorLine:
        """Make the check, and return its line."""
        try:
            return self.line(await self.look())
        except ConsoleError as error:
            return self.line(unknown(error.message), hint=error.hint)

    def line(self, found: Observation, *, hint: str = "") -> DoctorLine:
        """Return the line of an observation.

        Args:
            found: The observation.
            hint: The remedy of the error that prevented the check.
        """
        remedy = hint or self.way or self.remedy if found.result is CheckResult.UNKNOWN else self.remedy
        return line_of(self.check, found, found.remedy or remedy, is_blocking=self.is_blocking)


def require_passed(lines: Sequence[DoctorLine], *, waived: Collection[str], waiver: Callable[[str], str]) -> None:
    """Require that no check refuses a launch, but for those that are waived by their names.

    Args:
        lines: The checks.
        waived: Names of checks.
        waiver: Returns the words by which a person waives some, given their names, separated by commas.

    Raises:
        RefusedError: Some refuse it.
    """
    refusing = [line for line in lines if line.blocks and line.check not in waived]
    if refusing:
        said = " ".join(f"{line.check}: {line.detail}" for line in refusing)
        names = ",".join(line.check for line in refusing)
        raise RefusedError(
            f"The launch would fail: {said}", hint=f"{refusing[0].remedy} To launch anyway: {waiver(names)}.".strip()
        )


def has_failed(lines: Sequence[DoctorLine]) -> bool:
    """Return whether any line is a failure."""
    return any(line.result is CheckResult.FAILED for line in lines)


def summary(lines: Sequence[DoctorLine]) -> str:
    """Return the counts in one line: `9 pass, 2 fail, 1 unknown`."""
    return ", ".join(f"{sum(line.result is result for line in lines)} {word}" for result, word in WORDS.items())


def doctor_rows(lines: Sequence[DoctorLine]) -> list[str]:
    """Return the rows of a table: result, check and detail, and below it the remedy."""
    width = max((len(line.check) for line in lines), default=0)
    rows = []
    for line in said_once(lines, lambda line: line.check):
        rows.append(f"{WORDS[line.result]:<7}  {line.check:<{width}}  {line.detail}".rstrip())
        if line.remedy:
            rows.append(f"{'':<7}  {'':<{width}}  → {line.remedy}")
    return rows


def doctor_table(lines: Sequence[DoctorLine]) -> str:
    """Return the table with the counts below it. The last line has its newline."""
    return "\n".join([*doctor_rows(lines), "", summary(lines)]) + "\n"


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
        "checks": lines_data(lines),
    }
    return json_document(document)


def lines_data(lines: Sequence[DoctorLine]) -> list[dict[str, object]]:
    """Return the lines as plain data, for documents in JSON."""
    return [
        {
            "check": line.check,
            "result": WORDS[line.result],
            "detail": line.detail,
            "remedy": line.remedy or None,
            "blocks_launch": line.blocks,
        }
        for line in lines
    ]
