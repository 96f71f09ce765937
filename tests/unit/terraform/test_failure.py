"""Failures, cut by what the operator does next."""

from __future__ import annotations

import pytest

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


def test_a_state_that_could_not_be_saved_names_the_way_to_save_it() -> None:
    away = (
        'Unable to access object "ml/p.tfstate" in S3 bucket "team-runs": operation error S3: HeadObject, exceeded '
        "maximum number of attempts, 5, https response error StatusCode: 0, RequestID: , request send failed"
    )
    events = [
        problem("Failed to save state", f"Error saving state: failed checking for existing remote state: {away}"),
        problem("Failed to persist state to backend", 'written to the file "errored.tfstate"'),
        problem("Error releasing the state lock", f"unable to retrieve file: {away}"),
    ]
    error = failure_of(["terraform", "apply"], events, exit_code=1, interrupted=False)
    assert error.message == (
        "terraform apply ended with 1: its state could not be saved. "
        "The Terraform state in S3 cannot be reached (HeadObject: no answer)"
    )
    assert error.hint.startswith("What it has made is in errored.tfstate")
    other = failure_of(["terraform", "apply"], events[1:2], exit_code=1, interrupted=False)
    assert other.message == "terraform apply ended with 1: its state could not be saved"


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


@pytest.mark.parametrize(
    ("message", "step"),
    [
        (
            "creating EC2 Instance: operation error EC2: RunInstances, api error VcpuLimitExceeded: You have requested"
            " more vCPU capacity than your current vCPU limit of 0 allows",
            "Request a higher quota",
        ),
        (
            "waiting for EKS Node Group (c:g) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last"
            " error: x: AsgInstanceLaunchFailures: You've reached your quota for maximum Fleet Requests.",
            "Request a higher quota",
        ),
        (
            "creating EC2 VPC: api error VpcLimitExceeded: The maximum number of VPCs has been reached.",
            "Request a higher",
        ),
        (
            "creating EC2 Instance: InsufficientInstanceCapacity: We currently do not have sufficient p5.48xlarge",
            "Retry later, allow other zones",
        ),
        (
            "creating EC2 Instance: api error UnauthorizedOperation: User is not authorized to perform:"
            " ec2:RunInstances with an explicit deny in a service control policy",
            "A policy above your role forbids it",
        ),
        ("creating EKS Cluster (x): AccessDeniedException: User is not authorized", "Give your role the rights"),
        ("Retrieving AWS account details: api error ExpiredToken: The security token is expired", "Log in again"),
        ("creating EKS Cluster: UnsupportedAvailabilityZoneException: Cannot create", "Choose other zones"),
        (
            "last error: AsgInstanceLaunchFailures: Client.InvalidKMSKey.InvalidState: The KMS key",
            "Let EC2 Auto Scaling",
        ),
        (
            "last error: i-1: NodeCreationFailure: Instances failed to join the kubernetes cluster",
            "Check the node role's",
        ),
        ("creating IAM Policy x: EntityAlreadyExists: A policy called x already exists.", "Choose another name"),
        ("deleting EC2 Subnet (s): DependencyViolation: The subnet 's' has dependencies", "Remove what still uses it"),
        (
            "deleting EKS Cluster (x): ResourceInUseException: Cluster has nodegroups attached",
            "Remove what still uses it",
        ),
        ("reading EC2 VPC: api error RequestLimitExceeded: Request limit exceeded.", "Retry in a minute"),
        (
            "Kubernetes cluster unreachable: the server has asked for the client to provide credentials",
            "Give your role an",
        ),
        ("installing release: context deadline exceeded", "See what it waits for"),
        ("creating FSx: BadRequest: storage capacity 1000 GiB is not valid", ""),
    ],
)
def test_what_a_provider_reports_has_its_next_step(message: str, step: str) -> None:
    in_message = failure_of(["terraform", "apply"], [problem(message)], exit_code=1, interrupted=False)
    in_detail = failure_of(["terraform", "apply"], [problem("creating it", message)], exit_code=1, interrupted=False)
    assert in_message.hint.startswith(step)
    assert bool(in_message.hint) is bool(step)
    assert step in in_detail.hint


