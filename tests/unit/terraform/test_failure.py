"""Failures, cut by what the operator does next."""

from __future__ import annotations

from actions.base.errors import ConflictError, RefusedError, ToolError, UnreachableError
from actions.terraform.events import EventKind, TerraformEvent
from actions.terraform.failure import failure_of

LOCK = """ConditionalCheckFailed

Lock Info:
  ID:        5b5e3a6d-63fe
  Path:      terraform.tfstate
  Operation: OperationTypeApply
  Who:       ann@bastion
  Created:   2026-11-21 10:00:00 UTC
"""


def problem(message: str, detail: str = "", address: str = "") -> TerraformEvent:
    return TerraformEvent(EventKind.DIAGNOSTIC, message, severity="error", detail=detail, address=address)


def test_a_lock_says_who_holds_it() -> None:
    events = [problem("Error acquiring the state lock", LOCK)]
    error = failure_of(["terraform", "apply"], events, exit_code=1, interrupted=False)

    assert isinstance(error, ConflictError)
    assert "ann@bastion since 2026-11-21 10:00:00 UTC" in error.message
    assert "force-unlock 5b5e3a6d-63fe" in error.hint


def test_a_stale_plan_asks_for_another_approval() -> None:
    error = failure_of(["terraform", "apply"], [problem("Saved plan is stale")], exit_code=1, interrupted=False)
    assert isinstance(error, ConflictError)
    assert "approve again" in error.hint


def test_a_closed_registry_is_unreachable() -> None:
    said = [TerraformEvent(EventKind.TEXT, "Error: Failed to query available provider packages")]
    assert isinstance(failure_of(["terraform", "init"], said, exit_code=1, interrupted=False), UnreachableError)


def test_an_interrupt_is_no_failure_of_terraform() -> None:
    events = [problem("execution halted")]
    assert isinstance(failure_of(["terraform", "apply"], events, exit_code=1, interrupted=True), RefusedError)


def test_anything_else_gives_the_first_problem_with_its_address() -> None:
    events = [problem("creating FSx", "quota\n exceeded", "aws_fsx.this"), problem("second")]
    error = failure_of(["terraform", "apply", "x"], events, exit_code=1, interrupted=False)

    assert isinstance(error, ToolError)
    assert error.message == "terraform apply ended with 1: creating FSx (aws_fsx.this)"
    assert error.hint == "quota exceeded"


def test_a_plain_text_gives_its_headline() -> None:
    said = [TerraformEvent(EventKind.TEXT, text) for text in ("│ Error: Unsupported argument", "│ on main.tf", "╵")]
    error = failure_of(["terraform", "init"], said, exit_code=1, interrupted=False)
    assert error.message == "terraform init ended with 1: Unsupported argument"


def test_a_silent_end_is_said_to_be_silent() -> None:
    error = failure_of(["terraform", "apply"], [], exit_code=-9, interrupted=False)
    assert error.message == "terraform apply ended with -9: it ended without saying why"
