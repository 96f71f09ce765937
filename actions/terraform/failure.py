"""Why a Terraform operation failed, as an error that says what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from actions.base.errors import ConflictError, ConsoleError, RefusedError, ToolError, UnreachableError
from actions.terraform.events import EventKind, TerraformEvent

_LOCK_FIELD = re.compile(r"^\s*(ID|Who|Created|Operation):\s*(.+?)\s*$", re.M)
_HEADLINE = re.compile(r"^[│ ]*Error: (.+)$", re.M)
_NO_PROVIDERS = (
    "Failed to query available provider packages",
    "Failed to install provider",
    "Failed to download module",
)


def failure_of(
    argv: Sequence[str], events: Sequence[TerraformEvent], *, exit_code: int | None, interrupted: bool
) -> ConsoleError:
    """The error for an operation that did not reach its end.

    Args:
        argv: What was run.
        events: The last events, oldest first.
        exit_code: `None` if nobody saw it: an adopted process, or one that was killed.
        interrupted: Whether we had asked it to stop.
    """
    problems = [event for event in events if event.kind is EventKind.DIAGNOSTIC and event.severity == "error"]
    text = "\n".join(f"{event.message}\n{event.detail}" for event in problems or _texts(events))
    if "Error acquiring the state lock" in text:
        return _locked(text)
    if "Saved plan is stale" in text:
        return ConflictError("The state has changed since the plan was made.", hint="Plan and approve again.")
    if any(words in text for words in _NO_PROVIDERS):
        return UnreachableError(
            "Terraform cannot download its providers or modules.",
            hint="Open the way to the registry, or set TF_CLI_CONFIG_FILE to a mirror.",
        )
    if interrupted:
        return RefusedError(
            "Terraform was asked to stop, and stopped.",
            hint="What it was making may be marked as tainted: the next plan shows it.",
        )
    shown = [Path(argv[0]).name, *argv[1:2]]
    if problems:
        first = problems[0]
        where = f" ({first.address})" if first.address else ""
        return ToolError(shown, exit_code=_code(exit_code), tail=f"{first.message}{where}", hint=_line(first.detail))
    headline = _HEADLINE.findall(text)
    return ToolError(
        shown, exit_code=_code(exit_code), tail=headline[0] if headline else text or "it ended without saying why"
    )


def _locked(text: str) -> ConflictError:
    lock = dict(_LOCK_FIELD.findall(text))
    who = f" by {lock['Who']} since {lock.get('Created', 'an unknown time')}" if "Who" in lock else ""
    number = f" {lock['ID']}" if "ID" in lock else ""
    return ConflictError(
        f"The Terraform state is locked{who}.",
        hint=f"Wait for them; if that process is gone for certain: terraform force-unlock{number}.",
    )


def _texts(events: Sequence[TerraformEvent]) -> list[TerraformEvent]:
    return [event for event in events if event.kind in (EventKind.TEXT, EventKind.LOG)][-20:]


def _code(exit_code: int | None) -> int:
    return 1 if exit_code is None else exit_code


def _line(detail: str) -> str:
    return " ".join(detail.split())[:300]
