"""Why a Terraform operation failed, as an error that says what to do next."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from actions.base.errors import ConflictError, ConsoleError, RefusedError, ToolError, UnreachableError
from actions.base.wording import listed
from actions.terraform.events import EventKind, OperationProgress, TerraformEvent
from actions.terraform.state import StateLock, read_lock

_HEADLINE = re.compile(r"^[│ ]*Error: (.+)$", re.M)
_PANIC = re.compile(r"^(?:panic|fatal error|SIGQUIT): .+$", re.M)
_HALTED = "execution halted"
_ABOUT_WARNINGS = "There are some problems with the CLI configuration:"
_NO_PROVIDERS = (
    "Failed to query available provider packages",
    "Failed to install provider",
    "Failed to download module",
    "Error accessing remote module registry",
    "Could not download module",
    "registry service is unreachable",
)
_OTHER_PROVIDERS = (
    "Provider dependency changes detected",
    "doesn't match any of the checksums previously recorded in the dependency lock file",
    "does not match any of the checksums recorded in the dependency lock file",
    "Inconsistent dependency lock file",
)
_SHOWN_CHANGES = 5


class StalePlanError(ConflictError):
    """The plan that was approved is not what would be carried out any more: plan and approve again."""


class NoPlanError(RefusedError):
    """There is no saved plan, or another one than was approved: plan and approve again."""


class StoppedError(RefusedError):
    """Terraform stopped because it was asked to."""


class UnsavedStateError(RefusedError):
    """An earlier operation could not save its state."""


class UnknownEndError(ConflictError):
    """An adopted operation ended, and neither an exit code nor its events say how: plan again."""


class StateLockedError(ConflictError):
    """Somebody else holds the state.

    Args:
        lock: Who, as far as the backend tells.
    """

    def __init__(self, lock: StateLock) -> None:
        who = f" by {lock.who} since {lock.created or 'an unknown time'}" if lock.who else ""
        number = f" (lock {lock.id})" if lock.id else ""
        unlock = f" {lock.id}" if lock.id else ""
        super().__init__(
            f"The Terraform state is locked{who}{number}.",
            hint=f"Wait for them; if that process is gone for certain: terraform force-unlock{unlock}.",
        )
        self.lock = lock


def failure_of(
    argv: Sequence[str],
    events: Sequence[TerraformEvent],
    *,
    exit_code: int | None,
    interrupted: bool,
    progress: OperationProgress | None = None,
) -> ConsoleError:
    """The error for an operation that did not reach its end.

    The cause is the last error with a resource's address, else the last error at all; a warning is none.

    Args:
        argv: What was run.
        events: The last events, oldest first.
        exit_code: `None` if nobody saw it: an adopted process.
        interrupted: Whether it was asked to stop.
        progress: Of all events; of the last ones by default.
    """
    problems = [event for event in events if event.kind is EventKind.DIAGNOSTIC and event.severity == "error"]
    text = "\n".join(f"{event.message}\n{event.detail}" for event in problems or _texts(events))
    known = _known(text)
    if known is not None:
        return known
    progress = progress or OperationProgress.of("", events)
    if interrupted and not progress.has_heard_twice and (exit_code is None or exit_code >= 0):
        return StoppedError(
            "Terraform was asked to stop, and stopped.",
            hint="What it was making may be marked as tainted: the next plan shows it.",
        )
    shown = [Path(argv[0]).name, *argv[1:2]]
    code = 1 if exit_code is None else exit_code
    if problems:
        cause = _cause(problems)
        where = f" ({cause.address})" if cause.address else ""
        return ToolError(shown, exit_code=code, tail=f"{cause.message}{where}", hint=_line(cause.detail))
    return ToolError(shown, exit_code=code, tail=_silent(text, exit_code, progress))


def _known(text: str) -> ConsoleError | None:
    """The errors after which something else has to be done than after others."""
    flat = " ".join(text.replace("│", " ").split())  # plain output is wrapped and framed
    if "Error acquiring the state lock" in text:
        return StateLockedError(read_lock(text))
    if "Saved plan is stale" in flat:
        return StalePlanError("The state has changed since the plan was made.", hint="Plan and approve again.")
    if any(words in flat for words in _OTHER_PROVIDERS):
        return RefusedError(
            "The providers are not those that the root's lock file records.",
            hint="Correct .terraform.lock.hcl with `terraform providers lock`, or the mirror that they come from.",
        )
    if any(words in flat for words in _NO_PROVIDERS):
        return UnreachableError(
            "Terraform cannot download its providers or modules.",
            hint="Open the way to the registry, or set TF_CLI_CONFIG_FILE to a mirror.",
        )
    return None


def _cause(problems: Sequence[TerraformEvent]) -> TerraformEvent:
    own = [event for event in problems if event.message != _HALTED] or problems
    return ([event for event in own if event.address] or own)[-1]


def _silent(text: str, exit_code: int | None, progress: OperationProgress) -> str:
    """The cause when no event is an error: what ended it, and what was under way."""
    headlines = _HEADLINE.findall(text)
    if headlines:
        return str(headlines[-1])
    panics = _PANIC.findall(text)
    said = f"it crashed: {panics[0]}" if panics else _signalled(exit_code) or _said(text)
    if not said:
        said = "it ended without saying why" if exit_code is not None else "it ended, and nobody saw how"
    names = [change.address for change in progress.under_way]
    return f"{said}; under way: {listed(names, _SHOWN_CHANGES)}" if names else said


def _signalled(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return ""
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    guess = ", perhaps for want of memory" if -exit_code == signal.SIGKILL else ""
    return f"it was killed ({name}){guess}"


def _said(text: str) -> str:
    """The last line of plain text that is not part of a framed warning."""
    lines = (line for line in reversed(text.splitlines()) if line.strip() and line != _ABOUT_WARNINGS)
    return next((line for line in lines if not line.startswith(("╷", "│", "╵"))), "")


def _texts(events: Sequence[TerraformEvent]) -> list[TerraformEvent]:
    return [event for event in events if event.kind is EventKind.TEXT][-200:]


def _line(detail: str) -> str:
    return " ".join(detail.split())[:300]