def test_a_plain_text_gives_its_headline() -> None:
    said = [TerraformEvent(EventKind.TEXT, text) for text in ("│ Error: Unsupported argument", "│ on main.tf", "╵")]
    error = failure_of(["terraform", "init"], said, exit_code=1, interrupted=False)
    assert error.message == "terraform init ended with 1: Unsupported argument"


def test_a_silent_end_is_said_to_be_silent() -> None:
    error = failure_of(["terraform", "apply"], [], exit_code=3, interrupted=False)
    assert error.message == "terraform apply ended with 3: it ended without a message"


def begun(address: str) -> TerraformEvent:
    return TerraformEvent(EventKind.APPLY_START, f"{address}: Creating...", address=address, action="create")


STRAY_WARNING = [
    TerraformEvent(EventKind.TEXT, text)
    for text in (
        "There are some problems with the CLI configuration:",
        "│ Warning: Unable to open CLI configuration file",
        '│ The CLI configuration file at "/home/ann/.terraformrc" does not exist.',
    )
]


def test_a_killed_terraform_is_said_to_be_killed_whatever_it_warned_of() -> None:
    events = [*STRAY_WARNING, begun("aws_eks_node_group.x")]
    error = failure_of(["terraform", "apply"], events, exit_code=-9, interrupted=False)
    assert error.message == (
        "terraform apply ended with -9: it was killed (SIGKILL), perhaps out of memory; under way: aws_eks_node_group.x"
    )


def test_a_hang_up_is_named_and_blames_no_memory() -> None:
    error = failure_of(["terraform", "apply"], STRAY_WARNING, exit_code=-1, interrupted=False)
    assert error.message == "terraform apply ended with -1: it was killed (SIGHUP)"


def test_a_crash_gives_its_panic_and_not_the_dump() -> None:
    dump = ["panic: runtime error: invalid memory address or nil pointer dereference", "goroutine 1 [running]:"]
    events = [*STRAY_WARNING, *(TerraformEvent(EventKind.TEXT, text) for text in (*dump, "main.main()"))]
    error = failure_of(["terraform", "apply"], events, exit_code=2, interrupted=False)
    assert error.message.startswith("terraform apply ended with 2: it crashed: panic: runtime error: invalid memory")


def test_the_cause_is_the_last_error_of_a_resource() -> None:
    events = [problem("throttled", "", "aws_iam_role.a"), problem("no capacity", "", "aws_eks_node_group.x")]
    events += [problem("execution halted"), problem("execution halted")]
    error = failure_of(["terraform", "apply"], events, exit_code=1, interrupted=False)
    assert error.message == "terraform apply ended with 1: no capacity (aws_eks_node_group.x)"


def test_one_that_was_interrupted_twice_has_not_just_stopped() -> None:
    events = [TerraformEvent(EventKind.LOG, "Two interrupts received. Exiting immediately."), problem("canceled")]
    error = failure_of(["terraform", "apply"], events, exit_code=1, interrupted=True)
    assert isinstance(error, ToolError)


def test_providers_that_are_not_the_locked_ones_are_refused_in_a_sentence() -> None:
    said = [TerraformEvent(EventKind.TEXT, "│ Error: Provider dependency changes detected")]
    error = failure_of(["terraform", "init"], said, exit_code=1, interrupted=False)
    assert isinstance(error, RefusedError)
    assert "lock file" in error.message


def test_an_http_backends_lock_is_not_taken_for_our_own() -> None:
    refused = LOCK.replace("ConditionalCheckFailed", "HTTP remote state already locked: ID=c3ed11e8-93bc")
    error = failure_of(["terraform", "apply"], [problem("Error acquiring the state lock", refused)], exit_code=1,
                       interrupted=False)  # fmt: skip
    assert error.message == "The Terraform state is locked (lock c3ed11e8-93bc)."
    assert "ann@bastion" not in error.sentence()
