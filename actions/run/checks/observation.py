"""The result of a check, with its detail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from actions.run.state.records import CheckResult


class _Line(Protocol):
    @property
    def result(self) -> CheckResult: ...
    @property
    def detail(self) -> str: ...


L = TypeVar("L", bound=_Line)


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


def said_once(lines: Iterable[L], name_of: Callable[[L], str]) -> list[L]:
    """Return lines of which those that have no answer for one and the same reason are one, which names the others."""
    alike: dict[str, list[L]] = {}
    for place, line in enumerate(lines):
        alike.setdefault(line.detail if line.result is CheckResult.UNKNOWN else f"\n{place}", []).append(line)
    return [_with_others(first, [name_of(other) for other in others]) for first, *others in alike.values()]


def _with_others(line: L, others: list[str]) -> L:
    if not others:
        return line
    told: L = replace(line, detail=f"{line.detail} Unknown for the same reason: {', '.join(others)}.")  # type: ignore[type-var]
    return told
