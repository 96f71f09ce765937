"""Evidence against a stage that has ended well: a loss that has become no number, a log that is incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from actions.base.errors import JournalError
from actions.run.handler import Performed
from actions.run.records import CheckResult, Finding
from actions.run.spoolreader import SpoolReader
from actions.telemetry.curves import STEADY, Curves, Divergence, divergence_of
from actions.telemetry.points import Point


def spooled_divergence(folder: Path, stage: str, *, least: int = STEADY) -> Divergence | None:
    """Read the stage's curves from the run's folder. Takes as long as they are: call it in a thread.

    Raises:
        JournalError: The disk does not give it.
    """
    reader, curves, offset = SpoolReader(folder, stage), Curves(), 0
    while True:
        found, end = reader.findings(offset)
        for item in found:
            if isinstance(item.finding, Point):
                curves.add(item.finding)
        if end == offset:
            return divergence_of(curves, least=least)
        offset = end


def with_warning(done: Performed, folder: Path, stage: str) -> Performed:
    """How a stage ended, and that its loss is no number: most trainers end well all the same."""
    try:
        found = spooled_divergence(folder, stage, least=1)
    except JournalError:
        return done  # who opens its log is told
    if found is None:
        return done
    warning = Finding(CheckResult.FAILED, found.metric, found.detail, found.way_out)
    said = f"{done.message} But {found.metric} {found.detail}".strip()
    return replace(done, message=said, findings=(*done.findings, warning))


def with_losses(done: Performed, losses: Sequence[str]) -> Performed:
    """How a stage ended, and what is missing of its logs, one sentence each."""
    if not losses:
        return done
    warning = Finding(CheckResult.UNKNOWN, "log", " ".join(losses), "Read what is left of it where it was written.")
    return replace(done, message=" ".join([done.message, *losses]).strip(), findings=(*done.findings, warning))
